"""The answers that API Gateway gives without a function: problem details, like those of the functions.

API Gateway's templates insert variables without escaping them. Only ``$context.error.messageString`` is
quoted and escaped. ``message`` may have line feeds, as for a wrong signature. ``validationErrorString`` may
have quotes, as in ``missing required properties (["window"])``. Both would break the JSON, so neither is
used. The second would name the field. Instead, the answer points to the schema. Requests that pass the schema
are checked by functions, which name the field.
"""

import json
from typing import Final

from aws_cdk import aws_apigateway as apigateway
from msgspec import Struct

_MEDIA_TYPE: Final = "application/problem+json"
_MESSAGE: Final = "$context.error.messageString"


_SEND_FIELDS: Final = "Send a JSON object with the fields that GET /openapi.json calls required"
_ASK: Final = "These credentials do not allow it: ask for execute-api:Invoke on this API"
_NOT_SIGNED: Final = "The request is not signed, or there is no such address"
_SIGN: Final = "Sign the request with AWS credentials, and compare method and path with GET /openapi.json"
_WAIT: Final = "Try again in a few seconds; look at a gather every 5 seconds at most"
_SUBMIT: Final = "A long list cannot be planned in 29 seconds: submit the gather, with a limit in dollars"
_LOOK: Final = "Try again; if it fails again, see the API's log for request $context.requestId"
_BURST_S: Final = 2
"""The burst is that of two seconds."""


class _Problem(Struct, frozen=True):
    response: apigateway.ResponseType
    status: int | None
    """None where API Gateway chooses the status. The body then has none."""

    code: str
    title: str
    detail: str = _MESSAGE


_TYPES: Final = apigateway.ResponseType
_PROBLEMS: Final = (
    _Problem(
        _TYPES.BAD_REQUEST_BODY, 400, "request_error", "The request does not fit its schema", _SEND_FIELDS
    ),
    _Problem(_TYPES.BAD_REQUEST_PARAMETERS, 400, "request_error", "A parameter is missing or wrong"),
    _Problem(_TYPES.ACCESS_DENIED, 403, "access_denied", "You may not do this", _ASK),
    _Problem(_TYPES.MISSING_AUTHENTICATION_TOKEN, 403, "not_signed_or_not_there", _NOT_SIGNED, _SIGN),
    _Problem(_TYPES.THROTTLED, 429, "throttled", "Too many requests", _WAIT),
    _Problem(_TYPES.INTEGRATION_TIMEOUT, 504, "timed_out", "The answer took too long", _SUBMIT),
    _Problem(_TYPES.DEFAULT_4_XX, None, "refused", "The request was refused"),
    _Problem(_TYPES.DEFAULT_5_XX, None, "failed", "The request failed on our side", _LOOK),
)


def answer_with_problems(api: apigateway.RestApi) -> None:
    """Answer all errors of the API itself with problem details (RFC 9457)."""
    for problem in _PROBLEMS:
        is_busy = problem.code == "throttled"
        api.add_gateway_response(
            problem.response.response_type.title().replace("_", ""),
            type=problem.response,
            status_code=None if problem.status is None else str(problem.status),
            templates={_MEDIA_TYPE: _template(problem)},
            # API Gateway takes fixed headers in single quotes
            response_headers={"Retry-After": f"'{_BURST_S}'"} if is_busy else None,
        )


def _template(problem: _Problem) -> str:
    body = {
        "type": f"urn:pixel-gather:problem:{problem.code}",
        "title": problem.title,
        "status": problem.status,
        "detail": problem.detail,
    }
    known = {name: value for name, value in body.items() if value is not None}
    return json.dumps(known).replace(json.dumps(_MESSAGE), _MESSAGE)
