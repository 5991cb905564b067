"""Gathers that reduce scenes to rows: equal to xarray's groupby on the cube of all scenes."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
import xarray as xr
from arro3.io import read_parquet

from pixel_gather import (
    Settings,
    compact,
    gather,
    join,
    make_plan,
    make_virtual,
    open_cube,
    retry_failed,
    verify,
)
from pixel_gather.core.errors import RequestError
from pixel_gather.core.model.outcome import BandStats, Outcome, lost
from pixel_gather.core.model.source import CubeRow, Source
from pixel_gather.core.model.status import Status
from pixel_gather.core.read.hide_pixels import merge_strips
from support.images import write_image
from support.projections import BOX as PROJECTED_BOX
from support.projections import write_projected
from support.undrawn import gather_undrawn

type Pixels = np.ndarray[Any, np.dtype[Any]]

SIDE = 48
MAX = {"by": "month", "statistic": "max"}
UTM = "EPSG:32632"
BOX = [300_000, 4_999_520, 300_480, 5_000_000]
WINDOW: dict[str, Any] = {"window": {"pixels": [0, 0, SIDE, SIDE]}}


def scenes(folder: Path, n: int = 23, *, dtype: str = "uint16") -> list[dict[str, Any]]:
    """Write scenes of five months of two years, with classes. Some pixels are missing in all of a month."""
    random, rows = np.random.default_rng(1), []
    for at in range(n):
        red = random.integers(1, 9000, (SIDE, SIDE)).astype(dtype)
        red[random.random((SIDE, SIDE)) < 0.3] = 0
        red[:3, :3] *= at % 5 != 0
        scl = random.integers(1, 6, (SIDE, SIDE)).astype("uint8")
        month = at % 5
        told: dict[str, Any] = {
            "scene": f"s{at}",
            "time": f"{2023 + month // 3}-{1 + 3 * month % 12:02}-{1 + at:02}",
            "cloud": float(random.integers(0, 4)),
            "place": "ab"[at % 2],
        }
        rows.append({"href": write_image(folder / f"red-{at:02}.tif", red), "band": "red"} | told)
        rows.append({"href": write_image(folder / f"scl-{at:02}.tif", scl), "band": "scl"} | told)
    return rows


@pytest.fixture(scope="module")
def listed(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Scenes that no test changes."""
    return scenes(tmp_path_factory.mktemp("scenes"))


@pytest.fixture(scope="module")
def masked(listed: list[dict[str, Any]]) -> dict[str, Any]:
    """A request of them that hides a class."""
    return WINDOW | {"sources": {"rows": listed}, "mask": {"band": "scl", "drop": [3], "dilate": 1}}


