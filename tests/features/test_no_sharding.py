"""Cubes without shards have the pixels of those with shards, and GDAL 3.12 reads them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
import zarr

from pixel_gather import (
    Settings,
    compact,
    export,
    join,
    make_plan,
    make_virtual,
    open_cube,
    open_joined,
    replay,
    verify,
    versions,
)
from pixel_gather.core.errors import RequestError
from support.resolutions import scenes
from support.undrawn import gather_undrawn, opened

WINDOW = {"pixels": [10, 20, 100, 90]}
N_ROWS = 6
CHUNK = [4, 90, 100]
"""Four rows: the last object of six rows is not full."""

CODECS = ("blosc-lz4", "blosc-zstd", "zstd")


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return scenes of two bands."""
    return scenes(tmp_path_factory.mktemp("scenes"), N_ROWS, {"red": 10, "nir": 10})


@pytest.fixture(scope="module")
def whole(sources: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a cube with shards."""
    place = tmp_path_factory.mktemp("whole") / "cube"
    gather_undrawn({"sources": sources, "window": WINDOW}, to=place)
    return place


def objects_of(place: Path) -> list[str]:
    """Return the objects that hold the pixels of a band."""
    return sorted(str(each.relative_to(place)) for each in place.glob("red/c/**/*") if each.is_file())


def check_same(place: Path, whole: Path, n_rows: int = N_ROWS) -> None:
    """Check all pixels by zarr-python and by GDAL, which knows no shards."""
    for name in ("red", "nir"):
        pixels = opened(whole)[name].values[:n_rows]
        np.testing.assert_array_equal(opened(place)[name], pixels)
        with rasterio.open(f'ZARR:"{place}":/{name}') as found:
            np.testing.assert_array_equal(found.read(), pixels)
            assert (found.crs, found.nodata) == ("EPSG:32632", 0)
            assert found.transform[:6] == tuple(opened(place).attrs["spatial:transform"])
    assert verify(place).differences == ()


@pytest.mark.long
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(
    ("layout", "n_objects"), [("balanced", 1), ("slice", 6), ("series", 1), ({"chunk": CHUNK}, 2)]
)
def test_pixels_are_those_of_shards(
    *, sources: dict[str, Any], whole: Path, codec: str, layout: Any, n_objects: int, tmp_path: Path
) -> None:
    """In every layout and codec. The metadata name no shards, and statistics are the same."""
    output = {"sharding": False, "layout": layout, "codec": codec}

    gathered = gather_undrawn({"sources": sources, "window": WINDOW, "output": output}, to=tmp_path / "cube")

    check_same(tmp_path / "cube", whole)
    assert (
        gathered.report.digest
        == gather_undrawn({"sources": sources, "window": WINDOW}, to=whole).report.digest
    )
    assert len(objects_of(tmp_path / "cube")) == n_objects
    array: Any = zarr.open_group(tmp_path / "cube", mode="r")["red"]
    assert array.shards is None
    assert array.chunks[1:] == (90, 100)
    for name in ("mean", "valid_fraction", "etag", "status"):
        np.testing.assert_array_equal(opened(tmp_path / "cube")[name], opened(whole)[name])


@pytest.mark.long
@pytest.mark.parametrize("codec", CODECS)
def test_a_cube_grows_and_failed_rows_are_read_again(
    *, sources: dict[str, Any], whole: Path, codec: str, tmp_path: Path
) -> None:
    """A chunk with former rows is written again as a whole. There is nothing to compact."""
    place, rows = tmp_path / "cube", sources["rows"]
    output = {"sharding": False, "layout": {"chunk": CHUNK}, "codec": codec}
    lost = Path(rows[2]["href"])
    away = lost.rename(lost.with_suffix(".away"))
    try:
        request = {"sources": {"rows": rows[:6]}, "window": WINDOW}
        gather_undrawn(request | {"output": output}, to=place)
    finally:
        away.rename(lost)
    assert opened(place)["status"].values.max(axis=-1).tolist() == [0, 2, 0]
    first = (place / "nir/c/0/0/0").read_bytes()

    append = {"sources": {"rows": rows[6:]}, "window": WINDOW, "output": {"append_to": str(place)}}
    assert gather_undrawn(append).n_appended == 3

    check_same(place, whole)
    assert not opened(place)["status"].values.any()
    assert objects_of(place) == ["red/c/0/0/0", "red/c/1/0/0"]
    assert (place / "nir/c/0/0/0").read_bytes() != first
    with open_cube(place, 1) as former:
        np.testing.assert_array_equal(former["nir"], open_cube(place)["nir"][:3])
    assert compact(place).n_shards == 0
    assert [each.n_rows for each in versions(place)] == [3, 6]
    with pytest.raises(RequestError, match=r"output\.sharding: the cube has no shards; .* have shards"):
        make_plan(append | {"duplicates": "again", "output": {"append_to": str(place), "sharding": True}})


@pytest.mark.long
def test_large_windows_are_cut_into_strips(sources: dict[str, Any], whole: Path, tmp_path: Path) -> None:
    """Each strip of a row is an object."""
    settings = Settings(draws_report=False, max_task_nbytes=40 * 100 * 2 * 2)
    output = {"sharding": False}
    gather_undrawn(
        {"sources": sources, "window": WINDOW, "output": output}, to=tmp_path / "cube", settings=settings
    )

    check_same(tmp_path / "cube", whole)
    assert len(objects_of(tmp_path / "cube")) == 3 * N_ROWS


@pytest.mark.long
def test_other_features_know_such_cubes(sources: dict[str, Any], whole: Path, tmp_path: Path) -> None:
    """Exports, replays, joins and their copies."""
    output = {"sharding": False, "archive": "valley"}
    places = [tmp_path / str(n) for n in range(2)]
    for n, place in enumerate(places):
        rows = sources["rows"][6 * n :][:6]
        gather_undrawn({"sources": {"rows": rows}, "window": WINDOW, "output": output}, to=place)
        assert replay(place).counts == {"same": 6}

    export(places[0], to=tmp_path / "row.tif", measurements=["red"])
    join(places, to=tmp_path / "joined")
    join(places, to=tmp_path / "copy", mode="copy")

    pixels = opened(whole)["red"].values
    with rasterio.open(min(tmp_path.glob("*.tif"))) as tif:
        np.testing.assert_array_equal(tif.read(1), pixels[0])
    np.testing.assert_array_equal(open_joined(tmp_path / "joined")["red"], open_cube(whole)["red"])
    np.testing.assert_array_equal(opened(tmp_path / "copy")["red"], pixels)


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (
            {"output": {"codec": "none"}},
            "goes with the codecs blosc-lz4, blosc-zstd and zstd: choose one",
        ),
        ({"output": {"codec": "source"}}, "sharding: false goes with the codecs"),
        ({"output": {"bands": "axis"}}, "an axis of bands needs shards"),
        ({"output": {"layout": {"chunk": [1, 9, 100], "shard_rows": 2}}}, "leave shard_rows out"),
        ({"output": {"layout": {"chunk": [1, 90, 50]}}}, "ask for chunks of 1, 90, 100"),
        (
            {"window": None, "windows": {"table": "chips.csv", "size": [8, 8]}},
            "windows does not go with output",
        ),
    ],
)
def test_what_needs_shards_is_refused(
    sources: dict[str, Any], request_: dict[str, Any], message: str
) -> None:
    """The message says what to leave out."""
    given = {"sources": sources, "window": WINDOW} | request_
    given = {name: value for name, value in given.items() if value is not None}
    given["output"] = {"sharding": False} | request_.get("output", {})

    with pytest.raises(RequestError, match=message):
        make_plan(given)


def test_a_virtual_cube_has_no_objects(sources: dict[str, Any], tmp_path: Path) -> None:
    """It refers to the tiles of its sources."""
    with pytest.raises(RequestError, match=r"output\.sharding: a virtual cube has no shards of its own"):
        make_virtual(
            {"sources": sources, "window": WINDOW, "output": {"sharding": False}}, to=tmp_path / "cube"
        )
