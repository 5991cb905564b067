"""The cube as others see it: xarray, rioxarray, GeoZarr, and a second gather at its location."""

import asyncio
import hashlib
import json
import math
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import replace
from pathlib import Path
from typing import Any

import numpy as np
import obstore
import pytest
import rioxarray  # noqa: F401 # registers the accessor
import xarray as xr
import zarr
from geozarr_toolkit.helpers import validate_group
from obstore.store import LocalStore, S3Store

from pixel_gather.core.errors import AlreadyCommittedError, ArrayExistsError, BusyError, StoreError
from pixel_gather.core.model.source import CubeRow, ListColumn, Source
from pixel_gather.core.model.window import Transform
from pixel_gather.core.plan.cube_plan import CubePlan
from pixel_gather.core.ports import SourceTable
from pixel_gather.core.read.measure_rows import digest_of
from pixel_gather.core.read.shard_buffers import Pixels
from pixel_gather.core.results.receipt import digest_of_rows
from pixel_gather.core.results.report import Report, Tally
from pixel_gather.core.stores import RECEIPT_KEY, ROOT_KEY
from pixel_gather.engine.publish_version import publish
from pixel_gather.io.crs import RasterioProjector
from pixel_gather.io.cube.open_group import finished_group
from pixel_gather.io.cube.zarr_cube import ZarrCube
from pixel_gather.io.cube.zarr_metadata import gather_of
from pixel_gather.io.store import conditional_put
from pixel_gather.io.store.object_store import Store
from support.appends import GrownPlace, as_if_planned_anew, in_memory
from support.cloud_store import Answer, CloudStore, PassOn, serving
from support.fakes import FakeImage, FakeReader, FakeTable, table_of
from support.plans import planned

A = np.arange(1, 401, dtype="uint16").reshape(1, 20, 20)
UTM_ROTATED = Transform(10.0, 2.0, 500_000.0, 3.0, -10.0, 4_600_000.0)


def gather(
    folder: Path,
    images: Mapping[str, Pixels | FakeImage],
    table: SourceTable | None = None,
    *,
    max_task_nbytes: int = 2**24,
    **request: Any,
) -> Report:
    """Gather images into a cube at a folder."""
    place = GrownPlace(
        images=images,
        request=request,
        store=LocalStore(folder, mkdir=True),
        projector=RasterioProjector(),
        max_task_nbytes=max_task_nbytes,
    )
    return place.gather(table or table_of(*images))


def open_(folder: Path, **options: Any) -> xr.Dataset:
    """Open a cube like any user, without options."""
    cube: xr.Dataset = xr.open_zarr(folder, chunks=None, **options)
    return cube


def cube_of(folder: Path, *given: Any, **request: Any) -> xr.Dataset:
    """Gather images into a cube, as `gather` does, and open it."""
    gather(folder, *given, **request)
    return open_(folder)


@pytest.mark.long
@pytest.mark.parametrize("codec", ["none", "zstd", "blosc-lz4", "blosc-zstd"])
def test_cube_opens_in_xarray_with_its_pixels(tmp_path: Path, codec: str) -> None:
    """Rows, coordinates and measurements equal those that were read."""
    cube = cube_of(tmp_path, {"a": A, "b": A + 1}, output={"codec": codec})

    assert dict(cube.sizes) == {"source": 2, "y": 6, "x": 8, "affine": 6}
    np.testing.assert_array_equal(cube["band_1"], np.stack([A[0, 3:9, 2:10], A[0, 3:9, 2:10] + 1]))
    assert cube["band_1"].dtype == "uint16"
    assert cube["href"].values.tolist() == ["a", "b"]
    assert cube["status"].attrs["flag_meanings"].startswith("ok absent missing")
    assert {"href", "status", "mean", "transform", "spatial_ref"} <= set(cube["band_1"].coords) | {
        "transform"
    }
    assert cube.attrs["complete"] == 1
    assert gather_of(cube.attrs)["report"]["n_failed"] == 0
    assert set(cube.data_vars) == {"band_1"}


