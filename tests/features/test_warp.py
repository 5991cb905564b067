"""Gathers of files in several CRSs onto one grid: cubes equal what GDAL's warper makes of each file.

GDAL computes exact coordinates there. No layout, no order and no second try changes a pixel.
"""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
import xarray as xr
from rasterio.shutil import copy
from rasterio.transform import Affine
from rasterio.warp import transform

from pixel_gather import Settings, make_plan, replay, verify
from pixel_gather.core.errors import RequestError
from pixel_gather.core.model.status import Status
from support.images import write_image
from support.projections import BOX, LAT, LON, WIDTHS, warped_by_gdal, write_projected
from support.undrawn import gather_undrawn, opened

TURNED = "+proj=tpeqd +lat_1=46 +lon_1=11.5 +lat_2=47.2 +lon_2=12.9 +datum=WGS84"
"""Its x axis runs to the north-east."""

REQUEST: dict[str, Any] = {"window": {"bbox": BOX}, "grid": {"crs": "utm", "resolution": 10}}


def files_of_all(folder: Path, **options: Any) -> list[str]:
    """Write a file in each CRS."""
    return [str(write_projected(folder, crs, seed=at, **options)) for at, crs in enumerate(WIDTHS)]


def affine_of(cube: xr.Dataset) -> Affine:
    """Return the transform of a cube's pixels, by its coordinates."""
    x, y = cube.x.values, cube.y.values
    width, height = (x[-1] - x[0]) / (len(x) - 1), (y[-1] - y[0]) / (len(y) - 1)
    return Affine(width, 0, x[0] - width / 2, 0, height, y[0] - height / 2)


def check_equals_gdal(place: Path, files: list[str], crs: str, *, rtol: float = 0.0, **options: Any) -> None:
    """Check that each row is what GDAL makes of its file, within a share of the values.

    Cubic means may be near zero between large values, which are 120 at most.
    """
    cube = opened(place)
    affine = affine_of(cube)
    for row, file in enumerate(files):
        found = cube["band_1"].values[row]
        expected = warped_by_gdal(file, crs, affine, found.shape, **options)
        near_zero = 120 * rtol if options.get("resampling") == "cubic" else 0
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=near_zero, err_msg=file)


@pytest.mark.long
@pytest.mark.parametrize("resampling", ["nearest", "bilinear", "cubic"])
@pytest.mark.parametrize(
    ("crs", "resolution"),
    [
        ("EPSG:32632", 10),
        ("EPSG:32633", 10),
        ("EPSG:3857", 15),
        ("EPSG:4326", 2**-13),
        ("EPSG:3035", 7),
        ("EPSG:32631", 35),
    ],
)
def test_cube_equals_gdals_warper(tmp_path: Path, crs: str, resolution: float, resampling: str) -> None:
    """Bit for bit, for files in any CRS, on a grid in any."""
    files = files_of_all(tmp_path)
    grid = {"crs": crs, "resolution": resolution, "resampling": resampling}

    gathered = gather_undrawn(REQUEST | {"sources": {"hrefs": files}, "grid": grid}, to=tmp_path / "cube")

    assert gathered.report.n_failed == 0
    assert gathered.report.is_aligned
    assert verify(tmp_path / "cube").is_same
    assert affine_of(opened(tmp_path / "cube")).a == pytest.approx(resolution)
    check_equals_gdal(tmp_path / "cube", files, crs, resampling=resampling)