@pytest.fixture(scope="module")
def whole(masked: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> xr.Dataset:
    """The cube of all scenes, with NaN for what is missing."""
    place = tmp_path_factory.mktemp("whole") / "cube"
    gather_undrawn(masked, to=place)
    cube: xr.Dataset = xr.open_zarr(place).load()
    return cube


def dated(folder: Path, images: Sequence[Pixels] | Pixels, **how: Any) -> list[dict[str, Any]]:
    """Write images of the first days of a month."""
    return [
        {"href": write_image(folder / f"{n}.tif", each, **how), "time": f"2024-01-0{n + 1}"}
        for n, each in enumerate(images)
    ]


def in_three_crss(folder: Path) -> dict[str, Any]:
    """Write images in three CRSs, and return a request for them."""
    rows = [
        {"href": str(write_projected(folder, crs, seed=n)), "time": f"2024-01-0{n + 1}"}
        for n, crs in enumerate(("EPSG:32632", "EPSG:32633", "EPSG:3035"))
    ]
    return {"window": {"bbox": list(PROJECTED_BOX)}, "sources": {"rows": rows}}


def monthly(rows: list[dict[str, Any]], statistic: str, *, by: str = "month") -> dict[str, Any]:
    """Return a request that reduces scenes."""
    return WINDOW | {"sources": {"rows": rows}, "reduce": {"by": by, "statistic": statistic}}


def opened(place: Path) -> xr.Dataset:
    """Open a cube with NaN for what is missing."""
    cube: xr.Dataset = xr.open_zarr(place).load()
    return cube


def contributors(place: Path) -> dict[str, list[Any]]:
    """Return the columns of the table of sources."""
    table = read_parquet(str(place / "contributors.parquet")).read_all()
    return {str(name): list(table.column(name).to_pylist()) for name in table.schema.names}


JUDGES: dict[str, Callable[[Any], Any]] = {
    "median": lambda groups: groups.median(),
    "mean": lambda groups: groups.mean(),
    "min": lambda groups: groups.min(),
    "max": lambda groups: groups.max(),
    "count": lambda groups: groups.count(),
    "first": lambda groups: groups.first(),
    "last": lambda groups: groups.last(),
    "p10": lambda groups: groups.quantile(0.1),
    "p90": lambda groups: groups.quantile(0.9),
}


@pytest.mark.parametrize(
    "statistic",
    [pytest.param(each, marks=[] if each in ("median", "first") else pytest.mark.long) for each in JUDGES],
)
@pytest.mark.filterwarnings("ignore:All-NaN slice")
def test_reduced_rows_equal_xarrays_groups(
    tmp_path: Path, masked: dict[str, Any], whole: xr.Dataset, statistic: str
) -> None:
    """Computed in float64 and rounded once to the cube's dtype. Clouds and missing pixels do not count."""
    request = masked | {"reduce": {"by": "month", "statistic": statistic}}
    planned = make_plan(request)

    gathered = gather_undrawn(request, to=tmp_path / "cube")

    cube = opened(tmp_path / "cube")
    months = whole["time"].values.astype("datetime64[M]").astype("datetime64[ns]")
    groups = whole["red"].astype("float64").assign_coords(time=months).groupby("time")
    expected = JUDGES[statistic](groups).transpose("time", "y", "x")
    np.testing.assert_array_equal(cube["time"].values, expected["time"].values)
    np.testing.assert_array_equal(cube["red"].values, expected.values.astype(cube["red"].dtype))
    assert set(cube.data_vars) == {"red"}
    assert planned.shape == (5, SIDE, SIDE)
    assert gathered.report.n_sources == 46
    assert cube["sources_used"].values.sum() == 23
    assert not cube["sources_failed"].values.any()
    assert verify(tmp_path / "cube").is_same


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:All-NaN slice")
@pytest.mark.parametrize(
    ("dtype", "of_median", "of_max"),
    [("uint8", "float32", "uint8"), ("int32", "float64", "int32"), ("float32", "float32", "float32")],
)
def test_dtypes(tmp_path: Path, dtype: str, of_median: str, of_max: str) -> None:
    """Medians of up to 16 bits and of float32 are float32, others float64; extremes keep the dtype."""
    rows = [each for each in scenes(tmp_path, 7, dtype=dtype) if each["band"] == "red"]
    pixels = np.stack([rasterio.open(each["href"]).read(1) for each in rows]).astype("float64")
    pixels[pixels == 0] = np.nan
    for statistic, stored, judge in (("median", of_median, np.nanmedian), ("max", of_max, np.nanmax)):
        request = monthly(rows, statistic, by="band")
        with pytest.raises(RequestError, match="the list has no column band"):
            make_plan(request)
        rows = [each | {"all": 1} for each in rows]
        gather_undrawn(monthly(rows, statistic, by="all"), to=tmp_path / statistic)
        cube = xr.open_zarr(tmp_path / statistic, mask_and_scale=False)
        assert cube["red"].dtype == stored
        found = opened(tmp_path / statistic)["red"].values
        np.testing.assert_array_equal(found[0], judge(pixels, axis=0).astype(found.dtype))


@pytest.mark.long
def test_complex_numbers_make_mosaics_and_counts(tmp_path: Path) -> None:
    """These need no order. What needs one is refused, and so is a mean."""
    rows = []
    for day in (1, 2):
        pixels = np.full((SIDE, SIDE), day + 2j, "complex64")
        pixels[: 3 - day] = np.nan
        href = write_image(tmp_path / f"{day}.tif", pixels, nodata=None)
        rows.append({"href": href, "time": f"2024-01-0{day}"})
    request = WINDOW | {"sources": {"rows": rows}}
    expected: dict[str, list[complex]] = {
        "first": [2 + 2j, 1 + 2j],
        "last": [2 + 2j, 2 + 2j],
        "count": [1, 2],
    }
    for statistic, (second, third) in expected.items():
        place = tmp_path / statistic
        gather_undrawn(request | {"reduce": {"by": "month", "statistic": statistic}}, to=place)
        found = xr.open_zarr(place, mask_and_scale=False)["band_1"].values[0]
        assert found.dtype == ("uint16" if statistic == "count" else "complex64")
        assert np.isnan(found[0, 0]) if statistic != "count" else not found[0, 0]
        assert (found[1, 0], found[2, 0]) == (second, third)
    for statistic, said in (("mean", "no mean is made of them"), ("max", "complex numbers have no order")):
        with pytest.raises(
            RequestError, match=f"band_1 is complex64, and {said}: write count, first or last"
        ):
            make_plan(request | {"reduce": {"by": "month", "statistic": statistic}})


def test_a_line_that_is_there_twice_is_told_to_count_twice(tmp_path: Path) -> None:
    """It biases a mean. Nothing is stored for each source."""
    href = write_image(tmp_path / "one.tif", np.ones((SIDE, SIDE), "uint16"), nodata=0)
    rows = [{"href": href, "time": "2024-01-01"}] * 2
    plan = make_plan(monthly(rows, "mean"))

    assert (
        "1 of 2 lines repeats an earlier source, which is read again and counts twice in the result: leave "
        "such lines out"
    ) in plan.warnings


@pytest.mark.long
def test_rows_are_values_of_a_column_or_days_of_the_sun(
    tmp_path: Path, listed: list[dict[str, Any]], whole: xr.Dataset, masked: dict[str, Any]
) -> None:
    """A column becomes a coordinate. The sun's day begins earlier in the east."""
    gather_undrawn(masked | {"reduce": {"by": "place", "statistic": "mean"}}, to=tmp_path / "place")
    cube = opened(tmp_path / "place")
    assert cube["place"].values.tolist() == ["a", "b"]
    expected = whole["red"].astype("float64").groupby(whole["place"]).mean().values.astype("float32")
    np.testing.assert_array_equal(cube["red"].values, expected)

    times = ["2024-05-01T23:00:00Z", "2024-05-01T23:40:00Z", "2024-05-02T10:00:00Z"]
    rows = [{"href": listed[2 * at]["href"], "time": time} for at, time in enumerate(times)]
    box = {"bbox": [300_000, 4_999_520, 300_480, 5_000_000], "crs": "EPSG:32632"}
    for by, days in (("day", ["01", "02"]), ("solar-day", ["01", "02"])):
        request = {"window": box, "sources": {"rows": rows}, "reduce": {"by": by, "statistic": "count"}}
        gather_undrawn(request, to=tmp_path / by)
        found = opened(tmp_path / by)["time"].values.astype("datetime64[D]").astype(str).tolist()
        assert found == [f"2024-05-{day}" for day in days]
    used = [opened(tmp_path / by)["sources_used"].values.tolist() for by in ("day", "solar-day")]
    assert used == [[2, 1], [1, 2]]  # 6.4 degrees east are 26 minutes


@pytest.mark.long
def test_a_mosaic_takes_the_least_cloudy_scene_and_ties_by_href(
    tmp_path: Path, listed: list[dict[str, Any]], whole: xr.Dataset, masked: dict[str, Any]
) -> None:
    """Each pixel is that of the first scene in order that has one; the table says how many each gave."""
    for order, sign in (("cloud", 1), ("-cloud", -1)):
        reduce = {"by": "year", "statistic": "first", "order": order}
        gather_undrawn(masked | {"reduce": reduce}, to=tmp_path / order)
        cube, told = opened(tmp_path / order), contributors(tmp_path / order)
        for row, year in enumerate((2023, 2024)):
            of_year = [each for each in listed[::2] if each["time"].startswith(str(year))]
            of_year.sort(key=lambda each: (sign * each["cloud"], each["href"]))
            expected = np.full((SIDE, SIDE), np.nan)
            given = []
            for each in of_year:
                at = whole["href"].values[:, 0].tolist().index(f"file://{each['href']}")
                taken = np.isnan(expected) & ~np.isnan(whole["red"].values[at])
                expected[taken] = whole["red"].values[at][taken]
                given.append(int(taken.sum()))
            np.testing.assert_array_equal(cube["red"].values[row], expected)
            lines = [n for n, at in enumerate(told["row"]) if at == row and told["band"][n] == "red"]
            assert [told["href"][n] for n in lines] == [f"file://{each['href']}" for each in of_year]
            assert [told["pixels"][n] for n in lines] == given
            assert [told["order"][n] for n in lines] == list(range(len(of_year)))


def test_what_failed_is_told_of_each_row(tmp_path: Path) -> None:
    """A row with a failed source is read, and says so. A row all of whose sources failed is not."""
    rows = scenes(tmp_path, 10)
    Path(rows[0]["href"]).unlink()  # red of the first month
    Path(rows[2]["href"]).unlink()  # both reds of the second
    Path(rows[12]["href"]).unlink()
    Path(rows[5]["href"]).unlink()  # a mask of the third
    request = WINDOW | {"sources": {"rows": rows}, "mask": {"band": "scl", "drop": [3]}}

    request |= {"reduce": {"by": "month", "statistic": "median"}}
    gathered = gather_undrawn(request, to=tmp_path / "cube")

    cube, told = opened(tmp_path / "cube"), contributors(tmp_path / "cube")
    assert cube["status"].values.tolist() == [0, Status.MISSING, 0, 0, 0]
    assert cube["sources_used"].values.tolist() == [1, 0, 1, 2, 2]
    assert cube["sources_failed"].values.tolist() == [1, 2, 1, 0, 0]
    assert np.isnan(cube["red"].values[1]).all()
    assert np.isfinite(cube["red"].values[0]).any()
    assert gathered.report.n_failed == 5
    assert gathered.report.status_counts == {"ok": 15, "missing": 4, "unmasked": 1}
    failures = read_parquet(str(tmp_path / "cube" / "rows.parquet")).read_all().column("failure").to_pylist()
    assert failures[0].startswith(f"1 of 2 sources failed; the first, file://{rows[0]['href']}, is missing")
    assert [told["status"][n] for n, band in enumerate(told["band"]) if band == "red"][:3] == [
        "missing",
        "ok",
        "missing",
    ]
    assert len(told["row"]) == 20


@pytest.mark.long
def test_the_report_tells_of_sources_and_draws_rows(tmp_path: Path) -> None:
    """Its counts and times are those of sources, its pictures those of rows."""
    rows = scenes(tmp_path, 10)
    Path(rows[0]["href"]).unlink()
    request = WINDOW | {"sources": {"rows": rows}, "mask": {"band": "scl", "drop": [3]}}

    gathered = gather(request | {"reduce": {"by": "month", "statistic": "median"}}, to=tmp_path / "cube")

    assert gathered.page is not None
    page = " ".join(re.sub(r"<[^>]*>", " ", Path(gathered.page).read_text()).split())
    assert "5 months, Jan 2023 to Oct 2024: 19 of 20 images read, 1 failed (1 missing)" in page
    assert "19 read 1 missing One bar for each" in page
    assert "2024-10" in page
    assert "2024-10-01" not in page
    assert "Rows: median of the scenes of each month; contributors.parquet tells of each source" in page
    assert "sources read 19 of 20" in page
    assert "Mask: pixels are" in page
    assert "5 of 5 rows" in page


@pytest.mark.long
def test_numbers_that_mean_something_else_are_not_mixed(tmp_path: Path) -> None:
    """Raw values of another scale or nodata are unlike; scaled ones go together."""
    random = np.random.default_rng(3)
    pixels = random.integers(1, 9000, (3, SIDE, SIDE), dtype="uint16")
    scalings = [(0.1, 0.0), (0.1, 0.0), (0.5, 2.0)]
    rows = [
        {"href": write_image(tmp_path / f"{n}.tif", each, scaling=scaling), "time": f"2024-01-0{n + 1}"}
        for n, (each, scaling) in enumerate(zip(pixels, scalings, strict=True))
    ]
    request = monthly(rows, "median")

    gathered = gather_undrawn(request, to=tmp_path / "raw")
    gather_undrawn(request | {"values": "scaled"}, to=tmp_path / "scaled")
    gather_undrawn(request | {"values": "harmonised"}, to=tmp_path / "harmonised")

    raw = xr.open_zarr(tmp_path / "raw", mask_and_scale=False)["band_1"]
    np.testing.assert_array_equal(raw.values[0], np.median(pixels[:2], axis=0).astype("float32"))
    assert raw.attrs["scale_factor"] == 0.1
    assert "write values: scaled" in gathered.report.causes[0].reason
    values = np.stack([each * scale + offset for each, (scale, offset) in zip(pixels, scalings, strict=True)])
    expected = np.median(values.astype("float32"), axis=0)
    np.testing.assert_array_equal(opened(tmp_path / "scaled")["band_1"].values[0], expected)
    told = contributors(tmp_path / "scaled")
    assert told["offset"][2] == "the file declares a scale of 0.5 and an offset of 2"
    assert contributors(tmp_path / "harmonised")["status"] == ["ok", "ok", "unlike"]

    rows[1]["href"] = write_image(tmp_path / "other.tif", pixels[1], scaling=(0.1, 0.0), nodata=7)
    for statistic, statuses in (("max", ["ok", "unlike", "unlike"]), ("median", ["ok", "ok", "unlike"])):
        reduce = {"by": "month", "statistic": statistic}
        gather_undrawn(request | {"sources": {"rows": rows}, "reduce": reduce}, to=tmp_path / statistic)
        assert contributors(tmp_path / statistic)["status"] == statuses


def test_a_median_of_float64_is_numpys(tmp_path: Path) -> None:
    """To the last bit, also between the middle two of an even number."""
    pixels = np.random.default_rng(5).normal(size=(4, SIDE, SIDE)) * 1000
    gather_undrawn(monthly(dated(tmp_path, pixels, nodata=None), "median"), to=tmp_path / "cube")

    found = opened(tmp_path / "cube")["band_1"].values[0]
    np.testing.assert_array_equal(found, np.median(pixels, axis=0))


@pytest.mark.parametrize(
    "statistic",
    ["median", *(pytest.param(each, marks=pytest.mark.long) for each in ("mean", "p10", "count"))],
)
@pytest.mark.parametrize("n_with_nodata", [0, 4])
def test_masked_whole_numbers_need_no_nodata(tmp_path: Path, statistic: str, n_with_nodata: int) -> None:
    """No number marks hidden pixels, so every one that is not hidden counts: also 0, if a file lets it."""
    random, rows = np.random.default_rng(6), []
    stack = random.integers(0, 3, (5, SIDE, SIDE)).astype("float64")
    for n, pixels in enumerate(stack):
        scl = random.integers(1, 6, (SIDE, SIDE)).astype("uint8")
        nodata, told = 0 if n < n_with_nodata else None, {"scene": f"s{n}", "time": f"2024-01-0{n + 1}"}
        image = write_image(tmp_path / f"{n}.tif", pixels.astype("uint16"), nodata=nodata)
        rows += [
            {"href": image, "band": "red"} | told,
            {"href": write_image(tmp_path / f"scl-{n}.tif", scl), "band": "scl"} | told,
        ]
        pixels[(scl == 3) | (pixels == nodata)] = np.nan
    reduced = monthly(rows, statistic)
    request = reduced | {"mask": {"band": "scl", "drop": [3]}}

    gather_undrawn(request, to=tmp_path / "cube")

    found = xr.open_zarr(tmp_path / "cube", mask_and_scale=False)["red"].values
    by_month = xr.DataArray(stack, dims=("time", "y", "x")).groupby(
        xr.DataArray([0] * 5, dims="time", name="g")
    )
    np.testing.assert_array_equal(found, JUDGES[statistic](by_month).values.astype(found.dtype))
    assert contributors(tmp_path / "cube")["status"] == ["ok"] * 10
    if not n_with_nodata:
        with pytest.raises(RequestError, match="where no scene has a pixel, a row needs nodata"):
            make_plan(request | {"reduce": {"by": "month", "statistic": "max"}})


@pytest.mark.long
@pytest.mark.parametrize("statistic", ["first", "min"])
def test_a_source_without_nodata_makes_no_holes(tmp_path: Path, statistic: str) -> None:
    """Its zeros are pixels, and cannot be stored where 0 is nodata. With nodata, they are missing."""
    pixels = np.random.default_rng(5).integers(0, 3, (3, SIDE, SIDE), dtype="uint16")
    rows = [
        {
            "href": write_image(tmp_path / f"{n}.tif", each, nodata=0 if n else None),
            "time": f"2024-01-0{n + 1}",
        }
        for n, each in enumerate(pixels)
    ]
    request = monthly(rows, statistic)

    gathered = gather_undrawn(request, to=tmp_path / "cube")
    gather_undrawn(request | {"nodata": 0}, to=tmp_path / "given")

    assert contributors(tmp_path / "cube")["status"] == ["unlike", "ok", "ok"]
    assert gathered.report.causes[0].reason == (
        "it declares no nodata, and the cube's is 0. If its pixels of 0 are missing, write nodata: 0. "
        "If not, write values: scaled"
    )
    for name, first in (("cube", 1), ("given", 0)):
        found = xr.open_zarr(tmp_path / name, mask_and_scale=False)["band_1"].values[0]
        assert np.array_equal(found == 0, (pixels[first:] == 0).all(axis=0))
    assert contributors(tmp_path / "given")["status"] == ["ok", "ok", "ok"]


@pytest.mark.long
@pytest.mark.parametrize("statistic", ["median", "first"])
def test_layout_strips_and_memory_change_no_pixel(
    tmp_path: Path, listed: list[dict[str, Any]], statistic: str
) -> None:
    """Workers that hold little read a group's scenes strip by strip."""
    rows = [each for each in listed if each["band"] == "red"]
    request = monthly(rows, statistic)
    whole = gather_undrawn(request, to=tmp_path / "whole")
    cut = request | {"output": {"layout": {"chunk": [2, 16, 16]}}}
    n_strips = make_plan(cut, settings=Settings(max_task_nbytes=50_000)).n_strips
    assert n_strips > 1

    strips = gather_undrawn(
        cut, to=tmp_path / "cut", settings=Settings(max_task_nbytes=50_000, draws_report=False)
    )

    one, other = opened(tmp_path / "whole"), opened(tmp_path / "cut")
    np.testing.assert_array_equal(one["red"].values, other["red"].values)
    assert strips.report.status_counts == whole.report.status_counts
    assert contributors(tmp_path / "whole")["pixels"] == contributors(tmp_path / "cut")["pixels"]
    assert verify(tmp_path / "cut").is_same


def test_strips_of_two_versions_of_a_scene_make_no_row(masked: dict[str, Any]) -> None:
    """What is lost in one strip is told of each source; a scene that was replaced spoils its row."""
    plan = make_plan(masked | {"reduce": {"by": "month", "statistic": "median"}})
    source = Source(href="a")
    row = CubeRow(time_us=0, sources=(source,), members=(CubeRow(time_us=0, sources=(source, source)),))

    def strip(etag: str) -> list[Outcome]:
        scenes = [[Outcome(status=Status.OK, etag=each, bands=[BandStats()]) for each in (etag, "mask")]]
        return [Outcome(status=Status.OK, members=scenes, bands=[BandStats()], n_used=1, n_failed=0)]

    def joined(*strips: list[Outcome]) -> Outcome:
        (found,) = merge_strips(plan, strips, row, y_starts=[0, 24])
        return found

    assert joined(strip("1"), strip("1")).status is Status.OK
    replaced = joined(strip("1"), strip("2"))
    assert (replaced.status, replaced.members[0][0].status) == (Status.CHANGED, Status.CHANGED)
    assert replaced.reason == ("one of its sources was replaced after a strip of its window had been read")
    lost_strip = lost(row, n_bands=[1], task_index=7)
    missing = joined(strip("1"), lost_strip)
    assert [missing.status, *(each.status for each in missing.members[0])] == [Status.LOST] * 3


def test_scenes_on_several_grids_are_told_with_the_grid_that_takes_them(tmp_path: Path) -> None:
    """Once, with their number; what the sample said of them is left out."""
    request = in_three_crss(tmp_path) | {"reduce": {"by": "month", "statistic": "median"}}

    gathered = gather_undrawn(request, to=tmp_path / "cube")

    (said,) = (each for each in gathered.report.warnings if "another grid" in each)
    assert said == (
        "2 of 3 sources lie on another grid, so their status is unlike. With --grid WIDTH --grid-crs CRS "
        "(grid: {crs, resolution}) all are warped onto one grid"
    )


@pytest.mark.long
def test_a_mosaic_of_files_in_several_crss(tmp_path: Path) -> None:
    """They are warped onto one grid first: the mosaic is that of the cube of all scenes."""
    request = in_three_crss(tmp_path) | {"grid": {"crs": "utm", "resolution": 20}}
    gather_undrawn(request, to=tmp_path / "whole")

    gather_undrawn(request | {"reduce": {"by": "month", "statistic": "last"}}, to=tmp_path / "mosaic")

    scenes_of = opened(tmp_path / "whole")["band_1"]
    mosaic = opened(tmp_path / "mosaic")
    expected = scenes_of.resample(time="MS").last()
    np.testing.assert_array_equal(mosaic["band_1"].values, expected.values)
    np.testing.assert_array_equal(mosaic["x"].values, scenes_of["x"].values)
    assert sum(contributors(tmp_path / "mosaic")["pixels"]) == np.isfinite(mosaic["band_1"].values).sum()


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:Mean of empty slice")
def test_days_with_few_scenes_share_shards(tmp_path: Path, listed: list[dict[str, Any]]) -> None:
    """Rows of one or two scenes are as many in a shard as those of an ordinary cube."""
    rows = [each for each in listed if each["band"] == "red"]
    rows = [each | {"time": f"2024-01-{1 + at // 2:02}"} for at, each in enumerate(rows)]
    request = monthly(rows, "mean", by="day")
    assert make_plan(request).layout.shard[0] == 12

    gather_undrawn(request, to=tmp_path / "cube")

    pixels = np.stack([rasterio.open(each["href"]).read(1) for each in rows]).astype("float64")
    pixels[pixels == 0] = np.nan
    for row in range(12):
        expected = np.nanmean(pixels[2 * row : 2 * row + 2], axis=0)
        np.testing.assert_array_equal(opened(tmp_path / "cube")["red"].values[row], expected.astype("f4"))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"reduce": {"by": "month", "statistic": "mode"}}, "reduce.statistic: it is 'mode'; write median"),
        ({"reduce": {"by": "month", "statistic": "mean", "order": "cloud"}}, "order is for the statistics"),
        (
            {"reduce": {"by": "month", "statistic": "first", "order": "x"}},
            "the list has no column x; its",
        ),
        (
            {"reduce": {"by": "orbit", "statistic": "mean"}},
            "no column orbit; write day, solar-day, month, year or one of its columns: ",
        ),
        ({"reduce": {"by": "solar-day", "statistic": "mean"}}, "solar-day needs a window by bbox or point"),
        ({"mask": None}, "scl holds classes, which have no median: leave it out, or name it as the mask"),
        ({"output": {"codec": "source"}, "mask": None}, "reduce does not go with output.codec: source"),
        ({"index": "x.parquet"}, "reduce does not go with index"),
        ({"output": {"archive": "medians"}}, "reduce does not go with output.archive"),
        (
            {"output": {"codec": "zfp", "zfp_tolerance": 1.0}, "reduce": MAX},
            "zfp is for float32 and float64, not",
        ),
        ({"duplicates": "fail"}, "duplicates is for appends only"),
        ({"overview": "auto"}, "overview auto chooses by the grid"),
        ({"window": None, "windows": {"table": "x.csv", "size": [8, 8]}}, "windows does not go with"),
    ],
)
def test_refused_in_words(masked: dict[str, Any], more: dict[str, Any], message: str) -> None:
    """What cannot be reduced."""
    with pytest.raises(RequestError, match=message):
        make_plan(masked | {"reduce": {"by": "month", "statistic": "median"}} | more)


