"""A request from outside, and the texts in it that have a grammar of their own."""

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from fuzz.mutations import mutated_json as mutated
from pixel_gather.core.area import Area
from pixel_gather.core.errors import RequestError
from pixel_gather.core.request.href_policy import HrefPolicy, check_href
from pixel_gather.core.request.naming import execution_name, with_random_name
from pixel_gather.core.request.request import parse_request
from pixel_gather.core.scene_conditions import parse_where
from pixel_gather.core.time_range import parse_time_range
from pixel_gather.features.rank.ranking_request import RankingRequest
from pixel_gather.features.rank.statistic import Statistic
from pixel_gather.tables.expression import Expression

__all__ = ["fuzz_one", "mutated", "seeds"]

_POLICY: Final = HrefPolicy(
    schemes=frozenset({"s3", "https"}), buckets=frozenset({"b"}), hosts=frozenset({"h.org"})
)
_POLYGON: Final = {"type": "Polygon", "coordinates": [[[10, 47], [11, 47], [11, 48], [10, 48], [10, 47]]]}


def seeds() -> list[bytes]:
    """Return requests that use every field, searches, rankings, and single texts."""
    scenes = {
        "area": _POLYGON,
        "datetime": "2024-06/2024-08",
        "where": "eo:cloud_cover<40 and platform in (a, b)",
        "assets": {"red": "B04"},
    }
    ranking = {"by": "(nir-red)/(nir+red)", "area": {"geojson": _POLYGON}, "statistic": "p10", "top": 3}
    ranking |= {"mask": {"band": "scl", "drop": [3]}, "precision": 0.01, "bands": {"nir": "B08"}}
    window = {"bbox": [10.5, 47.1, 10.6, 47.2], "crs": "EPSG:4326"}
    given: list[Any] = [
        {"sources": "s3://b/list.csv", "window": "centre"},
        {"sources": ["s3://b/a.tif"], "window": window, "bands": [1, 2], "limits": {"usd": 1}},
        {"sources": {"prefix": "s3://b/x/", "glob": "*.tif", "time": "_%Y%m%d_"}, "window": {"size": [8, 8]}},
        {"sources": {"stac": {"api": "https://h.org/stac", **scenes}}, "window": {"pixels": [0, 0, 9, 9]}},
        {"sources": {"catalog": {"file": "s3://b/c.parquet", **scenes}}, "window": {"point": [10.5, 47.1]}},
        {"sources": "l.csv", "window": "centre", "output": {"name": "x", "layout": "time"}, "overview": 1},
        {"rank": ranking},
        {"search": {"where": {"eo:cloud_cover": {"lt": 40}}, "datetime": "2024/..", "geojson": _POLYGON}},
        {"search": {"where": "a>=1.5 and b!=x", "bbox": [170, -10, -170, 10], "point": [1, 2]}},
        {"texts": ["s3://b/a.tif", "https://h.org/a%20b.tif", "p10", "share_above:0.3", "ndvi*2"]},
    ]
    return [json.dumps(each).encode() for each in given]


def fuzz_one(content: bytes) -> None:
    """Parse whatever the JSON is. What is wrong is a RequestError; an href alone is a ValueError."""
    try:
        given = json.loads(content)
    except (ValueError, RecursionError):
        return
    with suppress(RequestError):
        request = parse_request(given)
        execution_name(with_random_name(request), day="2026-01-01")
        assert parse_request(request.to_json()) == request
    if not isinstance(given, Mapping):
        return
    if isinstance(asked := given.get("rank"), Mapping):
        with suppress(RequestError):
            RankingRequest.from_json(asked)
    if isinstance(asked := given.get("search"), Mapping):
        _search(asked)
    if isinstance(texts := given.get("texts"), list):
        for text in texts:
            if isinstance(text, str):
                _text(text)


def _search(asked: Mapping[str, Any]) -> None:
    if isinstance(where := asked.get("where"), str | Mapping):
        with suppress(RequestError):
            parse_where(where)
    if isinstance(times := asked.get("datetime"), str):
        with suppress(RequestError):
            parse_time_range(times)
    if isinstance(geojson := asked.get("geojson"), Mapping):
        with suppress(RequestError):
            Area.of_geojson(geojson, field="geojson")


def _text(text: str) -> None:
    with suppress(ValueError):
        href = check_href(text, policy=_POLICY)
        assert check_href(href, policy=_POLICY) == href
        assert href.startswith(("s3://b/", "https://h.org/"))
    for parse in (Expression.parse, Statistic.parse, parse_time_range, parse_where):
        with suppress(RequestError):
            parse(text)
