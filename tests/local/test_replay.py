"""A cube whose sources are read again: each way in which a source may have changed since."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
import xarray as xr
from click.testing import CliRunner
from rasterio.transform import from_origin

from pixel_gather import Drift, Replayed, RequestError, Settings, SourceDrift, StoreError, replay
from pixel_gather_cli.main import command
from support.undrawn import gather_undrawn

N = 6
UNDRAWN = Settings(draws_report=False)


def write(file: Path, *, value: int, dtype: str = "uint16", side: int = 48) -> None:
    """Write a small GeoTIFF, as another object than the one that was there."""
    file.unlink(missing_ok=True)
    pixels = np.arange(side * side, dtype=dtype).reshape(1, side, side) + np.dtype(dtype).type(value)
    profile = {"driver": "GTiff", "count": 1, "width": side, "height": side, "dtype": dtype, "nodata": 0}
    grid = {"crs": "EPSG:32632", "transform": from_origin(600_000, 5_100_000, 10, 10)}
    with rasterio.open(file, "w", tiled=True, blockxsize=16, blockysize=16, **profile, **grid) as out:
        out.write(pixels)


def named(folder: Path, n: int) -> Path:
    """Return the file of a day."""
    return folder / f"scene_2024-06-{n + 1:02}.tif"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with six files, of which the last is no image, and their cube."""
    folder = tmp_path_factory.mktemp("made")
    files = folder / "files"
    files.mkdir()
    for n in range(N):
        write(named(files, n), value=n)
    named(files, N - 1).write_bytes(b"no image")
    return folder


@pytest.fixture
def cube(made: Path, tmp_path: Path) -> Path:
    """Return a cube of files that a test may change. It has shards of two rows in two strips."""
    shutil.copytree(made / "files", tmp_path / "files")
    request = {
        "sources": {"prefix": str(tmp_path / "files"), "glob": "*.tif", "time": "_%Y-%m-%d"},
        "window": {"pixels": [8, 8, 20, 18]},
        "output": {"layout": {"chunk": [1, 16, 16], "shard_rows": 2}},
    }
    gather_undrawn(request, to=tmp_path / "cube.zarr")
    return tmp_path / "cube.zarr"


def nothing(_: Path) -> None:
    """Change nothing."""


def touched(file: Path) -> None:
    """Replace a file by an equal one."""
    content = file.read_bytes()
    file.unlink()
    file.write_bytes(content)


def outside(file: Path) -> None:
    """Change a pixel that the window does not touch."""
    with rasterio.open(file, "r+") as out:
        pixels = out.read()
        pixels[0, 40, 40] += 1
        out.write(pixels)


def inside(file: Path) -> None:
    """Change one pixel of the window."""
    with rasterio.open(file, "r+") as out:
        pixels = out.read()
        pixels[0, 25, 12] += 1
        out.write(pixels)


def other_dtype(file: Path) -> None:
    """Replace a file by one of another dtype."""
    write(file, value=1, dtype="float32")


def damaged(file: Path) -> None:
    """Replace a file by what is no image."""
    file.write_bytes(b"no image either")


def mended(file: Path) -> None:
    """Put the last file back as it should be."""
    write(named(file.parent, N - 1), value=N - 1)


def one_more(file: Path) -> None:
    """Put a new file beside the others."""
    write(named(file.parent, N), value=N)


CASES = [
    pytest.param(nothing, {}, None, id="nothing"),
    pytest.param(touched, {Drift.ETAG_CHANGED: 1}, 1, id="equal-file"),
    pytest.param(outside, {Drift.ETAG_CHANGED: 1}, 1, id="outside-the-window"),
    pytest.param(inside, {Drift.PIXELS_DIFFER: 1}, 1, id="inside-the-window"),
    pytest.param(Path.unlink, {Drift.GONE: 1}, 1, id="gone"),
    pytest.param(damaged, {Drift.FAILED_NOW: 1}, 1, id="damaged"),
    pytest.param(other_dtype, {Drift.FAILED_NOW: 1}, 1, id="other-dtype"),
    pytest.param(mended, {Drift.READ_NOW: 1}, N - 1, id="mended"),
    pytest.param(one_more, {Drift.NEW: 1}, None, id="one-more"),
]


