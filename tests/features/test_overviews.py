"""Gathers onto grids that are coarser than the files: each file is read from the overview that fits."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from rasterio.enums import Resampling
from rasterio.transform import from_origin

from features.test_warp import REQUEST, affine_of
from pixel_gather import Settings, make_plan, verify
from pixel_gather.core.errors import RequestError
from support.projections import WIDTHS, warped_by_gdal, write_projected
from support.undrawn import gather_undrawn, opened

RESOLUTION = 43
LEVELS = {"EPSG:32632": 1, "EPSG:32633": 1, "EPSG:3857": 1, "EPSG:4326": 0, "EPSG:3035": 0}
"""The coarsest overview of 2, 4 and 8 that is not coarser than 43 m along either axis."""


@pytest.mark.long
@pytest.mark.parametrize("resampling", ["nearest", "bilinear", "cubic"])
def test_each_file_is_read_from_the_overview_that_fits(tmp_path: Path, resampling: str) -> None:
    """Rows equal GDAL's warper on that overview, bit for bit, in strips, too."""
    files = [
        str(write_projected(tmp_path, crs, seed=at, n=800, overviews="average"))
        for at, crs in enumerate(WIDTHS)
    ]
    grid = {"crs": "EPSG:32633", "resolution": RESOLUTION, "resampling": resampling}
    request = REQUEST | {"sources": {"hrefs": files}, "grid": grid, "overview": "auto"}
    planned = make_plan(request)

    whole = gather_undrawn(request, to=tmp_path / "cube")
    cut = gather_undrawn(
        request | {"output": {"layout": {"chunk": [1, 7, 16]}}},
        to=tmp_path / "cut",
        settings=Settings(max_task_nbytes=15_000, draws_report=False),
    )

    cube = opened(tmp_path / "cube")
    for row, (file, level) in enumerate(zip(files, LEVELS.values(), strict=True)):
        found = cube["band_1"].values[row]
        expected = warped_by_gdal(
            file, "EPSG:32633", affine_of(cube), found.shape, resampling=resampling, overview=level
        )
        np.testing.assert_array_equal(found, expected, err_msg=file)
    np.testing.assert_array_equal(opened(tmp_path / "cut")["band_1"].values, cube["band_1"].values)
    assert whole.report.n_failed == cut.report.n_failed == 0
    assert cut.report.shape == whole.report.shape
    assert verify(tmp_path / "cube").is_same
    assert planned.slots[0].in_words() == f"warped by {resampling}, from overview 1"
    full = make_plan(request | {"overview": None})
    assert planned.estimate.fetched_nbytes < full.estimate.fetched_nbytes
    assert any("An overview would have fewer to read" in each for each in full.warnings)


@pytest.mark.long
@pytest.mark.parametrize("made_by", ["average", "nearest", "mode"])
def test_classes_come_from_overviews_that_keep_them(tmp_path: Path, made_by: str) -> None:
    """A mean of classes is none: such overviews are not read."""
    red = write_projected(tmp_path, "EPSG:32632", seed=1, n=800, overviews="average")
    scl = write_projected(tmp_path, "EPSG:32632", seed=2, dtype="uint8", n=800, overviews=made_by)
    rows = [{"href": str(file), "band": band, "scene": "s"} for file, band in ((red, "red"), (scl, "scl"))]
    grid = {"crs": "EPSG:32633", "resolution": RESOLUTION}
    request = REQUEST | {"sources": {"rows": rows}, "grid": grid, "overview": "auto"}
    warnings = " ".join(make_plan(request).warnings)

    gather_undrawn(request, to=tmp_path / "cube")

    assert "overview: auto" not in warnings
    assert ("No overview fits that keeps its values" in warnings) == (made_by == "average")

    cube = opened(tmp_path / "cube")
    for name, file, level in (("red", red, 1), ("scl", scl, None if made_by == "average" else 1)):
        found = cube[name].values[0]
        expected = warped_by_gdal(file, "EPSG:32633", affine_of(cube), found.shape, overview=level)
        np.testing.assert_array_equal(found, expected)


