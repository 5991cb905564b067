"""Codec ``source``: compressed tiles become chunks unchanged, and zarr-python reads the pixels."""

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import rasterio
import tifffile
import zarr
from rasterio.windows import Window

from pixel_gather import Drift, RequestError, Settings, Status, gather, join, make_plan, replay, verify
from pixel_gather.core.plan.cube_plan import CubePlan
from pixel_gather.features.report.cube_evidence import read_evidence
from pixel_gather.in_process.places import open_existing
from pixel_gather.io.cube.shard_codec import split_chunks
from pixel_gather.io.cube.tile_codecs import register_codecs
from support.images import write_image

TILE = 32
SIZE = 5 * TILE
WINDOW = (TILE, TILE, 2 * TILE, TILE)
"""Column, row, width and height: two tiles."""

CHAINS: dict[str, tuple[str, dict[str, Any], tuple[str, ...]]] = {
    "none": ("uint16", {}, ("bytes",)),
    "big-endian": ("int32", {"endianness": "BIG"}, ("bytes",)),
    "zstd": ("float32", {"compress": "zstd"}, ("bytes", "zstd")),
    "deflate": ("uint8", {"compress": "deflate"}, ("bytes", "numcodecs.zlib")),
    "deflate, predictor 2": (
        "uint16",
        {"compress": "deflate", "predictor": 2},
        ("imagecodecs_delta", "bytes", "numcodecs.zlib"),
    ),
    "zstd, predictor 2, big-endian": (
        "int16",
        {"compress": "zstd", "predictor": 2, "endianness": "BIG"},
        ("imagecodecs_delta", "bytes", "zstd"),
    ),
    "deflate, predictor 2, floats": (
        "float32",
        {"compress": "deflate", "predictor": 2},
        ("imagecodecs_delta", "bytes", "numcodecs.zlib"),
    ),
    "lzw, predictor 3, big-endian": (
        "float64",
        {"compress": "lzw", "predictor": 3, "endianness": "BIG"},
        ("imagecodecs_floatpred", "imagecodecs_lzw"),
    ),
    "zstd, predictor 3": (
        "float32",
        {"compress": "zstd", "predictor": 3},
        ("imagecodecs_floatpred", "zstd"),
    ),
    "lzw, predictor 2": (
        "uint16",
        {"compress": "lzw", "predictor": 2},
        ("imagecodecs_delta", "bytes", "imagecodecs_lzw"),
    ),
    "lzma": ("uint16", {"compress": "lzma"}, ("bytes", "imagecodecs_lzma")),
    "packbits": ("uint8", {"compress": "packbits"}, ("bytes", "imagecodecs_packbits")),
}


def write(path: Path, dtype: str, seed: int, *, count: int = 1, **options: Any) -> Path:
    """Write a tiled image with pixels of all values."""
    rng = np.random.default_rng(seed)
    kind = np.dtype(dtype)
    pixels = (
        rng.normal(1000, 300, (count, SIZE, SIZE))
        if kind.kind == "f"
        else rng.integers(0, 120, (count, SIZE, SIZE))
    )
    tiling: dict[str, Any] = {"tiled": True, "blockxsize": TILE, "blockysize": TILE, "interleave": "band"}
    write_image(path, pixels.astype(dtype), **tiling | {"crs": None, "nodata": None} | options)
    return path


def request(*paths: Path, **more: Any) -> dict[str, Any]:
    """Ask for the window with its tiles unchanged."""
    asked = {"sources": [str(path) for path in paths], "window": {"pixels": WINDOW}}
    return asked | {"output": {"codec": "source"}} | more


def gathered(folder: Path, *paths: Path, **more: Any) -> Any:
    """Gather into ``folder/cube`` without a report."""
    return gather(request(*paths, **more), to=folder / "cube", settings=Settings(draws_report=False))


def window_of(path: Path, band: int = 1) -> np.ndarray[Any, Any]:
    """Return what rasterio reads."""
    with rasterio.open(path) as file:
        pixels: np.ndarray[Any, Any] = file.read(band, window=Window(*WINDOW))
    return pixels


