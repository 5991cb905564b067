"""Granules of NASA's Common Metadata Repository as items, by its own search, which pages by a header.

https://cmr.earthdata.nasa.gov/search/site/docs/search/api.html, "Search After".
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlencode

from pixel_gather.core.area import check_box, sides_of, unwrapped_shape, wrap_longitude
from pixel_gather.core.errors import RequestError, StoreError
from pixel_gather.core.scenes.search_criteria import SearchCriteria, wanted_items
from pixel_gather.core.scenes.skipped_items import SkippedItems
from pixel_gather.core.time_range import ALL_TIMES, TimeRange, format_moment
from pixel_gather.io.store.json_http import JsonClient

_PAGE: Final = 2000
_MOST_LOOKED_AT: Final = 1_000_000
"""Granules, wanted or not, after which a search ends in an error, unless ``most`` is higher."""

_SEARCH_AFTER: Final = "cmr-search-after"
_SIDES: Final = ("West", "South", "East", "North")
_KINDS_OF_DATA: Final = ("GET DATA", "GET DATA VIA DIRECT ACCESS")
_GEOTIFF: Final = re.compile(r"\.tiff?$", re.IGNORECASE)
_BEFORE_BAND: Final = (".", "_", "-")
"""What stands between a granule's name and a file's band: HLS writes a point, OPERA and ECOSTRESS a line."""


def cmr_items(
    wanted: SearchCriteria,
    client: JsonClient,
    *,
    collection: Mapping[str, str | None],
    skipped: SkippedItems,
    root: str,
) -> Iterator[dict[str, Any]]:
    """Yield the granules that CMR finds and that are wanted, as STAC items, each once.

    CMR, whose address is ``root``, is asked for a box and for times; all other conditions are checked here.
    The collection has a ``concept_id``, or a ``short_name`` and where needed its ``provider``. ``skipped``
    gets granules without a place, a time or data.

    Raises:
        RequestError: CMR refuses the search.
        NoSceneError: As `wanted_items`.
        BudgetError: More granules are wanted than ``wanted.most``.
        StoreError: An answer is no page of granules.
    """
    url = f"{root}/granules.umm_json?{urlencode(_parameters(wanted, collection))}"
    return wanted_items(_found(url, wanted, client, skipped), wanted, name="granule", skipped=skipped)


def _found(
    url: str, wanted: SearchCriteria, client: JsonClient, skipped: SkippedItems
) -> Iterator[dict[str, Any]]:
    """Yield the granules of all pages, as items."""
    after: str | None = None
    seen: set[str] = set()
    n = 0
    while True:
        answer = client.ask(url, headers={} if after is None else {_SEARCH_AFTER: after})
        found = answer.body.get("items") if isinstance(answer.body, Mapping) else None
        if not isinstance(found, list):
            raise StoreError("CMR does not answer with a page of granules")
        n += len(found)
        if n > (most := max(_MOST_LOOKED_AT, wanted.most)):
            raise StoreError(
                f"CMR has sent over {most:,} granules, wanted or not: narrow the area or the times"
            )
        for granule in found:
            item = _item(granule)
            if item is None:
                its = _identity(granule)
                said = RequestError("it names no place, no time or no data", field=f"granule {its['id']}")
                skipped.add(said, its)
                continue
            yield item
        after = answer.headers.get(_SEARCH_AFTER)
        if after is None or not found:
            return
        if after in seen:
            raise StoreError("CMR repeats its pages; the search cannot be completed")
        seen.add(after)


def _parameters(wanted: SearchCriteria, collection: Mapping[str, str | None]) -> list[tuple[str, str]]:
    area = wanted.area
    given = [
        ("collection_concept_id", collection.get("concept_id")),
        ("short_name", collection.get("short_name")),
        ("provider", collection.get("provider")),
        ("bounding_box", None if area is None else ",".join(f"{side:.9g}" for side in area.box)),
        ("temporal", None if wanted.times == ALL_TIMES else _temporal(wanted.times)),
        ("page_size", str(min(_PAGE, wanted.most + 1))),
    ]
    return [(name, value) for name, value in given if value is not None]


def _temporal(times: TimeRange) -> str:
    start = "" if times.start_us == ALL_TIMES.start_us else format_moment(times.start_us)
    stop = "" if times.stop_us == ALL_TIMES.stop_us else format_moment(times.stop_us)
    return f"{start},{stop}"


def _item(granule: Any) -> dict[str, Any] | None:
    """Return a granule as an item; None where it names no place, no time or no data."""
    umm = granule.get("umm") if isinstance(granule, Mapping) else None
    if not isinstance(umm, Mapping) or not isinstance(umm.get("GranuleUR"), str):
        return None
    times, box, assets = _times(umm), _box(umm), _assets(umm)
    if times is None or box is None or not assets:
        return None
    properties: dict[str, Any] = {"datetime": times[0], "start_datetime": times[0], "end_datetime": times[1]}
    if isinstance(umm.get("CloudCover"), int | float):
        properties["eo:cloud_cover"] = umm["CloudCover"]
    return {
        "type": "Feature",
        "stac_version": "1.0.0",
        **_identity(granule),
        "bbox": box,
        "geometry": None,
        "properties": properties,
        "assets": assets,
    }


def _identity(granule: Any) -> dict[str, Any]:
    """Return the id and collection of a granule, as its item has them."""
    umm = _mapping(_mapping(granule).get("umm"))
    reference = _mapping(umm.get("CollectionReference"))
    collection = reference.get("ShortName") or reference.get("EntryTitle")
    return {"id": umm.get("GranuleUR"), "collection": collection}


def _times(umm: Mapping[str, Any]) -> tuple[str, str] | None:
    extent = _mapping(umm.get("TemporalExtent"))
    period = _mapping(extent.get("RangeDateTime"))
    start = period.get("BeginningDateTime") or extent.get("SingleDateTime")
    return None if not isinstance(start, str) else (start, period.get("EndingDateTime") or start)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _box(umm: Mapping[str, Any]) -> list[float] | None:
    """Return the box around all shapes of a granule; west > east if it crosses the antimeridian.

    The edges of a granule's polygons and lines are great circles, so their box reaches nearer to the pole
    than their corners do. ("Polygon Support in CMR Search & Ingest Interfaces")
    """
    import shapely  # noqa: PLC0415 # a quarter of a function's start, seldom needed

    try:
        geometry = umm["SpatialExtent"]["HorizontalSpatialDomain"]["Geometry"]
        boxes = [
            check_box([each[f"{name}BoundingCoordinate"] for name in _SIDES], field="box")
            for each in geometry.get("BoundingRectangles") or ()
        ]
        rings = [_positions(each["Boundary"]["Points"]) for each in geometry.get("GPolygons") or ()]
        lines = [_positions(each["Points"]) for each in geometry.get("Lines") or ()]
        points = _positions(geometry.get("Points") or ())
        shapes = [shapely.box(*part) for each in boxes for part in sides_of(each)]
        shapes += [*map(shapely.Polygon, rings), *map(shapely.LineString, lines), *map(shapely.Point, points)]
        found = unwrapped_shape(shapely.GeometryCollection(shapes))
        between = [latitude for corners in rings + lines for latitude in _latitudes_between(corners)]
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, shapely.errors.ShapelyError):
        return None
    west, south, east, north = found.bounds
    if found.is_empty:
        return None
    return [west, min([south, *between]), wrap_longitude(east), max([north, *between])]


def _latitudes_between(corners: Sequence[tuple[float, float]]) -> Iterator[float]:
    """Yield the latitudes, in degrees, of 63 places on the great circle from each corner to the next."""
    import numpy as np  # noqa: PLC0415 # as above

    longitude, latitude = np.radians(np.array(corners).T)
    around = np.cos(latitude)
    at = np.array([around * np.cos(longitude), around * np.sin(longitude), np.sin(latitude)])[..., np.newaxis]
    share = np.arange(1, 64) / 64
    x, y, z = at[:, :-1] * (1 - share) + at[:, 1:] * share
    yield from np.degrees(np.arctan2(z, np.hypot(x, y))).flat


def _positions(points: Any) -> list[tuple[float, float]]:
    return [(float(each["Longitude"]), float(each["Latitude"])) for each in points]


def _assets(umm: Mapping[str, Any]) -> dict[str, Any]:
    """Return the granule's files by name; S3 goes before https where both are named."""
    found: dict[str, Any] = {}
    urls = umm.get("RelatedUrls")
    for url in urls if isinstance(urls, list) else ():
        if not isinstance(url, Mapping) or url.get("Type") not in _KINDS_OF_DATA:
            continue
        if not isinstance(href := url.get("URL"), str):
            continue
        name = _asset_name(href.rpartition("/")[2], umm["GranuleUR"])
        if name not in found or href.startswith("s3://"):
            found[name] = {"href": href, "roles": ["data"]}
    return found


def _asset_name(file: str, granule: str) -> str:
    """Return what tells a file from the others of its granule: ``B04`` of ``GRANULE.B04.tif``."""
    stem = _GEOTIFF.sub("", file)
    rest = stem.removeprefix(granule)
    return (rest[1:] if rest != stem and rest[:1] in _BEFORE_BAND else stem) or file
