"""Packed headers give the header and pixels of the file, and invalid ones are refused."""

import asyncio
import functools
import math
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import rasterio
import tifffile
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adapters.geotiff.small_tiffs import HREF, MemoryObject, geotiff, noise, pixels, tiff
from adapters.geotiff.test_reader import ways
from pixel_gather.adapters.geotiff.offset_codec import MAX_TILES, PackedIntegers, PackedRun
from pixel_gather.adapters.geotiff.opened_geotiff import OpenedGeoTiff
from pixel_gather.adapters.geotiff.packed_header import MAX_PACKED_NBYTES, PackedHeader, peek, unpack
from pixel_gather.adapters.geotiff.reader import GeoTiffReader
from pixel_gather.adapters.geotiff.settings import GeoTiffSettings
from pixel_gather.adapters.geotiff.unsupported import UnsupportedError
from pixel_gather.errors import SourceError
from pixel_gather.model.source import Cost
from pixel_gather.model.window import Window

pytestmark = pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")

TILED = {"tiled": True, "blockxsize": 16, "blockysize": 16, "compress": "deflate"}


def opened(
    source: MemoryObject,
    *,
    packed_header: bytes | None = None,
    overview: int | None = None,
    head: int = 16_384,
) -> OpenedGeoTiff:
    """Open a file, from its packed header if one is given."""
    reader = GeoTiffReader(source, settings=GeoTiffSettings(head_nbytes=head, learns_head=False))
    return asyncio.run(reader.open_(HREF, overview=overview, cost=Cost(), packed_header=packed_header))


def packed_header_of(source: MemoryObject, **options: Any) -> bytes:
    """Return the packed header of a file, with the offsets of all tiles."""
    first = opened(source, **options)
    asyncio.run(first.fetch_all_tiles())
    assert first.packed_header is not None
    return first.packed_header


@pytest.mark.slow
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(way=ways(), seed=st.integers(0, 99), nodata=st.sampled_from((None, 7)), data=st.data())
def test_what_is_known_opens_what_the_file_does(
    tmp_path: Path, way: Any, seed: int, nodata: float | None, data: st.DataObject
) -> None:
    """A packed header gives the same header, and the same pixels in one request."""
    dtype = "int16" if way.dtype == "complex_int16" else way.dtype
    image = noise((way.n_bands, 53, 61), dtype, seed=seed)
    options = way.options() | ({"nodata": nodata} if np.dtype(dtype).kind != "c" else {})
    source = MemoryObject(geotiff(tmp_path / "a.tif", image, **options))
    cold, packed_header = opened(source), packed_header_of(source)
    col, row = data.draw(st.integers(0, 60)), data.draw(st.integers(0, 52))
    window = Window(col_off=col, row_off=row, width=7, height=5)
    expected = pixels(cold, window)
    source.ranges.clear()
    warm = opened(source, packed_header=packed_header)

    assert warm.from_packed_header
    assert source.ranges == []
    assert repr(warm.header) == repr(cold.header)
    assert warm.layout == cold.layout
    np.testing.assert_array_equal(pixels(warm, window), expected)
    assert source.etags[-len(source.ranges) :] == ["v1"] * len(source.ranges)
    assert warm.packed_header == packed_header


def test_overviews_have_entries_of_their_own(tmp_path: Path) -> None:
    """The packed header of one overview opens neither another overview nor the full image."""
    file = tmp_path / "a.tif"
    geotiff(file, noise((1, 128, 128), "uint16"), **TILED)
    with rasterio.open(file, "r+") as dataset:
        dataset.build_overviews([2, 4])
    source = MemoryObject(file.read_bytes())
    packed_header = packed_header_of(source, overview=1)

    assert opened(source, packed_header=packed_header, overview=1).from_packed_header
    assert not opened(source, packed_header=packed_header, overview=0).from_packed_header
    assert not opened(source, packed_header=packed_header).from_packed_header
    np.testing.assert_array_equal(
        pixels(opened(source, packed_header=packed_header, overview=1)), pixels(opened(source, overview=1))
    )
    assert opened(source, packed_header=packed_header, overview=1).header == opened(source, overview=1).header


def test_a_replaced_object_is_noticed_by_the_first_read(tmp_path: Path) -> None:
    """Every read is pinned to the version of the packed header."""
    source = MemoryObject(geotiff(tmp_path / "a.tif", noise((1, 40, 40), "uint16"), **TILED))
    packed_header = packed_header_of(source)
    source.etag = "v2"

    with pytest.raises(SourceError, match="replaced"):
        pixels(opened(source, packed_header=packed_header))