def tile_bytes(path: Path, indexes: tuple[int, ...]) -> list[bytes]:
    """Return stored tiles of a file."""
    with tifffile.TiffFile(path) as tiff:
        page = tiff.pages.first
        content = path.read_bytes()
        return [
            content[page.dataoffsets[at] : page.dataoffsets[at] + page.databytecounts[at]] for at in indexes
        ]


_OPENING = """
import sys
from pixel_gather import Settings, export, gather, open_cube
request = {"sources": [sys.argv[1]], "window": {"pixels": eval(sys.argv[2])}, "output": {"codec": "source"}}
gathered = gather(request, to=sys.argv[3], settings=Settings(draws_report=False))
way = {"open": gathered.open, "open_cube": lambda: open_cube(sys.argv[3])}.get(sys.argv[4])
export(sys.argv[3], to=sys.argv[3] + ".csv") if way is None else print(int(way().band_1.sum()))
"""


@pytest.mark.long
@pytest.mark.parametrize("way", ["open", "open_cube", "export"])
def test_a_cube_of_tiles_opens_in_a_fresh_process(tmp_path: Path, way: str) -> None:
    """Its codecs are imagecodecs', of which zarr-python has to be told."""
    path = write(tmp_path / "a.tif", "uint16", 1, compress="deflate", predictor=2)

    answer = subprocess.run(  # noqa: S603 # our own words
        [sys.executable, "-c", _OPENING, str(path), str(list(WINDOW)), str(tmp_path / "cube"), way],
        capture_output=True,
        text=True,
        check=True,
    )

    if way == "export":
        assert len((tmp_path / "cube.csv").read_text().splitlines()) > 1
    else:
        assert int(answer.stdout) == window_of(path).sum()


@pytest.mark.long
@pytest.mark.parametrize("chain", CHAINS)
def test_zarr_reads_the_pixels_and_finds_the_archives_bytes(tmp_path: Path, chain: str) -> None:
    """Each kind of tile has its chain of codecs. The cube agrees with its receipt."""
    dtype, options, names = CHAINS[chain]
    paths = [write(tmp_path / f"{seed}.tif", dtype, seed, **options) for seed in range(3)]
    register_codecs()

    report = gathered(tmp_path, *paths).report

    assert report.n_failed == 0
    array: Any = zarr.open_array(tmp_path / "cube" / "band_1", mode="r")
    assert array.chunks == (1, TILE, TILE)
    assert np.array_equal(array[:], np.stack([window_of(path) for path in paths]))
    described = json.loads((tmp_path / "cube" / "band_1" / "zarr.json").read_text())
    sharding = described["codecs"][0]["configuration"]
    assert tuple(each["name"] for each in sharding["codecs"]) == names
    chunks = split_chunks(
        memoryview((tmp_path / "cube" / "band_1" / "c" / "0" / "0" / "0").read_bytes()), n=6
    )
    stored = [hashlib.sha256(each or b"").hexdigest() for each in chunks]
    of_files = [tile for path in paths for tile in tile_bytes(path, (6, 7))]
    assert stored == [hashlib.sha256(each).hexdigest() for each in of_files]
    found = verify(tmp_path / "cube")
    assert found.is_same
    assert found.n_compared == 1


def test_nothing_is_invented_where_nothing_is_decoded(tmp_path: Path) -> None:
    """Statistics are NaN, and there are no quicklooks. The plan says so, and who opens the cube."""
    path = write(tmp_path / "a.tif", "uint16", 0, compress="deflate", predictor=2)
    missing = tmp_path / "missing.tif"

    plan = make_plan(request(path, missing))
    gathered(tmp_path, path, missing)

    register_codecs()
    group: Any = zarr.open_group(tmp_path / "cube", mode="r")
    assert group["status"][:].tolist() == [Status.OK, Status.MISSING]
    for name in ("min", "max", "mean"):
        assert np.isnan(group[name][:]).all()
    assert np.array_equal(group["valid_fraction"][:], [np.nan, 0.0], equal_nan=True)
    assert not (tmp_path / "cube" / "quicklooks.npz").exists()
    assert not group["band_1"][1].any()
    said = " ".join(plan.warnings)
    assert "deflate with predictor 2): zarr-python with imagecodecs opens it" in said
    assert "min, max, mean and valid_fraction are NaN" in said


