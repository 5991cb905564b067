"""Lambda entry point: lists, describes, stops and redrives gathers, and serves the OpenAPI document."""

import json
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from aws_lambda_powertools import Logger
from aws_lambda_powertools.event_handler import APIGatewayRestResolver
from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.api.control_plane import ControlPlane, control_plane
from handlers.api.resolver import address, answered, page_of, resolver
from handlers.deployment.settings import Settings
from pixel_gather.io.aws.executions import Executions

_OPENAPI: Final = Path(__file__).parents[1] / "api" / "openapi.json"
"""Written by `handlers.openapi.document`. That module needs pydantic, which this function does not load."""


def app_of(plane: ControlPlane, logger: Logger) -> APIGatewayRestResolver:
    """Return the routes over one deployment."""
    app = resolver(logger)
    document: dict[str, Any] = json.loads(_OPENAPI.read_text(encoding="utf-8"))

    def gathers() -> Executions:
        return replace(plane.executions, links_from=address(app.current_event.raw_event))

    @app.get("/gathers")
    def list_() -> dict[str, Any]:
        return page_of(gathers(), app)

    @app.get("/gathers/<gather_id>")
    def status(gather_id: str) -> dict[str, Any]:
        return gathers().status(gather_id)

    @app.delete("/gathers/<gather_id>")
    def stop(gather_id: str) -> dict[str, Any]:
        return gathers().stop(gather_id)

    @app.post("/gathers/<gather_id>/redrive")
    def redrive(gather_id: str) -> tuple[dict[str, Any], int]:
        return gathers().redrive(gather_id), HTTPStatus.ACCEPTED

    @app.get("/openapi.json")
    def openapi() -> dict[str, Any]:
        server = address(app.current_event.raw_event)
        return document | {"servers": [{"url": server or "/"}]}

    return app


logger = Logger()
app = app_of(control_plane(Settings.from_environment()), logger)


@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Answer one request."""
    return answered(app, logger, event, context)