def test_cube_lies_on_the_map_for_rioxarray(tmp_path: Path) -> None:
    """Its CRS, transform and pixel centres are the window's."""
    cube = cube_of(tmp_path, {"a": A, "b": A})

    assert cube.rio.crs.to_epsg() == 32631
    assert tuple(cube["band_1"].rio.transform())[:6] == (10.0, 0.0, 500_020.0, 0.0, -10.0, 4_599_970.0)
    assert cube["x"].values.tolist() == [500_025.0 + 10 * n for n in range(8)]
    assert cube["y"].values.tolist() == [4_599_965.0 - 10 * n for n in range(6)]
    assert cube["x"].attrs["standard_name"] == "projection_x_coordinate"


def test_cube_of_a_crs_that_is_not_known_tells_of_none(tmp_path: Path) -> None:
    """The cube has x and y, but no CRS."""
    cube = cube_of(tmp_path, {"a": FakeImage(pixels=A, header={"crs": "EPSG:99999"})})

    assert "crs_wkt" not in cube["spatial_ref"].attrs
    assert "standard_name" not in cube["x"].attrs
    assert cube["x"].values[0] == 500_025.0
    assert cube["crs"].values.tolist() == ["EPSG:99999"]


def test_cube_has_pictures_beside_its_arrays(tmp_path: Path) -> None:
    """NumPy opens the quicklooks without pickle. They equal the cube's own pixels."""
    images = {"a": A, "b": A + 1, "c": A + 2}
    gather(tmp_path, images, window={"pixels": [2, 3, 16, 12]})

    with np.load(tmp_path / "quicklooks.npz", allow_pickle=False) as found:
        rows, pixels, step = found["rows/band_1"], found["pixels/band_1"], found["step"]
    assert (rows.dtype, rows.tolist(), step.dtype, step.item()) == ("int64", [0, 1, 2], "int64", 1)
    np.testing.assert_array_equal(pixels, open_(tmp_path)["band_1"].values)
    assert set(open_(tmp_path).data_vars) == {"band_1"}


def test_cube_of_windows_too_small_to_be_seen_has_no_pictures(tmp_path: Path) -> None:
    """Windows of six lines have no quicklooks."""
    gather(tmp_path, {"a": A})

    assert not (tmp_path / "quicklooks.npz").exists()


def test_cube_in_degrees_has_longitude_and_latitude(tmp_path: Path) -> None:
    """CF's names for axes of a geographic CRS."""
    header = {"crs": "EPSG:4326", "transform": Transform(0.1, 0, 5, 0, -0.1, 50)}
    cube = cube_of(tmp_path, {"a": FakeImage(pixels=A, header=header)})

    assert cube["x"].attrs["standard_name"] == "longitude"
    assert cube["y"].attrs["units"] == "degrees_north"
    assert cube.rio.crs.to_epsg() == 4326


def test_cube_follows_geozarrs_conventions(tmp_path: Path) -> None:
    """The spatial and proj attributes are what their own validator accepts."""
    gather(tmp_path, {"a": A})

    attributes = json.loads((tmp_path / ROOT_KEY).read_text())["attributes"]

    assert validate_group(zarr.open_group(tmp_path, mode="r")) == {"spatial": [], "proj": []}
    assert attributes["spatial:bbox"] == [500_020.0, 4_599_910.0, 500_100.0, 4_599_970.0]
    assert attributes["proj:code"] == "EPSG:32631"


def test_rotated_cube_has_a_transform_but_no_axes(tmp_path: Path) -> None:
    """A rotated grid has no x and y axes, only a transform."""
    cube = cube_of(tmp_path, {"a": FakeImage(pixels=A, header={"transform": UTM_ROTATED})})

    assert "x" not in cube.coords
    assert cube["spatial_ref"].attrs["GeoTransform"].split()[2] == "2.0"


