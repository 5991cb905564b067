"""Packed headers give the header and pixels of the file, and invalid ones are refused."""

import asyncio
import functools
import math
from contextlib import suppress
from copy import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import rasterio
import tifffile
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from geotiff.small_tiffs import (
    HREF,
    LONG,
    LONG8,
    SHORT,
    STORED_AT,
    MemoryObject,
    Tags,
    geotiff,
    handwritten,
    noise,
    pixels,
    tiff,
)
from geotiff.test_reader import ways
from pixel_gather.core.errors import SourceError
from pixel_gather.core.model.source import Cost
from pixel_gather.core.model.window import Window
from pixel_gather.io.geotiff.geotiff_settings import GeoTiffSettings
from pixel_gather.io.geotiff.offset_codec import MAX_TILES, PackedIntegers, PackedRun
from pixel_gather.io.geotiff.opened_geotiff import OpenedGeoTiff
from pixel_gather.io.geotiff.packed_header import MAX_PACKED_NBYTES, PackedHeader, pack, peek, unpack
from pixel_gather.io.geotiff.reader import GeoTiffReader
from pixel_gather.io.geotiff.unsupported import UnsupportedError

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


@pytest.mark.long
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
    image = noise((1, 128, 128), "uint16")
    source = MemoryObject(geotiff(tmp_path / "a.tif", image, overviews=[2, 4], **TILED))
    packed_header = packed_header_of(source, overview=1)

    assert opened(source, packed_header=packed_header, overview=1).from_packed_header
    assert not opened(source, packed_header=packed_header, overview=0).from_packed_header
    assert not opened(source, packed_header=packed_header).from_packed_header
    np.testing.assert_array_equal(
        pixels(opened(source, packed_header=packed_header, overview=1)), pixels(opened(source, overview=1))
    )
    assert opened(source, packed_header=packed_header, overview=1).header == opened(source, overview=1).header


@pytest.mark.parametrize(
    ("changes", "said"),
    [({"etag": "v2"}, "replaced"), ({"content": b"more"}, "replaced by a file of another size")],
    ids=["tag", "size"],
)
def test_a_replaced_object_is_noticed_by_the_first_read(
    tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    """Every read is pinned to the version of the packed header. Some stores reuse etags, but not sizes."""
    source = MemoryObject(geotiff(tmp_path / "a.tif", noise((1, 40, 40), "uint16"), **TILED))
    packed_header = packed_header_of(source)
    source.etag = changes.get("etag", source.etag)
    source.content += changes.get("content", b"")

    with pytest.raises(SourceError, match=said):
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


@pytest.mark.long
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


def changed(folder: Path, **changes: Any) -> bytes:
    """Return the packed header of a simple file with other fields."""
    told = peek(example(folder.parent))
    assert told is not None
    return msgspec.msgpack.encode(msgspec.structs.replace(told, **changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"version": 1},
        {"version": 3},
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
    assert unpack(changed(tmp_path, **changes), href=HREF, overview=None) is None


def test_an_entry_that_unfolds_to_much_is_no_entry(tmp_path: Path) -> None:
    """A few bytes that claim very many tiles are refused: a worker holds many sources at a time."""
    run = PackedRun(0, MAX_TILES, PackedIntegers(1, b""), 0, PackedIntegers(0, b""))
    large = {"nbytes": 1 << 40, "width": 1 << 14, "height": 1 << 14, "overview": None}

    def packed(*runs: PackedRun) -> bytes:
        return changed(tmp_path, runs=runs, **large)

    assert unpack(packed(run), href=HREF, overview=None) is not None
    assert unpack(packed(run, run), href=HREF, overview=None) is None


def test_an_entry_of_too_many_bytes_is_no_entry(tmp_path: Path) -> None:
    """A packed header that is too long is refused."""
    long = changed(tmp_path, crs="WKT[" + "x" * MAX_PACKED_NBYTES)

    assert unpack(long, href=HREF, overview=None) is None


@given(st.binary(max_size=300))
def test_rubbish_is_no_entry(rubbish: bytes) -> None:
    """Random bytes are ignored and raise nothing."""
    assert unpack(rubbish, href=HREF, overview=None) is None


@pytest.mark.long
@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 255)), min_size=1, max_size=4))
def test_a_changed_entry_reads_nothing_or_fails_as_sources_do(
    tmp_path: Path, changes: list[tuple[int, int]]
) -> None:
    """Any bytes of an index lead to pixels, an UnsupportedError or a SourceError, with few requests."""
    file = tmp_path / "a.tif"
    if not file.exists():
        geotiff(file, noise((2, 80, 80), "uint16"), **TILED, nodata=3)
    source = MemoryObject(file.read_bytes())
    entry = bytearray(example(tmp_path))
    for place, value in changes:
        entry[place % len(entry)] = value
    warm = opened(source, packed_header=bytes(entry))
    window = Window(col_off=3, row_off=5, width=40, height=30)
    out = np.zeros((1, 30, 40), warm.header.dtype)
    with suppress(UnsupportedError, SourceError):
        asyncio.run(warm.read_into([(out, window)], (1,), masked=False))

    assert len(source.ranges) <= 20  # the window needs twelve tiles


