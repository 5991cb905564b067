"""Lambda entry point: lists, describes, stops and redrives gathers, and serves the OpenAPI document."""

import json
from copy import replace
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from aws_lambda_powertools import Logger

from handlers.api.control_plane import ControlPlane, open_control_plane
from handlers.api.resolver import Resolver, api_address, handler_of, limit_workers, list_page
from handlers.deployment.settings import Settings
from handlers.gather.routes import ROUTES
from pixel_gather.io.aws.executions import Executions

_OPENAPI: Final = Path(__file__).parents[1] / "api" / "openapi.json"
"""`infra.bundle.bundle` adds it to the package. Making it takes pydantic, which is not loaded here."""


def app_of(plane: ControlPlane, logger: Logger) -> Resolver:
    """Return the routes over one deployment."""
    app = Resolver(ROUTES, logger)

    def gathers() -> Executions:
        return replace(plane.executions, links_from=api_address(app.current_event.raw_event))

    @app.serve("listGathers")
    def list_() -> dict[str, Any]:
        return list_page(gathers(), app)

    @app.serve("getGather")
    def status(id_: str) -> dict[str, Any]:
        return gathers().status(id_)

    @app.serve("stopGather")
    def stop(id_: str) -> dict[str, Any]:
        return gathers().stop(id_)

    @app.serve("redriveGather")
    def redrive(id_: str) -> tuple[dict[str, Any], int]:
        return gathers().redrive(id_), HTTPStatus.ACCEPTED

    @app.serve("limitGather")
    def limit(id_: str) -> dict[str, Any]:
        return limit_workers(gathers(), app, id_, most=plane.settings.limits.get("workers"))

    @app.serve("getOpenapi")
    def openapi() -> dict[str, Any]:
        document: dict[str, Any] = json.loads(_OPENAPI.read_text(encoding="utf-8"))
        server = api_address(app.current_event.raw_event)
        return document | {"servers": [{"url": server or "/"}]}

    return app


logger = Logger()
app = app_of(open_control_plane(Settings.from_environment()), logger)
handler = handler_of(app, logger)