def test_blocks_are_made_of_the_overview_that_lies_on_the_grid(tmp_path: Path) -> None:
    """Without a CRS, whole blocks of an overview become one pixel: here 80 m are 2 x 2 of 40 m."""
    with rasterio.open(write_projected(tmp_path, "EPSG:32632", seed=1, nodata=None)) as source:
        profile, pixels = source.profile, source.read()
    files = []
    for at, levels in enumerate([[2, 4], [2, 8], [16], []]):
        files.append(str(tmp_path / f"{at}.tif"))
        with rasterio.open(files[-1], "w", **profile) as target:
            target.write(pixels)
        with rasterio.open(files[-1], "r+") as target:
            target.build_overviews(levels, Resampling.average)
    request: dict[str, Any] = {"window": {"pixels": [0, 0, 400, 400]}, "sources": {"hrefs": files}}
    request |= {"grid": {"resolution": 80}, "overview": "auto"}
    request["window"] = {"pixels": [0, 0, 50, 50]}

    gather_undrawn(request, to=tmp_path / "cube")

    cube = opened(tmp_path / "cube")["band_1"].values
    for row, (file, level) in enumerate(zip(files, (1, 1, None, None), strict=True)):
        with rasterio.open(file, **({} if level is None else {"overview_level": level})) as source:
            own = source.read(1).astype("float64")
        over = len(own) // 50
        blocks = own.reshape(50, over, 50, over).mean(axis=(1, 3))
        np.testing.assert_array_equal(cube[row], np.floor(blocks + 0.5).astype("uint16"))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"grid": "any"}, "overview auto chooses by the grid that all sources get"),
        ({"index": "x.parquet"}, "overview auto does not go with index"),
        ({"overview": "finest"}, "overview"),
    ],
)
def test_refused_in_words(more: dict[str, Any], message: str) -> None:
    """It needs a grid, and headers of the image."""
    request = REQUEST | {"sources": ["/nowhere.tif"], "overview": "auto"}
    with pytest.raises(RequestError, match=message):
        make_plan(request | more)


@pytest.mark.parametrize(
    ("levels", "n_times", "says"),
    [
        ([2, 4], "20.0", "They are those of overview 1, the coarsest that its files have"),
        ([2, 90], "40.0", "They are those of overview 0: the next is coarser than the grid"),
        ([], "80.0", "No overview fits: its files have none, or all are coarser than the grid"),
    ],
)
def test_a_grid_that_passes_over_pixels_says_what_is_read(
    tmp_path: Path, levels: list[int], n_times: str, says: str
) -> None:
    """The overview that is taken, and why no coarser one is."""
    file = write_projected(tmp_path, "EPSG:32632", seed=1, n=800)
    if levels:
        with rasterio.open(file, "r+") as target:
            target.build_overviews(levels, Resampling.average)
    grid = {"crs": "EPSG:32633", "resolution": 800}
    request = REQUEST | {"sources": {"hrefs": [str(file)]}, "grid": grid, "overview": "auto"}

    (said,) = make_plan(request).warnings

    assert said == (
        f"nearest takes few of the pixels: they are {n_times} times as fine as those of the grid. {says}"
    )


def _write_cog(file: Path, *, seed: int, driver: str, **options: Any) -> str:
    """Write a noisy image whose upper fifth is empty, with three overviews. Return its name."""
    pixels = np.random.default_rng(seed).integers(0, 4000, (2, 1000, 900), "uint16")
    pixels[:, :200] = 0
    profile = {"crs": "EPSG:32632", "transform": from_origin(500_000, 5_000_000, 10, 10), "dtype": "uint16"}
    profile |= {"count": 2, "height": 1000, "width": 900, "driver": driver} | options
    with rasterio.open(file, "w", **profile) as target:
        target.write(pixels)
    if driver == "GTiff":  # a COG has overviews already
        with rasterio.open(file, "r+") as target:
            target.build_overviews([2, 4, 8], Resampling.average)
    return str(file)


