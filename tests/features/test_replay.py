"""A cube whose sources are read again: each way in which a source may have changed since."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
import rasterio
import xarray as xr
from click.testing import CliRunner

from pixel_gather import (
    Drift,
    Replayed,
    RequestError,
    Settings,
    SourceDrift,
    StoreError,
    StoreSettings,
    gather,
    replay,
)
from pixel_gather.core.model.status import Status
from pixel_gather.core.results.find_drift import Version, find_drift
from pixel_gather.core.results.own_checksum import with_checksum
from pixel_gather.features.replay.replay import _listed_request
from pixel_gather.in_process.places import open_existing
from pixel_gather.io.cube.stored_cube import StoredCube
from pixel_gather_cli.main import command
from scenes.scenes import item
from support.counted_s3 import s3_with
from support.geojson import collection
from support.images import write_image
from support.undrawn import gather_undrawn

N = 9
UNDRAWN = Settings(draws_report=False)


def write(file: Path, *, value: int, dtype: str = "uint16", side: int = 48) -> None:
    """Write a small GeoTIFF, as another object than the one that was there."""
    pixels = np.arange(side * side, dtype=dtype).reshape(side, side) + np.dtype(dtype).type(value)
    write_image(file, pixels, tiled=True, blockxsize=16, blockysize=16)


def named(folder: Path, n: int) -> Path:
    """Return the file of a day."""
    return folder / f"scene_2024-06-{n + 1:02}.tif"


def gathered(folder: Path) -> Path:
    """Return the cube of a folder's files, in shards of two rows."""
    request = {
        "sources": {"prefix": str(folder / "files"), "glob": "*.tif", "time": "_%Y-%m-%d"},
        "window": {"pixels": [8, 8, 20, 18]},
        "output": {"layout": {"chunk": [1, 16, 16], "shard_rows": 2}},
    }
    gather_undrawn(request, to=folder / "cube.zarr")
    return folder / "cube.zarr"


def filled(folder: Path) -> Path:
    """Write the files, of which the last is no image."""
    (folder / "files").mkdir()
    for n in range(N):
        write(named(folder / "files", n), value=n)
    named(folder / "files", N - 1).write_bytes(b"no image")
    return folder


