"""Shared by the functions behind the API: the resolver, the request's body and the API's own address."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from aws_lambda_powertools import Logger
from aws_lambda_powertools.event_handler import APIGatewayRestResolver, Response
from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.api.problems import KINDS, BodyError, ProblemKind, answer_with_problems
from handlers.api.route import JSON, Route
from pixel_gather.core.errors import GatherError, RequestError
from pixel_gather.core.request.given_fields import check_names

if TYPE_CHECKING:  # the search function needs no boto3
    from pixel_gather.io.aws.executions import Executions

_DEFAULT_LIMIT: Final = "50"
_SIGNED: Final = "X-Amz-"
"""Parameters of a signed address begin with it. API Gateway may hand them on."""


class Resolver(APIGatewayRestResolver):
    """The routes of one function. It answers errors with problem details."""

    def __init__(
        self,
        routes: Iterable[Route],
        logger: Logger,
        *,
        kinds: Mapping[type[GatherError], ProblemKind] = KINDS,
    ) -> None:
        """Make a resolver whose routes have no function yet; see `serve`."""
        self._routes = {each.name: each for each in routes}
        super().__init__(strip_prefixes=[_base_path(self._routes.values())])
        answer_with_problems(self, logger, kinds=kinds)

    @property
    def address(self) -> str:
        """The API's base address for the present request, as from `api_address`."""
        return api_address(self.current_event.raw_event)

    def _check_once(self) -> None:
        """Refuse a parameter that is given twice. API Gateway would hand on the last of its values."""
        for name, values in self.current_event.multi_value_query_string_parameters.items():
            if len(values) > 1 and not name.startswith(_SIGNED):
                raise RequestError(
                    "it is given more than once: write it once, and several names with commas between them",
                    field=name,
                )

    @property
    def given(self) -> dict[str, str]:
        """The parameters of this request's query, by name, but neither empty ones nor a signature's."""
        given = self.current_event.query_string_parameters or {}
        return {name: value for name, value in given.items() if value and not name.startswith(_SIGNED)}

    def serve[**P, T](self, name: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
        """Let a function answer the route of this name, if the query has its parameters alone, each once.

        The function takes the parameters of the path with an underscore behind their names, such as ``id_``.
        """
        route = self._routes[name]
        add = self.route(re.sub(r"\{(\w+)\}", r"<\1_>", route.path), method=route.method)

        def serve(answer: Callable[P, T]) -> Callable[P, T]:
            @wraps(answer)
            def checked(*args: P.args, **named: P.kwargs) -> T:
                check_names(self.given, route.query, what="parameter")
                self._check_once()
                return answer(*args, **named)

            add(checked)
            return answer

        return serve


def _base_path(routes: Iterable[Route]) -> re.Pattern[str]:
    """Return the pattern of a custom domain's base path. API Gateway leaves it in an event's path."""
    heads = {re.escape(each.path.split("/")[1]) for each in routes} - {""}
    ours = rf"/(?:{'|'.join(sorted(heads))})(?:/|$)"
    return re.compile(rf"^(?!{ours})(?:/[^/]+)+?(?={ours})")


def handler_of(app: Resolver, logger: Logger) -> Callable[[dict[str, Any], LambdaContext], dict[str, Any]]:
    """Return the function's entry point: it answers one request, and logs one line about it."""

    @logger.inject_lambda_context(clear_state=True)
    def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
        if event.get("resource") == "/":  # behind a domain of one's own, the path is that domain's base path
            event = {**event, "path": "/"}
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

    return handler


def answer_json(
    body: Any,
    *,
    etag: str,
    media_type: str = JSON,
    headers: Mapping[str, str] | None = None,
) -> Response[str]:
    """Answer a body as JSON, with status 200 and an ETag. ``headers`` are added."""
    text = json.dumps(body, separators=(",", ":"))
    return Response(HTTPStatus.OK, media_type, text, headers={"ETag": etag, **(headers or {})})


def read_body(app: APIGatewayRestResolver) -> Any:
    """Return the request's body.

    Raises:
        BodyError: It is empty or no JSON, or one of its objects has a name twice.
    """
    try:
        body = json.loads(app.current_event.decoded_body or "null", object_pairs_hook=_object)
    except (ValueError, RecursionError) as error:
        raise BodyError(f"the body is no JSON: {error}") from error
    if body is None:
        raise BodyError("the body is empty: send the request as JSON")
    return body


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON whose names are all different. Of two values, one would be ignored."""
    found = dict(pairs)
    if len(found) < len(pairs):
        (name, _), *_ = Counter(name for name, _ in pairs).most_common(1)
        raise BodyError(f"the body has {name[:80]} twice in one object: leave one out")
    return found


def read_flag(app: APIGatewayRestResolver, name: str) -> bool:
    """Return a query parameter that is true or false; false by default."""
    text = app.current_event.get_query_string_value(name, "false")
    if text not in ("true", "false"):
        raise RequestError("it must be true or false", field=name)
    return text == "true"


def read_count(app: APIGatewayRestResolver, name: str, *, default: str = "") -> int:
    """Return a query parameter that is a whole number."""
    text = app.current_event.get_query_string_value(name, default)
    if not text.isdecimal():
        raise RequestError("it must be a whole number", field=name)
    return int(text)


def limit_workers(
    executions: "Executions", app: APIGatewayRestResolver, id_: str, *, most: int | None
) -> dict[str, Any]:
    """Let a gather or table have at most as many workers as the query names, and return its line."""
    workers = read_count(app, "workers")
    if most is not None and workers > most:
        raise RequestError(f"this deployment's setting max_workers allows {most:,} at most", field="workers")
    return executions.limit(id_, workers)


def list_page(executions: "Executions", app: Resolver) -> dict[str, Any]:
    """Return the page of gathers or tables that the query names by limit, token and state."""
    limit = read_count(app, "limit", default=_DEFAULT_LIMIT)
    return executions.list_(limit=limit, token=app.given.get("token"), state=app.given.get("state"))


def api_address(event: Mapping[str, Any]) -> str:
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