def test_absent_tiles_are_absent_chunks(tmp_path: Path) -> None:
    """A tile that holds nothing but nodata is not in the file, and not in the cube."""
    path = tmp_path / "sparse.tif"
    with rasterio.open(
        path, "w", driver="GTiff", width=SIZE, height=SIZE, count=1, dtype="uint16", tiled=True,
        blockxsize=TILE, blockysize=TILE, sparse_ok=True, nodata=7,
    ) as file:  # fmt: skip
        file.write(np.full((TILE, TILE), 3, "uint16"), 1, window=Window(TILE, TILE, TILE, TILE))

    gathered(tmp_path, path)

    array: Any = zarr.open_array(tmp_path / "cube" / "band_1", mode="r")
    assert np.array_equal(array[0], window_of(path))
    chunks = split_chunks(
        memoryview((tmp_path / "cube" / "band_1" / "c" / "0" / "0" / "0").read_bytes()), n=2
    )
    assert [chunk is None for chunk in chunks] == [False, True]


def test_window_may_end_anywhere_and_bands_have_tiles_of_their_own(tmp_path: Path) -> None:
    """The last chunks extend beyond the window. Each band is an array."""
    paths = [write(tmp_path / f"{seed}.tif", "uint16", seed, count=2, compress="zstd") for seed in range(2)]
    window = (2 * TILE, TILE, TILE + 5, 3 * TILE - 1)

    gathered(tmp_path, *paths, window={"pixels": window})

    for band in (1, 2):
        array: Any = zarr.open_array(tmp_path / "cube" / f"band_{band}", mode="r")
        for row, path in enumerate(paths):
            with rasterio.open(path) as file:
                assert np.array_equal(array[row], file.read(band, window=Window(*window)))
    assert verify(tmp_path / "cube").is_same


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"compress": "lzw"}, "its compression is lzw, not deflate"),
        ({"blockxsize": 16}, "the width of its tiles is 16, not 32"),
        ({"predictor": 2}, "its predictor is horizontal, not none"),
        ({"endianness": "BIG"}, "its byte order is big-endian, not little-endian"),
    ],
)
def test_a_source_that_differs_is_refused_by_the_plan(
    tmp_path: Path, options: dict[str, Any], reason: str
) -> None:
    """The message names the source and the property."""
    alike: dict[str, Any] = {"compress": "deflate"}
    paths = [write(tmp_path / f"{seed}.tif", "uint16", seed, **alike) for seed in range(2)]
    other = write(tmp_path / "other.tif", "uint16", 3, **alike | options)

    with pytest.raises(RequestError, match=f"other.tif: {reason}") as refused:
        make_plan(request(*paths, other))

    assert refused.value.field == "output.codec"


@pytest.mark.long
@pytest.mark.parametrize(
    ("options", "more", "reason"),
    [
        ({"tiled": False}, {}, "stored in strips"),
        ({"count": 3, "interleave": "pixel"}, {}, "its tiles hold several bands"),
        ({"compress": "jpeg"}, {}, "no Zarr codec decodes its tiles of jpeg"),
        ({"compress": "lerc"}, {}, "only GDAL can read it"),
        ({}, {"window": {"pixels": (5, TILE, TILE, TILE)}}, r"begins at pixel \(5, 32\), not at a corner"),
        ({}, {"window": {"pixels": (4 * TILE, 0, 2 * TILE, TILE)}}, "partly outside"),
        ({}, {"masked": True, "nodata": 0}, "cannot be masked"),
    ],
)
def test_what_cannot_be_kept_is_refused_by_the_plan(
    tmp_path: Path, options: dict[str, Any], more: dict[str, Any], reason: str
) -> None:
    """Nothing is decoded instead in silence."""
    dtype = "uint8" if options.get("compress") == "jpeg" else "uint16"
    path = write(tmp_path / "a.tif", dtype, 0, **options)

    with pytest.raises(RequestError, match=reason):
        make_plan(request(path, **more))


@pytest.mark.long
def test_a_source_that_differs_at_read_time_leaves_its_row_empty(tmp_path: Path) -> None:
    """The plan looks at a sample. What it did not see gets a status, and the others are stored."""
    paths = [write(tmp_path / f"{seed:02}.tif", "uint16", seed, compress="deflate") for seed in range(40)]
    write(paths[1], "uint16", 1, compress="lzw")

    gathered(tmp_path, *paths)

    group: Any = zarr.open_group(tmp_path / "cube", mode="r")
    status = group["status"][:].tolist()
    assert status == [Status.OK, Status.UNLIKE, *[Status.OK] * 38]
    pixels = group["band_1"][:]
    assert not pixels[1].any()
    assert np.array_equal(pixels[2], window_of(paths[2]))


