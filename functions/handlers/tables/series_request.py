"""What a series is asked for, by a query or a body: the request of a small table. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from pixel_gather.core.errors import RequestError
from pixel_gather.core.model.window import WindowRule
from pixel_gather.core.request.given_fields import check_names, check_one_of, split_bands
from pixel_gather.core.request.window_request import rule_at
from pixel_gather.features.series.series_rows import check_one_feature

_VALUES: Final = ("by", "mask", "bands", "raw")
_OF_BODY: Final = frozenset({"point", "geojson", "sources", *_VALUES})
_OF_SEARCH: Final = ("datetime", "where", "collections")


def table_of_series(given: Any) -> dict[str, Any]:
    """Return the body of ``POST /tables`` for that of ``POST /series``."""
    if not isinstance(given, Mapping):
        raise RequestError("it must be an object with point or geojson, and sources", field="request")
    check_names(given, _OF_BODY)
    check_one_of(given, "point", "geojson")
    body = {name: given[name] for name in ("sources", *_VALUES) if name in given}
    if "geojson" in given:
        if not isinstance(given["geojson"], Mapping):
            raise RequestError("write a GeoJSON object", field="geojson")
        check_one_feature(given["geojson"], field="geojson")
        return body | {"zones": given["geojson"], "statistics": "mean", "merge": False}
    point = given["point"]
    if not (
        isinstance(point, list)
        and len(point) == 2  # noqa: PLR2004 # longitude and latitude
        and all(isinstance(each, int | float) and not isinstance(each, bool) for each in point)
    ):
        raise RequestError("write [longitude, latitude]", field="point")
    feature = {
        "type": "Feature",
        "properties": {},
        "geometry": {"type": "Point", "coordinates": point},
    }
    return body | {"points": {"type": "FeatureCollection", "features": [feature]}}


def body_of_query(query: Mapping[str, str]) -> dict[str, Any]:
    """Return the body of ``POST /series`` for the query of ``GET /series``."""
    body: dict[str, Any] = {"point": numbers(query.get("point"), field="point")}
    search: dict[str, Any] = {name: query[name] for name in _OF_SEARCH if name in query}
    if "collections" in search:
        search["collections"] = search["collections"].split(",")
    if "list" in query:
        if search or "catalog" in query:
            raise RequestError("give list, or a catalog and what to search in it", field="list")
        body["sources"] = query["list"]
    else:
        body["sources"] = {"catalog": search | ({"file": query["catalog"]} if "catalog" in query else {})}
    if "by" in query:
        body["by"] = query["by"]
    if "mask" in query:
        band, _, values = query["mask"].rpartition(":")
        if not band or not all(each.strip().isdecimal() for each in values.split(",")):
            raise RequestError("write BAND:3,8,9", field="mask")
        body["mask"] = {"band": band, "drop": [int(each) for each in values.split(",")]}
    if "bands" in query:
        body["bands"] = split_bands(query["bands"], field="bands")
    if "raw" in query:
        if query["raw"] not in ("true", "false"):
            raise RequestError("it must be true or false", field="raw")
        body["raw"] = query["raw"] == "true"
    return body


class DrillQuery(Struct, frozen=True, kw_only=True):
    """What ``GET /drill`` asks for."""

    list: str
    rule: WindowRule
    bands: tuple[int, ...] | None

    @classmethod
    def of(cls, query: Mapping[str, str]) -> "DrillQuery":
        """Check a query."""
        check_one_of(query, "point", "pixel")
        if "list" not in query:
            raise RequestError("name a list of the files", field="list")
        if "point" in query:
            x, y = numbers(query["point"], field="point")
            rule = rule_at(x, y)
        else:
            col, row = numbers(query["pixel"], field="pixel")
            if not (col.is_integer() and row.is_integer() and col >= 0 and row >= 0):
                raise RequestError("write a column and a row from 0", field="pixel")
            rule = WindowRule(pixels=(int(col), int(row), 1, 1))
        bands = query["bands"].split(",") if "bands" in query else None
        if bands is not None and not all(each.isdecimal() and int(each) > 0 for each in bands):
            raise RequestError("write numbers from 1 with commas between them", field="bands")
        return cls(list=query["list"], rule=rule, bands=None if bands is None else tuple(map(int, bands)))

    def table(self) -> dict[str, Any]:
        """Return the table of the same pixels.

        Raises:
            RequestError: A table has no pixel of the same column and row.
        """
        if self.rule.point is None:
            raise RequestError(
                "there are too many files or bands for one answer: give point, or fewer bands", field="pixel"
            )
        by = None if self.bands is None else [f"b{number}" for number in self.bands]
        body = {"point": list(self.rule.point), "sources": self.list, "raw": True}
        return table_of_series(body if by is None else body | {"by": by})


def numbers(text: str | None, *, field: str) -> list[float]:
    """Return two numbers of a parameter."""
    try:
        first, second = (float(each) for each in (text or "").split(","))
    except ValueError:
        raise RequestError("write two numbers with a comma between them", field=field) from None
    return [first, second]
