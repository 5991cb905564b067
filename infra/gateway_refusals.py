"""The answers that API Gateway gives without a function: problem details, like those of the functions.

API Gateway's templates insert variables without escaping them. Only ``$context.error.messageString`` is
quoted and escaped. ``message`` may have line feeds, as for a wrong signature. ``validationErrorString`` may
have quotes, as in ``missing required properties (["window"])``. Both would break the JSON, so neither is
used. The second would name the field. Instead, the answer points to the schema. Requests that pass the schema
are checked by functions, which name the field.
"""

import json
from dataclasses import dataclass
from typing import Any, Final

from aws_cdk import aws_apigateway as apigateway

_MEDIA_TYPE: Final = "application/problem+json"
_MESSAGE: Final = "$context.error.messageString"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Problem:
    response: apigateway.ResponseType
    status: int | None
    """None where API Gateway chooses the status. The body then has none."""

    code: str
    title: str
    detail: str = _MESSAGE
    retry_after_s: int | None = None


_PROBLEMS: Final = (
    _Problem(
        response=apigateway.ResponseType.BAD_REQUEST_BODY,
        status=400,
        code="request_error",
        title="The request does not fit its schema",
        detail="Send a JSON object with the fields that GET /openapi.json calls required",
    ),
    _Problem(
        response=apigateway.ResponseType.BAD_REQUEST_PARAMETERS,
        status=400,
        code="request_error",
        title="A parameter is missing or wrong",
    ),
    _Problem(
        response=apigateway.ResponseType.ACCESS_DENIED,
        status=403,
        code="access_denied",
        title="You may not do this",
        detail="These credentials do not allow it: ask for execute-api:Invoke on this API",
    ),
    _Problem(
        response=apigateway.ResponseType.MISSING_AUTHENTICATION_TOKEN,
        status=403,
        code="not_signed_or_not_there",
        title="The request is not signed, or there is no such address",
        detail="Sign the request with AWS credentials, and compare method and path with GET /openapi.json",
    ),
    _Problem(
        response=apigateway.ResponseType.THROTTLED,
        status=429,
        code="throttled",
        title="Too many requests",
        detail="Try again in a few seconds; look at a gather every 5 seconds at most",
        retry_after_s=2,  # the burst is that of two seconds
    ),
    _Problem(
        response=apigateway.ResponseType.INTEGRATION_TIMEOUT,
        status=504,
        code="timed_out",
        title="The answer took too long",
        detail="A long list cannot be planned in 29 seconds: submit the gather, with a limit in dollars",
    ),
    _Problem(
        response=apigateway.ResponseType.DEFAULT_4_XX,
        status=None,
        code="refused",
        title="The request was refused",
    ),
    _Problem(
        response=apigateway.ResponseType.DEFAULT_5_XX,
        status=None,
        code="failed",
        title="The request failed on our side",
        detail="Try again; if it fails again, see the API's log for request $context.requestId",
    ),
)


def answer_with_problems(api: apigateway.RestApi) -> None:
    """Answer all errors of the API itself with problem details (RFC 9457)."""
    for problem in _PROBLEMS:
        api.add_gateway_response(
            problem.response.response_type.title().replace("_", ""),
            type=problem.response,
            status_code=None if problem.status is None else str(problem.status),
            templates={_MEDIA_TYPE: _template(problem)},
            response_headers=_headers(problem),
        )


def _headers(problem: _Problem) -> dict[str, str] | None:
    """Return headers as API Gateway takes fixed ones: in single quotes."""
    return None if problem.retry_after_s is None else {"Retry-After": f"'{problem.retry_after_s}'"}


def _template(problem: _Problem) -> str:
    return json.dumps(_body(problem)).replace(json.dumps(_MESSAGE), _MESSAGE)


def _body(problem: _Problem) -> dict[str, Any]:
    status = {} if problem.status is None else {"status": problem.status}
    return {
        "type": f"urn:pixel-gather:problem:{problem.code}",
        "title": problem.title,
        **status,
        "detail": problem.detail,
    }