def test_a_list_without_times_or_nodata_is_refused(tmp_path: Path) -> None:
    """A month needs a time, and a mosaic of integers a value for what is missing."""
    href = write_image(tmp_path / "one.tif", np.ones((SIDE, SIDE), "uint16"), nodata=None)
    request = WINDOW | {"sources": [href], "reduce": {"by": "month", "statistic": "first"}}
    with pytest.raises(RequestError, match="month needs a time in every row of the list"):
        make_plan(request)
    rows = {"rows": [{"href": href, "time": "2024-01-01"}]}
    with pytest.raises(RequestError, match="where no scene has a pixel, a row needs nodata"):
        make_plan(request | {"sources": rows})
    assert make_plan(request | {"sources": rows, "nodata": 0}).n_rows == 1


@pytest.mark.long
def test_later_uses_of_a_reduced_cube(tmp_path: Path, masked: dict[str, Any]) -> None:
    """It is resumed, verified and reported as any cube. It is not mixed with others."""
    request = masked | {"reduce": {"by": "month", "statistic": "median"}}
    first = gather_undrawn(request, to=tmp_path / "median")
    again = gather_undrawn(request, to=tmp_path / "median")
    gather_undrawn(request | {"reduce": {"by": "month", "statistic": "mean"}}, to=tmp_path / "mean")
    assert again.was_complete
    assert again.report.digest == first.report.digest
    with pytest.raises(RequestError, match="reduce"):
        join([tmp_path / "median", tmp_path / "mean"], to=tmp_path / "copy", mode="copy")
    (tmp_path / "median" / "contributors.parquet").write_bytes(b"other")
    assert not verify(tmp_path / "median").is_same