@pytest.mark.long
@pytest.mark.parametrize("resampling", ["nearest", "bilinear", "cubic"])
@pytest.mark.parametrize(
    ("bbox", "crs", "resolution"),
    [
        ([-12, 44, 10, 50], "EPSG:3035", 50_000),
        ([176, -20, 184, -10], "EPSG:32760", 20_000),
        ([170, -10, 190, 10], "EPSG:3832", 20_000),
        ([170, -10, 190, 10], "EPSG:4326", 0.5),
        ([-5, -5, 5, 5], "EPSG:4326", 0.5),
    ],
)
def test_longitudes_go_around_the_earth(
    tmp_path: Path, bbox: list[float], crs: str, resolution: float, resampling: str
) -> None:
    """Wherever a global file begins to count them, it has all pixels of the window, as for GDAL."""
    files = []
    for west in (-180, -0.5, 0, 170):
        pixels = np.random.default_rng(0).integers(1, 30_000, (180, 360)).astype("int16")
        path = tmp_path / f"{west}.tif"
        profile = {
            "width": 360,
            "height": 180,
            "count": 1,
            "dtype": "int16",
            "crs": "EPSG:4326",
            "nodata": -1,
        }
        with rasterio.open(path, "w", transform=Affine(1, 0, west, 0, -1, 90), **profile) as target:
            target.write(pixels, 1)
        files.append(str(path))
    grid = {"crs": crs, "resolution": resolution, "resampling": resampling}

    gathered = gather_undrawn(
        {"sources": {"hrefs": files}, "window": {"bbox": bbox, "crs": "EPSG:4326"}, "grid": grid},
        to=tmp_path / "cube",
    )

    assert gathered.report.n_failed == 0
    assert not any("takes few of the pixels" in each for each in gathered.report.warnings)
    assert (opened(tmp_path / "cube")["valid_fraction"].values == 1).all()
    check_equals_gdal(tmp_path / "cube", files, crs, resampling=resampling, missing=-1)


@pytest.mark.long
@pytest.mark.parametrize("resampling", ["nearest", "bilinear", "cubic"])
@pytest.mark.parametrize(
    ("dtype", "nodata"),
    [
        ("uint8", 255),
        ("uint8", 60),
        ("int8", -128),
        ("int16", -1),
        ("uint32", 0),
        ("int64", 0),
        ("float32", None),
        ("float64", -5.0),
        ("float32", float("nan")),
        ("float16", 0),
    ],
)
def test_each_dtype_and_nodata_equals_gdals(
    tmp_path: Path, dtype: str, nodata: float | None, resampling: str
) -> None:
    """Also where sources end in the window. A mean that would be nodata is another number."""
    files = files_of_all(tmp_path, dtype=dtype, nodata=nodata, shift=0.02)
    grid = REQUEST["grid"] | {"resampling": resampling}
    request = REQUEST | {"sources": {"hrefs": files}, "grid": grid}
    if dtype == "int64" and resampling != "nearest":
        with pytest.raises(RequestError, match="pixels of int64 have no exact mean; write nearest"):
            make_plan(request)
        return

    gathered = gather_undrawn(request, to=tmp_path / "cube")

    assert gathered.report.n_overhanging == len(files)
    missing = float("nan") if nodata is None else nodata
    exact = 0.0 if resampling == "nearest" else {"float32": 2e-7, "float64": 1e-8}.get(dtype, 0.0)
    check_equals_gdal(
        tmp_path / "cube", files, "EPSG:32632", missing=missing, resampling=resampling, rtol=exact
    )


@pytest.mark.long
@pytest.mark.parametrize("resampling", ["nearest", "bilinear", "cubic"])
def test_tiles_beside_a_slanting_window_are_not_requested(tmp_path: Path, resampling: str) -> None:
    """The rectangle around a window that is turned by 45 degrees has corners without a wanted pixel."""
    small = write_projected(tmp_path, "EPSG:32632", seed=1, n=1536)
    file = str(tmp_path / "large_tiles.tif")
    copy(small, file, driver="GTiff", compress="deflate", tiled=True, blockxsize=512, blockysize=512)
    (x,), (y,) = transform("EPSG:4326", TURNED, [LON], [LAT])
    window = {"bbox": [x - 3400, y - 3400, x + 3400, y + 3400], "crs": TURNED}
    grid = {"crs": TURNED, "resolution": 20, "resampling": resampling}

    gather_undrawn({"sources": {"hrefs": [file]}, "window": window, "grid": grid}, to=tmp_path / "cube")

    check_equals_gdal(tmp_path / "cube", [file], TURNED, resampling=resampling)
    cube = opened(tmp_path / "cube")
    with rasterio.open(file) as source:
        wanted = sum(source.block_size(1, *at) for at in ((0, 1), (1, 0), (1, 1), (1, 2), (2, 1)))
    assert (cube.bytes - cube.header_bytes).item() == wanted
    assert cube.requests.item() == 1 + 3  # the header, and a range of each row of tiles


