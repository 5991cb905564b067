"""Gathers of many windows: chips."""

import json
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
import xarray as xr
from rasterio.transform import from_origin
from rasterio.warp import transform
from rasterio.windows import Window
from scipy.ndimage import binary_dilation

from pixel_gather import Gathered, Settings, drill, gather, make_plan, open_cube, replay, verify, view
from pixel_gather.core.errors import BudgetError, RequestError, StoreError
from pixel_gather.core.model.status import Status
from pixel_gather.features.export.export import export
from pixel_gather.features.join.join import join
from pixel_gather.features.rows.rows import rows_where
from pixel_gather.features.verify.check_cube import Verified
from pixel_gather.io.geotiff import tiles_into_array
from pixel_gather.io.geotiff.decode import decode_block
from pixel_gather.io.store.object_store import Objects
from support.command_line import run, succeed
from support.geojson import collection, feature, polygon
from support.images import TILES_OF_64, write_image
from support.undrawn import gather_undrawn

SIZE = (40, 24)
N_CHIPS = 11
CRS = "EPSG:32632"
WEST, NORTH, PIXEL = 676_000, 5_154_000, 10

type Pixels = np.ndarray[Any, np.dtype[Any]]


def image(file: Path, *, seed: int, east: int = 0, crs: str = CRS, **options: Any) -> Path:
    """Write an image of 300 x 200 pixels in tiles of 64 x 64."""
    pixels = np.random.default_rng(seed).integers(1, 4000, (2, 200, 300), dtype="uint16")
    write_image(file, pixels, west=WEST + east, north=NORTH, size=PIXEL, crs=crs, **TILES_OF_64 | options)
    return file


def listed(folder: Path, files: Mapping[str, Path]) -> str:
    """Write a list of files by time, with a column."""
    lines = [f"{file},{time},{number}" for number, (time, file) in enumerate(files.items())]
    (folder / "list.csv").write_text("\n".join(["href,time,cloud", *lines]))
    return str(folder / "list.csv")


def chips_at(folder: Path, n: int = N_CHIPS) -> tuple[str, dict[str, tuple[float, float]]]:
    """Write a table of chips spread over the images, some across their edges. Return it and its points."""
    rng = np.random.default_rng(3)
    xs, ys = WEST + rng.uniform(-150, 3150, n), NORTH - rng.uniform(-100, 2100, n)
    lons, lats = transform(CRS, "EPSG:4326", xs, ys)
    points = {
        f"c{n}": (round(lon, 9), round(lat, 9)) for n, (lon, lat) in enumerate(zip(lons, lats, strict=True))
    }
    lines = [
        f"{name},{lon!r},{lat!r},{'ab'[n % 2]},{n}" for n, (name, (lon, lat)) in enumerate(points.items())
    ]
    (folder / "chips.csv").write_text("\n".join(["id,lon,lat,label,weight", *lines]))
    return str(folder / "chips.csv"), points


