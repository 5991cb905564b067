"""A web server on loopback that answers what a test tells it."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from support import local_server


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One request."""

    method: str
    path: str
    parameters: dict[str, str]
    body: Any
    headers: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What the server sends back."""

    body: Any = None
    """Bytes, an iterator of bytes whose number is not told, or anything else as JSON."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Server:
    """The server as a test sees it."""

    url: str
    asked: list[Asked]


@contextmanager
def serving(answer: Callable[[Asked], Answer]) -> Iterator[Server]:
    """Serve on 127.0.0.1 while the context lasts."""
    asked: list[Asked] = []

    def script(request: local_server.Asked) -> local_server.Answer:
        url = urlsplit(request.path)
        each = Asked(
            method=request.method,
            path=url.path,
            parameters=dict(parse_qsl(url.query)),
            body=json.loads(request.body) if request.body else None,
            headers={name.lower(): value for name, value in request.headers.items()},
        )
        asked.append(each)
        given = answer(each)
        is_json = not isinstance(given.body, bytes | Iterator)
        body = json.dumps(given.body).encode() if is_json else given.body
        return local_server.Answer(status=given.status, body=body, headers=given.headers)

    with local_server.serving(script) as server:
        yield Server(url=server.root, asked=asked)


def landing(url: str, *, method: str = "POST", can_query: bool = False) -> dict[str, Any]:
    """Return the landing page of a STAC API."""
    classes = ["https://api.stacspec.org/v1.0.0/item-search"]
    return {
        "type": "Catalog",
        "conformsTo": [*classes, *([f"{classes[0]}#query"] if can_query else [])],
        "links": [{"rel": "search", "href": f"{url}/search", "method": method}],
    }


@contextmanager
def serving_api(search: Callable[[Asked, str], Answer], **of_landing: Any) -> Iterator[Server]:
    """Serve a STAC API. Its landing page is right; its search is the test's, which is told the API's address.

    Args:
        search: Answers all but the landing page.
        of_landing: Arguments of `landing`, and members of the page that it has beside its own.
    """
    urls: list[str] = []
    more = {name: of_landing.pop(name) for name in list(of_landing) if name not in ("method", "can_query")}

    def answer(asked: Asked) -> Answer:
        if asked.path == "/":
            return Answer(body=landing(urls[0], **of_landing) | more)
        return search(asked, urls[0])

    with serving(answer) as server:
        urls.append(server.url)
        yield server


def page(items: list[Any], *links: dict[str, Any]) -> Answer:
    """Return one page of items."""
    return Answer(body={"type": "FeatureCollection", "features": items, "links": list(links)})
