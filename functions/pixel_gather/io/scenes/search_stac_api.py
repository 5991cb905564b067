"""Searches of a STAC API, page by page, as one stream of items.

What the server cannot filter is filtered here, so no condition is ignored. A server that repeats a
page, that never ends or that sends us elsewhere is stopped.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit, urlunsplit

from msgspec import Struct

from pixel_gather.core.errors import RequestError, StoreError
from pixel_gather.core.request.web_address import shown_url, with_query_of, without_query
from pixel_gather.core.scene_conditions import to_query
from pixel_gather.core.scenes.search_criteria import SearchCriteria, wanted_items
from pixel_gather.core.scenes.skipped_items import SkippedItems
from pixel_gather.core.scenes.whole_hrefs import with_whole_hrefs
from pixel_gather.core.time_range import format_range
from pixel_gather.io.store.json_http import JsonAnswer, JsonClient

_PAGE: Final = 250
_MOST_EMPTY_PAGES: Final = 20
_MOST_LOOKED_AT: Final = 1_000_000
"""Items, wanted or not, after which a search ends in an error, unless ``most`` is higher."""

_QUERY_CLASS: Final = "item-search#query"
_HEADER: Final = re.compile(r"[A-Za-z0-9-]+:[ -~]*")
_OF_CLIENT: Final = frozenset({"host", "connection", "content-length", "content-type", "transfer-encoding"})


class _PageRequest(Struct, frozen=True, kw_only=True):
    """One request of a paged search."""

    url: str
    body: dict[str, Any] | None = None
    """Sent by POST; None for a GET."""

    headers: dict[str, str] = {}
    """Names in lower case."""

    @property
    def digest(self) -> str:
        said = json.dumps([self.url, self.body, self.headers], sort_keys=True)
        return hashlib.sha256(said.encode()).hexdigest()


def search_items(
    search: SearchCriteria, api: str, client: JsonClient, *, skipped: SkippedItems
) -> Iterator[dict[str, Any]]:
    """Yield the items that an API finds, each once, in its order.

    ``skipped`` gets what is no STAC item.

    Raises:
        RequestError: The API refuses the search or is no STAC API.
        NoSceneError: As `wanted_items`.
        BudgetError: It finds more items than ``search.most``.
        StoreError: It repeats pages, or does not answer with a page of items.
        ThrottledError, DeniedError, UnreachableError: As the client's.
    """
    host = urlsplit(api).netloc
    name = f"item of {host}"

    def sent() -> Iterator[dict[str, Any]]:
        pages = _pages(_first(search, api, client), client, key_of=api)
        for n_looked_at, item in enumerate(chain.from_iterable(pages), 1):
            if n_looked_at > (most := max(_MOST_LOOKED_AT, search.most)):
                raise StoreError(
                    f"{host} has sent over {most:,} items, wanted or not: narrow the area or the times"
                )
            if isinstance(item, dict):
                yield item
            else:
                skipped.add(RequestError("it is no JSON object", field=name))

    return wanted_items(with_whole_hrefs(sent(), None), search, name=name, skipped=skipped)


def _first(search: SearchCriteria, api: str, client: JsonClient) -> _PageRequest:
    landing = _mapping(client.ask(api), api)
    links = _links(landing, "search")
    if not links:
        raise RequestError(
            f"{shown_url(api)} has no search, so it is no STAC API; give the address of its landing page",
            field="stac.api",
        )
    posts = next((each for each in links if str(each.get("method", "GET")).upper() == "POST"), None)
    found = urljoin(_as_folder(without_query(api)), str((posts or links[0]).get("href", "")))
    url = with_query_of(found, api)
    body = _body(search, can_query=_QUERY_CLASS in str(landing.get("conformsTo")))
    if posts is not None:
        return _PageRequest(url=url, body=body)
    return _PageRequest(url=_with_parameters(url, body))


def _body(search: SearchCriteria, *, can_query: bool) -> dict[str, Any]:
    body: dict[str, Any] = {"limit": min(_PAGE, search.most + 1)}
    if search.collections:
        body["collections"] = sorted(search.collections)
    if search.ids:
        body["ids"] = sorted(search.ids)
    if (times := format_range(search.times)) is not None:
        body["datetime"] = times
    if search.area is not None:
        body["bbox"] = list(search.area.box)
    if search.where and can_query:
        body["query"] = to_query(search.where)
    return body


def _with_parameters(url: str, body: Mapping[str, Any]) -> str:
    values = {
        name: json.dumps(value)
        if isinstance(value, dict)
        else ",".join(map(str, value))
        if isinstance(value, list)
        else str(value)
        for name, value in body.items()
    }
    parts = urlsplit(url)
    return urlunsplit(parts._replace(query=urlencode([*parse_qsl(parts.query), *values.items()])))


def _pages(first: _PageRequest, client: JsonClient, *, key_of: str) -> Iterator[list[dict[str, Any]]]:
    asked: _PageRequest | None = first
    seen: set[str] = set()
    n_empty = 0
    while asked is not None:
        if asked.digest in seen:
            raise StoreError(
                f"{urlsplit(asked.url).netloc} repeats its pages; the search cannot be completed"
            )
        seen.add(asked.digest)
        page = _mapping(client.ask(asked.url, body=asked.body, headers=asked.headers), asked.url)
        items = page.get("features")
        has_links = isinstance(page.get("links") or [], list)
        is_page = not items or (isinstance(items, list) and any(isinstance(item, dict) for item in items))
        if not isinstance(items, list) or not (is_page and has_links):
            raise StoreError(f"{shown_url(asked.url)} does not answer with a page of STAC items")
        content = hashlib.sha256(json.dumps(items, sort_keys=True).encode()).hexdigest()
        if items and content in seen:
            raise StoreError(
                f"{urlsplit(asked.url).netloc} sends one page again and again; the search cannot be completed"
            )
        seen.add(content)
        n_empty = 0 if items else n_empty + 1
        if n_empty > _MOST_EMPTY_PAGES:
            raise StoreError(f"{urlsplit(asked.url).netloc} sends empty pages without end")
        yield items
        asked = _next(page, asked, key_of)


def _next(page: Mapping[str, Any], asked: _PageRequest, key_of: str) -> _PageRequest | None:
    links = _links(page, "next")
    if not links:
        return None
    link = links[0]
    try:
        url = with_query_of(urljoin(asked.url, link["href"]), key_of)
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(f"{urlsplit(asked.url).netloc} names a next page that is no address") from error
    headers = (asked.headers if link.get("merge") else {}) | _headers(link.get("headers"))
    if str(link.get("method", "GET")).upper() != "POST":
        return _PageRequest(url=url, headers=headers)
    given = link.get("body")
    body = dict(given) if isinstance(given, Mapping) else {}
    if link.get("merge"):
        body = (asked.body or {}) | body
    return _PageRequest(url=url, body=body or asked.body or {}, headers=headers)


def _links(page: Mapping[str, Any], rel: str) -> list[Mapping[str, Any]]:
    links = page.get("links")
    return [
        each
        for each in (links if isinstance(links, list) else ())
        if isinstance(each, Mapping) and each.get("rel") == rel
    ]


def _headers(given: object) -> dict[str, str]:
    """Return the headers that the next request is to have, without those that the client sets."""
    return {
        name.lower(): str(value)
        for name, value in (given.items() if isinstance(given, Mapping) else ())
        if _HEADER.fullmatch(f"{name}:{value}") and name.lower() not in _OF_CLIENT
    }


def _mapping(answer: JsonAnswer, url: str) -> Mapping[str, Any]:
    if not isinstance(answer.body, Mapping):
        raise StoreError(f"{shown_url(url)} does not answer with a JSON object")
    return answer.body


def _as_folder(url: str) -> str:
    return url if url.endswith("/") else f"{url}/"