def by_rasterio(file: Path, lon: float, lat: float) -> Pixels:
    """Return a chip as rasterio reads it, with 0 outside the image."""
    with rasterio.open(file) as opened:
        (x,), (y,) = transform("EPSG:4326", opened.crs, [lon], [lat])
        col, row = ~opened.transform @ (x, y)
        width, height = SIZE
        window = Window(int(np.floor(col)) - width // 2, int(np.floor(row)) - height // 2, width, height)
        found: Pixels = opened.read(window=window, boundless=True, fill_value=0)
        return found


def chips_of(sources: str | list[str], table: str | Path) -> dict[str, Any]:
    """Return the request of the chips of a table."""
    return {"sources": sources, "windows": {"table": str(table), "size": SIZE}}


def gathered(folder: Path, files: Mapping[str, Path], **request: Any) -> Gathered:
    """Gather the chips of these files, without a report."""
    table, _ = chips_at(folder)
    return gather_undrawn(chips_of(listed(folder, files), table) | request, to=folder / "cube")


def raw(gathered: Gathered) -> xr.Dataset:
    """Open a cube without masking."""
    found: xr.Dataset = xr.open_zarr(gathered.place, mask_and_scale=False, decode_times=False)
    return found


def three_images(folder: Path) -> dict[str, Path]:
    """Write two images of one place, and one further east in another zone."""
    return {
        "2024-01-01": image(folder / "a.tif", seed=1),
        "2024-02-01": image(folder / "b.tif", seed=2, interleave="band"),
        "2024-03-01": image(folder / "c.tif", seed=3, east=1500),
    }


@pytest.mark.parametrize("west", [-180, 0])
def test_longitudes_go_around_the_earth(tmp_path: Path, west: int) -> None:
    """Chips and a drilled point lie on an image of the whole Earth, wherever it begins to count."""
    pixels = np.arange(360 * 180, dtype="uint16").reshape(180, 360)
    file = write_image(tmp_path / "earth.tif", pixels, west=west, north=90, size=1, crs="EPSG:4326")
    lons = [-10.5, 349.5, 190.5, -169.5]
    (tmp_path / "chips.csv").write_text("\n".join(["lon,lat", *(f"{lon},20.5" for lon in lons)]))
    windows = {"table": str(tmp_path / "chips.csv"), "size": [3, 3]}

    cube = raw(gather_undrawn({"sources": [str(file)], "windows": windows}, to=tmp_path / "cube"))
    drilled = [drill([str(file)], point=(lon, 20.5))[0].values for lon in lons[::3]]
    right, left = (drill([str(file)], point=(lon, 20.5))[0] for lon in (west + 360, west))

    expected = {lon: pixels[68:71, (cols := int(np.floor(lon - west)) % 360) - 1 : cols + 2] for lon in lons}
    for lon, chip in zip(cube.lon.values.tolist(), cube.band_1.values[:, 0], strict=True):
        np.testing.assert_array_equal(chip, expected[lon])
    assert drilled == [(expected[lon][1, 1],) for lon in lons[::3]]
    assert right.values == left.values == (pixels[69, 0],)  # they are one meridian


@pytest.mark.long
def test_each_chip_of_each_image_equals_rasterios_window(tmp_path: Path) -> None:
    """The pixels of all chips, also of those across an edge, are rasterio's bit for bit."""
    files = three_images(tmp_path)
    files["2024-04-01"] = image(tmp_path / "d.tif", seed=4, crs="EPSG:32633")  # far away
    done = gathered(tmp_path, files)
    _, points = chips_at(tmp_path)
    cube = raw(done)

    assert cube["band_1"].dims == ("chip", "time", "y", "x")
    assert dict(cube.sizes) | {"chip": N_CHIPS, "time": 4, "y": 24, "x": 40} == dict(cube.sizes)
    for name, (lon, lat) in points.items():
        for at, file in enumerate(files.values()):
            expected = by_rasterio(file, lon, lat)
            cell = cube.sel(chip=name).isel(time=at)
            np.testing.assert_array_equal(np.stack([cell["band_1"], cell["band_2"]]), expected)
            is_there = bool(expected.any())
            assert (cell["status"] == (Status.OK if is_there else Status.ABSENT)).all()
    assert (cube["status"].isel(time=3) == Status.ABSENT).all()
    was_read = cube["status"].values[..., 0] == Status.OK
    assert (cube["bytes"].values[was_read] > 0).all()
    assert int(cube["requests"].sum()) == done.report.requests > 0
    assert done.report.n_failed == 0
    assert verify(done.place).is_same


@pytest.mark.long
def test_masked_chips_equal_rasterios_masked_window(tmp_path: Path) -> None:
    """Pixels that a mask hides hold nodata, as with one window."""
    file = image(tmp_path / "a.tif", seed=1)
    with rasterio.open(file, "r+") as opened:
        opened.write_mask(np.random.default_rng(8).integers(0, 2, (200, 300)).astype("uint8") * 255)
    done = gathered(tmp_path, {"2024-01-01": file}, masked=True)
    _, points = chips_at(tmp_path)
    cube = raw(done)

    for name, (lon, lat) in points.items():
        with rasterio.open(file) as opened:
            (x,), (y,) = transform("EPSG:4326", opened.crs, [lon], [lat])
            col, row = ~opened.transform @ (x, y)
            window = Window(int(np.floor(col)) - 20, int(np.floor(row)) - 12, 40, 24)
            hidden = opened.read_masks(1, window=window, boundless=True) == 0
            expected = np.where(hidden, 0, opened.read(1, window=window, boundless=True, fill_value=0))
        np.testing.assert_array_equal(cube.sel(chip=name)["band_1"][0], expected)


def test_columns_of_the_table_and_of_the_list_become_coordinates(tmp_path: Path) -> None:
    """Chips have ids, middles and labels; images have times, hrefs and columns; cells have the rest."""
    done = gathered(tmp_path, three_images(tmp_path))
    _, points = chips_at(tmp_path)
    cube = done.open()

    assert {name: cube[name].dims for name in ("chip", "lon", "lat", "label", "weight")} == dict.fromkeys(
        ("chip", "lon", "lat", "label", "weight"), ("chip",)
    )
    assert {name: cube[name].dims for name in ("time", "href", "cloud")} == dict.fromkeys(
        ("time", "href", "cloud"), ("time",)
    )
    assert cube["transform"].dims == ("chip", "time", "affine")
    assert cube["cloud"].values.tolist() == [0, 1, 2]
    for name, (lon, lat) in points.items():
        chip = cube.sel(chip=name)
        assert (float(chip["lon"]), float(chip["lat"])) == (lon, lat)
        assert str(chip["label"].values) == "ab"[int(name[1:]) % 2]
        assert int(chip["weight"]) == int(name[1:])
    kept = cube.sel(time=cube["cloud"] < 2)
    assert kept.sizes["time"] == 2
    assert (rows_where(done.place, "label=a and time>2024-02-15").size) == (N_CHIPS + 1) // 2


@pytest.mark.long
def test_bands_of_a_list_become_measurements_of_chips(tmp_path: Path) -> None:
    """A scene of two files has one row for each chip."""
    red, nir = image(tmp_path / "r.tif", seed=1), image(tmp_path / "n.tif", seed=2)
    (tmp_path / "l.csv").write_text(f"href,time,band\n{red},2024-01-01,red\n{nir},2024-01-01,nir\n")
    table, points = chips_at(tmp_path)
    done = gather_undrawn(chips_of(str(tmp_path / "l.csv"), table), to=tmp_path / "cube")
    cube = raw(done)

    for name, (lon, lat) in points.items():
        cell = cube.sel(chip=name).isel(time=0)
        np.testing.assert_array_equal(cell["red"], by_rasterio(red, lon, lat)[0])
        np.testing.assert_array_equal(cell["nir"], by_rasterio(nir, lon, lat)[0])
    assert cube["href"].dims == ("time", "measurement")
    assert verify(done.place).is_same


def masked_scene(folder: Path, *, mask: Path) -> tuple[Path, dict[str, Any], dict[str, tuple[float, float]]]:
    """Return the first band of a scene, the request of its chips below a mask, and the chips."""
    red = image(folder / "r.tif", seed=1)
    (folder / "l.csv").write_text(
        f"href,time,band\n{red},2024-01-01,red\n{mask},2024-01-01,clouds\n", encoding="utf-8"
    )
    table, points = chips_at(folder)
    mask_of = {"band": "clouds", "drop": list(range(1, 900)), "dilate": 1}
    return red, chips_of(str(folder / "l.csv"), table) | {"bands": [1], "mask": mask_of}, points


@pytest.mark.long
def test_a_band_hides_pixels_of_chips(tmp_path: Path) -> None:
    """As in a cube of one window: what it drops, what is around that, and where it has no value."""
    clouds = image(tmp_path / "c.tif", seed=2)
    red, request, points = masked_scene(tmp_path, mask=clouds)
    done = gather_undrawn(request, to=tmp_path / "cube")
    cube = raw(done)

    n_hidden = 0
    for name, (lon, lat) in points.items():
        classes, shown = (by_rasterio(each, lon, lat)[0] for each in (clouds, red))
        away = binary_dilation((classes > 0) & (classes < 900), np.ones((3, 3))) | (classes == 0)
        cell = cube.sel(chip=name).isel(time=0)
        np.testing.assert_array_equal(cell["clouds"], classes)
        np.testing.assert_array_equal(cell["red"], np.where(away, 0, shown))
        n_hidden += int((away & (shown > 0)).sum())
        if classes.any():
            assert float(cell["masked"]) == away.mean()
    assert n_hidden > 0
    assert done.report.n_failed == 0
    assert verify(done.place).is_same


def test_a_mask_with_other_pixels_hides_no_chip(tmp_path: Path) -> None:
    """A mask that lies beside the pixels costs its rows. One of another resolution is refused at once."""
    beside = image(tmp_path / "c.tif", seed=2, east=4)
    _, request, _ = masked_scene(tmp_path, mask=beside)
    cube = raw(gather_undrawn(request, to=tmp_path / "cube"))
    of_red = cube["status"].isel(measurement=0)

    assert (of_red == Status.UNLIKE).any()
    assert (of_red != Status.OK).all()
    assert (cube["red"] == 0).all()

    with rasterio.open(beside, "r+") as opened:
        opened.transform = from_origin(WEST, NORTH, 2 * PIXEL, 2 * PIXEL)
    with pytest.raises(
        RequestError, match="clouds are 20 wide and those of red 10, and chips have no common"
    ):
        make_plan(request)


@pytest.mark.long
def test_chips_have_scaled_values(tmp_path: Path) -> None:
    """Pixels become what they stand for, and NaN where nothing is."""
    file = image(tmp_path / "a.tif", seed=1)
    with rasterio.open(file, "r+") as opened:
        opened.scales, opened.offsets = (0.5, 0.25), (-3.0, 2.0)
    done = gathered(tmp_path, {"2024-01-01": file}, values="scaled")
    _, points = chips_at(tmp_path)
    cube = raw(done)

    for name, (lon, lat) in points.items():
        stored = by_rasterio(file, lon, lat)
        cell = cube.sel(chip=name).isel(time=0)
        for band, scale, offset in (("band_1", 0.5, -3.0), ("band_2", 0.25, 2.0)):
            pixels = stored[int(band[-1]) - 1]
            expected = np.where(pixels == 0, np.nan, pixels * scale + offset).astype("float32")
            np.testing.assert_array_equal(cell[band], expected)
    assert done.report.n_failed == 0
    assert verify(done.place).is_same


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> Counter[bytes]:
    """Count how often each tile is decoded."""
    counts: Counter[bytes] = Counter()

    def counting(content: memoryview, *others: Any) -> None:
        counts[bytes(content)] += 1
        decode_block(content, *others)

    monkeypatch.setattr(tiles_into_array, "decode_block", counting)
    return counts


def test_every_tile_of_a_task_is_fetched_and_decoded_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, decoded: Counter[bytes]
) -> None:
    """Though chips overlap, no byte of an image comes twice, and no tile is decoded twice."""
    file = image(tmp_path / "a.tif", seed=1)
    lon, lat = (each[0] for each in transform(CRS, "EPSG:4326", [WEST + 1500], [NORTH - 1000]))
    lines = [f"{n},{lon + n * 1e-5!r},{lat!r}" for n in range(7)]
    (tmp_path / "chips.csv").write_text("\n".join(["id,lon,lat", *lines]))
    ranges: list[tuple[int, int]] = []
    get = Objects.get_range

    async def noting(self: Objects, href: str, start: int, stop: int, **named: Any) -> Any:
        ranges.append((start, stop))
        return await get(self, href, start, stop, **named)

    monkeypatch.setattr(Objects, "get_range", noting)
    gather_undrawn(chips_of([str(file)], tmp_path / "chips.csv"), to=tmp_path / "cube")

    assert len(decoded) in (1, 2, 4, 6)
    assert set(decoded.values()) == {1}
    tiles = [each for each in ranges if each[0]]  # not the headers of the plan and of the task
    assert len(set(tiles)) == len(tiles)