def test_unaligned_cube_is_not_put_on_the_map_and_says_so(tmp_path: Path) -> None:
    """Rows that are half a pixel apart are not shifted. Each row keeps its own transform."""
    header = {"transform": Transform(10.0, 0.0, 500_005.0, 0.0, -10.0, 4_600_000.0)}
    report = gather(tmp_path, {"a": A, "b": FakeImage(pixels=A, header=header)})

    cube = open_(tmp_path)

    assert not report.is_aligned
    assert gather_of(cube.attrs)["report"]["is_aligned"] is False
    assert not {"x", "y"} & set(cube.variables)
    assert "GeoTransform" not in cube["spatial_ref"].attrs
    assert not any(name.startswith("spatial:") for name in cube.attrs)
    assert cube["transform"].values[:, 2].tolist() == [500_020.0, 500_025.0]
    assert cube.rio.crs.to_epsg() == cube["band_1"].rio.crs.to_epsg() == 32631
    assert cube.attrs["proj:code"] == "EPSG:32631"


def test_cube_of_several_crss_has_none_of_its_own(tmp_path: Path) -> None:
    """Each row keeps its CRS beside its transform. The cube has no CRS that readers could mistake for it."""
    report = gather(tmp_path, {"a": A, "b": FakeImage(pixels=A, header={"crs": "EPSG:32632"})})

    cube = open_(tmp_path)

    assert not report.shares_crs
    assert cube.rio.crs is None
    assert not {"x", "y", "spatial_ref"} & set(cube.variables)
    assert not any(name.startswith(("spatial:", "proj:")) for name in cube.attrs)
    assert cube["crs"].values.tolist() == ["EPSG:32631", "EPSG:32632"]


@pytest.mark.parametrize("crs", [None, "EPSG:4326"])
def test_cube_without_a_transform_has_no_place(tmp_path: Path, crs: str | None) -> None:
    """Photographs make a cube without a transform. If they name a CRS, the cube has it."""
    cube = cube_of(tmp_path, {"a": FakeImage(pixels=A, header={"transform": None, "crs": crs})})

    assert "x" not in cube.coords
    assert cube.rio.crs == crs


def test_cube_becomes_netcdf_by_xarray_alone(tmp_path: Path) -> None:
    """No attribute is an object, so nothing must be dropped first. The file reads back equal."""
    bands = np.concatenate([A, A + 1])
    gather(tmp_path / "cube", {"a": FakeImage(pixels=bands, header={"nodata": 7}), "b": bands})

    cube = open_(tmp_path / "cube")
    cube.to_netcdf(tmp_path / "cube.nc")

    with xr.open_dataset(tmp_path / "cube.nc") as again:
        assert again.equals(cube)
        assert again.attrs["pixel_gather"] == cube.attrs["pixel_gather"]


def inside(cube: xr.Dataset) -> xr.DataArray:
    """Return which pixels of a cube belong to its sources, by the rule in the cube's description."""
    x, y = (xr.DataArray(np.arange(cube.sizes[dim]), dims=dim) for dim in ("x", "y"))
    in_x = (x >= cube["inside_x_start"]) & (x < cube["inside_x_stop"])
    return in_x & (y >= cube["inside_y_start"]) & (y < cube["inside_y_stop"])


@pytest.mark.long
@pytest.mark.parametrize("max_task_nbytes", [2**24, 1_000], ids=["one piece", "strips"])
def test_cube_tells_what_was_filled_from_what_was_read(tmp_path: Path, max_task_nbytes: int) -> None:
    """A source's own 0 differs from a filled 0. Failed rows hold no pixel at all."""
    zeros = np.zeros_like(A)
    smaller = FakeImage(pixels=zeros[:, :18, :15])
    window = {"pixels": [-3, 4, 40, 70]}
    report = gather(
        tmp_path,
        {"a": zeros, "b": smaller},
        table_of("a", "b", "c"),
        max_task_nbytes=max_task_nbytes,
        window=window,
        output={"layout": {"chunk": [1, 8, 40]}},
    )

    cube = open_(tmp_path)
    found = inside(cube)

    assert (report.n_overhanging, report.status_counts) == (2, {"ok": 2, "missing": 1})
    assert report.n_shards == (1 if max_task_nbytes > 1_000 else 27)
    expected = np.zeros((3, 70, 40), dtype=bool)
    expected[0, :16, 3:23] = expected[1, :14, 3:18] = True
    np.testing.assert_array_equal(found.transpose("source", "y", "x"), expected)
    assert cube["inside_y_stop"].dtype == "int32"
    assert cube["band_1"].where(found).count() == 16 * 20 + 14 * 15
    assert "holds 0, which looks like a value" in cube["band_1"].attrs["comment"]
    (said,) = (each for each in report.warnings if each.startswith("the window"))
    assert said.startswith("the window lies partly outside 2 of 2 sources that were read")


