"""Shared by the functions behind the API: the resolver, the request's body and the API's own address."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from aws_lambda_powertools import Logger
from aws_lambda_powertools.event_handler import APIGatewayRestResolver
from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.api.problems import KINDS, BodyError, Kind, answer_with_problems
from pixel_gather.core.errors import GatherError, RequestError

if TYPE_CHECKING:  # the search function needs no boto3
    from pixel_gather.io.aws.executions import Executions

_DEFAULT_LIMIT: Final = "50"
_ROUTE: Final = (
    r"/(?:gathers|plans|lists|rankings|area|scenes|search|collections|conformance|openapi\.json)(?:/|$)"
)
_BASE_PATH: Final = re.compile(rf"^(?!{_ROUTE})(?:/[^/]+)+?(?={_ROUTE})")
"""A custom domain's base path. API Gateway leaves it in an event's path."""


def resolver(logger: Logger, *, kinds: Mapping[type[GatherError], Kind] = KINDS) -> APIGatewayRestResolver:
    """Return a resolver without routes. It answers errors with problem details."""
    app = APIGatewayRestResolver(strip_prefixes=[_BASE_PATH])
    answer_with_problems(app, logger, kinds=kinds)
    return app


def answered(
    app: APIGatewayRestResolver, logger: Logger, event: dict[str, Any], context: LambdaContext
) -> dict[str, Any]:
    """Answer one request and log one line about it."""
    answer = app.resolve(event, context)
    logger.info(
        "request answered",
        extra={
            "method": event.get("httpMethod"),
            "path": event.get("path"),
            "status": answer["statusCode"],
            "api_request_id": (event.get("requestContext") or {}).get("requestId"),
        },
    )
    return answer


def body_of(app: APIGatewayRestResolver) -> Any:
    """Return the request's body.

    Raises:
        BodyError: The body is empty or not JSON.
    """
    try:
        body = app.current_event.json_body
    except (ValueError, RecursionError) as error:
        raise BodyError(f"the body is no JSON: {error}") from error
    if body is None:
        raise BodyError("the body is empty: send the request as JSON")
    return body


def flag(app: APIGatewayRestResolver, name: str) -> bool:
    """Return a query parameter that is true or false; false by default.

    Raises:
        RequestError: The parameter is neither.
    """
    text = app.current_event.get_query_string_value(name, "false")
    if text not in ("true", "false"):
        raise RequestError("it must be true or false", field=name)
    return text == "true"


def page_of(executions: "Executions", app: APIGatewayRestResolver) -> dict[str, Any]:
    """Return the page of gathers or rankings that the query names by limit, token and state.

    Raises:
        RequestError: One of them is wrong.
    """
    query = app.current_event.get_query_string_value
    limit = query("limit", _DEFAULT_LIMIT)
    if not limit.isdecimal():
        raise RequestError("it must be a whole number", field="limit")
    return executions.list_(limit=int(limit), token=query("token"), state=query("state"))


def address(event: Mapping[str, Any]) -> str:
    """Return the API's base address without a closing slash; empty where the event does not have it."""
    context = event.get("requestContext") or {}
    domain = context.get("domainName")
    if not domain:
        return ""
    resource = str(event.get("resource") or "")
    for name, value in (event.get("pathParameters") or {}).items():
        resource = resource.replace(f"{{{name}}}", value)
    path = str(context.get("path") or "")
    for end in (resource, quote(resource)):
        if end and path.endswith(end):
            return f"https://{domain}{path.removesuffix(end)}"
    return f"https://{domain}/{context.get('stage', '')}".rstrip("/")