@pytest.mark.long
def test_tasks_of_one_process_share_tiles(tmp_path: Path, decoded: Counter[bytes]) -> None:
    """No tile is decoded twice, though chips of several tasks lie on it. Without room for tiles some are."""
    table, _ = chips_at(tmp_path, 60)
    request = chips_of(listed(tmp_path, three_images(tmp_path)), table)
    most, digests = [], []
    for nbytes in (Settings().shared_tiles_nbytes, 0):
        # ten chips in a task
        settings = Settings(
            draws_report=False, max_task_nbytes=10 * 3 * 24 * 40 * 2 * 2, shared_tiles_nbytes=nbytes
        )
        decoded.clear()
        done = gather(request, to=tmp_path / f"cube{nbytes}", settings=settings)
        most.append(max(decoded.values()))
        digests.append(done.report.digest)

    assert done.report.n_shards > 3
    assert most[0] == 1 < most[1]
    assert digests[0] == digests[1]


@pytest.mark.long
def test_a_damaged_tile_costs_the_chips_on_it_alone(tmp_path: Path) -> None:
    """Other chips of the image keep their pixels."""
    files = three_images(tmp_path)
    whole = raw(gathered(tmp_path, files))["status"].values
    with rasterio.open(files["2024-01-01"]) as opened:
        start = int(opened.get_tag_item("BLOCK_OFFSET_2_1", "TIFF", bidx=1))
        n = int(opened.get_tag_item("BLOCK_SIZE_2_1", "TIFF", bidx=1))
    content = bytearray(files["2024-01-01"].read_bytes())
    content[start : start + n] = bytes(n)
    files["2024-01-01"].write_bytes(content)
    (tmp_path / "again").mkdir()
    done = gathered(tmp_path / "again", files)
    status = raw(done)["status"].values[..., 0]

    assert done.report.status_counts["corrupt"] > 0
    assert (status[:, 1:] == whole[:, 1:, 0]).all()
    changed = status[:, 0] != whole[:, 0, 0]
    assert 0 < changed.sum() < (whole[:, 0, 0] == Status.OK).sum()
    assert (status[changed, 0] == Status.CORRUPT).all()