def test_cube_of_whole_windows_has_no_coordinates_of_what_was_filled(tmp_path: Path) -> None:
    """Only cubes with filled pixels have the coordinates of the windows' edges."""
    report = gather(tmp_path, {"a": A}, table_of("a", "b"))

    cube = open_(tmp_path)

    assert report.n_overhanging == 0
    assert not [name for name in cube.variables if str(name).startswith("inside_")]
    assert "comment" not in cube["band_1"].attrs


def test_cube_shows_its_bands_in_their_order(tmp_path: Path) -> None:
    """The tenth band comes last, not second."""
    gather(tmp_path, {"a": np.repeat(A, 11, axis=0)})

    assert list(open_(tmp_path).data_vars) == [f"band_{n}" for n in range(1, 12)]


def test_cube_of_times_has_them_to_the_microsecond(tmp_path: Path) -> None:
    """A list in which every row has a time makes ``time`` the first axis."""
    times = (1_600_000_000_000_001, 1_600_000_000_000_002)
    rows = tuple(CubeRow(time_us=t, sources=(Source(href="a", time_us=t),)) for t in times)
    cube = cube_of(tmp_path, {"a": A}, FakeTable(rows, has_time=True))

    assert cube["band_1"].dims == ("time", "y", "x")
    assert cube["time"].values.astype("datetime64[us]").astype("int64").tolist() == list(times)
    assert cube.sel(time=cube["time"][1])["href"].item() == "a"


def test_cube_of_scenes_has_a_dimension_of_measurements(tmp_path: Path) -> None:
    """A missing time is NaT, an absent source is no failure."""
    red, nir = Source(href="a", band="red", scene="1", time_us=5), Source(href="b", band="nir", scene="1")
    rows = (
        CubeRow(time_us=5, sources=(red, nir)),
        CubeRow(time_us=None, sources=(None, replace(nir, scene="2"))),
    )
    columns = (
        ListColumn(name="scene", dtype="string", varies_in_row=False),
        ListColumn(name="time", dtype="int64", varies_in_row=True),
        ListColumn(name="cloud", dtype="float64", varies_in_row=True),
    )
    cube = cube_of(
        tmp_path, {"a": A, "b": A.astype("float32")}, FakeTable(rows, bands=("red", "nir"), columns=columns)
    )

    assert cube["measurement"].values.tolist() == ["red", "nir"]
    assert cube["href"].dims == ("source", "measurement")
    assert cube["transform"].dims == ("source", "measurement", "affine")
    assert cube["scene"].values.tolist() == ["1", "2"]
    assert np.isnat(cube["time"].values).tolist() == [[False, True], [True, True]]
    assert cube["status"].sel(measurement="red").values.tolist() == [0, 1]
    assert cube["nir"].dtype == "float32"


NODATA = [
    ("uint8", 255),
    ("int16", -9999),
    ("int16", -9999.0),
    ("uint64", 2**64 - 1),
    ("float32", math.nan),
    ("float32", float(np.finfo("f4").min)),
    ("float32", 0.1),
    ("float64", -1.797693134862315e308),
    ("float16", 6.5),
    ("complex64", 0.5),
    ("complex128", math.nan),
]