@pytest.mark.long
@pytest.mark.parametrize("resampling", ["nearest", "bilinear", "cubic"])
def test_layouts_strips_and_order_change_no_pixel(tmp_path: Path, resampling: str) -> None:
    """A pixel depends on the two grids alone. Also what is outside is so in every strip."""
    files = [
        *files_of_all(tmp_path, shift=0.02),
        str(write_projected(tmp_path, "EPSG:3035", seed=9, shift=1)),
    ]
    grid = REQUEST["grid"] | {"resampling": resampling}
    request = REQUEST | {"sources": {"hrefs": files}, "grid": grid}
    gather_undrawn(request, to=tmp_path / "whole")
    narrow = Settings(max_task_nbytes=40_000)
    strips = request | {"output": {"layout": {"chunk": [1, 7, 61]}}}

    assert make_plan(strips, settings=narrow).n_strips > 5
    gather_undrawn(strips, to=tmp_path / "strips", settings=narrow)
    turned = request | {"sources": {"hrefs": files[::-1]}}
    gather_undrawn(turned, to=tmp_path / "turned", settings=Settings(max_task_nbytes=200_000))

    whole, other, last = (opened(tmp_path / each) for each in ("whole", "strips", "turned"))
    for name in ("band_1", "status", "inside_x_start", "inside_y_stop", "valid_fraction"):
        np.testing.assert_array_equal(whole[name], other[name])
        np.testing.assert_array_equal(whole[name], last[name][::-1])
    assert whole.status.values.tolist() == [Status.OK] * 5 + [Status.OUTSIDE]


@pytest.mark.long
def test_exact_box_is_the_window(tmp_path: Path) -> None:
    """Shape and transform say all. No window is given."""
    files = files_of_all(tmp_path)
    (x,), (y,) = transform("EPSG:4326", "EPSG:3035", [LON], [LAT])
    affine = Affine(9, 0, x - 400.5, 0, -8, y + 299.25)
    grid = {"crs": "EPSG:3035", "shape": [70, 90], "transform": [*affine[:6]]}
    request = {"sources": {"hrefs": files}, "grid": grid}

    gather_undrawn(request, to=tmp_path / "cube")

    cube = opened(tmp_path / "cube")
    assert cube.band_1.shape == (5, 70, 90)
    for row, file in enumerate(files):
        np.testing.assert_array_equal(cube.band_1[row], warped_by_gdal(file, "EPSG:3035", affine, (70, 90)))


@pytest.mark.long
@pytest.mark.parametrize(("anchor", "rest"), [("edge", 0), ("center", 5), ([103, 204], 3)])
def test_anchor_says_where_pixels_lie(tmp_path: Path, anchor: Any, rest: int) -> None:
    """By the place of an edge or a middle."""
    file = str(write_projected(tmp_path, "EPSG:32633", seed=1))
    grid = {"crs": "EPSG:32633", "resolution": 10, "anchor": anchor}

    gather_undrawn(REQUEST | {"sources": {"hrefs": [file]}, "grid": grid}, to=tmp_path / "cube")

    assert (affine_of(opened(tmp_path / "cube")).c - rest) % 10 == 0
    check_equals_gdal(tmp_path / "cube", [file], "EPSG:32633")