def test_an_object_of_another_size_is_noticed_whatever_its_tag(tmp_path: Path) -> None:
    """The size is checked, too, because some stores reuse etags."""
    source = MemoryObject(geotiff(tmp_path / "a.tif", noise((1, 40, 40), "uint16"), **TILED))
    packed_header = packed_header_of(source)
    source.content += b"more"

    with pytest.raises(SourceError, match="replaced by a file of another size"):
        pixels(opened(source, packed_header=packed_header))


def test_sparse_windows_are_asked_of_the_store_too(tmp_path: Path) -> None:
    """No tile is fetched, but one request checks that the version still exists."""
    options = TILED | {"SPARSE_OK": True, "nodata": 9}
    source = MemoryObject(geotiff(tmp_path / "a.tif", np.full((1, 32, 32), 9, "uint16"), **options))
    packed_header = packed_header_of(source)
    source.ranges.clear()

    assert (pixels(opened(source, packed_header=packed_header)) == 9).all()
    assert source.ranges == [(0, 1)]
    source.etag = "v2"
    with pytest.raises(SourceError, match="replaced"):
        pixels(opened(source, packed_header=packed_header))


@pytest.mark.parametrize("etag", [None, 'W/"1"'])
def test_no_entry_is_made_of_what_tells_no_version(tmp_path: Path, etag: str | None) -> None:
    """Without a strong etag no packed header is made."""
    source = MemoryObject(geotiff(tmp_path / "a.tif", noise((1, 40, 40), "uint16"), **TILED), etag=etag)

    assert opened(source).packed_header is None


def test_masks_are_known_and_left_to_gdal(tmp_path: Path) -> None:
    """Masks are detected without another request if the directories have been fetched."""
    plain = MemoryObject(geotiff(tmp_path / "a.tif", noise((1, 40, 40), "uint16"), **TILED))
    alpha = MemoryObject(geotiff(tmp_path / "b.tif", noise((2, 40, 40), "uint16"), **TILED, ALPHA="YES"))
    entries = packed_header_of(plain), packed_header_of(alpha)
    plain.ranges.clear()

    pixels(opened(plain, packed_header=entries[0]), masked=True)
    assert len(plain.ranges) == 1
    with pytest.raises(UnsupportedError, match="mask"):
        pixels(opened(alpha, packed_header=entries[1]), masked=True)


def test_tiles_that_nobody_has_asked_for_are_fetched_when_wanted(tmp_path: Path) -> None:
    """The packed header of a huge file has the tiles of one window. Another window takes one more request."""
    image = np.arange(1024 * 1024, dtype="uint16").reshape(1024, 1024)
    content = tiff(tmp_path / "a.tif", image, tile=(16, 16), compression="zlib")
    source = MemoryObject(content)
    first = opened(source, head=256)
    window = Window(col_off=512, row_off=512, width=20, height=20)
    np.testing.assert_array_equal(pixels(first, window)[0], image[512:532, 512:532])
    packed_header = first.packed_header
    assert packed_header is not None
    source.ranges.clear()

    again = opened(source, packed_header=packed_header, head=256)
    np.testing.assert_array_equal(pixels(again, window)[0], image[512:532, 512:532])
    assert len(source.ranges) == 1
    assert again.packed_header == packed_header
    far = Window(col_off=3, row_off=3, width=20, height=20)
    np.testing.assert_array_equal(pixels(again, far)[0], image[3:23, 3:23])
    assert len(source.ranges) > 2
    assert source.etags[-len(source.ranges) :] == ["v1"] * len(source.ranges)
    assert again.packed_header is not None
    source.ranges.clear()
    np.testing.assert_array_equal(
        pixels(opened(source, packed_header=again.packed_header), far)[0], image[3:23, 3:23]
    )
    assert len(source.ranges) == 1


@pytest.mark.slow
def test_entries_of_huge_files_are_bounded(tmp_path: Path) -> None:
    """If there are too many tiles, only those of the window are kept."""
    image = np.zeros((4096, 4096), "uint8")
    image[::16, ::16] = noise((256, 256), "uint8")
    image[2000:2100, 2000:2100] = noise((100, 100), "uint8")
    content = tiff(tmp_path / "a.tif", image, tile=(16, 16), compression="zlib")
    source = MemoryObject(content)
    first = opened(source, head=1 << 20)
    window = Window(col_off=2000, row_off=2000, width=100, height=100)
    pixels(first, window)
    of_tiles = source.ranges[1:]
    packed_header = first.packed_header

    assert packed_header is not None
    assert len(packed_header) <= MAX_PACKED_NBYTES
    told = peek(packed_header)
    assert told is not None
    assert told.n_tiles == 65_536
    source.ranges = []
    np.testing.assert_array_equal(
        pixels(opened(source, packed_header=packed_header), window)[0], image[2000:2100, 2000:2100]
    )
    assert source.ranges == of_tiles