@pytest.mark.long
@pytest.mark.parametrize(("dtype", "nodata"), NODATA, ids=str)
def test_cube_nodata_is_masked_by_xarray(tmp_path: Path, dtype: str, nodata: float) -> None:
    """``_FillValue`` hides only nodata. Without masking, the pixels are the source's own."""
    pixels = np.ones((1, 20, 20), dtype)
    pixels[0, 5, 5] = nodata
    gather(tmp_path, {"a": FakeImage(pixels=pixels, header={"nodata": nodata})})

    raw, masked = open_(tmp_path, mask_and_scale=False)["band_1"], open_(tmp_path)["band_1"]

    assert raw.dtype == dtype
    assert raw.values.tobytes() == pixels[:, 3:9, 2:10].tobytes()
    is_hidden = np.isnan(masked.values)
    assert is_hidden[0, 2, 3]
    assert is_hidden.sum() == 1


def test_cube_rows_with_other_nodata_say_so(tmp_path: Path) -> None:
    """The cube has the coordinate ``nodata`` only where rows differ."""
    images = {
        "a": FakeImage(pixels=A, header={"nodata": 5}),
        "b": FakeImage(pixels=A, header={"nodata": 6}),
        "c": FakeImage(pixels=A),
    }
    gather(tmp_path, images)

    np.testing.assert_equal(open_(tmp_path)["nodata"].values.tolist(), [5.0, 6.0, math.nan])


def test_cube_scale_and_offset_are_applied_by_xarray_only(tmp_path: Path) -> None:
    """Raw values are stored."""
    gather(tmp_path, {"a": FakeImage(pixels=A, header={"scales": (0.5,), "offsets": (-10.0,)})})

    raw, scaled = open_(tmp_path, mask_and_scale=False)["band_1"], open_(tmp_path)["band_1"]

    np.testing.assert_array_equal(raw.values[0], A[0, 3:9, 2:10])
    np.testing.assert_allclose(scaled.values[0], A[0, 3:9, 2:10] * 0.5 - 10)


def test_cube_is_valid_json_with_nodata_nan_in_the_request(tmp_path: Path) -> None:
    """JSON has no NaN, and GDAL refuses it."""

    def refuse(name: str) -> float:
        raise AssertionError(name)

    gather(tmp_path, {"a": A.astype("float32")}, nodata="nan")

    json.loads((tmp_path / ROOT_KEY).read_text(), parse_constant=refuse)


def plan_of(**request: Any) -> CubePlan:
    """Return a plan of one source."""
    return planned(FakeReader({"a": A}), table_of("a"), **request)


def test_cube_is_written_in_an_order_that_leaves_none_that_looks_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The claim in the root comes first and ``complete`` comes last. The root is written at no other time."""
    puts: list[tuple[str, bytes]] = []
    put, put_async = obstore.put, obstore.put_async

    def note(store: Any, path: str, content: Any) -> None:
        if str(store.prefix) != str(tmp_path):
            return  # what is staged
        parts = content if isinstance(content, list | tuple) else [content]
        puts.append((path, b"".join(map(bytes, parts))))

    def noted_put(store: Any, path: str, content: Any, **options: Any) -> Any:
        answer = put(store, path, content, **options)
        note(store, path, content)
        return answer

    async def noted_put_async(store: Any, path: str, content: Any, **options: Any) -> Any:
        answer = await put_async(store, path, content, **options)
        note(store, path, content)
        return answer

    def noted_replacement(file: Path, content: Any) -> None:
        replace_on_disk(file, content)
        note(LocalStore(tmp_path), file.relative_to(tmp_path).as_posix(), content)

    replace_on_disk = conditional_put._replace_on_disk
    monkeypatch.setattr(obstore, "put", noted_put)
    monkeypatch.setattr(obstore, "put_async", noted_put_async)
    monkeypatch.setattr(conditional_put, "_replace_on_disk", noted_replacement)
    gather(tmp_path, {"a": A})

    paths = [path for path, _ in puts]
    roots = [json.loads(content)["attributes"]["complete"] for path, content in puts if path == ROOT_KEY]
    assert paths[0] == paths[-1] == ROOT_KEY
    assert roots == [False, True]
    assert paths.index("band_1/zarr.json") < paths.index("band_1/c/0/0/0") < paths.index("href/zarr.json")


def test_cube_says_that_it_is_not_complete_until_it_is() -> None:
    """A reader who opens the cube early sees that it is not complete, also among xarray's attributes."""
    store = in_memory()
    cube = ZarrCube(store, "place")

    asyncio.run(cube.create(plan_of()))

    root = json.loads(bytes(obstore.get(store, ROOT_KEY).bytes()))
    assert root["attributes"]["complete"] == 0
    assert root["attributes"]["comment"].startswith("NOT COMPLETE: ")
    with (
        pytest.raises(StoreError, match=r"place: the cube is not complete\. If its gather"),
        finished_group(store, "place"),
    ):
        pass
    found = asyncio.run(cube.found())
    assert found is not None
    assert (found.digest, found.report) == (plan_of().digest, None)