def test_bands_of_several_resolutions_and_a_mask_share_the_grid(tmp_path: Path) -> None:
    """Also if bands lie in different CRSs. The mask has no means, and hides pixels of the grid."""
    red, scl = (
        write_projected(tmp_path, f"EPSG:3263{at}", seed=at, dtype=dtype)
        for at, dtype in ((2, "uint16"), (3, "uint8"))
    )
    rows = [{"href": str(file), "band": name, "scene": "s"} for name, file in (("red", red), ("scl", scl))]
    request = {"sources": {"rows": rows}, "mask": {"band": "scl", "drop": list(range(60)), "dilate": 1}}

    request["grid"] = REQUEST["grid"] | {"resampling": "bilinear"}
    gather_undrawn(REQUEST | request, to=tmp_path / "cube")

    cube = opened(tmp_path / "cube")
    shape = cube.red.shape[1:]
    bare, classes = (
        warped_by_gdal(file, "EPSG:32632", affine_of(cube), shape, resampling=resampling)
        for file, resampling in ((red, "bilinear"), (scl, "nearest"))
    )
    hidden = np.pad(classes < 60, 1)
    hidden = np.any([hidden[y : y + shape[0], x : x + shape[1]] for y in range(3) for x in range(3)], axis=0)
    np.testing.assert_array_equal(cube.scl[0], classes)
    np.testing.assert_array_equal(cube.red[0], np.where(hidden, 0, bare))


@pytest.mark.long
def test_rows_that_are_added_lie_on_the_grid_of_the_cube(tmp_path: Path) -> None:
    """Also if their request says nothing of a grid. One of another grid or window is refused with both."""
    files = files_of_all(tmp_path)
    gather_undrawn(REQUEST | {"sources": {"hrefs": files[:2]}}, to=tmp_path / "cube")
    append = {
        "window": {"bbox": BOX},
        "sources": {"hrefs": files[2:]},
        "output": {"append_to": str(tmp_path / "cube")},
    }

    for wrong, said in (
        (
            {"grid": {"crs": "EPSG:32633", "resolution": 10}},
            "the cube has 192 x 186 pixels of 10 in EPSG:32632 from",
        ),
        (
            {"grid": {"resolution": 10}},
            "^grid: the cube .* the new rows would have pixels that are not warped",
        ),
        (
            {"window": {"bbox": [*BOX[:3], BOX[3] + 0.01]}},
            "^window: the cube has 192 x .* the new rows would have 19. x 2",
        ),
        ({"window": "centre"}, "needs a bbox or a point in a named CRS"),
        (
            {"grid": REQUEST["grid"] | {"resampling": "average"}},
            "with crs, resampling is one of nearest, bilinear, cubic, not average",
        ),
    ):
        with pytest.raises(RequestError, match=said):
            gather_undrawn(append | wrong)
    assert gather_undrawn(append).n_appended == 3

    check_equals_gdal(tmp_path / "cube", files, "EPSG:32632")
    assert verify(tmp_path / "cube").is_same
    assert replay(tmp_path / "cube").counts == {"same": 5}


@pytest.mark.long
def test_rows_that_failed_are_tried_again_on_the_grid(tmp_path: Path) -> None:
    """The second try puts the same pixels as a first one would have."""
    files = files_of_all(tmp_path)
    away = Path(files[3]).rename(tmp_path / "away")
    request = REQUEST | {"sources": {"hrefs": files}}
    gather_undrawn(request, to=tmp_path / "cube")
    assert opened(tmp_path / "cube").status.values[3] == Status.MISSING

    away.rename(files[3])
    gather_undrawn(request | {"output": {"append_to": str(tmp_path / "cube")}})

    check_equals_gdal(tmp_path / "cube", files, "EPSG:32632")