def months(listed: list[dict[str, Any]], *years: str) -> list[dict[str, Any]]:
    """Return the scenes of some years or months."""
    return [each for each in listed if each["time"].startswith(years)]


@pytest.mark.long
@pytest.mark.parametrize(
    ("reduce", "more"),
    [
        ({"by": "month", "statistic": "median"}, {}),
        ({"by": "month", "statistic": "first", "order": "-cloud"}, {}),
        ({"by": "month", "statistic": "mean"}, {"values": "scaled"}),
        (
            {"by": "month", "statistic": "count"},
            {"grid": {"resolution": 20}, "window": {"bbox": BOX, "crs": UTM}},
        ),
        ({"by": "place", "statistic": "p90"}, {"output": {"expected_rows": 8, "bands": "axis"}}),
    ],
    ids=["median", "mosaic", "scaled", "grid", "column"],
)
def test_months_that_are_appended_equal_those_of_one_gather(
    tmp_path: Path,
    listed: list[dict[str, Any]],
    masked: dict[str, Any],
    reduce: dict[str, str],
    more: dict[str, Any],
) -> None:
    """Scenes of new groups append rows; the scenes that the cube has are left out."""
    split = [months(listed, "2023"), listed]
    if reduce["by"] == "place":
        split[0] = [each for each in listed if each["place"] == "a"]
    request = masked | {"reduce": reduce} | more
    gather_undrawn(request, to=tmp_path / "whole")
    gather_undrawn(request | {"sources": {"rows": split[0]}}, to=tmp_path / "grown")
    append = request | {"output": {"append_to": str(tmp_path / "grown")}}
    n_before = opened(tmp_path / "grown").sizes.get("time", 1)

    planned = make_plan(append)
    grown = gather_undrawn(append)
    again = gather_undrawn(append)

    one, other = opened(tmp_path / "whole"), opened(tmp_path / "grown")
    for name in (*one.data_vars, "x", "y", "status", "sources_used", "valid_fraction"):
        np.testing.assert_array_equal(one[name].values, other[name].values)
    assert planned.n_rows == len(one["sources_used"])
    assert (grown.n_appended, again.n_appended) == (len(one["sources_used"]) - n_before, 0)
    assert verify(tmp_path / "grown").is_same
    told = [contributors(tmp_path / name) for name in ("whole", "grown")]
    for column in ("row", "order", "href", "band", "status", "pixels", "masked", "offset"):
        assert told[0][column] == told[1][column]
    assert grown.report.n_sources == 46
    assert grown.report.status_counts == {"ok": 46}