@pytest.fixture(scope="module")
def cube(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the cube of files that nobody changes."""
    return gathered(filled(tmp_path_factory.mktemp("same")))


def equal(file: Path) -> None:
    """Replace a file by an equal one."""
    content = file.read_bytes()
    file.unlink()
    file.write_bytes(content)


def outside(file: Path) -> None:
    """Change a pixel that the window does not touch."""
    one_pixel(file, row=40, col=40)


def inside(file: Path) -> None:
    """Change one pixel of the window."""
    one_pixel(file, row=25, col=12)


def one_pixel(file: Path, *, row: int, col: int) -> None:
    """Add one to a pixel."""
    with rasterio.open(file, "r+") as out:
        pixels = out.read()
        pixels[0, row, col] += 1
        out.write(pixels)


def other_dtype(file: Path) -> None:
    """Replace a file by one of another dtype."""
    write(file, value=1, dtype="float32")


def damaged(file: Path) -> None:
    """Replace a file by what is no image."""
    file.write_bytes(b"no image either")


def mended(file: Path) -> None:
    """Put the last file there as it should be."""
    write(file, value=N - 1)


CHANGES: dict[int, tuple[Callable[[Path], None], Drift, Drift]] = {
    1: (equal, Drift.ETAG_CHANGED, Drift.ETAG_CHANGED),
    2: (outside, Drift.ETAG_CHANGED, Drift.ETAG_CHANGED),
    3: (inside, Drift.PIXELS_DIFFER, Drift.ETAG_CHANGED),
    4: (Path.unlink, Drift.GONE, Drift.GONE),
    5: (damaged, Drift.FAILED_NOW, Drift.ETAG_CHANGED),
    6: (other_dtype, Drift.FAILED_NOW, Drift.ETAG_CHANGED),
    N - 1: (mended, Drift.READ_NOW, Drift.UNKNOWN),
    N: (mended, Drift.NEW, Drift.NEW),
}
"""Number of the file: what is done to it, and how that is told with pixels and by versions alone."""


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a cube of which each file has changed in another way since. The last one is new."""
    made = gathered(filled(tmp_path_factory.mktemp("changed")))
    for n, (change, _, _) in CHANGES.items():
        change(named(made.parent / "files", n))
    return made


def told(found: Replayed) -> dict[int, Drift]:
    """Return the drift of each file by its number."""
    return {int(Path(each.href).stem[-2:]) - 1: each.drift for each in found.drifted}


def test_sources_that_nobody_changed_are_the_same(cube: Path) -> None:
    """Every source is told. The file that was no image is none now, which is the same."""
    seen: list[SourceDrift] = []

    found = replay(cube, on_source=seen.append)

    assert found.is_same
    assert found.counts == {Drift.SAME: N}
    assert [each.row for each in seen] == list(range(N))


def test_each_change_is_found_and_nothing_else(changed: Path) -> None:
    """The others are the same. Only new sources have no row. The cube is not written to."""
    before = {file: file.stat().st_mtime_ns for file in changed.rglob("*")}

    found = replay(changed)

    assert told(found) == {n: with_pixels for n, (_, with_pixels, _) in CHANGES.items()}
    assert found.counts[Drift.SAME] == N + 1 - len(CHANGES)
    assert found.remarks == []
    assert [each.row for each in found.drifted] == [*(n for n in CHANGES if n < N), None]
    assert {file: file.stat().st_mtime_ns for file in changed.rglob("*")} == before


def test_versions_alone_tell_what_was_replaced_without_reading_pixels(changed: Path) -> None:
    """A file that is no image any more is there, so only its version differs.

    The cube has no version of a file whose header could not be read.
    """
    found = replay(changed, headers_only=True)

    assert told(found) == {n: by_version for n, (_, _, by_version) in CHANGES.items()}
    assert found.counts[Drift.SAME] == N + 1 - len(CHANGES)


@pytest.mark.long
def test_new_cube_is_gathered_from_the_same_list_and_compared(changed: Path, tmp_path: Path) -> None:
    """The new cube has the rows of the old one, as they are now; a new file is told and not gathered."""
    found = replay(changed, tmp_path / "new.zarr", settings=UNDRAWN)

    assert found.to == str(tmp_path / "new.zarr")
    assert told(found) == {n: with_pixels for n, (_, with_pixels, _) in CHANGES.items()}
    old, new = xr.open_zarr(changed), xr.open_zarr(tmp_path / "new.zarr")
    assert new.sizes == old.sizes
    assert new["href"].values.tolist() == old["href"].values.tolist()
    assert new["time"].values.tolist() == old["time"].values.tolist()
    assert int((new["band_1"][3] != old["band_1"][3]).sum()) == 1


@pytest.mark.long
@pytest.mark.parametrize("name", ["earlier.zarr", "cube.zarr"], ids=["an earlier replay's", "its own"])
def test_cube_that_is_there_already_does_not_tell_what_has_changed(tmp_path: Path, name: str) -> None:
    """No source is read, so a file that was replaced since cannot be noticed. A remark says so."""
    cube = gathered(filled(tmp_path))
    assert name == cube.name or replay(cube, tmp_path / name, settings=UNDRAWN).is_same
    inside(named(tmp_path / "files", 0))

    found = replay(cube, tmp_path / name, settings=UNDRAWN)

    assert not found.is_same
    assert found.remarks[0].startswith(f"{tmp_path / name} was there already, so no source was read: it has ")
    assert replay(cube, tmp_path / "later.zarr", settings=UNDRAWN).counts[Drift.PIXELS_DIFFER] == 1


def test_untouched_sources_make_a_cube_of_the_same_digest(cube: Path, tmp_path: Path) -> None:
    """The request and the list are those of the receipt, so both digests are."""
    found = replay(cube, tmp_path / "new.zarr", settings=UNDRAWN)

    assert found.is_same
    old, new = (json.loads((each / "receipt.json").read_text()) for each in (cube, tmp_path / "new.zarr"))
    assert (new["digest"], new["pixels"], new["shards"]) == (old["digest"], old["pixels"], old["shards"])


def test_all_sources_are_told_gone_where_no_header_is_left(cube: Path, tmp_path: Path) -> None:
    """The cube itself says how its sources are read."""
    shutil.copytree(cube, tmp_path / "cube.zarr")
    files = cube.parent / "files"
    files.rename(tmp_path / "elsewhere")
    try:
        found = replay(tmp_path / "cube.zarr")
    finally:
        (tmp_path / "elsewhere").rename(files)

    assert found.counts == {Drift.GONE: N - 1, Drift.FAILED_NOW: 1}
    assert found.remarks[1:] == []


def scene(day: str, **hrefs: str | Path) -> dict[str, Any]:
    """Return the STAC item of a day with an asset for each file."""
    assets = {band: {"href": str(href)} for band, href in hrefs.items()}
    return item(f"s{day}", time=f"2024-06-{day}T10:00:00Z", assets=assets)


def write_items(folder: Path, items: list[dict[str, Any]], **stac: Any) -> dict[str, Any]:
    """Write a collection of items. Return the sources of a search in it."""
    (folder / "items.json").write_text(json.dumps(collection(items)))
    return {"stac": {"items": str(folder / "items.json"), **stac}}


def written(folder: Path, n: int, dtype: str = "uint16") -> list[str]:
    """Write the files of some days."""
    for day in range(n):
        write(named(folder, day), value=day, dtype=dtype)
    return [str(named(folder, day)) for day in range(n)]


@pytest.fixture
def searched(tmp_path: Path) -> Path:
    """Return a cube of two bands of two scenes that a search has found; one scene lacks a band."""
    hrefs = written(tmp_path, 5)
    items = [scene("01", red=hrefs[0], nir=hrefs[1]), scene("02", red=hrefs[2])]
    request = {
        "sources": write_items(tmp_path, items, assets=["red", "nir"]),
        "window": {"pixels": [0, 0, 30, 30]},
        "output": {"codec": "blosc-zstd"},
    }
    gather_undrawn(request, to=tmp_path / "cube.zarr")
    return tmp_path / "cube.zarr"


@pytest.mark.long
def test_search_is_asked_again_for_what_is_new(searched: Path, tmp_path: Path) -> None:
    """Bands are compared one by one. A scene that was added since is told by its files.

    Where the search cannot be asked, a remark says so, and the rest is compared.
    """
    folder = searched.parent
    inside(named(folder, 1))
    named(folder, 2).unlink()
    document = json.loads((folder / "items.json").read_text())
    new = {"red": named(folder, 3), "nir": named(folder, 4)}
    document["features"] += [scene("03", **new), scene("04", **new)]  # each file is told once
    (folder / "items.json").write_text(json.dumps(document))

    found = replay(searched)
    again = replay(searched, tmp_path / "new.zarr", settings=UNDRAWN)
    (folder / "items.json").unlink()
    without = replay(searched, headers_only=True)

    listed = [(each.row, each.band, Path(each.href).name[-6:-4], each.drift) for each in found.drifted]
    assert listed == [
        (0, "nir", "02", Drift.PIXELS_DIFFER),
        (1, "red", "03", Drift.GONE),
        (None, "red", "04", Drift.NEW),
        (None, "nir", "05", Drift.NEW),
    ]
    assert again.counts == found.counts
    assert (tmp_path / "new.zarr/sources.parquet").read_bytes() == (searched / "sources.parquet").read_bytes()
    assert without.counts == {Drift.SAME: 1, Drift.ETAG_CHANGED: 1, Drift.GONE: 1}
    assert without.remarks[0].startswith("the search cannot be repeated: ")


@pytest.mark.long
def test_cube_that_has_grown_is_replayed_as_a_whole(tmp_path: Path) -> None:
    """Rows of all appends are compared, in the order of the cube. All searches are asked again."""
    items = [scene(f"{n:02}", red=href) for n, href in enumerate(written(tmp_path, 4), 1)]
    sources = write_items(tmp_path, items[:2], assets=["red"], datetime="2024-06-02")
    request = {"sources": sources, "window": {"pixels": [0, 0, 30, 30]}}
    gather_undrawn(request, to=tmp_path / "cube.zarr")
    sources["stac"]["datetime"] = "../2024-06-03"
    gather(request | {"output": {"append_to": str(tmp_path / "cube.zarr")}}, settings=UNDRAWN)
    assert replay(tmp_path / "cube.zarr").is_same

    inside(named(tmp_path, 0))
    write_items(tmp_path, items)
    found = replay(tmp_path / "cube.zarr", tmp_path / "new.zarr", settings=UNDRAWN)

    told_of = [(each.row, Path(each.href).stem[-2:], each.drift) for each in found.drifted]
    assert told_of == [(1, "01", Drift.PIXELS_DIFFER), (None, "03", Drift.NEW)]
    assert found.counts[Drift.SAME] == 1


def test_a_folder_is_listed_again_though_a_grid_says_the_window(tmp_path: Path) -> None:
    """The exact box of ``--like``, in a request that has no window."""
    written(tmp_path, 2)
    grid = {"crs": "EPSG:32632", "shape": [8, 8], "transform": [13, 0, 300_050, 0, -13, 4_999_900]}
    request = {"sources": {"prefix": str(tmp_path), "glob": "*.tif", "time": "_%Y-%m-%d"}, "grid": grid}
    gather_undrawn(request, to=tmp_path / "cube.zarr")
    written(tmp_path, 3)

    found = replay(tmp_path / "cube.zarr")

    assert (found.counts[Drift.NEW], found.remarks) == (1, [])


NOT_THERE, READ = Version(status=Status.MISSING), Version(status=Status.OK, etag="1")
NO_IMAGE = Version(status=Status.CORRUPT)
OTHER = Version(status=Status.OK, etag="2")
NO_ETAG = Version(status=Status.OK)


@pytest.mark.parametrize(
    ("then", "now", "are_same", "expected"),
    [
        (READ, READ, None, Drift.SAME),
        (READ, NO_ETAG, True, Drift.SAME),
        (READ, NO_ETAG, None, Drift.UNKNOWN),
        (READ, READ, False, Drift.PIXELS_DIFFER),
        (NOT_THERE, READ, None, Drift.READ_NOW),
        (NO_IMAGE, READ, None, Drift.UNKNOWN),
        (NO_IMAGE, READ, False, Drift.READ_NOW),
        (NOT_THERE, NOT_THERE, None, Drift.SAME),
        (NOT_THERE, NO_IMAGE, False, Drift.FAILED_NOW),
        (NO_IMAGE, NOT_THERE, False, Drift.FAILED_NOW),
        (READ, OTHER, True, Drift.ETAG_CHANGED),
    ],
)
def test_drift_says_no_more_than_was_looked_at(
    then: Version, now: Version, *, are_same: bool | None, expected: Drift
) -> None:
    """A store without versions is the same if its pixels are, and unknown if they were not read."""
    assert find_drift(then, now, pixels_are_same=are_same) is expected


@pytest.mark.parametrize(
    ("then", "now", "expected"),
    [
        (READ, READ, Drift.SAME),
        (READ, OTHER, Drift.PIXELS_DIFFER),
        (NO_ETAG, NO_ETAG, Drift.PIXELS_DIFFER),
        (NOT_THERE, READ, Drift.READ_NOW),
    ],
)
def test_pixels_that_other_sources_share_differ_by_those_of_another_version(
    then: Version, now: Version, expected: Drift
) -> None:
    """Without versions, each of them may be why."""
    assert find_drift(then, now, pixels_are_same=False, are_shared=True) is expected


def test_lossy_cube_is_compared_within_its_tolerance(tmp_path: Path) -> None:
    """Pixels that were stored with an error of at most 0.5 are the same; a change of 3 is none of that."""
    output = {"codec": "zfp", "zfp_tolerance": 0.5}
    request = {"sources": written(tmp_path, 2, "float32"), "window": "centre", "output": output}
    gather_undrawn(request, to=tmp_path / "cube.zarr")
    assert replay(tmp_path / "cube.zarr").is_same

    write(named(tmp_path, 1), value=4, dtype="float32")

    assert replay(tmp_path / "cube.zarr").counts == {Drift.SAME: 1, Drift.PIXELS_DIFFER: 1}


@pytest.mark.long
def test_every_strip_of_a_window_is_compared(tmp_path: Path) -> None:
    """The first one and the last one, with the sources and with a new cube."""
    request = {
        "sources": written(tmp_path, 3),
        "window": {"pixels": [8, 8, 20, 18]},
        "output": {"layout": {"chunk": [1, 8, 16], "shard_rows": 1}},
    }
    strips = Settings(draws_report=False, max_task_nbytes=1_000)
    gather(request, to=tmp_path / "cube.zarr", settings=strips)
    assert json.loads((tmp_path / "cube.zarr/receipt.json").read_text())["shard"][1] == 8
    one_pixel(named(tmp_path, 0), row=9, col=12)
    one_pixel(named(tmp_path, 1), row=25, col=12)

    expected = {Drift.PIXELS_DIFFER: 2, Drift.SAME: 1}
    assert replay(tmp_path / "cube.zarr").counts == expected
    assert replay(tmp_path / "cube.zarr", tmp_path / "new.zarr", settings=strips).counts == expected


@pytest.mark.long
def test_cube_of_compressed_tiles_is_compared_by_its_pixels(tmp_path: Path) -> None:
    """The cube keeps the sources' own tiles. They are decoded for the comparison, and kept in a new cube.

    Pixels that are compressed otherwise are the same.
    """
    request = {"sources": written(tmp_path, 2), "window": {"tile": [1, 1]}}
    gather_undrawn(request | {"output": {"codec": "source"}}, to=tmp_path / "cube.zarr")
    assert replay(tmp_path / "cube.zarr").is_same

    one_pixel(named(tmp_path, 1), row=20, col=20)

    expected = {Drift.SAME: 1, Drift.PIXELS_DIFFER: 1}
    assert replay(tmp_path / "cube.zarr").counts == expected
    assert replay(tmp_path / "cube.zarr", tmp_path / "new.zarr", settings=UNDRAWN).counts == expected
    with rasterio.open(named(tmp_path, 0)) as file:
        pixels = file.read(1)
    write_image(named(tmp_path, 0), pixels, tiled=True, blockxsize=16, blockysize=16, compress="lzw")
    expected = {Drift.ETAG_CHANGED: 1, Drift.PIXELS_DIFFER: 1}
    assert replay(tmp_path / "cube.zarr").counts == expected


def stored(cube: Path) -> StoredCube:
    """Open a cube as replay does."""
    store, place = open_existing(cube, None)
    return StoredCube(store, place=place)


def change_request(cube: Path, **changes: Any) -> None:
    """Change the request in a cube's receipt."""
    receipt = json.loads((cube / "receipt.json").read_text())
    receipt["request"] |= changes
    (cube / "receipt.json").write_text(json.dumps(with_checksum(receipt)))


def test_files_with_more_bands_are_compared_by_the_cubes(tmp_path: Path) -> None:
    """The request names no band. Of its limits, the one of the window's size holds, and no price does."""
    file, pixels = named(tmp_path, 0), np.arange(64, dtype="uint16").reshape(8, 8)
    write_image(file, pixels)
    limits = {"times_source": 20_000}
    request = {"sources": [str(file)], "window": {"pixels": [0, 0, 1030, 1030]}, "limits": limits}
    gather_undrawn(request, to=tmp_path / "cube.zarr")
    write_image(file, np.stack([pixels, pixels]))
    change_request(tmp_path / "cube.zarr", limits=limits | {"usd": 1e-12})

    found = replay(tmp_path / "cube.zarr")

    assert (found.counts, found.remarks) == ({Drift.ETAG_CHANGED: 1}, [])


@pytest.mark.parametrize("kind", ["stac", "catalog"])
def test_a_band_of_an_asset_is_read_again_as_that_band(tmp_path: Path, kind: str) -> None:
    """Its number is told by the search alone, be it of items or of an own catalog."""
    pixels = np.arange(2 * 32 * 32, dtype="uint16").reshape(2, 32, 32)
    visual = write_image(tmp_path / "visual.tif", pixels)
    sources = write_items(tmp_path, [scene("01", visual=visual)], assets=["visual:2"])
    gather_undrawn({"sources": sources, "window": {"pixels": [0, 0, 9, 9]}}, to=tmp_path / "cube.zarr")
    change_request(tmp_path / "cube.zarr", sources={kind: sources["stac"]})

    assert replay(tmp_path / "cube.zarr").counts == {Drift.SAME: 1}


@pytest.mark.long
@pytest.mark.parametrize("band", ["band_2", "band_red"])
def test_a_list_may_call_its_only_band_as_bands_without_names_are_called(tmp_path: Path, band: str) -> None:
    """The second band of each file was compared, or the number of the band ``red`` was looked for."""
    visual = write_image(tmp_path / "visual.tif", np.arange(2 * 32 * 32, dtype="uint16").reshape(2, 32, 32))
    (tmp_path / "list.csv").write_text(f"href,band,scene\n{visual},{band},one\n")
    request = {"sources": str(tmp_path / "list.csv"), "window": {"pixels": [0, 0, 9, 9]}}
    gather_undrawn(request, to=tmp_path / "cube.zarr")

    for to in (None, tmp_path / "again.zarr"):
        assert replay(tmp_path / "cube.zarr", to=to).counts == {Drift.SAME: 1}


def test_sources_are_signed_as_they_were(cube: Path, tmp_path: Path) -> None:
    """Else private files would count as gone."""
    copy = Path(shutil.copytree(cube, tmp_path / "cube.zarr"))
    sources = json.loads((copy / "receipt.json").read_text())["request"]["sources"]
    change_request(copy, sources=sources | {"sign": "earthdata"})

    requests = [_listed_request(each, each.receipt.request) for each in map(stored, (copy, cube))]

    assert [each.sources.sign for each in requests] == ["earthdata", "none"]


def test_hosts_are_asked_no_more_often_than_the_request_allows(cube: Path, tmp_path: Path) -> None:
    """A host that refuses more requests would count as failing."""
    copy, pace = Path(shutil.copytree(cube, tmp_path / "cube.zarr")), {"https://host.example.org": 5.0}
    change_request(copy, limits={"requests_per_s": pace, "usd": 1})

    limits = _listed_request(stored(copy), stored(copy).receipt.request).limits

    assert (limits.requests_per_s, limits.usd) == (pace, None)


@pytest.mark.parametrize("nodata", [5, None])
def test_pixels_are_compared_by_the_nodata_of_the_cube(tmp_path: Path, nodata: int | None) -> None:
    """Also if the files have another one now, and if the cube has none, but a fill value."""
    file, pixels = tmp_path / "a.tif", np.arange(64, dtype="uint16").reshape(8, 8)
    write_image(file, pixels, nodata=nodata)
    gather_undrawn({"sources": [file], "window": {"pixels": [0, 0, 8, 8]}}, to=tmp_path / "cube.zarr")
    write_image(file, pixels, nodata=7)

    assert replay(tmp_path / "cube.zarr").counts == {Drift.ETAG_CHANGED: 1}


def test_harmonised_pixels_are_compared_by_the_scaling_of_the_cube(tmp_path: Path) -> None:
    """The files of an append have a lower offset than those that the cube began with."""
    pixels = np.arange(64, dtype="uint16").reshape(8, 8) + 100
    for name, offset in (("a", -3.0), ("b", -13.0)):
        write_image(tmp_path / f"{name}.tif", pixels, scaling=(1.0, offset))
    request = {"window": {"pixels": [0, 0, 8, 8]}, "values": "harmonised"}
    place = tmp_path / "cube.zarr"
    gather_undrawn(request | {"sources": [tmp_path / "a.tif"]}, to=place)
    gather_undrawn(request | {"sources": [tmp_path / "b.tif"], "output": {"append_to": place}})

    assert replay(place).counts == {Drift.SAME: 2}


@pytest.mark.long
@pytest.mark.parametrize("more", [{"masked": True}, {"window": {"pixels": [4, 9, 10, 10]}}], ids=str)
def test_rows_are_read_as_the_requests_that_have_added_them(tmp_path: Path, more: dict[str, Any]) -> None:
    """The rows of an append may have another window, or be without what the files' masks hide.

    No single request makes a new cube of them.
    """
    mask, listed = np.full((48, 48), 255, "uint8"), []
    mask[:12] = 0
    for n in range(6):
        pixels = np.arange(48 * 48, dtype="uint16").reshape(48, 48) + n
        listed.append(write_image(tmp_path / f"{n}.tif", pixels, west=5.3 * n))
        with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True), rasterio.open(listed[n], "r+") as file:
            file.write_mask(mask)
    place = tmp_path / "cube.zarr"
    request = {"window": {"pixels": [8, 8, 10, 10]}, "output": {"append_to": place}}
    first = request | {"output": {"layout": {"chunk": [2, 10, 10], "shard_rows": 4}}}
    gather_undrawn(first | {"sources": listed[:3]}, to=place)
    gather_undrawn(request | {"sources": listed[3:4]} | more)
    gather_undrawn(request | {"sources": listed[4:]})

    assert replay(place).counts == {Drift.SAME: 6}
    with pytest.raises(RequestError, match="requests for other pixels or other tokens"):
        replay(place, tmp_path / "new.zarr")

    with rasterio.open(listed[3], "r+") as file:
        changed = file.read()
        changed[:, 13:15, 8:10] += 1
        file.write(changed)
    assert [(each.row, each.drift) for each in replay(place).drifted] == [(3, Drift.PIXELS_DIFFER)]


