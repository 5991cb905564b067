"""Lambda entry point: lists, describes, stops and redrives gathers, and serves the OpenAPI document."""

import json
from collections.abc import Mapping
from copy import replace
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from aws_lambda_powertools import Logger
from botocore.exceptions import ClientError

from handlers.api.control_plane import ControlPlane, open_control_plane
from handlers.api.resolver import Resolver, handler_of, limit_workers, list_page
from handlers.deployment.settings import Settings
from handlers.gather.routes import ROUTES
from pixel_gather.core.errors import GatherNotFoundError
from pixel_gather.io.aws.aws_errors import code_of
from pixel_gather.io.aws.executions import Executions

_ROOT_KEY: Final = "zarr.json"
"""As `pixel_gather.core.stores.ROOT_KEY`, whose module loads NumPy."""

_OPENAPI: Final = Path(__file__).parents[1] / "api" / "openapi.json"
"""`infra.bundle.bundle` adds it to the package. Making it takes pydantic, which is not loaded here."""


def app_of(plane: ControlPlane, logger: Logger) -> Resolver:
    """Return the routes over one deployment."""
    app = Resolver(ROUTES, logger)

    def gathers() -> Executions:
        return replace(plane.executions, links_from=app.address)

    @app.serve("listGathers")
    def list_() -> dict[str, Any]:
        return list_page(gathers(), app)

    @app.serve("getGather")
    def status(id_: str) -> dict[str, Any]:
        document = gathers().status(id_)
        if document.get("result") is not None:
            _check_there(document, plane.s3)
        return document

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
        return document | {"servers": [{"url": app.address or "/"}]}

    return app


def _check_there(document: Mapping[str, Any], s3: Any) -> None:
    """Raise an error if the cube that a gather has completed was removed.

    Raises:
        GatherNotFoundError: It was. Only S3's word that nothing is there counts.
    """
    cube = document["result"]["cube"]
    bucket, _, key = f"{cube}/{_ROOT_KEY}".removeprefix("s3://").partition("/")
    try:
        s3.head_object(Bucket=bucket, Key=key)
    except ClientError as error:
        if code_of(error) not in ("404", "NoSuchKey"):
            return
        raise GatherNotFoundError(
            f"the cube of {document['id']} was removed ({cube}): to make it anew, submit the request of its "
            "first gather with force (--force)"
        ) from error


logger = Logger()
app = app_of(open_control_plane(Settings.from_environment()), logger)
handler = handler_of(app, logger)