@pytest.mark.long
def test_a_row_that_is_there_gets_no_scene(
    tmp_path: Path, listed: list[dict[str, Any]], masked: dict[str, Any]
) -> None:
    """A scene of a month that the cube has is refused by name, and so is another way to reduce."""
    request = masked | {"reduce": {"by": "month", "statistic": "median"}}
    gather_undrawn(request | {"sources": {"rows": listed[2:]}}, to=tmp_path / "cube")
    append = request | {"output": {"append_to": str(tmp_path / "cube")}}
    late = re.escape(listed[0]["href"])
    with pytest.raises(
        RequestError, match=f"row month 2023-01-01, which stays .* 1 scene of it, such as .*{late}"
    ):
        gather_undrawn(append)
    with pytest.raises(RequestError, match="duplicates: a scene enters a row once"):
        gather_undrawn(append | {"duplicates": "again"})
    with pytest.raises(RequestError, match="the cube already has 22 rows of this list"):
        gather_undrawn(append | {"duplicates": "fail"})
    for other, said in (
        (
            {"by": "month", "statistic": "mean"},
            "reduce: the cube has the median of each month; .* the mean of each",
        ),
        (None, "reduce: the cube has the median of each month; the new rows would have a row for each scene"),
    ):
        given = {name: each for name, each in append.items() if name != "reduce"}
        with pytest.raises(RequestError, match=said):
            make_plan(given | ({} if other is None else {"reduce": other}))
    gather_undrawn(masked, to=tmp_path / "scenes")
    with pytest.raises(
        RequestError, match="the cube has a row for each scene; the new rows would have the median"
    ):
        make_plan(append | {"output": {"append_to": str(tmp_path / "scenes")}})


