"""Answers errors with problem details (RFC 9457)."""

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from aws_lambda_powertools import Logger
from aws_lambda_powertools.event_handler import APIGatewayRestResolver, Response
from msgspec import Struct

from pixel_gather.core.errors import (
    ArrayExistsError,
    BudgetError,
    BusyError,
    DeniedError,
    DeploymentError,
    GatherError,
    GatherNotFoundError,
    NotRedrivableError,
    RequestError,
    SceneNotFoundError,
    StoreError,
    ThrottledError,
    UnreachableError,
)

MEDIA_TYPE: Final = "application/problem+json"
TYPE_PREFIX: Final = "urn:pixel-gather:problem:"
NO_SUCH_ADDRESS: Final = "no_such_address"
INTERNAL_ERROR: Final = "internal_error"
_RETRY_AFTER_S: Final = 5


class BodyError(GatherError):
    """The request's body cannot be read."""

    code = "body_error"


class NoCatalogError(GatherError):
    """The deployment has no catalog to search."""

    code = "no_catalog"


class TooSlowError(GatherError):
    """The answer would take longer than API Gateway waits."""

    code = "timed_out"


class ProblemKind(Struct, frozen=True):
    """How one class of errors is shown to the caller."""

    status: HTTPStatus
    title: str
    is_shown: bool = True
    """Whether the caller sees the error's own message. Otherwise it is only logged."""


KINDS: Final[Mapping[type[GatherError], ProblemKind]] = {
    BodyError: ProblemKind(HTTPStatus.BAD_REQUEST, "The body cannot be read"),
    RequestError: ProblemKind(HTTPStatus.UNPROCESSABLE_ENTITY, "The request is wrong"),
    BudgetError: ProblemKind(HTTPStatus.UNPROCESSABLE_ENTITY, "The plan is over a limit"),
    GatherNotFoundError: ProblemKind(HTTPStatus.NOT_FOUND, "There is no such gather or table"),
    SceneNotFoundError: ProblemKind(HTTPStatus.NOT_FOUND, "There is no such scene"),
    NoCatalogError: ProblemKind(HTTPStatus.NOT_FOUND, "There is no catalog"),
    NotRedrivableError: ProblemKind(HTTPStatus.CONFLICT, "It cannot be redriven"),
    ArrayExistsError: ProblemKind(HTTPStatus.CONFLICT, "Another cube is there"),
    ThrottledError: ProblemKind(HTTPStatus.TOO_MANY_REQUESTS, "Too many requests"),
    UnreachableError: ProblemKind(HTTPStatus.SERVICE_UNAVAILABLE, "AWS did not answer", is_shown=False),
    StoreError: ProblemKind(HTTPStatus.SERVICE_UNAVAILABLE, "A store did not answer", is_shown=False),
    BusyError: ProblemKind(HTTPStatus.SERVICE_UNAVAILABLE, "It cannot be done now", is_shown=False),
    TooSlowError: ProblemKind(HTTPStatus.GATEWAY_TIMEOUT, "The answer took too long"),
    DeniedError: ProblemKind(
        HTTPStatus.INTERNAL_SERVER_ERROR, "The deployment lacks a right that it needs", is_shown=False
    ),
    DeploymentError: ProblemKind(
        HTTPStatus.INTERNAL_SERVER_ERROR, "The deployment is wrongly configured", is_shown=False
    ),
}
STAC_KINDS: Final[Mapping[type[GatherError], ProblemKind]] = {
    **KINDS,
    RequestError: ProblemKind(HTTPStatus.BAD_REQUEST, "The request is wrong"),
}
"""STAC API asks for 400 where a search's parameters are wrong."""

_UNEXPECTED: Final = ProblemKind(
    HTTPStatus.INTERNAL_SERVER_ERROR, "Something went wrong on our side", is_shown=False
)


def answer_with_problems(
    app: APIGatewayRestResolver, logger: Logger, *, kinds: Mapping[type[GatherError], ProblemKind] = KINDS
) -> None:
    """Answer every error of a route with problem details. Log the errors whose message is not shown."""

    def answer(error: Exception) -> Response[Any]:
        kind = next((kinds[each] for each in type(error).__mro__ if each in kinds), _UNEXPECTED)
        if not kind.is_shown:
            logger.error("request failed", exc_info=error)
        return _problem(error, kind, request_id=app.lambda_context.aws_request_id)

    app.exception_handler(Exception)(answer)
    app.not_found(lambda _: _no_such_address(app))


def _problem(error: Exception, kind: ProblemKind, *, request_id: str) -> Response[Any]:
    detail = (
        str(error)
        if kind.is_shown
        else f"Try again; if it fails again, see the function's log for request {request_id}"
    )
    body: dict[str, Any] = {
        "type": TYPE_PREFIX + getattr(error, "code", INTERNAL_ERROR),
        "title": kind.title,
        "status": kind.status.value,
        "detail": detail,
    }
    if isinstance(error, RequestError | BudgetError) and error.field:
        body |= {"field": error.field, "reason": error.message}
    if isinstance(error, RequestError):
        body |= {"is_missing": error.is_missing, "also_wrong": error.also_wrong}
    headers = {}
    if isinstance(error, ThrottledError):
        headers["Retry-After"] = f"{error.retry_after_s or _RETRY_AFTER_S:.0f}"
    return _response(body, headers)


def _no_such_address(app: APIGatewayRestResolver) -> Response[Any]:
    event = app.current_event
    body = {
        "type": TYPE_PREFIX + NO_SUCH_ADDRESS,
        "title": "There is no such address",
        "status": HTTPStatus.NOT_FOUND.value,
        "detail": f"nothing answers {event.http_method} {event.path}; GET /openapi.json lists what does",
    }
    return _response(body, {})


def _response(body: Mapping[str, Any], headers: Mapping[str, str]) -> Response[Any]:
    return Response(
        status_code=body["status"], content_type=MEDIA_TYPE, body=json.dumps(body), headers=dict(headers)
    )