def test_cube_grows_from_sources_without_a_grid_only_unwarped(tmp_path: Path) -> None:
    """A cube keeps what it is."""
    file = str(write_projected(tmp_path, "EPSG:32632", seed=1))
    gather_undrawn({"window": {"bbox": BOX}, "sources": {"hrefs": [file]}}, to=tmp_path / "cube")
    append = REQUEST | {"sources": {"hrefs": [str(write_projected(tmp_path, "EPSG:32632", seed=2))]}}

    with pytest.raises(
        RequestError, match="the cube has pixels that are not warped; the new rows would have 1"
    ):
        gather_undrawn(append | {"output": {"append_to": str(tmp_path / "cube")}})


def test_sources_that_are_not_on_the_map_cost_their_own_rows(tmp_path: Path) -> None:
    """Neither what has no CRS, nor what lies elsewhere."""
    good = str(write_projected(tmp_path, "EPSG:32632", seed=1))
    far = str(write_projected(tmp_path, "EPSG:3035", seed=2, shift=3))
    pixels = np.ones((50, 50), "uint16")
    place = Affine(10, 0, 0, 0, -10, 500)
    bare = write_image(tmp_path / "bare.tif", pixels, crs=None, transform=place)

    gathered = gather_undrawn(REQUEST | {"sources": {"hrefs": [good, far, bare]}}, to=tmp_path / "cube")

    assert opened(tmp_path / "cube").status.values.tolist() == [Status.OK, Status.OUTSIDE, Status.UNSUPPORTED]
    assert {each.reason for each in gathered.report.causes} == {
        "the window lies outside its 400 x 400 pixels",
        "has no CRS, without which it cannot be warped",
    }
    (said,) = make_plan(REQUEST | {"sources": {"hrefs": [good, far, bare]}}).warnings
    assert said.startswith("2 of 3 sampled sources do not fit the grid")
    assert said.endswith("Their status will be outside or unsupported")
    with pytest.raises(RequestError, match="outside its 400 x 400 pixels; longitude comes first"):
        make_plan(REQUEST | {"sources": {"hrefs": [far]}})


def test_no_other_turn_is_advised_on_a_grid_in_metres(tmp_path: Path) -> None:
    """PROJ turns longitudes back there, so 284.5 would be refused, too."""
    place = Affine(0.1, 0, 280, 0, -0.1, 50)
    file = write_image(
        tmp_path / "turned.tif", np.ones((100, 100), "float32"), crs="EPSG:4326", transform=place
    )
    request = {"sources": [file], "window": {"point": [-75.5, 10], "size": [8, 8]}}

    with pytest.raises(RequestError, match=r"-75\.5 is 284\.5 there: write that$"):
        make_plan(request)
    with pytest.raises(RequestError, match=r"between latitudes 40 and 50$"):
        make_plan(request | {"grid": {"crs": "EPSG:32618", "resolution": 9000}})


def test_whole_numbers_without_nodata_are_refused(tmp_path: Path) -> None:
    """0 beside a source would look like a value."""
    file = str(write_projected(tmp_path, "EPSG:32632", seed=1, nodata=None))
    request = REQUEST | {"sources": {"hrefs": [file]}}

    says = r"nodata: pixels beside a warped source need a nodata value.*, or write values: scaled"
    with pytest.raises(RequestError, match=says):
        make_plan(request)
    gather_undrawn(request | {"nodata": 200}, to=tmp_path / "cube")
    check_equals_gdal(tmp_path / "cube", [file], "EPSG:32632", missing=200)


NUMPY: dict[str, Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]] = {
    "median": lambda stack: np.nanmedian(stack, axis=0),
    "mean": lambda stack: np.nanmean(stack, axis=0),
    "count": lambda stack: np.count_nonzero(~np.isnan(stack), axis=0),
}
"""Statistics of scenes whose missing pixels are NaN."""


def write_full(folder: Path, crs: str, *, seed: int, dtype: str, shift: float) -> str:
    """Write pixels of all values of 8 bits, 0 among them, without nodata."""
    file = write_projected(folder, crs, seed=seed, dtype=dtype, nodata=None, shift=shift)
    with rasterio.open(file, "r+") as target:
        random = np.random.default_rng(seed)
        pixels = random.integers(0, 256, target.shape) * random.integers(0, 2, target.shape)
        target.write(pixels.astype(dtype), 1)
    return str(file)