@pytest.mark.long
@pytest.mark.parametrize("values", ["raw", "scaled"])
def test_failed_sources_are_tried_again_and_rows_only_gain(tmp_path: Path, values: str) -> None:
    """A row gets what it lacked. It stays as it is where a source that it has was replaced or is gone."""
    rows = scenes(tmp_path, 10)
    lines = [",".join(rows[0]), *(",".join(map(str, each.values())) for each in rows)]
    (tmp_path / "list.csv").write_text("\n".join(lines))
    request = WINDOW | {"sources": str(tmp_path / "list.csv"), "mask": {"band": "scl", "drop": [3]}}
    request |= {"values": values}
    request |= {"reduce": {"by": "month", "statistic": "median"}}
    gather_undrawn(request, to=tmp_path / "whole")
    moved = [rows[0], rows[2], rows[12], rows[5], rows[6]]  # the last one of the last row
    for each in moved:
        Path(each["href"]).rename(each["href"] + ".away")
    gather_undrawn(request, to=tmp_path / "cube")
    before = opened(tmp_path / "cube")
    assert before["sources_failed"].values.tolist() == [1, 2, 1, 0, 1]
    for each in moved:
        Path(each["href"] + ".away").rename(each["href"])
    kept = Path(rows[16]["href"])  # the other one of that row
    kept.rename(tmp_path / "kept.away")

    tried = retry_failed(tmp_path / "cube", settings=Settings(draws_report=False))

    assert tried is not None
    whole, cube = opened(tmp_path / "whole"), opened(tmp_path / "cube")
    assert cube["sources_failed"].values.tolist() == [0, 0, 0, 0, 1]
    for month in range(4):
        np.testing.assert_array_equal(cube["red"].values[month], whole["red"].values[month])
    np.testing.assert_array_equal(cube["red"].values[4], before["red"].values[4])
    assert verify(tmp_path / "cube").is_same
    told = contributors(tmp_path / "cube")
    assert dict(zip(told["href"], told["tries"], strict=True))[f"file://{rows[6]['href']}"] == 2
    assert tried.report.status_counts == {"ok": 19, "missing": 1}
    assert tried.n_retried == 6  # red without its mask, too

    (tmp_path / "kept.away").rename(kept)
    retry_failed(tmp_path / "cube", settings=Settings(draws_report=False))
    np.testing.assert_array_equal(opened(tmp_path / "cube")["red"].values, whole["red"].values)
    assert contributors(tmp_path / "cube")["pixels"] == contributors(tmp_path / "whole")["pixels"]
    assert retry_failed(tmp_path / "cube", settings=Settings(draws_report=False)) is None
    assert verify(tmp_path / "cube").is_same


