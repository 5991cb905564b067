"""Read one pixel of every source in this process. Returns values, makes no cube."""

from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing, closing
from typing import Any

from pixel_gather.core.area import check_pair
from pixel_gather.core.errors import RequestError
from pixel_gather.core.model.window import WindowRule
from pixel_gather.core.request.check_arguments import check_arguments
from pixel_gather.core.request.request import parse_sources
from pixel_gather.core.request.window_request import rule_at
from pixel_gather.features.drill.read_pixels import DrilledPixel
from pixel_gather.features.drill.read_pixels import drill as drill_rows
from pixel_gather.in_process.job import listed, opened_job
from pixel_gather.in_process.settings import Settings
from pixel_gather.io.event_loop import run


@check_arguments
def drill(
    sources: Any,
    *,
    point: tuple[float, float] | None = None,
    xy: tuple[float, float] | None = None,
    pixel: tuple[int, int] | None = None,
    bands: Sequence[int] | None = None,
    settings: Settings | None = None,
) -> list[DrilledPixel]:
    """Return one pixel of every source, in the order of a cube's rows.

    Give exactly one of ``point``, ``xy`` and ``pixel``. A source that cannot be read is included, with its
    status and the reason.

    Args:
        sources: As a request's ``sources``: a list file, hrefs, or a prefix.
        point: Longitude and latitude in degrees.
        xy: Coordinates in each source's own CRS.
        pixel: Column and row of each source.
        bands: Bands to read, from 1; None for all of each source. Of an asset that is named with a band, such
            as ``visual:2``, only this band is read.
        settings: How this machine is used.

    Raises:
        RequestError: The list is wrong, or not exactly one position is given.
        DeniedError: There are no AWS credentials, or the requested profile does not exist.
    """

    async def read_all() -> list[DrilledPixel]:
        pixels = drill_async(sources, point=point, xy=xy, pixel=pixel, bands=bands, settings=settings)
        async with aclosing(pixels):
            return [each async for each in pixels]

    return run(read_all())


@check_arguments
async def drill_async(
    sources: Any,
    *,
    point: tuple[float, float] | None = None,
    xy: tuple[float, float] | None = None,
    pixel: tuple[int, int] | None = None,
    bands: Sequence[int] | None = None,
    settings: Settings | None = None,
) -> AsyncGenerator[DrilledPixel]:
    """Yield one pixel of every source, in the order of a cube's rows; see `drill`."""
    rule = _rule(point=point, xy=xy, pixel=pixel)
    has_numbers = isinstance(bands, Iterable) and all(
        hasattr(each, "__index__") and each > 0 for each in bands
    )
    if bands is not None and not has_numbers:
        raise RequestError(
            f"it is {bands!r}; write a list of numbers, such as [1, 2]; 1 is the first", field="bands"
        )
    async with opened_job(parse_sources(sources), settings or Settings()) as job:
        with closing(listed(job.table)) as sources_of_rows:
            pixels = drill_rows(
                sources_of_rows,
                rule,
                bands=bands,
                band_numbers=job.table.band_numbers,
                access=job.sources,
                most_ahead=job.most_ahead,
            )
            async with aclosing(pixels):
                async for each in pixels:
                    yield each


def _rule(**given: tuple[float, float] | None) -> WindowRule:
    (name, place), *others = [item for item in given.items() if item[1] is not None] or [("", None)]
    if place is None or others:
        raise RequestError("give exactly one of point, xy and pixel", field="drill")
    if name == "pixel":
        col, row = check_pair(place, field=name, names="column, row")
        if not (col.is_integer() and row.is_integer()):
            raise RequestError(f"it is {col:g}, {row:g}; write whole numbers: column, row", field=name)
        return WindowRule(pixels=(int(col), int(row), 1, 1))
    x, y = check_pair(place, field=name, names="x, y" if name == "xy" else "longitude, latitude")
    return rule_at(x, y) if name == "point" else WindowRule(point=(x, y))