TILED = {"tiled": True, "blockxsize": 256, "blockysize": 256}
WRITTEN: dict[str, dict[str, Any]] = {
    "COG": {"driver": "COG", "blocksize": 256, "compress": "deflate"},
    "overviews behind": {"driver": "GTiff", "compress": "deflate"} | TILED,
    "bands apart": {"driver": "GTiff", "compress": "zstd", "interleave": "band"} | TILED,
    "as it is": {"driver": "GTiff"} | TILED,
    "strips": {"driver": "GTiff", "compress": "lzw", "tiled": False},
    "for GDAL alone": {"driver": "COG", "blocksize": 256, "compress": "LERC"},
}
WINDOWS: dict[str, dict[str, Any]] = {
    "one tile": {"window": {"tile": "centre"}},
    "all": {"window": {"bbox": [500_000, 4_990_000, 509_000, 5_000_000], "crs": "source"}},
    "a box": {"window": {"bbox": [501_000, 4_991_000, 506_000, 4_997_000], "crs": "source"}},
    "warped": {
        "window": {"bbox": [501_000, 4_991_000, 506_000, 4_997_000], "crs": "EPSG:32632"},
        "grid": {"crs": "EPSG:3857", "resolution": 100},
    },
}


@pytest.mark.long
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize(
    "kind", [pytest.param(each, marks=[] if each == "COG" else pytest.mark.long) for each in WRITTEN]
)
def test_a_plan_says_how_many_bytes_are_read(tmp_path: Path, kind: str, window: str) -> None:
    """Of the image and of its overviews, which share a file, and of which a fifth is empty.

    GDAL chooses its reads itself, so those are only likely.
    """
    most = 2 if kind == "for GDAL alone" else 1.01
    files = [_write_cog(tmp_path / f"{seed}.tif", seed=seed, **WRITTEN[kind]) for seed in range(2)]
    request = WINDOWS[window] | {"sources": {"hrefs": files}, "bands": [2], "nodata": 0}
    for level in (None, 0, 1, *(["auto"] if window == "warped" else [])):
        asked = request | {"overview": level}

        planned = make_plan(asked).estimate.fetched_nbytes
        read = gather_undrawn(asked, to=tmp_path / f"cube {level}").report.fetched_nbytes

        assert read / most < planned < most * read, level


@pytest.mark.long
@pytest.mark.parametrize(("more", "n_read"), [({}, 1), ({"reduce": {"by": "day", "statistic": "mean"}}, 3)])
def test_a_plan_of_failed_sources_says_how_many_bytes_are_read(
    tmp_path: Path, more: dict[str, Any], n_read: int
) -> None:
    """They are like those that the cube has read. A row that is reduced is read anew, with all of them."""
    files = [_write_cog(tmp_path / f"{seed}.tif", seed=seed, **WRITTEN["COG"]) for seed in range(3)]
    listed = tmp_path / "list.csv"
    listed.write_text("".join(["href,time\n", *(f"{each},2020-01-01\n" for each in files)]))
    request = WINDOWS["warped"] | {"sources": listed, "bands": [2], "nodata": 0, "overview": 1} | more
    hidden = Path(files[1]).rename(tmp_path / "hidden")
    gather_undrawn(request, to=tmp_path / "cube")
    hidden.rename(files[1])
    again = request | {"output": {"append_to": tmp_path / "cube"}}

    planned = make_plan(again).estimate.fetched_nbytes
    gather_undrawn(again)

    of_all = opened(tmp_path / "cube")["bytes"].sum().item()
    assert planned == pytest.approx(of_all * n_read / 3, rel=0.01)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["COG", "for GDAL alone"])
def test_an_overview_that_is_not_there_names_its_field(tmp_path: Path, kind: str) -> None:
    """Whoever asked for it corrects the overview, and not the list."""
    file = _write_cog(tmp_path / "a.tif", seed=0, **WRITTEN[kind])
    with pytest.raises(RequestError, match="not overview 9") as caught:
        make_plan({"sources": [file], "window": "centre", "overview": 9})
    assert caught.value.field == "overview"