def expected_pixels(file: str, cube: xr.Dataset, resampling: str) -> np.ndarray[Any, Any]:
    """Return what GDAL makes of a file as float64, NaN beside it: it gets pixels that are larger by 1.

    A cubic mean over the largest number of the file's dtype is that number.
    """
    larger = Path(file).with_suffix(".larger.tif")
    with rasterio.open(file) as source:
        own, profile = source.read(), source.profile | {"dtype": "uint16"}
    pixels, largest = own.astype("uint16") + 1, np.iinfo(own.dtype).max
    with rasterio.open(larger, "w", **profile) as target:
        target.write(pixels)
    shape = cube.sizes["y"], cube.sizes["x"]
    found = warped_by_gdal(larger, "EPSG:32632", affine_of(cube), shape, resampling=resampling)
    return np.where(found == 0, np.nan, np.minimum(found - 1.0, largest))


@pytest.mark.parametrize(
    "resampling", ["cubic", *(pytest.param(each, marks=pytest.mark.long) for each in ("nearest", "bilinear"))]
)
@pytest.mark.parametrize("dtype", ["uint8", pytest.param("uint16", marks=pytest.mark.long)])
def test_values_beside_a_source_without_nodata_are_nan(tmp_path: Path, dtype: str, resampling: str) -> None:
    """Physical values need no number that marks them. No pixel of 0 gets lost, and none is made."""
    places = (("EPSG:32632", 0.026), ("EPSG:32633", -0.026), ("EPSG:4326", 0.0), ("EPSG:3035", 0.03))
    files = [
        write_full(tmp_path, crs, seed=seed, dtype=dtype, shift=shift)
        for seed, (crs, shift) in enumerate(places)
    ]
    grid = {"crs": "utm", "resolution": 10, "resampling": resampling}
    request = REQUEST | {"sources": {"hrefs": files}, "values": "scaled", "grid": grid}

    gathered = gather_undrawn(request, to=tmp_path / "cube")

    cube = opened(tmp_path / "cube")
    assert gathered.report.n_failed == 0
    for row, file in enumerate(files):
        expected = expected_pixels(file, cube, resampling)
        np.testing.assert_array_equal(cube["band_1"].values[row], expected.astype("float32"))
        assert cube["valid_fraction"].values.ravel()[row] == pytest.approx(np.mean(~np.isnan(expected)))
    assert 0 < cube["valid_fraction"].values.ravel()[1] < 1
    assert (cube["band_1"].values == 0).any()
    assert verify(tmp_path / "cube").is_same
    assert replay(tmp_path / "cube").is_same


@pytest.mark.parametrize(
    "resampling", ["cubic", *(pytest.param(each, marks=pytest.mark.long) for each in ("nearest", "bilinear"))]
)
@pytest.mark.parametrize(
    "statistic", ["median", *(pytest.param(each, marks=pytest.mark.long) for each in ("mean", "count"))]
)
def test_scenes_without_nodata_are_reduced(tmp_path: Path, statistic: str, resampling: str) -> None:
    """Only pixels of the sources count, as their float results tell what is missing by NaN."""
    places = (("EPSG:32632", 0.026), ("EPSG:32633", -0.026), ("EPSG:3035", 0.03))
    files = [
        write_full(tmp_path, crs, seed=seed, dtype="uint8", shift=shift)
        for seed, (crs, shift) in enumerate(places)
    ]
    rows = [{"href": file, "time": f"2020-0{at + 1}-01"} for at, file in enumerate(files)]
    grid = {"crs": "utm", "resolution": 10, "resampling": resampling}
    request = REQUEST | {"sources": rows, "grid": grid}

    reduced = request | {"reduce": {"by": "year", "statistic": statistic}}
    cut = reduced | {"output": {"layout": {"chunk": [1, 16, 16]}}}
    in_strips = Settings(max_task_nbytes=100_000)
    gather_undrawn(reduced, to=tmp_path / "cube")
    gather_undrawn(cut, to=tmp_path / "strips", settings=in_strips)

    cube = opened(tmp_path / "cube")
    assert make_plan(cut, settings=in_strips).n_strips > 1
    np.testing.assert_array_equal(opened(tmp_path / "strips")["band_1"], cube["band_1"])
    stack = np.stack([expected_pixels(file, cube, resampling) for file in files])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of pixels that no scene has
        expected = NUMPY[statistic](stack)
    found = cube["band_1"].values[0]
    np.testing.assert_array_equal(found, expected.astype(found.dtype))
    assert np.isnan(stack).all(axis=0).any()
    for chosen in ("first", "max"):
        with pytest.raises(RequestError, match="where no scene has a pixel, a row needs nodata"):
            make_plan(request | {"reduce": {"by": "year", "statistic": chosen}})


