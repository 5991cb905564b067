"""An HTTP server on loopback that calls a function as API Gateway does.

Each request becomes an event. It handles one request at a time, like one environment of a function.
"""

import copy
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from jsonschema import Draft202012Validator

from handlers.openapi.document import openapi_document
from handlers.search.routes import ROUTES
from support.lambda_functions import Context
from support.local_server import Answer, Asked, serving

type Handler = Callable[[dict[str, Any], Any], dict[str, Any]]

RESOURCES: Final = tuple(dict.fromkeys(each.path for each in ROUTES))
"""Paths of the search function."""

_STAGE: Final = "/v1"
_DESCRIPTION: Final[dict[str, Any]] = {
    "statusCode": 200,
    "headers": {"Content-Type": "application/json"},
    "body": json.dumps(openapi_document()),
}


def _strict(document: dict[str, Any]) -> dict[str, Any]:
    """Return the description with no field allowed in an answer that it does not name.

    Documents of STAC may have others: their own specification describes them.
    """
    found = copy.deepcopy(document)
    schemas = found["components"]["schemas"]
    waiting: list[Any] = [each for name, each in schemas.items() if not name.startswith("Stac")]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            if part.get("type") == "object" and part.get("properties") and "additionalProperties" not in part:
                part["additionalProperties"] = False
            waiting += list(part.values())
        elif isinstance(part, list):
            waiting += part
    return found


DOCUMENT: Final = _strict(openapi_document())
"""The description, with nothing in an answer that it does not name."""


def event(
    method: str,
    target: str,
    *,
    body: str | None = None,
    domain: str = "api.example.org",
    base: str | None = None,
) -> dict[str, Any]:
    """Return the event of one request.

    Args:
        method: GET or POST.
        target: Path below the API's address, and parameters.
        body: Body of a POST.
        domain: Host of the API's address.
        base: Base path of a domain of one's own, which may be empty; the path is without the stage there.
    """
    parts = urlsplit(target)
    path = unquote(parts.path) or "/"
    resource, parameters = resource_of(path)
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    query = dict(pairs)
    return {
        "resource": resource,
        "path": (base or "") + path,
        "httpMethod": method,
        "headers": {"content-type": "application/json"},
        "multiValueHeaders": {},
        "queryStringParameters": query or None,
        "multiValueQueryStringParameters": {
            name: [value for key, value in pairs if key == name] for name in query
        }
        or None,
        "pathParameters": parameters or None,
        "stageVariables": None,
        "requestContext": {
            "domainName": domain,
            "path": f"{_STAGE if base is None else base}{path}",
            "stage": _STAGE.strip("/"),
            "requestId": "r",
        },
        "body": body,
        "isBase64Encoded": False,
    }


def told(
    app: Any,
    method: str,
    path: str,
    body: Any = None,
    *,
    query: Mapping[str, str] | None = None,
    left_s: float = 29.0,
) -> tuple[int, Any]:
    """Return the status and the decoded body of what the routes of a function answer.

    The answer has to be as the OpenAPI document describes it.
    """
    target = f"{path}?{urlencode(query)}" if query else path
    asked = event(method, target, body=None if body is None else json.dumps(body))
    answer = app.resolve(asked, Context(left_s=left_s))
    status, found = answer["statusCode"], body_of(answer)
    _check_described(method, path, status, found)
    return status, found


def is_a(schema: str, document: Any) -> bool:
    """Return whether a document is as the API's description says of one."""
    components = openapi_document()["components"]
    whole = {"$ref": f"#/components/schemas/{schema}", "components": components}
    return Draft202012Validator(whole).is_valid(document)


def _check_described(method: str, path: str, status: int, found: Any) -> None:
    """Fail if the description of a route does not hold for an answer."""
    resource, _ = resource_of(path)
    response = DOCUMENT["paths"][resource][method.lower()]["responses"][str(status)]
    if "$ref" in response:
        response = DOCUMENT["components"]["responses"][response["$ref"].rpartition("/")[2]]
    (content,) = response["content"].values()
    Draft202012Validator(content["schema"] | {"components": DOCUMENT["components"]}).validate(found)


@contextmanager
def serving_api(handler: Handler) -> Iterator[str]:
    """Serve a handler on loopback; gives the address of its landing page, without a closing slash.

    The API's description, which another function answers, is made by the code.
    """
    one_at_a_time = threading.Lock()

    def script(asked: Asked) -> Answer:
        host = asked.headers["Host"]
        target = asked.path.removeprefix(_STAGE)
        called = event(asked.method, target, body=asked.body.decode() or None, domain=host)
        with one_at_a_time:
            answer = _DESCRIPTION if called["path"] == "/openapi.json" else handler(called, Context())
        # API Gateway always speaks https; the bridge does not
        content = answer["body"].replace(f"https://{host}", f"http://{host}").encode()
        return Answer(status=answer["statusCode"], body=content, headers=_headers(answer))

    with serving(script) as server:
        yield server.root + _STAGE


def body_of(answer: Mapping[str, Any]) -> Any:
    """Return a function's answer, decoded."""
    return json.loads(answer["body"])


def header_of(answer: Mapping[str, Any], name: str) -> str | None:
    """Return one header of a function's answer."""
    return _headers(answer).get(name)


def _headers(answer: Mapping[str, Any]) -> dict[str, str]:
    many = {name: ", ".join(values) for name, values in (answer.get("multiValueHeaders") or {}).items()}
    return many | dict(answer.get("headers") or {})


def resource_of(path: str) -> tuple[str, dict[str, str]]:
    """Return the path of a route as API Gateway knows it, and its parameters."""
    for resource in DOCUMENT["paths"]:
        pattern = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", resource)
        if match := re.fullmatch(pattern, path):
            return resource, match.groupdict()
    return "/{proxy+}", {}