@pytest.mark.long
@pytest.mark.parametrize(
    "first",
    [
        {"mask": {"band": "scl", "drop": [3]}},
        {"values": "scaled"},
        {"grid": {"resolution": 20.0, "resampling": "nearest"}},
        {"output": {"codec": "zfp", "zfp_tolerance": 0.5}},
    ],
    ids=str,
)
def test_what_a_cube_has_of_its_archive_holds_for_its_replay(tmp_path: Path, first: dict[str, Any]) -> None:
    """Its own request does not say it."""
    listed, other = [], "float32" if "output" in first else "uint8"
    for n in range(4):
        for band, most, dtype in (("red", 9000, "float32"), ("scl", 12, other)):
            pixels = np.random.default_rng(n).integers(1, most, (32, 32)).astype(dtype)
            href = write_image(tmp_path / f"{n}-{band}.tif", pixels, nodata=0, scaling=(0.5, -1))
            listed.append({"href": href, "band": band, "scene": str(n)})
    request = {
        "window": {"bbox": [300_040, 4_999_800, 300_200, 4_999_960], "crs": "source"},
        "output": {"archive": "a"},
    }
    output = request["output"] | first.get("output", {})
    gather_undrawn(request | {"sources": listed[:4]} | first | {"output": output}, to=tmp_path / "a.zarr")
    gather_undrawn(request | {"sources": listed[4:]}, to=tmp_path / "b.zarr")

    for to in (None, tmp_path / "elsewhere/c.zarr"):
        found = replay(tmp_path / "b.zarr", to, settings=UNDRAWN)

        assert (found.counts, found.remarks) == ({Drift.SAME: 4}, [])