def test_create_goes_on_with_its_own_claim_and_keeps_its_shards() -> None:
    """After a crash between the claim and the arrays, the same request continues."""
    store = in_memory()
    cube, plan = ZarrCube(store, "place"), plan_of()
    asyncio.run(cube.create(plan))
    obstore.delete(store, "band_1/zarr.json")
    asyncio.run(_write_ones(cube, plan, 0))

    asyncio.run(cube.create(plan))

    paths = {item["path"] for page in obstore.list(store) for item in page}
    assert paths == {ROOT_KEY, "band_1/zarr.json", "band_1/c/0/0/0"}


def test_create_refuses_the_claim_of_another() -> None:
    """Of two requests at one location, the second stops and changes nothing."""
    store = in_memory()
    asyncio.run(ZarrCube(store, "place").create(plan_of()))
    before = bytes(obstore.get(store, ROOT_KEY).bytes())

    with pytest.raises(ArrayExistsError, match=r"place: a cube of another request is there \(window"):
        asyncio.run(ZarrCube(store, "place").create(plan_of(window={"pixels": [0, 0, 1, 1]})))
    with pytest.raises(ArrayExistsError, match=r"another place \(on AWS: .* output.name"):
        asyncio.run(ZarrCube(store, "s3://cubes/a").create(plan_of(window={"pixels": [0, 0, 1, 1]})))

    assert bytes(obstore.get(store, ROOT_KEY).bytes()) == before


def test_create_refuses_a_complete_cube(tmp_path: Path) -> None:
    """A complete cube is never started again."""
    gather(tmp_path, {"a": A})
    before = (tmp_path / ROOT_KEY).read_bytes()

    cube = ZarrCube(LocalStore(tmp_path), "place")
    found = asyncio.run(cube.found())
    assert found is not None
    with pytest.raises(ArrayExistsError, match="complete"):
        asyncio.run(cube.create(replace(plan_of(), digest=found.digest)))

    assert (tmp_path / ROOT_KEY).read_bytes() == before


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("notes.txt", b"mine"),
        ("deep/down/notes.txt", b"mine"),
        (ROOT_KEY, b'{"zarr_format": 3, "node_type": "group"}'),
        (ROOT_KEY, b'{"attributes": null}'),
        (ROOT_KEY, b'{"attributes": {"pixel_gather": 3}}'),
        (ROOT_KEY, b"[]"),
    ],
)
def test_found_refuses_what_no_gather_made(path: str, content: bytes) -> None:
    """A folder with other content is refused and not changed."""
    store = in_memory()
    obstore.put(store, path, content)

    with pytest.raises(ArrayExistsError, match="choose another place"):
        asyncio.run(ZarrCube(store, "place").found())

    assert bytes(obstore.get(store, path).bytes()) == content


@pytest.mark.parametrize("content", [b"\xff not json", b'{"attributes": {', b""])
def test_found_names_a_damaged_root(content: bytes) -> None:
    """It may be a cube of months. So nobody is told that no gather has made it."""
    store = in_memory()
    obstore.put(store, ROOT_KEY, content)

    with pytest.raises(ArrayExistsError, match=r"place: its zarr\.json is damaged"):
        asyncio.run(ZarrCube(store, "place").found())

    assert bytes(obstore.get(store, ROOT_KEY).bytes()) == content


