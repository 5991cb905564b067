"""Read one point or one polygon through all images, in the order of time."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from pixel_gather.core.area import check_pair
from pixel_gather.core.request.check_arguments import check_arguments
from pixel_gather.core.request.given_fields import check_one_of
from pixel_gather.features.points.measure_points import PointTable
from pixel_gather.features.points.point_pixels import Method
from pixel_gather.features.series.series_rows import PlaceSeries, check_one_feature, naming_place
from pixel_gather.features.zones.measure_zones import ZoneTable
from pixel_gather.in_process.progress import Progress
from pixel_gather.in_process.settings import Settings
from pixel_gather.in_process.table_job import measure_images
from pixel_gather.io.event_loop import run
from pixel_gather.tables.table_request import TableRequest

_MEAN: Final = ("mean",)
_MOST_BARS: Final = 60
"""Most characters of a sparkline."""


@check_arguments
def series(  # noqa: D417 # see `points`
    sources: Any,
    *,
    point: Sequence[float] | None = None,
    geojson: Mapping[str, Any] | None = None,
    by: str | Sequence[str] | None = None,
    mask: Mapping[str, Any] | None = None,
    bands: Mapping[str, str] | None = None,
    raw: bool = False,
    settings: Settings | None = None,
) -> list[dict[str, Any]]:
    """Return the values of all images at a point, or their means in a polygon, in the order of time.

    An image that does not show the place is left out. One that cannot be read is there, with its status. The
    other arguments are those of `points`.

    Args:
        point: Longitude and latitude.
        geojson: A polygon, instead of the point.
        settings: How this machine is used.

    Raises:
        RequestError: A field is wrong. The error names it.
        DeniedError: There are no AWS credentials, or the requested profile does not exist.
    """
    features = place_of(point=point, geojson=geojson)
    request = TableRequest.of(features=features, sources=sources, by=by, mask=mask, bands=bands, raw=raw)
    return run(series_async(request, is_point=point is not None, settings=settings)).rows


def place_of(*, point: Sequence[float] | None, geojson: Mapping[str, Any] | None) -> Any:
    """Return a point or a polygon as features.

    Raises:
        RequestError: There is not exactly one of them, or the GeoJSON has several features.
    """
    places = {"point": point, "geojson": geojson}
    check_one_of([name for name, place in places.items() if place is not None], "point", "geojson")
    if point is None:
        check_one_feature(geojson, field="geojson")
        return geojson
    longitude, latitude = check_pair(point, field="point")
    return [{"lon": longitude, "lat": latitude}]


async def series_async(
    request: TableRequest,
    *,
    is_point: bool,
    settings: Settings | None = None,
    on_progress: Callable[[Progress], None] = lambda _: None,
) -> PlaceSeries:
    """Return the values; see `series`."""
    kind = PointTable(Method()) if is_point else ZoneTable.of(_MEAN, merge=False)
    with naming_place(is_point=is_point):
        columns, images = await measure_images(kind, request, settings=settings, on_progress=on_progress)
    return PlaceSeries.of(images, columns)


def sparkline(values: Sequence[float | None]) -> str:
    """Return one character for each value, from the lowest to the highest; a space where there is none.

    Of many values, each character is the mean of some that follow one another, so that it fits a line.
    """
    every = -(-len(values) // _MOST_BARS)
    if every > 1:
        parts = [
            [value for value in values[start : start + every] if value is not None]
            for start in range(0, len(values), every)
        ]
        values = [sum(part) / len(part) if part else None for part in parts]
    known = [value for value in values if value is not None]
    if not known:
        return " " * len(values)
    low, span = min(known), max(known) - min(known)
    bars = "▁▂▃▄▅▆▇█"
    return "".join(
        " " if value is None else bars[round((value - low) / span * (len(bars) - 1)) if span else 0]
        for value in values
    )