@pytest.mark.long
def test_an_append_tries_failed_sources_beside_new_rows(tmp_path: Path) -> None:
    """One shard gets a row that is reduced anew, and new ones behind it."""
    rows = [each for each in scenes(tmp_path, 10) if each["band"] == "red"]
    request = WINDOW | {"reduce": {"by": "month", "statistic": "max"}, "output": {"expected_rows": 5}}
    gather_undrawn(request | {"sources": {"rows": rows}}, to=tmp_path / "whole")
    first = Path(rows[0]["href"])
    first.rename(tmp_path / "away")
    gather_undrawn(request | {"sources": {"rows": months(rows, "2023")}}, to=tmp_path / "cube")
    (tmp_path / "away").rename(first)

    grown = gather_undrawn(
        request | {"sources": {"rows": rows}, "output": {"append_to": str(tmp_path / "cube")}}
    )

    assert (grown.n_appended, grown.n_retried) == (2, 1)
    whole, cube = opened(tmp_path / "whole"), opened(tmp_path / "cube")
    np.testing.assert_array_equal(cube["red"].values, whole["red"].values)
    assert cube["sources_failed"].values.tolist() == [0] * 5
    assert verify(tmp_path / "cube").is_same


@pytest.mark.long
@pytest.mark.parametrize(
    "more",
    [
        {"output": {"codec": "zstd"}},
        {"output": {"sharding": False}},
        {"output": {"codec": "zfp", "zfp_tolerance": 0.5}},
        {"output": {"bands": "axis"}},
        {"output": {"expected_rows": 40, "layout": {"chunk": [2, 16, 16], "shard_rows": 4}}},
        {"values": "harmonised"},
        {
            "grid": {"crs": "EPSG:32633", "resolution": 25},
            "window": {"bbox": BOX, "crs": UTM},
            "overview": "auto",
        },
        {"grid": {"resolution": 20, "resampling": "nearest"}, "window": {"bbox": BOX, "crs": UTM}},
        {"masked": True},
    ],
    ids=lambda more: "-".join(map(str, more.get("output", more))),
)
def test_what_goes_with_a_reduction_and_grows(
    tmp_path: Path, listed: list[dict[str, Any]], masked: dict[str, Any], more: dict[str, Any]
) -> None:
    """Medians equal those of the cube of all scenes that the same request makes, with months of an append."""
    request = masked | more | {"reduce": {"by": "month", "statistic": "median"}}
    of_scenes = masked | {name: each for name, each in more.items() if name != "output"}
    gather_undrawn(of_scenes, to=tmp_path / "scenes")
    gather_undrawn(request | {"sources": {"rows": months(listed, "2023")}}, to=tmp_path / "cube")
    gather_undrawn(request | {"output": {"append_to": str(tmp_path / "cube")}})

    scenes_of, cube = opened(tmp_path / "scenes"), opened(tmp_path / "cube")
    found = cube["bands"].sel(band="red") if "bands" in cube else cube["red"]
    when = scenes_of["time"].values.astype("datetime64[M]").astype("datetime64[ns]")
    judged = scenes_of["red"].astype("float64").assign_coords(time=when).groupby("time").median()
    expected = judged.transpose("time", "y", "x").values.astype("float32")
    tolerance = more.get("output", {}).get("zfp_tolerance", 0.0)
    np.testing.assert_allclose(found.values, expected, rtol=0, atol=tolerance)
    assert verify(tmp_path / "cube").is_same