def test_verification_finds_another_byte(tmp_path: Path) -> None:
    """Digests are of the archive's bytes."""
    gathered(tmp_path, write(tmp_path / "a.tif", "uint16", 0, compress="deflate"))
    shard = tmp_path / "cube" / "band_1" / "c" / "0" / "0" / "0"
    content = bytearray(shard.read_bytes())
    content[40] ^= 1
    shard.write_bytes(content)

    assert verify(tmp_path / "cube").differences == ("band_1/c/0/0/0 has other bytes than the receipt says",)
    shard.write_bytes(content[:-40])  # the index is at the end
    assert verify(tmp_path / "cube").differences == ("band_1/c/0/0/0 is damaged: its index cannot be read",)


@pytest.mark.long
def test_a_joined_copy_is_verified_without_its_padding(tmp_path: Path) -> None:
    """Its last shard is not full either."""
    two_rows = Settings(max_task_nbytes=12_000, draws_report=False)
    paths = [write(tmp_path / f"{n}.tif", "uint16", n) for n in range(3)]
    for name in "ab":
        gather(request(*paths), to=tmp_path / name, settings=two_rows)
    join([tmp_path / "a", tmp_path / "b"], to=tmp_path / "copy", mode="copy")

    found = verify(tmp_path / "copy")

    assert (found.differences, found.n_compared) == ((), 4)
    shutil.copy(tmp_path / "copy/band_1/c/0/0/0", tmp_path / "copy/band_1/c/1/0/0")
    assert verify(tmp_path / "copy").differences == ("band_1/c/1/0/0 has other bytes than the receipt says",)


def test_index_tells_as_much_as_the_header(tmp_path: Path) -> None:
    """A gather by the first cube's header index stores the same object."""
    paths = [write(tmp_path / f"{seed}.tif", "uint16", seed, compress="deflate") for seed in range(2)]
    gathered(tmp_path, *paths)
    index = tmp_path / "cube" / "headers.parquet"

    again = gather(
        request(*paths, index=str(index)), to=tmp_path / "again", settings=Settings(draws_report=False)
    )

    assert again.report.n_failed == 0
    first, second = (tmp_path / name / "band_1" / "c" / "0" / "0" / "0" for name in ("cube", "again"))
    assert first.read_bytes() == second.read_bytes()


def test_report_and_replay_take_what_there_is(tmp_path: Path) -> None:
    """The report has no statistics to show. Replay decodes both, the cube and the files."""
    paths = [write(tmp_path / f"{seed}.tif", "uint16", seed, compress="deflate") for seed in range(2)]
    gathered(tmp_path, *paths)
    write(paths[1], "uint16", 7, compress="deflate")

    store, place = open_existing(tmp_path / "cube", None)
    evidence = read_evidence(store, place=place)
    replayed = replay(tmp_path / "cube")

    assert evidence.run.n_sources == 2
    assert not np.isfinite(evidence.series[0].mean).any()
    assert replayed.counts[Drift.SAME] == 1


def test_workers_get_the_coding_with_the_plan(tmp_path: Path) -> None:
    """The plan travels to them as MessagePack."""
    plan = make_plan(request(write(tmp_path / "a.tif", "float32", 0, compress="zstd", predictor=3)))

    sent = msgspec.msgpack.decode(msgspec.msgpack.encode(plan), type=CubePlan)

    assert sent.passes_through
    assert sent.slots[0].coding == plan.slots[0].coding is not None


def test_a_cube_of_tiles_refuses_every_append(tmp_path: Path) -> None:
    """It refuses a list of sources that it has, too: nothing can be appended to it."""
    path, other = (write(tmp_path / f"{n}.tif", "uint16", n, compress="deflate") for n in (1, 2))
    place = gathered(tmp_path, path).place

    for paths in ((path,), (path, other)):
        with pytest.raises(RequestError, match=r"append_to: a cube of codec source cannot grow"):
            gather(request(*paths, output={"append_to": place}))
