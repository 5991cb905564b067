"""Cubes opened in other people's tools: by the engine of xarray, and as docs/open.md says."""

import re
import shlex
import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import rasterio
import xarray as xr
import zarr

from infra.node_tools import node_environment, node_modules
from pixel_gather import (
    export,
    forget,
    gather,
    join,
    make_virtual,
    open_cube,
    open_joined,
    open_virtual,
    versions,
)
from pixel_gather.core.errors import RequestError
from pixel_gather.in_process.settings import Settings
from support.command_line import run
from support.joined_cubes import FILES, gather_member
from support.viewed_cubes import SIDE, gathered_valley

ENGINE = "pixel-gather"
PROJECT = Path(__file__).parents[2]
PAGE = (PROJECT / "docs/open.md").read_text()
VIEWER = PROJECT / "scripts/viewer"
TENSORSTORE = "tensorstore==0.1.86"


@pytest.fixture(scope="module")
def valley(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a cube of three rows and four bands."""
    return gathered_valley(tmp_path_factory.mktemp("open"), n_rows=3).place


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a cube in two versions of one row each."""
    cube = tmp_path_factory.mktemp("grown") / "cube.zarr"
    request = {"window": {"pixels": [0, 0, 40, 30]}}
    quiet = Settings(draws_report=False)
    gather(request | {"sources": FILES[:1]}, to=cube, settings=quiet)
    gather(request | {"sources": FILES[1:2], "output": {"append_to": cube}}, settings=quiet)
    return cube


def test_a_version_is_a_number_or_a_time_of_any_package(grown: Path) -> None:
    """Other types are refused by name. True is no version 1."""
    after = datetime.now(UTC) + timedelta(days=1)
    for at in (2, np.int64(2), after, after.date()):
        assert open_cube(grown, cast("Any", at)).sizes["source"] == 2
        assert xr.open_dataset(grown, engine=ENGINE, at=at).sizes["source"] == 2
    assert open_cube(grown, cast("Any", np.int64(1))).sizes["source"] == 1

    for wrong in (1.5, True, [1]):
        with pytest.raises(RequestError, match=f"version: it is of type {type(wrong).__name__}; write a num"):
            open_cube(grown, cast("Any", wrong))
        with pytest.raises(RequestError, match=f"before: it is of type {type(wrong).__name__}; write a num"):
            forget(grown, cast("Any", wrong))


@pytest.mark.long
def test_engine_opens_a_cube_as_it_is_and_as_it_was(grown: Path) -> None:
    """A version is a number or a time."""
    first = versions(grown)[0].committed_at

    with xr.open_dataset(grown, engine=ENGINE) as found, open_cube(grown) as expected:
        xr.testing.assert_identical(found, expected)
    with open_cube(grown, 1) as expected:
        for at in (1, "1", first, np.datetime64(first.removesuffix("+00:00")).item()):
            with xr.open_dataset(grown, engine=ENGINE, at=at) as found:
                xr.testing.assert_identical(found, expected)


@pytest.mark.long
def test_engine_leaves_variables_out_and_is_asked_for_by_name(valley: str) -> None:
    """Other files are none of its business."""
    with xr.open_dataset(valley, engine=ENGINE, drop_variables=["red", "none"]) as found:
        assert "green" in found
        assert "red" not in found
    assert not xr.backends.list_engines()[ENGINE].guess_can_open(valley)
    with pytest.raises(RequestError, match="it is for joined cubes"):
        xr.open_dataset(valley, engine=ENGINE, group="x")


@pytest.mark.long
def test_engine_opens_joined_and_virtual_cubes(valley: str, tmp_path: Path) -> None:
    """As the functions of their own do."""
    for n, year in enumerate((2020, 2021)):
        gather_member(tmp_path / f"{n}.zarr", n_rows=4, year=year, folder=tmp_path)
    join([tmp_path / "0.zarr", tmp_path / "1.zarr"], to=tmp_path / "joined.icechunk")
    request = {"sources": str(Path(valley).parent / "sources.csv"), "window": {"pixels": [0, 0, SIDE, SIDE]}}
    make_virtual(request, to=tmp_path / "virtual.icechunk")

    for place, opened in (("joined", open_joined), ("virtual", open_virtual)):
        found = xr.open_dataset(tmp_path / f"{place}.icechunk", engine=ENGINE)
        xr.testing.assert_identical(found, opened(tmp_path / f"{place}.icechunk"))


@pytest.mark.long
@pytest.mark.parametrize("kind", ["plain", "joined", "virtual"])
def test_arguments_of_xarray_say_how_values_are_decoded(valley: str, kind: str, tmp_path: Path) -> None:
    """Those of its other engines are refused by name, and with what to write instead."""
    place = Path(valley)
    opened: Any = open_cube
    if kind != "plain":
        place = tmp_path / "references.icechunk"
        opened = open_joined if kind == "joined" else open_virtual
    if kind == "joined":
        join([valley], to=place)
    if kind == "virtual":
        sources = str(Path(valley).parent / "sources.csv")
        make_virtual({"sources": sources, "window": {"pixels": [0, 0, SIDE, SIDE]}}, to=place)

    decoded = xr.open_dataset(place, engine=ENGINE)
    stored = xr.open_dataset(place, engine=ENGINE, mask_and_scale=False)
    plain = xr.open_dataset(place, engine=ENGINE, decode_cf=False)

    assert decoded["red"].dtype.kind == "f"
    assert decoded["time"].dtype.kind == "M"
    assert stored["red"].dtype == plain["red"].dtype == np.uint16
    assert stored["time"].dtype.kind == "M"
    assert plain["time"].dtype.kind != "M"
    np.testing.assert_array_equal(stored["red"], plain["red"])
    xr.testing.assert_identical(opened(place, mask_and_scale=False), stored)
    assert opened(place, decode_cf=False)["red"].dtype == np.uint16
    with pytest.raises(RequestError, match=r"storage_options: there is no such argument; .* stores=Store"):
        xr.open_dataset(place, engine=ENGINE, storage_options={"anon": True})
    with pytest.raises(RequestError, match="version: it is at here: at=2"):  # as open_cube calls it
        xr.open_dataset(place, engine=ENGINE, version=1)


def test_former_versions_are_decoded_in_the_same_way(grown: Path) -> None:
    """Their metadata are read from another file."""
    decoded, stored = open_cube(grown, 1), open_cube(grown, 1, mask_and_scale=False)

    assert "_FillValue" not in decoded["band_1"].attrs
    assert "_FillValue" in stored["band_1"].attrs
    assert stored.sizes["source"] == 1


@pytest.fixture(scope="module")
def grown_valley(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a cube without shards whose last row was put into a chunk with others."""
    whole = Path(gathered_valley(tmp_path_factory.mktemp("all"), n_rows=3).place)
    lines = (whole.parent / "sources.csv").read_text().split()[1:]
    rows = [dict(zip(("href", "time", "band"), line.split(","), strict=True)) for line in lines]
    last = {"rows": [each for each in rows if each["time"] == rows[2]["time"]]}
    output = {"layout": {"chunk": [3, SIDE, SIDE]}, "sharding": False, "expected_rows": 3}
    alone = gathered_valley(tmp_path_factory.mktemp("no-shards"), n_rows=2, output=output).place
    request_ = {"sources": last, "window": {"pixels": [0, 0, SIDE, SIDE]}, "output": {"append_to": alone}}
    gather(request_, settings=Settings(draws_report=False))
    return alone


def _block(heading: str, language: str, *, nth: int = 0) -> str:
    """Return a block of docs/open.md below a heading."""
    part = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return str(re.findall(rf"```{language}\n(.*?)```", part, re.DOTALL)[nth])


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the files of a clone, in which all commands of the page were typed in order."""
    folder = tmp_path_factory.mktemp("clone")
    (folder / "tests").symlink_to(PROJECT / "tests")
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for line in "".join(blocks).splitlines():
            program, *arguments = shlex.split(line)
            assert program == "pixel-gather"
            assert run(*arguments) == 0
    return folder


def _first_of(clone: Path) -> Any:
    """Return the first row of the page's cube by zarr-python, and which of its pixels have data."""
    array: Any = zarr.open_group(clone / "rain.zarr", mode="r")["band_1"]
    pixels = array[0]
    has_data = ~np.isnan(pixels) if np.isnan(array.fill_value) else pixels != array.fill_value
    assert has_data.any()
    assert not has_data.all()
    return pixels, has_data


@pytest.mark.long
@pytest.mark.parametrize(("heading", "nth"), [("xarray", 0), ("xarray", 1), ("zarr-python", 0)])
def test_block_of_python_reads_the_cube_of_the_page(
    clone: Path, heading: str, nth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it is written. Values are those of zarr-python, nodata as NaN in xarray."""
    monkeypatch.chdir(clone)
    names: dict[str, Any] = {}
    exec(_block(heading, "python", nth=nth), names)  # noqa: S102 # our own page

    found, (pixels, has_data) = np.asarray(names["first"]), _first_of(clone)
    assert (found[has_data] == pixels[has_data]).all()
    if heading == "xarray":
        assert np.isnan(found[~has_data]).all()
    else:
        np.testing.assert_array_equal(found, pixels)


def test_gdal_opens_the_cube_without_shards(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the address that the page gives to gdalinfo."""
    if tuple(map(int, rasterio.__gdal_version__.split(".")[:2])) < (3, 12):
        pytest.skip("GDAL before 3.12 reads no such cube")
    (address,) = re.findall(r"`gdalinfo '(.*?)'`", PAGE)
    monkeypatch.chdir(clone)

    with rasterio.open(address) as opened:
        np.testing.assert_array_equal(opened.read(1), _first_of(clone)[0])


@pytest.fixture(params=["the page's cube", "a cube without shards"])
def named(request: pytest.FixtureRequest) -> tuple[str, str]:
    """Return a cube that a block may open, and the name of an array: the page's own, or another."""
    if request.param == "the page's cube":
        clone: Path = request.getfixturevalue("clone")
        return str(clone / "rain.zarr"), "band_1"
    return request.getfixturevalue("grown_valley"), "red"


@pytest.mark.long
def test_block_of_tensorstore_reads_the_cube(named: tuple[str, str], tmp_path: Path) -> None:
    """In an environment of its own, which has nothing of ours. The page's own cube as it is written."""
    uv = shutil.which("uv")
    assert uv is not None, "uv is not on PATH: source scripts/setup.sh"
    place, name = Path(named[0]), named[1]
    script = _block("tensorstore", "python").replace("rain.zarr/band_1", f"{place.name}/{name}")
    script += f"\nimport numpy as np\nnp.save({str(tmp_path / 'first.npy')!r}, first)\n"
    command = [uv, "run", "--quiet", "--no-project", "--with", TENSORSTORE, "python", "-c", script]
    subprocess.run(command, check=True, cwd=place.parent)  # noqa: S603 # our own words

    array: Any = zarr.open_group(place, mode="r")[name]
    assert array[0].any()
    np.testing.assert_array_equal(np.load(tmp_path / "first.npy"), array[0])


@pytest.mark.long
def test_block_of_zarrita_reads_the_cube(named: tuple[str, str], tmp_path: Path) -> None:
    """In Node.js, with the version that the viewer has. The page's own cube as it is written."""
    (tmp_path / "node_modules").symlink_to(node_modules(VIEWER))
    place, name = Path(named[0]), named[1]
    (tmp_path / place.name).symlink_to(place)
    script = _block("zarrita, in JavaScript", "js").replace("rain.zarr", place.name).replace("band_1", name)
    script += "\nconst { buffer, byteOffset, byteLength } = first.data;"
    script += "\nprocess.stdout.write(Buffer.from(buffer, byteOffset, byteLength));"
    command = ["node", "--input-type=module", "-e", script]
    ended = subprocess.run(  # noqa: S603 # our own words
        command, check=True, cwd=tmp_path, env=node_environment(), capture_output=True
    )

    array: Any = zarr.open_group(place, mode="r")[name]
    pixels = array[0]
    np.testing.assert_array_equal(np.frombuffer(ended.stdout, pixels.dtype).reshape(pixels.shape), pixels)


def test_one_cog_for_each_row_has_the_pixels(valley: str, tmp_path: Path) -> None:
    """Read by the GDAL that is there, whatever its version."""
    array: Any = zarr.open_group(valley, mode="r")["red"]

    for row, file in enumerate(export(valley, to=tmp_path / "bolzano.tif", measurements=["red"])):
        with rasterio.open(file) as opened:
            assert opened.tags(ns="IMAGE_STRUCTURE")["LAYOUT"] == "COG"
            assert (opened.read(1) == array[row]).all()