def test_references_to_tiles_are_refused(masked: dict[str, Any], tmp_path: Path) -> None:
    """A reference shows a tile as it is stored."""
    request = WINDOW | {"sources": masked["sources"], "reduce": MAX}
    with pytest.raises(RequestError, match="reduce: references show pixels as they are stored: leave it out"):
        make_virtual(request, to=tmp_path / "refs.json")


@pytest.mark.long
def test_a_cube_that_has_grown_is_compacted_and_its_former_months_open(
    tmp_path: Path, listed: list[dict[str, Any]]
) -> None:
    """As any cube: versions, compaction and the table of sources go together."""
    rows = [each for each in listed if each["band"] == "red"]
    request = WINDOW | {"reduce": MAX, "output": {"expected_rows": 8}}
    gather_undrawn(request | {"sources": {"rows": months(rows, "2023")}}, to=tmp_path / "cube")
    gather_undrawn(request | {"sources": {"rows": rows}, "output": {"append_to": str(tmp_path / "cube")}})
    whole = opened(tmp_path / "cube")["red"].values

    compact(tmp_path / "cube")

    assert open_cube(tmp_path / "cube", version=1)["red"].shape[0] == 3
    np.testing.assert_array_equal(opened(tmp_path / "cube")["red"].values, whole)
    assert verify(tmp_path / "cube").is_same
