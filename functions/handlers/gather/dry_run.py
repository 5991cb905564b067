"""Lambda entry point: POST /plans prices a gather. It reads a few headers, no pixel, and writes nothing."""

import asyncio
from typing import Any, Final

from aws_lambda_powertools import Logger

from handlers.api.problems import TooSlowError
from handlers.api.resolver import Resolver, handler_of, read_body
from handlers.deployment.admit_request import admit, open_gather_table
from handlers.deployment.settings import Settings
from handlers.deployment.stores import Deployment
from handlers.gather.capacity import deployed_workers
from handlers.gather.readers import Readers
from handlers.gather.routes import ROUTES
from pixel_gather.core.plan.cube_plan import CubePlan
from pixel_gather.core.request.request import parse_request
from pixel_gather.engine.plan_gather import plan_dry
from pixel_gather.io.crs import RasterioProjector

_TO_ANSWER_S: Final = 2.0


def app_of(deployment: Deployment, readers: Readers, logger: Logger) -> Resolver:
    """Return the route over one deployment."""
    app, projector = Resolver(ROUTES, logger), RasterioProjector()

    async def plan_within(left_s: float) -> CubePlan:
        request = admit(parse_request(read_body(app)), deployment.settings)
        try:
            async with (
                asyncio.timeout(left_s),
                open_gather_table(request, deployment, left_s=left_s) as table,
            ):
                is_new = request.output.append_to is None
                return await plan_dry(
                    request,
                    table=table,
                    sources=readers.sources(request.sources.sign, projector),
                    workers=deployed_workers(deployment.settings),
                    cube=None if is_new else deployment.cube(request.cube_name),
                    archive=deployment.archives,
                )
        except TimeoutError as error:
            raise TooSlowError(
                f"this gather cannot be planned in {left_s:.0f} s: submit the gather with limits.usd. Its "
                "plan may then take 15 minutes, and a gather that costs more is refused"
            ) from error

    @app.serve("planGather")
    def plan() -> dict[str, Any]:
        left_s = app.lambda_context.get_remaining_time_in_millis() / 1000 - _TO_ANSWER_S
        return deployment.run(plan_within(left_s)).to_json()

    return app


logger = Logger()
deployment = Deployment(Settings.from_environment())
readers = Readers(deployment, holds_a_shard=False)
app = app_of(deployment, readers, logger)
handler = handler_of(app, logger)
