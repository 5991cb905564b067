"""Items from files: a collection of items, one item a line, STAC-GeoParquet, or a static catalog."""

import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from itertools import count
from typing import IO, Any, Final

import msgspec

from pixel_gather.core.errors import RequestError
from pixel_gather.core.scenes.skipped_items import SkippedItems
from pixel_gather.core.scenes.whole_hrefs import whole_href, with_whole_hrefs
from pixel_gather.io.scenes.geoparquet import items_of_geoparquet
from pixel_gather.io.store.object_store import Objects
from pixel_gather.io.store.open_list_file import PARQUET_MAGIC, Check, no_deadline, open_list_file

LARGEST_JSON_NBYTES: Final = 128 << 20
MOST_JSON_VALUES: Final = 6_000_000
"""Values that are decoded at one time. Each takes up to some 100 bytes, however few it takes in the file."""

_TOO_LARGE: Final = "it is too large to be decoded at one time: write one item a line, or STAC-GeoParquet"
_MOST_DOCUMENTS: Final = 1_000_000

type CheckLinked = Callable[[str], str]
"""Returns a checked href. Raises RequestError for one that may not be read."""


def items_of_file(
    href: str,
    *,
    objects: Objects,
    check_linked: CheckLinked,
    skipped: SkippedItems,
    check: Check = no_deadline,
) -> Iterator[dict[str, Any]]:
    """Yield the items of a file, whichever of the four kinds it is.

    ``check_linked`` is asked before anything is read that a static catalog links to. ``skipped`` gets lines,
    features and documents that are no items. ``check`` is called again and again.

    Raises:
        RequestError: It is none of the four, or cannot be read.
    """
    name, file = open_list_file(href, objects=objects, check=check, what="catalog")
    with closing(file):
        start = file.peek(len(PARQUET_MAGIC))
        if start[: len(PARQUET_MAGIC)] == PARQUET_MAGIC:
            yield from with_whole_hrefs(items_of_geoparquet(file, name=name, skipped=skipped), href)
            return
        lines = _lines(file, name, check)
        _, first_line = next(lines, (1, b""))
        first = _decode_json(first_line, name)
        if isinstance(first, dict) and first.get("type") in ("Feature", "FeatureCollection"):
            yield from with_whole_hrefs(_read_lines(first, lines, name, skipped), href)
            return
        content = first_line + file.read(LARGEST_JSON_NBYTES + 1 - len(first_line))
    document = first if isinstance(first, dict) else _decode_json(content, name)
    if not isinstance(document, dict):
        said = "an array" if isinstance(document, list) else "neither JSON nor Parquet"
        raise RequestError(f"this is {said}; give a collection of STAC items, or one item a line", field=name)

    def read_linked(linked: str) -> dict[str, Any]:
        linked_name, linked_file = open_list_file(
            check_linked(linked), objects=objects, check=check, what="catalog"
        )
        with closing(linked_file):
            found = _decode_json(linked_file.read(LARGEST_JSON_NBYTES + 1), linked_name)
        if not isinstance(found, dict):
            raise RequestError(f"{linked[:200]} is no JSON object", field="catalog")
        return found

    yield from _items_of_document(document, href, name, read_linked, check, skipped=skipped)


def _items_of_document(
    document: Mapping[str, Any],
    href: str,
    name: str,
    read_linked: Callable[[str], dict[str, Any]],
    check: Check,
    *,
    skipped: SkippedItems,
) -> Iterator[dict[str, Any]]:
    if isinstance(document.get("features"), list) or document.get("type") == "Feature":
        yield from with_whole_hrefs(_features(document, name, skipped), href)
    elif document.get("type") in ("Catalog", "Collection"):
        yield from _follow_links(document, href, read_linked, check, skipped)
    else:
        raise RequestError(
            "it holds no STAC items; give a collection of items, one item a line, or a catalog", field=name
        )


def _read_lines(
    first: dict[str, Any], lines: Iterator[tuple[int, bytes]], name: str, skipped: SkippedItems
) -> Iterator[dict[str, Any]]:
    """Yield the items of a file that has an item, or a collection of items, a line."""
    yield from _features(first, name, skipped)
    for number, line in lines:
        document = _decode_json(line, name)
        if isinstance(document, dict):
            yield from _features(document, f"{name} line {number}", skipped)
        else:
            skipped.add(RequestError("this line is no JSON object", field=f"{name} line {number}"))


def _features(document: Mapping[str, Any], name: str, skipped: SkippedItems) -> Iterator[dict[str, Any]]:
    """Yield the items of a collection of items, or the one item that the document is."""
    features = document.get("features")
    if not isinstance(features, list):
        yield dict(document)
        return
    for number, each in enumerate(features, 1):
        if isinstance(each, dict):
            yield each
        else:
            skipped.add(RequestError("it is no JSON object", field=f"{name} feature {number}"))


def _lines(file: IO[bytes], name: str, check: Check) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that are not blank, with their numbers from 1."""
    for number in count(1):
        check()
        line = file.readline(LARGEST_JSON_NBYTES + 1)
        if len(line) > LARGEST_JSON_NBYTES:
            raise RequestError(_TOO_LARGE, field=name)
        if not line:
            return
        if line.strip():
            yield number, line


def _follow_links(
    document: Mapping[str, Any],
    href: str,
    read_linked: Callable[[str], dict[str, Any]],
    check: Check,
    skipped: SkippedItems,
) -> Iterator[dict[str, Any]]:
    """Follow the links of a static catalog, each document once.

    An item that cannot be read is left out. A catalog below that cannot be read ends all, as nobody knows how
    many items it has.
    """
    waiting = deque(_links(document, href))
    seen = {href}
    while waiting:
        check()
        rel, linked = waiting.popleft()
        if linked in seen:
            continue
        seen.add(linked)
        if len(seen) > _MOST_DOCUMENTS:
            raise RequestError(
                f"the catalog links to more than {_MOST_DOCUMENTS:,} documents", field="catalog"
            )
        try:
            found = read_linked(linked)
        except RequestError as error:
            if rel != "item":
                raise
            skipped.add(error)
            continue
        if rel == "item":
            moved = {**found, "links": []}  # a catalog may be moved, and its links still name its first place
            yield from with_whole_hrefs((moved,), linked)
        else:
            waiting.extend(_links(found, linked))


def _links(document: Mapping[str, Any], href: str) -> Iterator[tuple[str, str]]:
    links = document.get("links")
    for link in links if isinstance(links, list) else ():
        if (
            isinstance(link, dict)
            and link.get("rel") in ("item", "child")
            and isinstance(link.get("href"), str)
        ):
            yield link["rel"], whole_href(link["href"], href)


def _decode_json(content: bytes, name: str) -> Any:
    """Return the JSON; None if it is none.

    Raises:
        RequestError: The decoded JSON would take too much memory. Its values are counted before: each but the
            first follows a comma, a bracket or a brace.
    """
    if len(content) > LARGEST_JSON_NBYTES or sum(map(content.count, (b",", b"[", b"{"))) > MOST_JSON_VALUES:
        raise RequestError(_TOO_LARGE, field=name)
    try:
        return msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        try:
            return json.loads(content)  # NaN, which some writers leave
        except (ValueError, RecursionError):
            return None
