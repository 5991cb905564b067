"""Lambda entry point: POST /plans prices a gather. It reads a few headers, no pixel, and writes nothing."""

import asyncio
from dataclasses import dataclass
from typing import Any, Final

from aws_lambda_powertools import Logger
from aws_lambda_powertools.event_handler import APIGatewayRestResolver
from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.api.problems import TooSlowError
from handlers.api.resolver import answered, body_of, resolver
from handlers.settings import Settings
from handlers.steps.capacity import workers_of
from handlers.steps.planning import admitted, opened_table
from handlers.steps.reading import Readers
from handlers.wiring import Deployment
from pixel_gather.core.errors import RequestError
from pixel_gather.core.estimate.worker_limits import max_task_nbytes
from pixel_gather.core.plan.cube_plan import CubePlan
from pixel_gather.core.plan.plan import plan_cube
from pixel_gather.core.ports import SourceTable
from pixel_gather.core.request.request import GatherRequest, parse_request
from pixel_gather.engine.append import NOTHING_TO_APPEND, plan_append
from pixel_gather.engine.archive import archive_template, in_order
from pixel_gather.io.crs import RasterioProjector

_TO_ANSWER_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class DryPlanner:
    """Plans gathers of one deployment without starting them."""

    deployment: Deployment
    readers: Readers
    projector: RasterioProjector

    async def plan(self, given: Any, *, left_s: float) -> CubePlan:
        """Plan a gather.

        Raises:
            RequestError: The request is wrong, or does not fit the sources.
            BudgetError: The plan is over a limit.
            TooSlowError: The list is too long to be read within the API's time limit.
        """
        settings = self.deployment.settings
        request = admitted(parse_request(given), settings)
        try:
            async with (
                asyncio.timeout(left_s),
                opened_table(request, self.deployment, left_s=left_s) as table,
            ):
                if request.output.append_to is not None:
                    return await self._plan_append(request, table)
                template = await archive_template(request, self.deployment.archives)
                return await plan_cube(
                    request,
                    table=in_order(table, template),
                    reader=self.readers.of(request.sources.sign),
                    projector=self.projector,
                    max_task_nbytes=max_task_nbytes(settings.shard_memory_mib),
                    now=0.0,
                    deployment=workers_of(settings),
                    template=template,
                )
        except TimeoutError as error:
            raise TooSlowError(
                f"this gather cannot be planned in {left_s:.0f} s: submit the gather with limits.usd. Its "
                "plan may then take 15 minutes, and a gather that costs more is refused"
            ) from error

    async def _plan_append(self, request: GatherRequest, table: SourceTable) -> CubePlan:
        deployment = self.deployment
        planned = await plan_append(
            request,
            table=table,
            reader=self.readers.of(request.sources.sign),
            projector=self.projector,
            cube=deployment.growing(request.cube_name),
            control=deployment.control(request.cube_name),
            max_task_nbytes=max_task_nbytes(deployment.settings.shard_memory_mib),
            deployment=workers_of(deployment.settings),
            is_dry=True,
        )
        if planned is None:
            raise RequestError(NOTHING_TO_APPEND, field="output.append_to")
        return planned[0]


def app_of(planner: DryPlanner, logger: Logger) -> APIGatewayRestResolver:
    """Return the route over one deployment."""
    app = resolver(logger)

    @app.post("/plans")
    def plan() -> dict[str, Any]:
        left_s = app.lambda_context.get_remaining_time_in_millis() / 1000 - _TO_ANSWER_S
        return planner.deployment.run(planner.plan(body_of(app), left_s=left_s)).to_json()

    return app


settings = Settings.from_environment()
logger = Logger()
deployment = Deployment(settings)
planner = DryPlanner(deployment, Readers(deployment, holds_a_shard=False), RasterioProjector())
app = app_of(planner, logger)


@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Answer one request."""
    return answered(app, logger, event, context)