def test_a_missing_image_fails_for_each_chip(tmp_path: Path) -> None:
    """Each of its rows says why."""
    files = three_images(tmp_path)
    files["2024-02-01"].unlink()
    done = gathered(tmp_path, files)

    assert done.report.status_counts["missing"] == N_CHIPS
    assert (raw(done)["status"].isel(time=1) == Status.MISSING).all()


@pytest.mark.long
def test_a_stopped_gather_of_chips_goes_on(tmp_path: Path) -> None:
    """What was committed is not read again, and the cube is that of an undisturbed gather."""
    table, _ = chips_at(tmp_path, 60)
    request = chips_of(listed(tmp_path, three_images(tmp_path)), table)
    four_in_a_task = Settings(draws_report=False, max_task_nbytes=4 * 3 * 24 * 40 * 2 * 2)
    read: list[int] = []

    def stop(_: Any) -> None:
        if list(tmp_path.glob("cube/.gather/*/shards/*.msgpack")):
            raise InterruptedError

    with pytest.raises(InterruptedError):
        gather(request, to=tmp_path / "cube", settings=four_in_a_task, on_progress=stop)
    n_committed = len(list(tmp_path.glob("cube/.gather/*/shards/*.msgpack")))
    done = gather(
        request,
        to=tmp_path / "cube",
        settings=four_in_a_task,
        on_progress=lambda progress: read.append(progress.n_done),
    )
    whole = gather(request, to=tmp_path / "other", settings=four_in_a_task)

    assert 0 < n_committed < done.report.n_shards
    assert read[0] >= 12  # committed shards count as done at once
    assert done.report.digest == whole.report.digest
    assert verify(done.place).is_same