def test_a_new_cube_of_another_dtype_is_not_compared(tmp_path: Path) -> None:
    """Its sources have all changed so. Both forms are told."""
    write(named(tmp_path, 0), value=1)
    request = {"sources": [str(named(tmp_path, 0))], "window": {"pixels": [0, 0, 8, 8]}}
    gather_undrawn(request, to=tmp_path / "cube.zarr")
    other_dtype(named(tmp_path, 0))

    said = r"cannot be compared: it is 1 x 8 x 8, band_1 float32, and .* is 1 x 8 x 8, band_1 uint16"
    with pytest.raises(StoreError, match=said):
        replay(tmp_path / "cube.zarr", tmp_path / "new.zarr", settings=UNDRAWN)


def test_new_cube_and_versions_alone_exclude_each_other(cube: Path) -> None:
    """Both at one time make no sense. Nothing is read or written."""
    with pytest.raises(RequestError, match="headers-only"):
        replay(cube, cube.parent / "new.zarr", headers_only=True)

    assert not (cube.parent / "new.zarr").exists()


def test_cube_without_a_shard_is_told_to_be_verified(cube: Path, tmp_path: Path) -> None:
    """A damaged cube is not the sources' drift."""
    shutil.copytree(cube, tmp_path / "cube.zarr")
    shard = tmp_path / "cube.zarr/band_1/c/0/0/0"
    shard.write_bytes(shard.read_bytes()[:-20])

    with pytest.raises(StoreError, match="pixel-gather verify"):
        replay(tmp_path / "cube.zarr")


