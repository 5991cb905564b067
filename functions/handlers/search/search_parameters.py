"""From the parameters of a search to what is looked for in the catalog. Pure."""

import json
import re
from collections.abc import Iterable, Mapping
from copy import replace
from typing import Any, Final

from handlers.search.scene_answers import NO_COLLECTION
from pixel_gather.core.area import Area, box_of_corners, check_box, check_pair
from pixel_gather.core.errors import RequestError
from pixel_gather.core.request.given_fields import check_names
from pixel_gather.core.scene_conditions import CLOUD_COVER, Where, parse_where
from pixel_gather.core.scenes.catalog_query import Position, SceneQuery
from pixel_gather.core.time_range import ALL_TIMES, TimeRange, parse_time_range

MOST_SCENES: Final = 10_000
MOST_EXPANDED: Final = 500
"""Scenes of a page whose folders are listed. At half a second for each, 500 take 8 s."""

_DEFAULT_LIMIT: Final = 100
_RFC_3339: Final = re.compile(
    r"(\.\.)?|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII | re.IGNORECASE
)
_NEWEST_FIRST: Final = (
    *("-properties.datetime", "-datetime"),
    *([{"field": name, "direction": "desc"}] for name in ("properties.datetime", "datetime")),
)
"""The order of every answer, as a query or a body asks for it."""

_CORNERS: Final = ("lat1", "lng1", "lat2", "lng2")
_POINT: Final = ("lat", "lng")


def area_query(given: Mapping[str, str]) -> tuple[SceneQuery, tuple[str, ...]]:
    """Return the search of ``/area``, and the names of the assets whose links it returns.

    Takes two corners (lat1, lng1, lat2, lng2) in any order, or one point (lat, lng).
    """
    corner, centre = (next(filter(given.get, names), None) for names in (_CORNERS, _POINT))
    if corner and centre:
        raise RequestError("give two corners or a point, not both", field=centre)
    if centre:
        area = Area.of_point(_number(given, "lng"), _number(given, "lat"))
    else:
        area = Area(box_of_corners(*(_number(given, name) for name in _CORNERS)))
    return _want_latest(given, _query(given, area)), _names(given, "assets")


def scenes_query(given: Mapping[str, str]) -> tuple[SceneQuery, tuple[str, ...]]:
    """Return the search of ``/scenes``, and the names of the assets whose links it returns."""
    return _want_latest(given, _query(given, _area(given))), _names(given, "assets")


def item_search_query(given: Mapping[str, Any]) -> SceneQuery:
    """Return what a STAC API's item search looks for, from parameters or from a body.

    Raises:
        RequestError: As `area_query`. Times that are no times of RFC 3339 are wrong here.
    """
    times = given.get("datetime")
    if isinstance(times, str) and not all(map(_RFC_3339.fullmatch, times.split("/"))):
        raise RequestError(
            f"it is {times[:80]!r}; write times as 2024-06-01T00:00:00Z, two with a slash between them for a "
            "period, and .. for an open end",
            field="datetime",
        )
    if given.get("sortby") not in (None, *_NEWEST_FIRST):
        raise RequestError(
            "the newest scenes come first, and there is no other order: write -properties.datetime, or leave "
            "it out",
            field="sortby",
        )
    return _query(given, _area(given))


def body_query(body: object, *, known: Iterable[str]) -> Mapping[str, Any]:
    """Return the parameters of a search's body, without those that are null.

    Raises:
        RequestError: It is no object, has a field that is not known, or has a text where STAC API asks for
            an array.
    """
    if not isinstance(body, Mapping):
        raise RequestError("write a JSON object", field="body")
    given = {name: value for name, value in body.items() if value is not None}
    check_names(given, known)
    for name in ("bbox", "ids", "collections"):
        if isinstance(given.get(name), str):
            raise RequestError("write an array", field=name)
    return given


def parse_limit(given: Mapping[str, Any]) -> int:
    """Return how many scenes a page has; more than the most are not refused, as STAC asks."""
    text = str(given.get("limit", _DEFAULT_LIMIT))
    if not text.isdecimal() or int(text) == 0:
        raise RequestError(f"it is {text!r}; write a whole number from 1 to {MOST_SCENES:,}", field="limit")
    return min(int(text), MOST_SCENES)


