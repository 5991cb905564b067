"""The grid of a cube or a GeoTIFF that a request names: it is read before the request is checked."""

from collections.abc import Mapping
from typing import Any, Final

from pixel_gather.core.errors import RequestError, SourceError
from pixel_gather.core.model.source import Cost
from pixel_gather.core.model.window import Window
from pixel_gather.core.plan.locate_window import Grid, Placement
from pixel_gather.core.request.request import GatherRequest, parse_request
from pixel_gather.engine.base_cube import find_finished_cube
from pixel_gather.in_process.job import listed, opened_job
from pixel_gather.in_process.places import open_existing
from pixel_gather.in_process.settings import Settings
from pixel_gather.io.cube.zarr_cube import ZarrCube

LIKE: Final = "grid.like"
_FILES: Final = (".tif", ".tiff", ".jp2", ".vrt")


async def fill_like(
    given: Mapping[str, Any] | GatherRequest, settings: Settings
) -> Mapping[str, Any] | GatherRequest:
    """Return a request with the exact box of the cube or file that its ``grid.like`` names.

    Raises:
        RequestError: The place has no grid, or the request names another one, too.
        StoreError: It cannot be read.
    """
    if isinstance(given, GatherRequest) or not isinstance(given, Mapping):  # its check says so
        return given
    asked = given.get("grid")
    if not isinstance(asked, Mapping) or asked.get("like") is None:
        return given
    if others := sorted(asked.keys() - {"like", "resampling"}):
        raise RequestError(f"like gives the whole grid; leave {others[0]} out", field=LIKE)
    if not isinstance(place := asked["like"], str):
        raise RequestError("name a cube or a GeoTIFF", field=LIKE)
    is_file = place.lower().endswith(_FILES)
    sources = given.get("sources")
    sign = sources.get("sign", "none") if isinstance(sources, Mapping) else "none"
    there = await (_grid_of_file(place, sign, settings) if is_file else _grid_of_cube(place, settings))
    if there.transform is None or there.crs is None:
        raise RequestError(f"{place} has no CRS or no geotransform", field=LIKE)
    found = {
        "crs": there.crs,
        "shape": [there.height, there.width],
        "transform": [getattr(there.transform, name) for name in "abcdef"],
    }
    resampling = {name: each for name, each in asked.items() if name == "resampling"}
    return {**given, "grid": found | resampling}


async def _grid_of_file(place: str, sign: Any, settings: Settings) -> Placement:
    """Return the grid of a file. It is signed for as the request's sources are."""
    request = parse_request({"sources": {"hrefs": [place], "sign": sign}, "window": "centre"})
    async with opened_job(request.sources, settings) as job:
        source = next(listed(job.table))
        try:
            header = (await job.sources.open_(source.href, overview=None, cost=Cost())).header
        except SourceError as error:
            raise RequestError(str(error), field=LIKE) from error
    whole = Window(col_off=0, row_off=0, width=header.width, height=header.height)
    return Placement.on(Grid.of(header), whole)


async def _grid_of_cube(place: str, settings: Settings) -> Placement:
    found = await find_finished_cube(ZarrCube(*open_existing(place, settings.stores)), field=LIKE)
    if found.template is None or not found.template.is_aligned:
        raise RequestError(f"the rows of {place} do not share one grid", field=LIKE)
    slot = found.template.slots[0]
    return Placement.on(slot.grid, slot.window)