def test_found_takes_a_folder_of_control_files_for_empty() -> None:
    """Control files alone are left from a run that stopped before its claim. The location counts as empty."""
    store = in_memory()
    assert asyncio.run(ZarrCube(store, "place").found()) is None

    obstore.put(store, ".gather/plan.msgpack", b"")

    assert asyncio.run(ZarrCube(store, "place").found()) is None


def test_cube_that_cannot_be_written_is_a_store_error(tmp_path: Path) -> None:
    """The error names the location as the user wrote it."""
    gather(tmp_path / "cube", {"a": A})
    plan = plan_of()
    (tmp_path / "file").write_text("in the way")
    (tmp_path / "cube" / "band_1" / "c" / "9").write_text("in the way")
    cube = ZarrCube(LocalStore(tmp_path / "cube"), "my/cube")

    with pytest.raises(StoreError, match=r"^my/cube could not be written"):
        asyncio.run(_write_ones(cube, plan, 9))


async def _write_ones(cube: ZarrCube, plan: CubePlan, row: int) -> None:
    """Write a shard of one row."""
    encoder = cube.encoder(plan, plan.arrays[0], [np.ones((1, 16, 16), "uint16")], n_before=0)
    await encoder.encode_rows(0, 1)
    await cube.write_shard(plan.object_keys(row, 0)[0], encoder, replaces=None)


CUBES_ROOT = f"cubes/{ROOT_KEY}"


@contextmanager
def serving_cubes(there: CloudStore) -> Iterator[Store]:
    """Serve the store on loopback. Yields a client of its bucket."""
    with serving(there) as endpoint:
        yield S3Store(
            "cubes",
            endpoint=endpoint,
            region="eu-central-1",
            skip_signature=True,
            client_options={"allow_http": True},
        )


def conflicting(n: int, puts: list[str]) -> PassOn:
    """Return what answers the first conditional PUTs by 409, as S3 does while another is under way.

    Args:
        n: How many.
        puts: Gets the path of each conditional PUT.
    """

    def answer(method: str, path: str, headers: dict[str, str], _body: bytes) -> Answer | None:
        if method != "PUT" or {"if-none-match", "if-match"}.isdisjoint(map(str.lower, headers)):
            return None
        puts.append(path)
        return (409, b"", {}) if len(puts) <= n else None

    return answer


def before(request: str, happen: Callable[[], None]) -> PassOn:
    """Return what lets something happen once, right before a request. Its method and path have that text."""
    waiting = [happen]

    def pass_on(method: str, path: str, _headers: dict[str, str], _body: bytes) -> None:
        if waiting and request in f"{method} {path}":
            waiting.pop()()

    return pass_on


def test_create_tries_again_while_another_put_is_under_way() -> None:
    """S3 answers 409 to the second of two PUTs. If the first fails, the location is still free."""
    puts: list[str] = []
    there = CloudStore(pass_on=conflicting(2, puts))
    plan = plan_of()

    with serving_cubes(there) as store:
        made = asyncio.run(ZarrCube(store, "place").create(plan))

    assert made == plan
    assert len(puts) == 4
    assert there.objects.keys() == {CUBES_ROOT, "cubes/band_1/zarr.json"}


@pytest.mark.long
def test_create_that_always_conflicts_is_worth_another_try() -> None:
    """The error is a BusyError, which the state machine retries."""
    there = CloudStore(pass_on=conflicting(99, []))
    with serving_cubes(there) as store, pytest.raises(BusyError, match="run again"):
        asyncio.run(ZarrCube(store, "place").create(plan_of()))


def test_found_sees_a_cube_that_is_claimed_while_it_looks() -> None:
    """A cube that appears between the GET and the listing is found. It is not refused as other content."""
    plan = plan_of()
    with serving_cubes(made := CloudStore()) as store:
        asyncio.run(ZarrCube(store, "place").create(plan))

    late = CloudStore()
    late.pass_on = before("list-type=2", lambda: late.objects.update(made.objects))
    with serving_cubes(late) as store:
        found = asyncio.run(ZarrCube(store, "place").found())

    assert found is not None
    assert found.claim == plan.claim