@pytest.mark.long
def test_sources_and_cube_on_s3(tmp_path: Path) -> None:
    """S3's ETag is that of the content: an equal object is the same version. Both ways tell the same."""
    with s3_with("replayed") as server:
        for n, file in enumerate(written(tmp_path, 4)):
            server.client.upload_file(file, "replayed", f"files/{n}.tif")
        settings = Settings(stores=StoreSettings(endpoint=server.endpoint), draws_report=False)
        request = {"sources": {"prefix": "s3://replayed/files"}, "window": {"pixels": [8, 8, 20, 18]}}
        gather(request, to="s3://replayed/cube.zarr", settings=settings)
        inside(named(tmp_path, 1))
        for n in (0, 1):
            server.client.upload_file(str(named(tmp_path, n)), "replayed", f"files/{n}.tif")
        server.client.delete_object(Bucket="replayed", Key="files/2.tif")

        by_pixels = replay("s3://replayed/cube.zarr", settings=settings)
        by_version = replay("s3://replayed/cube.zarr", headers_only=True, settings=settings)
        new = replay("s3://replayed/cube.zarr", "s3://replayed/new.zarr", settings=settings)

    assert by_pixels.counts == new.counts == {Drift.SAME: 2, Drift.PIXELS_DIFFER: 1, Drift.GONE: 1}
    assert by_version.counts == {Drift.SAME: 2, Drift.ETAG_CHANGED: 1, Drift.GONE: 1}