@pytest.mark.parametrize(("change", "expected", "row"), CASES)
def test_each_change_is_found_and_nothing_else(
    cube: Path, change: Callable[[Path], None], expected: dict[Drift, int], row: int | None
) -> None:
    """One source has changed; the others are the same. The cube is not written to."""
    before = {file: file.stat().st_mtime_ns for file in cube.rglob("*")}
    change(named(cube.parent / "files", 1))
    seen: list[SourceDrift] = []

    found = replay(cube, settings=UNDRAWN, on_source=seen.append)

    assert {each.drift: 1 for each in found.drifted} == expected
    assert found.remarks == []
    assert found.is_same == (not expected)
    assert found.counts.total() == len(seen) == N + expected.get(Drift.NEW, 0)
    assert found.counts[Drift.SAME] == N - sum(expected.values()) + expected.get(Drift.NEW, 0)
    assert [each.row for each in found.drifted] == [row] * len(expected)
    assert {file: file.stat().st_mtime_ns for file in cube.rglob("*")} == before


def test_versions_alone_tell_what_was_replaced_without_reading_pixels(cube: Path) -> None:
    """A file with other pixels has another version. A damaged file is there, so only its version differs."""
    files = cube.parent / "files"
    inside(named(files, 0))
    damaged(named(files, 1))
    named(files, 2).unlink()

    found = replay(cube, headers_only=True)

    assert found.counts == {Drift.SAME: 2, Drift.ETAG_CHANGED: 2, Drift.GONE: 1, Drift.READ_NOW: 1}


def test_new_cube_is_gathered_from_the_same_list_and_compared(cube: Path, tmp_path: Path) -> None:
    """The new cube has the rows of the old one, as they are now; a new file is told and not gathered."""
    files = cube.parent / "files"
    inside(named(files, 1))
    named(files, 2).unlink()
    one_more(named(files, 1))

    found = replay(cube, tmp_path / "new.zarr", settings=UNDRAWN)

    assert found.to == str(tmp_path / "new.zarr")
    assert found.counts == {Drift.SAME: 4, Drift.PIXELS_DIFFER: 1, Drift.GONE: 1, Drift.NEW: 1}
    old, new = xr.open_zarr(cube), xr.open_zarr(tmp_path / "new.zarr")
    assert new.sizes == old.sizes
    assert new["href"].values.tolist() == old["href"].values.tolist()
    assert new["time"].values.tolist() == old["time"].values.tolist()
    assert int((new["band_1"][1] != old["band_1"][1]).sum()) == 1


def test_untouched_sources_make_a_cube_of_the_same_digest(cube: Path, tmp_path: Path) -> None:
    """The request and the list are those of the receipt, so both digests are."""
    found = replay(cube, tmp_path / "new.zarr", settings=UNDRAWN)

    assert found.is_same
    old, new = (json.loads((each / "receipt.json").read_text()) for each in (cube, tmp_path / "new.zarr"))
    assert (new["digest"], new["pixels"], new["shards"]) == (old["digest"], old["pixels"], old["shards"])


def test_all_sources_are_told_gone_where_none_can_be_planned_with(cube: Path) -> None:
    """Without any header there is no plan. The versions are looked up, and a remark says why."""
    for n in range(N):
        named(cube.parent / "files", n).unlink()

    found = replay(cube)

    assert found.counts == {Drift.GONE: N - 1, Drift.FAILED_NOW: 1}
    assert found.remarks[0].startswith("no pixels were compared: sources: none of the")


def item(name: str, hrefs: dict[str, str]) -> dict[str, Any]:
    """Return a STAC item with two assets."""
    ring = [[10, 45], [11, 45], [11, 47], [10, 47], [10, 45]]
    return {
        "type": "Feature",
        "stac_version": "1.0.0",
        "id": name,
        "collection": "c",
        "geometry": {"type": "Polygon", "coordinates": [ring]},
        "bbox": [10, 45, 11, 47],
        "properties": {"datetime": f"2024-06-{name[-2:]}T10:00:00Z", "eo:cloud_cover": 5.0},
        "assets": {band: {"href": href} for band, href in hrefs.items()},
        "links": [],
    }


@pytest.fixture
def searched(made: Path, tmp_path: Path) -> Path:
    """Return a cube of two bands of two scenes that a search has found; one scene lacks a band."""
    for n in range(5):
        shutil.copy(named(made / "files", n), tmp_path)
    hrefs = [str(named(tmp_path, n)) for n in range(5)]
    items = [item("s01", {"red": hrefs[0], "nir": hrefs[1]}), item("s02", {"red": hrefs[2]})]
    (tmp_path / "items.json").write_text(json.dumps({"type": "FeatureCollection", "features": items}))
    request = {
        "sources": {"stac": {"items": str(tmp_path / "items.json"), "assets": ["red", "nir"]}},
        "window": {"pixels": [0, 0, 30, 30]},
        "output": {"codec": "blosc-zstd"},
    }
    gather_undrawn(request, to=tmp_path / "cube.zarr")
    return tmp_path / "cube.zarr"