def report_of(plan: CubePlan) -> Report:
    """Return the report of a cube without sources."""
    return Tally(plan=plan).report()


def plan_anew(there: CloudStore) -> None:
    """Change the root's metadata to another claim."""
    there.objects[CUBES_ROOT] = as_if_planned_anew(there.objects[CUBES_ROOT])


@contextmanager
def begun_finish(store: Store, plan: CubePlan) -> Iterator[Callable[[], None]]:
    """Find the cube and stage its files, as a finish does. Yields what publishes them."""
    cube = ZarrCube(store, "place")
    found = asyncio.run(cube.found_among_files())
    assert found is not None

    with cube.stage() as staged:
        asyncio.run(staged.create(plan))
        asyncio.run(staged.complete(plan, report_of(plan)))
        yield lambda: asyncio.run(publish(cube, plan, staged, found=found))


def test_finish_does_not_replace_what_was_planned_anew_at_the_last_moment() -> None:
    """S3 accepts the last PUT only if it replaces the metadata that the finish saw when it began."""
    there, plan = CloudStore(), plan_of()

    with serving_cubes(there) as store:
        asyncio.run(ZarrCube(store, "place").create(plan))
        with begun_finish(store, plan) as goes_on:
            there.pass_on = before(f"PUT /{CUBES_ROOT}", lambda: plan_anew(there))
            with pytest.raises(ArrayExistsError, match="planned anew since"):
                goes_on()

    assert json.loads(there.objects[CUBES_ROOT])["attributes"]["complete"] == 0


def test_second_finish_of_a_complete_cube_writes_nothing() -> None:
    """Both began while the cube was not complete. The later one finds that all is done."""
    there, plan = CloudStore(), plan_of()

    with serving_cubes(there) as store:
        asyncio.run(ZarrCube(store, "place").create(plan))
        with begun_finish(store, plan) as late, begun_finish(store, plan) as first:
            first()
            before = dict(there.objects)
            with pytest.raises(AlreadyCommittedError):
                late()

    assert there.objects == before
    assert json.loads(there.objects[CUBES_ROOT])["attributes"]["complete"] == 1


def test_finish_in_a_folder_refuses_a_cube_that_was_planned_anew(tmp_path: Path) -> None:
    """A disk has no conditional PUT, so the group's metadata are compared right before."""
    folder = tmp_path / "cube"
    store, plan = LocalStore(folder, mkdir=True), plan_of()
    asyncio.run(ZarrCube(store, "place").create(plan))

    with begun_finish(store, plan) as goes_on:
        shutil.rmtree(folder)
        asyncio.run(ZarrCube(store, "place").create(replace(plan, planned_at=plan.planned_at + 1)))
        before = (folder / ROOT_KEY).read_bytes()
        with pytest.raises(ArrayExistsError, match="planned anew since"):
            goes_on()

    assert (folder / ROOT_KEY).read_bytes() == before


def test_receipt_has_the_digest_of_every_file_and_shard(tmp_path: Path) -> None:
    """Both can be computed from what lies in the folder."""
    output = {"layout": {"chunk": [1, 8, 8], "shard_rows": 2}}
    window = {"pixels": [0, 0, 20, 20]}
    report = gather(tmp_path, {"a": A, "b": A + 1, "c": A + 2}, output=output, window=window)

    receipt = json.loads((tmp_path / RECEIPT_KEY).read_text())
    band = open_(tmp_path).band_1.to_numpy()
    rows = [digest_of(row) for row in band]
    assert receipt["shards"] == {
        "band_1/c/0/0/0": digest_of_rows(rows[:2]),
        "band_1/c/1/0/0": digest_of_rows(rows[2:]),
    }
    assert receipt["pixels"] == report.digest
    assert set(receipt["files"]) == {"headers.parquet", "quicklooks.npz", "rows.parquet"}
    for name, told in receipt["files"].items():
        content = (tmp_path / name).read_bytes()
        assert told == {"nbytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