def test_verify_names_a_changed_shard_and_a_changed_coordinate(tmp_path: Path) -> None:
    """A cube of chips is compared with its receipt as other cubes are."""
    done = gathered(tmp_path, three_images(tmp_path))
    place = Path(done.place)
    shard, other = (place / f"band_{band}/c/0/0/0/0" for band in (1, 2))
    shard.write_bytes(other.read_bytes())
    (place / "label/c/0").write_bytes((place / "chip/c/0").read_bytes())
    found: Verified = verify(place)

    assert "band_1/c/0/0/0/0 has other pixels than the receipt says" in found.differences
    assert "label has other values than rows.parquet" in found.differences


@pytest.mark.long
def test_chips_on_a_lattice_adjoin(tmp_path: Path) -> None:
    """No pixel between them is missing, and none comes twice. Images whose corners lie elsewhere, too."""
    files = {"2024-01-01": image(tmp_path / "a.tif", seed=1), "2024-02-01": image(tmp_path / "b.tif", seed=2)}
    area = f"POLYGON (({WEST} {NORTH}, {WEST + 3000} {NORTH}, {WEST} {NORTH - 2000}, {WEST} {NORTH}))"
    (tmp_path / "area.csv").write_text(f'id,label,wkt\nfield,x,"{area}"\n')
    arguments = ["--sources", listed(tmp_path, files), "--windows", str(tmp_path / "area.csv")]
    arguments += ["--spacing", "240", "--size", "24,24", "--crs", CRS, "--to", str(tmp_path / "cube")]
    succeed("run", *arguments, "--no-report")
    cube: xr.Dataset = xr.open_zarr(tmp_path / "cube", mask_and_scale=False, decode_times=False)
    with rasterio.open(files["2024-01-01"]) as opened:
        whole, seen = opened.read(1), np.zeros((200, 300), int)

    assert cube.sizes["chip"] > 40
    assert set(cube["area"].values.tolist()) == {"field"}
    assert set(cube["label"].values.tolist()) == {"x"}
    for at in range(cube.sizes["chip"]):
        x, y = (float(cube["transform"][at, 0, where]) for where in (2, 5))
        col, row = round((x - WEST) / PIXEL), round((NORTH - y) / PIXEL)
        top, left = max(row, 0), max(col, 0)
        expected = whole[top : row + 24, left : col + 24]
        found = cube["band_1"].values[at, 0][top - row :, left - col :][: expected.shape[0]]
        np.testing.assert_array_equal(found[:, : expected.shape[1]], expected)
        seen[top : row + 24, left : col + 24] += 1
    assert seen.max() == 1
    assert seen[30:90, 30:90].all()  # well within


