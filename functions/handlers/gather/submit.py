"""Lambda entry point: POST /gathers starts a gather, POST /lists returns where to upload a list."""

from copy import replace
from datetime import UTC, datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools import Logger

from handlers.api.control_plane import ControlPlane, open_control_plane
from handlers.api.resolver import Resolver, handler_of, read_body, read_flag
from handlers.deployment.policy import check_places
from handlers.deployment.settings import Settings
from handlers.gather.routes import ROUTES
from handlers.gather.uploads import lend_place
from pixel_gather.core.request.naming import execution_name, with_random_name
from pixel_gather.core.request.request import parse_request

if TYPE_CHECKING:  # for the description, which needs msgspec
    from handlers.gather.answers import ListPlace


def app_of(plane: ControlPlane, logger: Logger) -> Resolver:
    """Return the routes over one deployment."""
    app = Resolver(ROUTES, logger)

    @app.serve("submitGather")
    def submit() -> tuple[dict[str, Any], int]:
        request = parse_request(read_body(app))
        check_places(request, plane.settings)
        if read_flag(app, "force"):
            request = with_random_name(request)
        executions = replace(plane.executions, links_from=app.address)
        name = execution_name(request, day=datetime.now(UTC).date().isoformat())
        is_append = request.output.append_to is not None
        gather = executions.submit(request.to_json(), name=name, again=is_append)
        logger.append_keys(gather_id=gather["id"])
        return gather, HTTPStatus.ACCEPTED if gather["is_new"] else HTTPStatus.OK

    @app.serve("keepList")
    def keep_list() -> "ListPlace":
        return lend_place(read_body(app), plane)

    return app


logger = Logger()
app = app_of(open_control_plane(Settings.from_environment()), logger)
handler = handler_of(app, logger)