def is_expanded(given: Mapping[str, str]) -> bool:
    """Tell whether the folders of scenes are to be listed."""
    text = given.get("expand", "false")
    if text not in ("true", "false"):
        raise RequestError(f"it is {text[:20]!r}; write true or false", field="expand")
    return text == "true"


def _want_latest(given: Mapping[str, str], query: SceneQuery) -> SceneQuery:
    """Want the latest processing of each scene, unless all are asked for."""
    text = given.get("duplicates", "latest")
    if text not in ("latest", "all"):
        raise RequestError(f"it is {text[:20]!r}; write latest or all", field="duplicates")
    return replace(query, is_latest=text == "latest")


def _query(given: Mapping[str, Any], area: Area | None) -> SceneQuery:
    token = given.get("token")
    return SceneQuery(
        area=area,
        times=_times(given.get("datetime")),
        where=_where(given),
        collections=_collections(given),
        ids=frozenset(_names(given, "ids")),
        after=None if token is None else Position.of_token(str(token)),
    )


def _collections(given: Mapping[str, Any]) -> frozenset[str]:
    names = frozenset(_names(given, "collections"))
    return names | {""} if NO_COLLECTION in names else names


def _area(given: Mapping[str, Any]) -> Area | None:
    boxed, shaped, point = given.get("bbox"), given.get("intersects"), given.get("point")
    if sum(each is not None for each in (boxed, shaped, point)) > 1:
        raise RequestError("give one of bbox, intersects and point", field="bbox")
    if boxed is not None:
        return Area(check_box(_numbers(boxed, "bbox"), field="bbox"))
    if point is not None:
        return Area.of_point(*check_pair(_numbers(point, "point"), field="point"))
    if shaped is None:
        return None
    shape = _decode(shaped, "intersects") if isinstance(shaped, str) else shaped
    if not isinstance(shape, Mapping):
        raise RequestError("write a GeoJSON geometry", field="intersects")
    return Area.of_geojson(shape, field="intersects")


def _where(given: Mapping[str, Any]) -> Where:
    query = given.get("query")
    conditions = parse_where(_decode(query, "query") if isinstance(query, str) else query, field="query")
    conditions += parse_where(given.get("where"))
    if (cloud := given.get("cloud_below")) is not None:
        conditions += parse_where({CLOUD_COVER: {"lt": _to_number(cloud, "cloud_below")}})
    return conditions


def _times(given: Any) -> TimeRange:
    if given is None:
        return ALL_TIMES
    if not isinstance(given, str):
        raise RequestError("write a time as text, such as 2024-06-01T00:00:00Z/..", field="datetime")
    return parse_time_range(given)


def _names(given: Mapping[str, Any], field: str) -> tuple[str, ...]:
    asked = given.get(field)
    if asked is None:
        return ()
    names = asked.split(",") if isinstance(asked, str) else asked
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise RequestError("write names, as an array or with commas between them", field=field)
    return tuple(name.strip() for name in names if name.strip())


def _numbers(given: Any, field: str) -> tuple[float, ...]:
    parts = given.split(",") if isinstance(given, str) else given
    if not isinstance(parts, list | tuple):
        raise RequestError("write numbers, as an array or with commas between them", field=field)
    return tuple(_to_number(part, field) for part in parts)


def _number(given: Mapping[str, str], name: str) -> float:
    if name not in given:
        raise RequestError("it is missing: give lat1, lng1, lat2 and lng2, or lat and lng", field=name)
    return _to_number(given[name], name)


def _to_number(given: Any, field: str) -> float:
    wrong = RequestError(f"{repr(given)[:60]} is no number", field=field)
    if isinstance(given, bool):
        raise wrong
    try:
        return float(given)
    except (TypeError, ValueError, OverflowError) as error:
        raise wrong from error


def _decode(text: str, field: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RequestError(f"it is no JSON: {error}", field=field) from error