def test_one_chip_is_one_request(tmp_path: Path) -> None:
    """A chunk holds a chip with all of its images, and no other chip."""
    done = gathered(tmp_path, three_images(tmp_path))
    array = raw(done)["band_1"]

    assert array.encoding["chunks"] == (1, 3, 24, 40)
    assert array.encoding["shards"][1:] == (3, 24, 40)


def test_the_report_of_a_cube_of_chips_is_drawn(tmp_path: Path) -> None:
    """The page comes with the cube and names chips with their labels. No page that shows pixels does."""
    table, _ = chips_at(tmp_path)
    Path(table).write_text(Path(table).read_text().replace(",a,", ",<i>wheat</i>,"))
    done = gather(chips_of(listed(tmp_path, three_images(tmp_path)), table), to=tmp_path / "cube")

    assert done.page is not None
    page = Path(done.page).read_text()
    assert f"{N_CHIPS} x 3 x 24 x 40 (chip, time, y, x)" in page
    assert re.search(r"chip c\d+, b, weight \d+, 2024-0[123]-01", page)
    assert re.search(r"chip c\d+, &lt;i&gt;wheat&lt;/i&gt;, weight \d+, 2024-0[123]-01", page)
    assert not (tmp_path / "cube/view.html").exists()
    assert "11 chips in 3 images" in done.report.to_text()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("id,lon,lat\n1,11,46\n1,11.1,46\n", "windows.table: two chips have the id 1"),
        ("id,lon,lat\n1,11,46\n2,,46\n", "windows.table: chip 2 has no place"),
        ("id,lon,lat\n1,11,46\n2,46,111\n", "chips.csv: row 2 has longitude 46 and latitude 111"),
        ("id,lon,lat\n1,500,46\n", "chips.csv: it has longitude 500 and latitude 46"),
        ("id,lon,lat,status\n1,11,46,x\n", "windows.table: the cube has a coordinate status of its own"),
        ("id,lon,lat,band_1\n1,11,46,x\n", "windows.table: the cube has a measurement band_1"),
        ("id,lon,lat,cloud\n1,11,46,x\n", "windows.table: the list of sources has a column cloud, too"),
        ("id,a,b\n1,11,46\n", "there are no coordinates"),
        ("id,x,y\n1,676000,5150000\n", "windows.crs: say which CRS these coordinates are of"),
        ("id,lon,lat\n", "there is no feature in it"),
    ],
)
def test_a_wrong_table_is_refused_by_its_field(tmp_path: Path, content: str, message: str) -> None:
    """The message names the field or the file, and what to do."""
    sources = listed(tmp_path, {"2024-01-01": image(tmp_path / "a.tif", seed=1)})
    (tmp_path / "chips.csv").write_text(content)

    with pytest.raises(RequestError, match=message):
        make_plan(chips_of(sources, tmp_path / "chips.csv"))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"window": "centre"}, "^windows: windows does not go with window"),
        ({"grid": "same"}, "windows does not go with grid"),
        ({"output": {"codec": "source"}}, "windows does not go with output.codec: source"),
        ({"output": {"archive": "all"}}, "windows does not go with output.archive"),
        ({"windows": {"table": "chips.csv"}}, "windows.size: is needed"),
        ({"windows": {"table": "none.csv", "size": [4, 4]}}, "none.csv"),
        ({"windows": {"table": "chips.csv", "size": [4, 4], "id": "name"}}, "windows.id: there is no column"),
        ({"windows": {"table": "chips.csv", "size": [4, 4], "crs": "EPSG:1"}}, "windows.crs: 'EPSG:1' is no"),
    ],
)
def test_what_does_not_go_with_chips_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: dict[str, Any], message: str
) -> None:
    """The message names both fields."""
    monkeypatch.chdir(tmp_path)
    table, _ = chips_at(tmp_path)
    sources = listed(tmp_path, {"2024-01-01": image(tmp_path / "a.tif", seed=1)})

    with pytest.raises(RequestError, match=message):
        make_plan(chips_of(sources, table) | more)


