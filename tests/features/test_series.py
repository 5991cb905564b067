"""Whole gathers of real series equal the stacks that rasterio reads, bit by bit."""

import asyncio
import hashlib
import json
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

from parity.truth import full_data
from pixel_gather.core.model.window import WindowRule
from pixel_gather.core.request.sources import Sources
from pixel_gather.features.drill.drill import drill_async
from pixel_gather.features.drill.read_pixels import drill
from pixel_gather.in_process.job import listed, opened_job
from pixel_gather.in_process.settings import Settings
from support.undrawn import gather_undrawn

PROJECT = Path(__file__).parents[2]
OURS = PROJECT / "tests/data/series"
FULL = full_data()

type Series = dict[str, Any]


def _series(folder: Path, *, is_whole: bool) -> list[tuple[Path, str, Series]]:
    sets: dict[str, Series] = json.loads((folder / "series.json").read_text())
    return [
        (folder, name, series)
        for name, series in sets.items()
        if (series["same_grid"] and series["same_dtype_and_bands"]) is is_whole
    ]


def _params(*, is_whole: bool) -> list[Any]:
    ours = [pytest.param(*each, id=each[1]) for each in _series(OURS, is_whole=is_whole)]
    known = {name for _, name, _ in _series(OURS, is_whole=is_whole)}
    whole = [] if FULL is None else _series(FULL, is_whole=is_whole)
    more = [each for each in whole if each[1] not in known]
    return ours + [
        pytest.param(*each, id=each[1], marks=(pytest.mark.full_data, pytest.mark.slow)) for each in more
    ]


def _is_read_once(name: str) -> bool:
    """Return whether one window and point stand for all. This holds for all but one series of JPEG 2000.

    Processes decode it, and each gather starts its own. `parity.test_parity` reads all of each file.
    """
    return name.startswith("s2_") and name != "s2_qi_33TWL_MSK_QUALIT_B01@b"


def _hrefs(folder: Path, series: Series) -> list[str]:
    return [str(folder / member["file"]) for member in series["members"]]


def _stack(place: str) -> np.ndarray[Any, Any]:
    """Return the stored pixels as (row, band, y, x)."""
    cube = xr.open_zarr(place, mask_and_scale=False)
    return np.stack([cube[name].values for name in cube.data_vars], axis=1)


def _sha256(pixels: np.ndarray[Any, Any]) -> str:
    little = np.ascontiguousarray(pixels, dtype=pixels.dtype.newbyteorder("<"))
    return hashlib.sha256(little.tobytes()).hexdigest()


@pytest.mark.long
@pytest.mark.parametrize(("folder", "name", "series"), _params(is_whole=True))
def test_gather_of_a_series_equals_the_stack_that_rasterio_reads(
    folder: Path, name: str, series: Series, tmp_path: Path
) -> None:
    """This holds for every window of every series, also for tiles and overhang."""
    stacks: Series = series["stacks"]
    if _is_read_once(name):
        stacks = {"overhang": stacks["overhang"]}
    for window_name, truth in stacks.items():
        window: Any = {
            "pixels": [truth[each] for each in ("col_off", "row_off", "width", "height")],
        }
        if window_name == "centre_tile":
            window = "centre"
        request = {"sources": _hrefs(folder, series), "window": window}

        gathered = gather_undrawn(request, to=tmp_path / window_name)

        stack = _stack(gathered.place)
        assert list(stack.shape) == truth["shape"], f"{name} {window_name}"
        assert _sha256(stack) == truth["sha256"], f"{name} {window_name}"
        assert gathered.report.n_failed == 0
        assert gathered.report.is_aligned
    if "lonlat_box" in series and "random" in stacks:
        _check_box(_hrefs(folder, series), series["lonlat_box"], within=tmp_path / "random", to=tmp_path)


def _check_box(hrefs: list[str], box: dict[str, float], *, within: Path, to: Path) -> None:
    """Assert that a box holds at least the pixels that it was made from, as it has every pixel it touches."""
    bbox = [box[each] for each in ("west", "south", "east", "north")]
    gathered = gather_undrawn({"sources": hrefs, "window": {"bbox": bbox}}, to=to / "box")

    boxed, wanted = xr.open_zarr(gathered.place), xr.open_zarr(within)
    part = boxed.sel(x=wanted.x, y=wanted.y, method="nearest")
    for variable in wanted.data_vars:
        np.testing.assert_array_equal(part[variable].values, wanted[variable].values)


@pytest.mark.long
@pytest.mark.parametrize(("folder", "name", "series"), _params(is_whole=True))
def test_drill_of_a_series_equals_the_points_that_rasterio_reads(
    folder: Path, name: str, series: Series
) -> None:
    """This holds by pixel and, with a georeference, by longitude and latitude."""
    wanted = {}
    for point in series["points"][: 1 if _is_read_once(name) else None]:
        wanted[WindowRule(pixels=(point["col"], point["row"], 1, 1))] = point["values"]
        if "lon" in point:
            wanted[WindowRule(point=(point["lon"], point["lat"]), crs="EPSG:4326")] = point["values"]
    hrefs = _hrefs(folder, series)

    drilled = asyncio.run(_drilled(hrefs, list(wanted)))

    for rule, values in drilled.items():
        assert str(values) == str(wanted[rule]), f"{name} {rule}"
    if not _is_read_once(name):
        first = series["points"][0]
        alone = asyncio.run(_drilled_alone(hrefs, row=first["row"], col=first["col"]))
        assert str(alone) == str(first["values"]), name


async def _drilled(hrefs: list[str], rules: list[WindowRule]) -> dict[WindowRule, list[list[Any]]]:
    """Drill many points by one reader: GDAL's process, for some formats, takes half a second to start."""
    found = {}
    async with opened_job(Sources(hrefs=tuple(hrefs)), Settings()) as job:
        for rule in rules:
            with closing(listed(job.table)) as sources:
                pixels = drill(
                    sources,
                    rule,
                    bands=None,
                    band_numbers={},
                    access=job.sources,
                    most_ahead=job.most_ahead,
                )
                found[rule] = [list(pixel.values) async for pixel in pixels]
    return found


async def _drilled_alone(hrefs: list[str], *, row: int, col: int) -> list[list[Any]]:
    """Drill one pixel as users do."""
    return [list(pixel.values) async for pixel in drill_async(hrefs, pixel=(col, row))]


@pytest.mark.long
@pytest.mark.parametrize(("folder", "name", "series"), _params(is_whole=False))
def test_gather_of_unlike_sources_says_how_they_are_reconciled(
    folder: Path, name: str, series: Series, tmp_path: Path
) -> None:
    """Other grids make an unaligned stack with a warning. Other dtypes and shapes get the status unlike."""
    truth_width, truth_height = min(64, series["width"]), min(64, series["height"])
    request = {"sources": _hrefs(folder, series), "window": {"pixels": [0, 0, truth_width, truth_height]}}

    any_grid = gather_undrawn(request, to=tmp_path / "any")
    same_grid = gather_undrawn(request | {"grid": "same"}, to=tmp_path / "same")

    if series["same_dtype_and_bands"]:
        assert not any_grid.report.is_aligned, name
        assert "not on one grid" in any_grid.report.to_text()
        assert "x" not in xr.open_zarr(any_grid.place).coords
        assert any("unaligned" in warning for warning in any_grid.report.warnings)
        assert same_grid.report.status_counts["unlike"] > 0
    else:
        assert any_grid.report.status_counts["unlike"] > 0, name
        assert any("status will be unlike" in warning for warning in any_grid.report.warnings)