@pytest.mark.long
def test_command_shows_what_changed_and_exits_with_one(cube: Path, changed: Path, tmp_path: Path) -> None:
    """0: the same. 1: something changed; a line for each source, or CSV or Parquet of all, or JSON."""
    run = CliRunner().invoke
    same = run(command, ["replay", str(cube)], standalone_mode=False)
    text = run(command, ["replay", str(changed), "--headers-only"], standalone_mode=False)
    as_json = run(command, ["replay", str(changed), "--headers-only", "--json"], standalone_mode=False)
    as_csv = run(command, ["replay", str(changed), "--csv"], standalone_mode=False)

    assert (same.return_value, text.return_value) == (0, 1)
    assert as_json.return_value == as_csv.return_value == 1
    assert same.stdout == "9 sources: 9 same\n"
    assert text.stdout.splitlines()[-1] == "10 sources: 2 same, 5 etag changed, 1 gone, 1 new, 1 unknown"
    document = json.loads(as_json.stdout)
    assert document["counts"] == {"same": 2, "etag changed": 5, "gone": 1, "new": 1, "unknown": 1}
    table = tmp_path / "drift.parquet"
    run(command, ["replay", str(changed), "--headers-only", "--parquet", str(table)], standalone_mode=False)
    drifts = duckdb.execute("SELECT drift, count(*) FROM read_parquet(?) GROUP BY 1", [str(table)]).fetchall()
    assert dict(drifts) == document["counts"]
    rows = duckdb.execute(
        "SELECT row, href FROM read_parquet(?) WHERE row IS NOT NULL", [str(table)]
    ).fetchall()
    assert [row for row, _ in rows] == list(range(9))
    assert rows[4][1] == next(each["href"] for each in document["drifted"] if each["drift"] == "gone")
    gone = next(each for each in document["drifted"] if each["drift"] == "gone")
    assert (gone["row"], gone["band"], gone["status_then"], gone["status_now"]) == (4, None, "ok", "missing")
    assert (bool(gone["etag_then"]), gone["etag_now"]) == (True, None)
    assert len(as_csv.stdout.splitlines()) == 1 + 10


def test_command_asks_for_the_folder_of_the_table_before_it_reads(tmp_path: Path) -> None:
    """The windows of a large cube are not read in vain. Here there is not even a cube."""
    table = tmp_path / "none" / "drift.parquet"

    with pytest.raises(RequestError, match=f"--parquet: there is no folder {table.parent}"):
        command.main(["replay", str(tmp_path / "cube.zarr"), "--parquet", str(table)], standalone_mode=False)