def test_the_price_counts_no_image_more_than_once_in_a_task(tmp_path: Path) -> None:
    """Chips that lie close together touch the same tiles."""
    file = image(tmp_path / "a.tif", seed=1)
    lon, lat = (each[0] for each in transform(CRS, "EPSG:4326", [WEST + 1500], [NORTH - 1000]))
    lines = [f"{n},{lon + n * 1e-6!r},{lat!r}" for n in range(500)]
    (tmp_path / "chips.csv").write_text("\n".join(["id,lon,lat", *lines]))
    plan = make_plan(chips_of([str(file)], tmp_path / "chips.csv"))
    n_tasks, _ = plan.layout.n_shards(plan.shape)

    assert plan.estimate.fetched_nbytes <= n_tasks * (file.stat().st_size + 64 * 1024)


def test_a_chip_that_no_task_can_hold_is_refused(tmp_path: Path) -> None:
    """All images of a chip are in one task."""
    table, _ = chips_at(tmp_path)
    sources = listed(tmp_path, three_images(tmp_path))
    request = {"sources": sources, "windows": {"table": table, "size": [900, 900]}}
    settings = Settings(max_task_nbytes=4 << 20)

    with pytest.raises(BudgetError, match="one chip with its 3 images takes 9 MiB, and a task holds 4 MiB"):
        make_plan(request, settings=settings)


def test_what_cannot_be_done_with_chips_is_refused(tmp_path: Path) -> None:
    """Each says that it is a cube of chips."""
    done = gathered(tmp_path, three_images(tmp_path))
    more = {"sources": [str(tmp_path / "a.tif")], "window": "centre", "output": {"append_to": done.place}}

    with pytest.raises(RequestError, match="is a cube of chips and cannot grow"):
        gather_undrawn(more)
    with pytest.raises(RequestError, match="is a cube of chips, which cannot be replayed"):
        replay(done.place)
    with pytest.raises(RequestError, match=r"is a cube of chips, which is exported as tar files"):
        export(done.place, to=tmp_path / "x.nc")
    with pytest.raises((RequestError, StoreError), match="which cannot be joined: leave it out, or gather "):
        join([done.place], to=tmp_path / "joined")
    with pytest.raises(
        RequestError, match=r"pixel-gather report \S+ --to FOLDER shows some .*open_chips reads them all"
    ):
        view(done.place, open_browser=False)