def test_the_struct_says_its_version_first() -> None:
    """Another version is recognized, whatever its other fields are."""
    assert PackedHeader.__struct_fields__[0] == "version"


def test_a_real_scene_takes_less_than_a_kilobyte(tmp_path: Path) -> None:
    """The packed header of 15 x 15 tiles, as in the published report's files, stays below 1 KiB."""
    image = noise((480, 480), "uint16")
    tifffile.imwrite(tmp_path / "a.tif", image, tile=(32, 32), compression="zlib", metadata=None)
    packed_header = packed_header_of(MemoryObject((tmp_path / "a.tif").read_bytes()))

    assert len(packed_header) < 1000


@pytest.mark.parametrize(
    ("dtype", "options"),
    [
        ("uint16", {**TILED, "interleave": "pixel", "nodata": 7}),
        ("int16", {**TILED, "interleave": "band", "ENDIANNESS": "BIG", "crs": "EPSG:32633"}),
        ("float32", {**TILED, "BIGTIFF": "YES", "predictor": 3, "nodata": 0.5, "ALPHA": "YES"}),
        ("int8", {"blockysize": 7, "compress": "packbits", "BIGTIFF": "YES", "ENDIANNESS": "BIG"}),
        ("uint32", {"blockysize": 53, "compress": "lzw", "transform": rasterio.Affine(10, 1, 5, 2, -10, 6)}),
        ("complex64", {**TILED, "SPARSE_OK": True}),
    ],
    ids=str,
)  # fmt: skip
def test_a_packed_header_is_that_of_the_file(tmp_path: Path, dtype: str, options: dict[str, Any]) -> None:
    """It gives the same header, layout and pixels. Nothing of the header is read."""
    image, path = noise((2, 53, 61), dtype), tmp_path / "a.tif"
    geotiff(path, image, **options)
    scaling = {
        "uint16": ((0.5, 1.0), (0.0, 3.0)),
        "int16": ((1.0, 1.0), (0.0, 3.0)),
        "uint32": ((1.0, 0.5), (0.0, 0.0)),
    }.get(dtype)
    if scaling:
        with rasterio.open(path, "r+") as target:
            target.scales, target.offsets = scaling
    source = MemoryObject(path.read_bytes())
    cold, packed_header = opened(source), packed_header_of(source)
    source.ranges.clear()

    warm = opened(source, packed_header=packed_header)

    assert source.ranges == []
    assert warm.header == cold.header
    assert warm.layout == cold.layout
    assert warm.packed_header == packed_header
    assert warm.is_masked is ("ALPHA" in options)
    np.testing.assert_array_equal(pixels(warm), image)
    assert len(source.ranges) == 1
    told = peek(packed_header)
    assert told is not None
    assert (told.dtype, told.n_tiles) == (dtype, told.n_known_tiles)
    assert told.scaling == scaling
    n_blocks = 16 if "tiled" in options else -(-53 // int(options["blockysize"]))
    assert told.n_tiles == n_blocks * (2 if options.get("interleave") == "band" else 1)
    assert (warm.first.format, warm.first.next_offset) == (cold.first.format, cold.first.next_offset)


def test_complex_integers_are_packed_as_such(tmp_path: Path) -> None:
    """Their pairs of integers are told from complex numbers."""
    image = np.full((1, 20, 20), 3 - 4j, "complex64")
    source = MemoryObject(geotiff(tmp_path / "a.tif", image, dtype="complex_int16"))

    warm = opened(source, packed_header=packed_header_of(source))

    assert warm.layout.is_complex_int
    assert (pixels(warm) == 3 - 4j).all()


STRIPS = 100
OFFSETS = [STORED_AT + 10 * n for n in range(STRIPS)]
ROWS: Tags = {
    256: (SHORT, (10,)),
    257: (SHORT, (STRIPS,)),
    258: (SHORT, (8,)),
    273: (LONG, OFFSETS),
    278: (SHORT, (1,)),
    279: (LONG8, (10,) * STRIPS),
}
STORED = bytes(range(10)) * STRIPS


def rows(**changes: Any) -> OpenedGeoTiff:
    """Return an opened file of 100 strips of one row. None of their offsets has been fetched."""
    tags = {**ROWS, **{int(tag[1:]): value for tag, value in changes.items()}}
    source = opened(MemoryObject(handwritten(tags, stored=STORED)))
    header_bytes = source.file.header_bytes
    header_bytes._parts.clear()
    return source


def fetch(source: OpenedGeoTiff, tag: int, first: int, stop: int, *, odd: int = 0) -> None:
    """Let the values [first, stop) of a tag have been fetched, and ``odd`` bytes on either side."""
    entry = source.ifd.entries[tag]
    size = {SHORT: 2, LONG: 4, LONG8: 8}[entry.kind]
    start, end = entry.start + first * size - odd, entry.start + stop * size + odd
    content: bytes = source.file.objects.content  # type: ignore[attr-defined] # a MemoryObject
    source.file.header_bytes.add(start, memoryview(content)[start:end])


def packed_rows(source: OpenedGeoTiff, *wanted: tuple[int, int], **changes: Any) -> bytes | None:
    """Return the packed header of rows whose header has other fields."""
    return pack(
        replace(source.header, **changes), source.layout, first=source.first, ifd=source.ifd, overview=None,
        is_masked=False, wanted=wanted,
    )  # fmt: skip


def runs_of(source: OpenedGeoTiff, *wanted: tuple[int, int]) -> list[tuple[int, int]]:
    """Return the runs [first, stop) of tiles in its packed header. They are those of the file."""
    packed = packed_rows(source, *wanted)
    assert packed is not None
    told, restored = peek(packed), unpack(packed, href=HREF, overview=None)
    assert told is not None
    assert restored is not None
    runs = [(run.first, run.first + run.n_tiles) for run in told.runs]
    for first, stop in runs:
        assert restored.ifd.array(273, first, stop).tolist() == OFFSETS[first:stop]
        told_by_file = source.ifd.array(279, first, stop).tolist()
        assert restored.ifd.array(279, first, stop).tolist() == told_by_file
    return runs


@pytest.mark.parametrize(
    ("of_offsets", "of_counts", "runs"),
    [
        ([(0, 100)], [(0, 100)], [(0, 100)]),
        ([(0, 1)], [(0, 1)], [(0, 1)]),
        ([(99, 100)], [(0, 100)], [(99, 100)]),
        ([(10, 30)], [(20, 40)], [(20, 30)]),
        ([(10, 30)], [(30, 40)], []),
        ([(10, 30)], [], []),
        ([(0, 10), (20, 30)], [(0, 100)], [(0, 10), (20, 30)]),
        ([(20, 30), (0, 10)], [(0, 100)], [(0, 10), (20, 30)]),
        ([(0, 10), (5, 15)], [(0, 100)], [(0, 10), (10, 15)]),
        ([(0, 20), (5, 15)], [(0, 100)], [(0, 20)]),
        ([(n, n + 5) for n in range(0, 90, 10)], [(0, 100)], [(n, n + 5) for n in range(0, 80, 10)]),
    ],
)
def test_tiles_are_packed_whose_offset_and_size_are_both_known(
    of_offsets: list[tuple[int, int]], of_counts: list[tuple[int, int]], runs: list[tuple[int, int]]
) -> None:
    """Each once, in order, in eight runs at most. Bytes beside whole values do not count."""
    for odd in (0, 1, 3):
        source = rows()
        for tag, spans in ((273, of_offsets), (279, of_counts)):
            for first, stop in spans:
                fetch(source, tag, first, stop, odd=odd)

        assert runs_of(source) == runs


LAST = len(handwritten(ROWS, stored=STORED)) - OFFSETS[99]
"""Bytes from the last tile's offset to the end of the file."""


@pytest.mark.parametrize(
    ("changes", "is_packed"),
    [
        ({"t279": (LONG8, (10,) * 99 + (LAST,))}, True),
        ({"t279": (LONG8, (10,) * 99 + (LAST + 1,))}, False),
        ({"t279": (LONG8, (10,) * 99 + (1 << 63,))}, False),
        ({"t279": (LONG8, (10,) * 99 + (0,))}, False),
        ({"t273": (LONG8, (*OFFSETS[:99], 1 << 63))}, False),
        ({"t273": (LONG8, OFFSETS)}, True),
        ({"t273": (SHORT, OFFSETS)}, True),
    ],
)
def test_runs_with_an_impossible_tile_are_not_packed(changes: dict[str, Any], *, is_packed: bool) -> None:
    """They are left to be read from the file, which tells what is wrong. Other runs are packed."""
    source = rows(**changes)
    for tag in (273, 279):
        fetch(source, tag, 90, 100)
        fetch(source, tag, 10, 20)

    assert runs_of(source) == [(10, 20), *([(90, 100)] if is_packed else [])]


def test_where_all_tiles_are_too_many_the_wanted_ones_are_packed() -> None:
    """A packed header of 64 KiB is made, and opened. One byte more is too many."""
    source = rows()
    fetch(source, 273, 0, 100)
    fetch(source, 279, 0, 100)
    base = packed_rows(source, crs="A[" + "x" * 60_000)
    assert base is not None
    room = "A[" + "x" * (60_000 + MAX_PACKED_NBYTES - len(base))

    full = packed_rows(source, crs=room)
    assert full is not None
    assert len(full) == MAX_PACKED_NBYTES
    assert unpack(full, href=HREF, overview=None) is not None
    assert packed_rows(source, (0, 100), crs=room + "x") is None
    told = peek(packed_rows(source, crs=room + "x") or b"")
    assert told is not None
    assert told.runs == ()
    assert peek(packed_rows(source, (4, 4), crs=room + "x") or b"") is not None


@pytest.mark.parametrize(("more", "is_packed"), [(0, True), (1, False)])
def test_places_beyond_256_tib_are_not_packed(more: int, *, is_packed: bool) -> None:
    """An object of that size is not packed, nor are such offsets of its directories or their values."""
    source, far = rows(), (1 << 48) + more
    entries = source.ifd.entries

    assert (packed_rows(source, nbytes=far) is not None) is is_packed
    for tag in (273, 279):
        source.ifd = replace(source.ifd, entries={**entries, tag: entries[tag]._replace(start=far)})
        assert (packed_rows(source) is not None) is is_packed
    source.ifd = replace(source.ifd, entries=entries)
    source.first = replace(source.first, next_offset=far)
    assert (packed_rows(source) is not None) is is_packed


@pytest.mark.parametrize("tag", [273, 279])
def test_offsets_of_another_type_are_not_packed(tag: int) -> None:
    """Byte counts of another type are not packed, either."""
    source = rows()
    entries = source.ifd.entries
    source.ifd = replace(source.ifd, entries={**entries, tag: entries[tag]._replace(kind=13)})

    assert packed_rows(source) is None


FLOATS = {"dtypes": "<f4 float32", "nodata": None}


@pytest.mark.parametrize(
    ("changes", "is_opened"),
    [
        ({"nodata": 0}, True), ({"nodata": 65_535}, True), ({"nodata": 65_536}, False),
        ({"nodata": -1}, False),
        ({"nodata": None}, True), ({"nodata": 3.0}, False),
        (FLOATS, True), (FLOATS | {"nodata": 0.5}, True), (FLOATS | {"nodata": 3}, False),
        (FLOATS | {"nodata": math.nan}, True), (FLOATS | {"predictor": 3}, True), ({"predictor": 2}, True),
        ({"predictor": 2, "compression": 1}, False), ({"predictor": 1, "compression": 1}, True),
        ({"predictor": 2, "compression": 32773}, False),
        ({"predictor": 2, "dtypes": "<c8 complex64", "nodata": None}, False),
        ({"predictor": 1, "dtypes": "<c8 complex64", "nodata": None}, True),
        ({"predictor": 3}, False),
        ({"n_planes": 2, "runs": ()}, True), ({"n_planes": 1}, True), ({"n_planes": 3}, False),
        ({"crs": "EPSG:1"}, True), ({"crs": "EPSG:123456"}, True), ({"crs": "EPSG:1234567"}, False),
        ({"crs": "EPSG:"}, False), ({"crs": 'PROJCS["x"]'}, True), ({"crs": "x["}, False),
        ({"crs": None}, True),
        ({"transform": (1.0, 0.0, 0.0, 0.0, 1.0, math.inf)}, False),
        ({"transform": (1.0, 0.0, 0.0, 0.0, 1.0, 2.0)}, True), ({"transform": None}, True),
        ({"scaling": ((1.0, 2.0), (0.0, 1.0))}, True), ({"scaling": ((1.0, 2.0), (0.0,))}, False),
        ({"scaling": ((1.0,), (0.0, 1.0))}, False),
        ({"is_tiled": False, "tile_width": 80, "tile_height": 80, "runs": ()}, True),
        ({"is_tiled": False, "tile_width": 80, "tile_height": 81, "runs": ()}, False),
        ({"is_tiled": False, "tile_width": 79, "tile_height": 80, "runs": ()}, False),
        ({"nbytes": 25, "runs": ()}, True), ({"nbytes": 24, "runs": ()}, False),
        ({"width": 64}, False), ({"width": 96}, True),
    ],
    ids=str,
)  # fmt: skip
def test_fields_are_checked_against_each_other(
    tmp_path: Path, changes: dict[str, Any], *, is_opened: bool
) -> None:
    """What a file may say is opened, and what it may not is no packed header."""
    restored = unpack(changed(tmp_path, **changes), href=HREF, overview=None)

    assert (restored is not None) is is_opened
    if restored is not None:
        if "crs" in changes:
            assert restored.header.crs == changes["crs"]
        if "transform" in changes:
            assert restored.header.transform == changes["transform"]
        if "scaling" in changes:
            assert (restored.header.scales, restored.header.offsets) == changes["scaling"]
        assert restored.header.href == HREF
        assert restored.header.driver == "GTiff"


def test_known_tiles_end_with_the_image(tmp_path: Path) -> None:
    """A run up to the last tile is sound, and one tile more is not."""
    run = PackedRun(24, 1, PackedIntegers(9, b""), 500, PackedIntegers(0, b""))

    for n, is_opened in ((1, True), (2, False)):
        with_run = changed(tmp_path, runs=(msgspec.structs.replace(run, n_tiles=n),))
        restored = unpack(with_run, href=HREF, overview=None)
        assert (restored is not None) is is_opened


def test_a_header_without_nodata_says_so(tmp_path: Path) -> None:
    """Tiles that are not stored are zero only where the file has no such tag."""
    for declares in (True, False):
        restored = unpack(changed(tmp_path, declares_nodata=declares), href=HREF, overview=None)
        assert restored is not None
        assert (42113 in restored.first.entries) is declares