def test_search_is_asked_again_for_what_is_new(searched: Path, tmp_path: Path) -> None:
    """Bands are compared one by one. A scene that was added since is told by its files."""
    folder = searched.parent
    inside(named(folder, 1))
    named(folder, 2).unlink()
    document = json.loads((folder / "items.json").read_text())
    document["features"].append(item("s03", {"red": str(named(folder, 3)), "nir": str(named(folder, 4))}))
    (folder / "items.json").write_text(json.dumps(document))

    found = replay(searched)
    again = replay(searched, tmp_path / "new.zarr", settings=UNDRAWN)

    told = [(each.row, each.band, Path(each.href).name[-6:-4], each.drift) for each in found.drifted]
    assert told == [
        (0, "nir", "02", Drift.PIXELS_DIFFER),
        (1, "red", "03", Drift.GONE),
        (None, "red", "04", Drift.NEW),
        (None, "nir", "05", Drift.NEW),
    ]
    assert again.counts == found.counts
    assert (tmp_path / "new.zarr/sources.parquet").read_bytes() == (searched / "sources.parquet").read_bytes()


def test_search_that_cannot_be_repeated_is_a_remark(searched: Path) -> None:
    """The sources are compared all the same. The replay does not claim that nothing has changed."""
    (searched.parent / "items.json").unlink()

    found = replay(searched)

    assert found.counts == {Drift.SAME: 3}
    assert found.remarks[0].startswith("the search cannot be repeated: ")
    assert not found.is_same


def test_lossy_cube_is_compared_within_its_tolerance(tmp_path: Path) -> None:
    """Pixels that were stored with an error of at most 0.5 are the same; a change of 3 is none of that."""
    for n in range(2):
        write(named(tmp_path, n), value=n, dtype="float32")
    output = {"codec": "zfp", "zfp_tolerance": 0.5}
    request = {"sources": [str(named(tmp_path, n)) for n in range(2)], "window": "centre", "output": output}
    gather_undrawn(request, to=tmp_path / "cube.zarr")
    assert replay(tmp_path / "cube.zarr").is_same

    write(named(tmp_path, 1), value=4, dtype="float32")

    assert replay(tmp_path / "cube.zarr").counts == {Drift.SAME: 1, Drift.PIXELS_DIFFER: 1}


def test_new_cube_and_versions_alone_exclude_each_other(cube: Path) -> None:
    """Both at one time make no sense. Nothing is read or written."""
    with pytest.raises(RequestError, match="headers-only"):
        replay(cube, cube.parent / "new.zarr", headers_only=True)

    assert not (cube.parent / "new.zarr").exists()


def test_cube_without_a_shard_is_told_to_be_verified(cube: Path) -> None:
    """A damaged cube is not the sources' drift."""
    shard = cube / "band_1/c/0/0/0"
    shard.write_bytes(shard.read_bytes()[:-20])

    with pytest.raises(StoreError, match="pixel-gather verify"):
        replay(cube)


def test_command_shows_what_changed_and_exits_with_one(cube: Path) -> None:
    """0: the same. 1: something changed; a line for each source, or CSV of all, or JSON."""
    run = CliRunner().invoke
    assert run(command, ["replay", str(cube)], standalone_mode=False).return_value == 0
    named(cube.parent / "files", 1).unlink()

    text = run(command, ["replay", str(cube)], standalone_mode=False)
    as_json = run(command, ["replay", str(cube), "--json"], standalone_mode=False)
    as_csv = run(command, ["replay", str(cube), "--csv"], standalone_mode=False)

    assert text.return_value == as_json.return_value == as_csv.return_value == 1
    assert "6 sources: 5 same, 1 gone" in text.stdout
    document = json.loads(as_json.stdout)
    assert document["counts"] == {"same": 5, "gone": 1}
    assert document["drifted"][0] | {"href": "", "reason": "", "etag_then": ""} == {
        "row": 1,
        "band": None,
        "href": "",
        "drift": "gone",
        "status_then": "ok",
        "status_now": "missing",
        "etag_then": "",
        "etag_now": None,
        "reason": "",
    }
    assert len(as_csv.stdout.splitlines()) == 1 + N


def test_memory_of_what_is_the_same_is_a_count() -> None:
    """A source that is the same is counted and not kept."""
    found = Replayed(place="cube")

    found.add(SourceDrift(row=0, band=None, href="a", drift=Drift.SAME))

    assert found.counts == {Drift.SAME: 1}
    assert found.drifted == []