def test_own_values_beside_scaled_ones_still_need_nodata(tmp_path: Path) -> None:
    """The mask's band keeps its numbers."""
    files = [write_full(tmp_path, "EPSG:32633", seed=seed, dtype="uint8", shift=-0.026) for seed in (1, 2)]
    rows = [
        {"href": file, "band": band, "time": "2020-01-01"}
        for file, band in zip(files, ("red", "scl"), strict=True)
    ]
    request = REQUEST | {"sources": rows, "values": "scaled", "mask": {"band": "scl", "drop": [3]}}

    with pytest.raises(RequestError, match=r"the sources of scl declare none: give one$"):
        make_plan(request)
    gather_undrawn(request | {"reduce": {"by": "year", "statistic": "max"}}, to=tmp_path / "cube")

    cube = opened(tmp_path / "cube")
    red, scl = (expected_pixels(file, cube, "nearest") for file in files)
    expected = np.where(np.isnan(scl) | (scl == 3), np.nan, red)
    np.testing.assert_array_equal(cube["red"].values[0], expected.astype("float32"))


def test_plan_says_where_most_pixels_are_passed_over(tmp_path: Path) -> None:
    """An overview would do."""
    file = str(write_projected(tmp_path, "EPSG:32632", seed=1))
    plan = make_plan(
        REQUEST | {"sources": {"hrefs": [file]}, "grid": {"crs": "EPSG:32633", "resolution": 50}}
    )

    assert plan.to_json()["grid"] == {
        "resolution": 50.0,
        "bands": {"every band": "warped by nearest"},
    }
    (said,) = plan.warnings
    assert said == (
        "nearest takes few of the pixels: they are 5.0 times as fine as those of the grid. An overview would "
        "have fewer to read: write overview: auto (--overview auto), or a number from 0, the largest; its "
        "files may have some"
    )
    west, south, east, north = BOX
    one_pixel = {"point": [(west + east) / 2, (south + north) / 2]}
    for resolution in (10, 20):
        grid = {"crs": "EPSG:32633", "resolution": resolution}
        assert not make_plan(
            REQUEST | {"sources": {"hrefs": [file]}, "window": one_pixel, "grid": grid}
        ).warnings


def test_place_between_which_there_is_a_pole_is_told(tmp_path: Path) -> None:
    """Its pixels do not lie between those of the window's edges."""
    pixels = np.ones((180, 360), "float32")
    file = write_image(
        tmp_path / "world.tif", pixels, west=-180, north=90, size=1, crs="EPSG:4326", nodata=None
    )
    request = {
        "sources": {"hrefs": [file]},
        "window": {"bbox": [-2e6, -2e6, 2e6, 2e6], "crs": "EPSG:3413"},
        "grid": {"crs": "EPSG:3413", "resolution": 40_000},
    }

    gathered = gather_undrawn(request, to=tmp_path / "cube")

    (cause,) = gathered.report.causes
    assert cause.reason.startswith("the window has places that do not lie between those of its edges")