@pytest.mark.long
@pytest.mark.parametrize("form", ["geojson", "parquet", "boxes"])
def test_tables_of_other_formats_give_the_same_chips(tmp_path: Path, form: str) -> None:
    """GeoJSON and Parquet are read like CSV. Of a shape, the middle of its box counts."""
    table, points = chips_at(tmp_path)
    sources = listed(tmp_path, {"2024-01-01": image(tmp_path / "a.tif", seed=1)})
    expected = gather_undrawn(chips_of(sources, table), to=tmp_path / "one")
    other = tmp_path / ("chips.parquet" if form == "parquet" else "chips.geojson")
    if form == "parquet":
        import pandas as pd  # noqa: PLC0415 # for this format alone

        pd.read_csv(table).to_parquet(other)
    else:
        features = [
            feature(_shape(lon, lat, is_box=form == "boxes"), id=name, label="ab"[n % 2], weight=n)
            for n, (name, (lon, lat)) in enumerate(points.items())
        ]
        other.write_text(json.dumps(collection(features)))
    done = gather_undrawn(chips_of(sources, other), to=tmp_path / "two")
    one, two = (open_cube(each.place).sortby("chip") for each in (expected, done))

    assert one["chip"].to_numpy().tolist() == two["chip"].to_numpy().tolist()
    assert one["label"].to_numpy().tolist() == two["label"].to_numpy().tolist()
    np.testing.assert_array_equal(one["band_1"], two["band_1"])


def _shape(lon: float, lat: float, *, is_box: bool) -> dict[str, Any]:
    if not is_box:
        return {"type": "Point", "coordinates": [lon, lat]}
    side = 0.0009765625  # exact in binary, so that the middle is the point again up to rounding
    corners = [(-side, -side), (side, -side), (side, side), (-side, side), (-side, -side)]
    return polygon(*((lon + x, lat + y) for x, y in corners))


@pytest.mark.long
def test_the_command_gathers_chips(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``run --windows`` does what the field ``windows`` does."""
    table, _ = chips_at(tmp_path)
    sources = listed(tmp_path, three_images(tmp_path))
    options = ("--sources", sources, "--windows", table, "--size", "40,24", "--no-report")

    assert run("plan", *options) == 0
    assert "11 x 3 x 24 x 40 (chip, time, y, x)" in capsys.readouterr().out
    assert run("run", *options, "--to", tmp_path / "cube") == 0
    said = capsys.readouterr().out
    assert "11 x 3 x 24 x 40 of band_1 (uint16), band_2 (uint16)" in said
    assert "on no image" not in said
    assert open_cube(tmp_path / "cube").sizes["chip"] == N_CHIPS
    assert run("run", *options, "--crs", "EPSG:32601", "--to", tmp_path / "far") == 0
    said = capsys.readouterr().out
    assert "11 of 11 chips lie on no image: check their CRS (--crs), and that longitude comes first" in said


@pytest.mark.long
def test_chips_on_no_image_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of polygons beside the images, too. An append counts those that were there as well."""
    table, points = chips_at(tmp_path)
    sources = listed(tmp_path, three_images(tmp_path))
    lon, lat = next(iter(points.values()))
    areas = tmp_path / "areas.geojson"
    features = [
        feature(polygon((west, lat), (west + 1e-3, lat), (west + 1e-3, lat + 1e-3), (west, lat)), crop=crop)
        for crop, west in (("rye", lon), ("oats", lon + 40))
    ]
    areas.write_text(json.dumps(collection(features)))
    options = ("--sources", sources, "--size", "40,24", "--no-report", "--quiet")
    spread = ("--windows", areas, "--sample", "5", "--strata", "crop")

    assert run("run", *options, *spread, "--to", tmp_path / "spread") == 0
    assert re.search(r"warning +3 of 5 chips lie on no image\n", capsys.readouterr().out)

    header, *lines = Path(table).read_text(encoding="utf-8").splitlines()
    far = tmp_path / "far.csv"
    far.write_text("\n".join([header, *(re.sub(r",[\d.]+,", ",60,", each, count=1) for each in lines[:2])]))
    more = tmp_path / "more.csv"
    more.write_text("\n".join([far.read_text(), *lines[2:]]))
    assert run("run", *options, "--windows", far, "--to", tmp_path / "grown") == 0
    assert "2 of 2 chips lie on no image: check their CRS" in capsys.readouterr().out
    assert run("run", *options, "--windows", more, "--append-to", tmp_path / "grown") == 0
    said = re.findall(r"warning +(.*) on no image(.*)\n", capsys.readouterr().out)
    assert said == [("2 of 11 chips lie", "")]