@functools.cache
def example(folder: Path) -> bytes:
    """Return the packed header of a simple file."""
    return packed_header_of(
        MemoryObject(geotiff(folder / "e.tif", noise((2, 80, 80), "uint16"), **TILED, nodata=3))
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"version": 2},
        {"etag": ""},
        {"width": 0},
        {"height": 1 << 31},
        {"n_bands": 70_000},
        {"n_planes": 7},
        {"dtypes": "<u2 uint8"},
        {"dtypes": "O object"},
        {"compression": 7},
        {"predictor": 9},
        {"predictor": 3},
        {"nodata": 70_000},
        {"nodata": 1.5},
        {"crs": "/etc/passwd"},
        {"crs": "https://example.com/crs"},
        {"crs": "EPSG:4326 "},
        {"transform": (math.nan, 0.0, 0.0, 0.0, 1.0, 0.0)},
        {"nbytes": 10},
        {"width": 1},
        {"is_tiled": False},
        {"scaling": ((1.0,), (0.0,))},
        {"byte_order": "="},
        {"offsets": (5, 100)},
        {"overview": 1 << 63},
        {"width": (1 << 31) - 1, "height": (1 << 31) - 1, "tile_width": 1, "tile_height": 1},
    ],
    ids=str,
)
def test_an_entry_that_contradicts_itself_is_no_entry(tmp_path: Path, changes: dict[str, Any]) -> None:
    """It is ignored, and the header is read from the file."""
    told = peek(example(tmp_path.parent))
    assert told is not None
    broken = msgspec.msgpack.encode(msgspec.structs.replace(told, **changes))

    assert unpack(broken, href=HREF, overview=None) is None


def test_an_entry_that_unfolds_to_much_is_no_entry(tmp_path: Path) -> None:
    """A few bytes that claim very many tiles are refused: a worker holds many sources at a time."""
    told = peek(example(tmp_path.parent))
    assert told is not None
    run = PackedRun(0, MAX_TILES, PackedIntegers(1, b""), 0, PackedIntegers(0, b""))
    large = {"nbytes": 1 << 40, "width": 1 << 14, "height": 1 << 14, "overview": None}

    def packed(*runs: PackedRun) -> bytes:
        return msgspec.msgpack.encode(msgspec.structs.replace(told, runs=runs, **large))

    assert unpack(packed(run), href=HREF, overview=None) is not None
    assert unpack(packed(run, run), href=HREF, overview=None) is None


def test_an_entry_of_too_many_bytes_is_no_entry(tmp_path: Path) -> None:
    """A packed header that is too long is refused."""
    told = peek(example(tmp_path.parent))
    assert told is not None
    long = msgspec.msgpack.encode(msgspec.structs.replace(told, crs="WKT[" + "x" * MAX_PACKED_NBYTES))

    assert unpack(long, href=HREF, overview=None) is None


@given(st.binary(max_size=300))
def test_rubbish_is_no_entry(rubbish: bytes) -> None:
    """Random bytes are ignored and raise nothing."""
    assert unpack(rubbish, href=HREF, overview=None) is None


@pytest.mark.slow
@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 255)), min_size=1, max_size=4))
def test_a_changed_entry_reads_nothing_or_fails_as_sources_do(
    tmp_path: Path, changes: list[tuple[int, int]]
) -> None:
    """Any bytes of an index lead to pixels, an UnsupportedError or a SourceError, without a long wait."""
    file = tmp_path / "a.tif"
    if not file.exists():
        geotiff(file, noise((2, 80, 80), "uint16"), **TILED, nodata=3)
    source = MemoryObject(file.read_bytes())
    entry = bytearray(example(tmp_path))
    for place, value in changes:
        entry[place % len(entry)] = value
    started = time.perf_counter()
    warm = opened(source, packed_header=bytes(entry))
    window = Window(col_off=3, row_off=5, width=40, height=30)
    out = np.zeros((1, 30, 40), warm.header.dtype)
    with suppress(UnsupportedError, SourceError):
        asyncio.run(warm.read_into(out, window, (1,), masked=False))

    assert time.perf_counter() - started < 2.0


def test_the_struct_says_its_version_first() -> None:
    """Another version is recognized, whatever its other fields are."""
    assert PackedHeader.__struct_fields__[0] == "version"


def test_a_real_scene_takes_less_than_a_kilobyte(tmp_path: Path) -> None:
    """The packed header of 15 x 15 tiles, as in the published report's files, stays below 1 KiB."""
    image = noise((480, 480), "uint16")
    tifffile.imwrite(tmp_path / "a.tif", image, tile=(32, 32), compression="zlib", metadata=None)
    packed_header = packed_header_of(MemoryObject((tmp_path / "a.tif").read_bytes()))

    assert len(packed_header) < 1000
