"""An opened file: its windows, stored tiles, overviews and masks, and the requests that they take."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio

from geotiff.small_tiffs import (
    ASCII,
    HREF,
    LONG,
    SHORT,
    Array,
    ExtraTag,
    MemoryObject,
    Tags,
    geotiff,
    handwritten,
    noise,
    opened,
    pixels,
    tiff,
)
from pixel_gather.core.errors import SourceError
from pixel_gather.core.model.source import Cost
from pixel_gather.core.model.tile_coding import TileRange
from pixel_gather.core.model.window import Window
from pixel_gather.io.geotiff.geotiff_settings import GeoTiffSettings
from pixel_gather.io.geotiff.opened_geotiff import OpenedGeoTiff
from pixel_gather.io.geotiff.reader import GeoTiffReader
from pixel_gather.io.geotiff.unsupported import UnsupportedError

pytestmark = pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")

TILED: dict[str, Any] = {"tiled": True, "blockxsize": 16, "blockysize": 16}
OVERHANGING = Window(col_off=-3, row_off=-2, width=60, height=48)
INSIDE = Window(col_off=9, row_off=11, width=25, height=19)


def overhanging(image: Array, fill: float) -> Array:
    """Return what `OVERHANGING` shows of an image of 41 rows and 53 columns."""
    out = np.full((image.shape[0], 48, 60), fill, image.dtype)
    out[:, 2:43, 3:56] = image
    return out


@pytest.mark.parametrize(
    ("dtype", "options"),
    [
        ("uint8", {**TILED, "interleave": "pixel"}),
        ("int8", {"blockysize": 7, "compress": "packbits", "interleave": "band"}),
        ("uint16", {**TILED, "compress": "deflate", "predictor": 2, "interleave": "band"}),
        ("int16", {"blockysize": 41, "ENDIANNESS": "BIG", "interleave": "pixel"}),
        ("uint32", {"blockysize": 7, "compress": "lzw", "predictor": 2, "ENDIANNESS": "BIG"}),
        ("int32", {**TILED, "compress": "zstd", "interleave": "pixel"}),
        ("uint64", {**TILED, "compress": "lzma", "predictor": 2, "interleave": "pixel"}),
        ("int64", {"blockysize": 1, "interleave": "band"}),
        ("float16", {**TILED, "compress": "deflate"}),
        ("float32", {**TILED, "compress": "deflate", "predictor": 3, "ENDIANNESS": "BIG"}),
        ("float32", {**TILED, "compress": "zstd", "predictor": 3, "interleave": "pixel"}),
        ("float64", {"blockysize": 9, "compress": "lzw", "predictor": 3, "interleave": "band"}),
        ("complex64", {**TILED, "interleave": "pixel"}),
        ("complex128", {**TILED, "compress": "deflate", "ENDIANNESS": "BIG", "interleave": "band"}),
    ],
    ids=str,
)
def test_windows_are_slices_however_the_image_is_stored(
    tmp_path: Path, dtype: str, options: dict[str, Any]
) -> None:
    """A window inside of the image and one beyond each edge, with bands in any order."""
    image = noise((3, 41, 53), dtype)
    source = opened(geotiff(tmp_path / "a.tif", image, **options))

    assert source.header.dtype == dtype
    np.testing.assert_array_equal(pixels(source, OVERHANGING, fill=3), overhanging(image, 3))
    np.testing.assert_array_equal(pixels(source, INSIDE, [3, 1, 1]), image[[2, 0, 0], 11:30, 9:34])
    outside = Window(col_off=53, row_off=0, width=4, height=4)
    assert (pixels(source, outside, fill=3) == 3).all()


@pytest.mark.parametrize("interleave", ["pixel", "band"])
def test_complex_integers_are_complex_numbers(tmp_path: Path, interleave: str) -> None:
    """Two integers are the real and the imaginary part."""
    parts = noise((2, 41, 53), "int16")
    image = (parts + 1j * parts[:, ::-1]).astype("complex64")
    options = TILED | {"dtype": "complex_int16", "ENDIANNESS": "BIG", "compress": "deflate"}
    source = opened(geotiff(tmp_path / "a.tif", image, interleave=interleave, **options))

    np.testing.assert_array_equal(pixels(source, OVERHANGING, fill=3), overhanging(image, 3))


def stored(way: str, tmp_path: Path, **options: Any) -> tuple[MemoryObject, Array]:
    """Return a file of two bands and 3 x 2 tiles each, and its pixels."""
    image = noise((2, 32, 48), "uint16")
    content = geotiff(tmp_path / "a.tif", image, interleave=way, **TILED, **options)
    return MemoryObject(content), image


WHOLE = Window(col_off=0, row_off=0, width=48, height=32)
LEFT = Window(col_off=5, row_off=20, width=12, height=3)
"""It touches the first two tiles of the second row."""


def tiles_of(source: OpenedGeoTiff, window: Window, bands: Sequence[int]) -> list[list[memoryview | None]]:
    """Return the compressed tiles of a window."""
    return asyncio.run(source.read_tiles(window, bands))


def places_of(source: OpenedGeoTiff, window: Window, bands: Sequence[int]) -> list[list[TileRange | None]]:
    """Return where they are."""
    return asyncio.run(source.find_tiles(window, bands))


@pytest.mark.parametrize("gap", [0, 1 << 16])
@pytest.mark.parametrize("way", ["pixel", "band"])
def test_stored_tiles_are_the_bytes_at_their_places(tmp_path: Path, way: str, gap: int) -> None:
    """Tiles row by row, for each band in the order asked for. Interleaved bands share their tiles."""
    file, image = stored(way, tmp_path)
    source = opened(file, settings=GeoTiffSettings(max_gap_nbytes=gap, max_get_nbytes=1500))

    for window, expected in (
        (WHOLE, [(r, c) for r in (0, 16) for c in (0, 16, 32)]),
        (LEFT, [(16, 0), (16, 16)]),
    ):
        tiles, places = tiles_of(source, window, [2, 1]), places_of(source, window, [2, 1])
        for band, of_band, placed in zip((2, 1), tiles, places, strict=True):
            assert len(of_band) == len(placed) == len(expected)
            for (row, col), tile, place in zip(expected, of_band, placed, strict=True):
                block = image[:, row : row + 16, col : col + 16]
                raw = block[band - 1] if way == "band" else np.moveaxis(block, 0, -1)
                assert tile is not None
                assert place is not None
                assert bytes(tile) == raw.tobytes()
                assert file.content[place.start : place.start + place.nbytes] == raw.tobytes()


def test_stored_tiles_of_neighbours_take_one_request(tmp_path: Path) -> None:
    """Nothing else is read. Its time counts as reading."""
    file, _ = stored("pixel", tmp_path)
    source = opened(file)
    file.ranges.clear()

    tiles_of(source, WHOLE, [1])

    assert len(file.ranges) == 1
    assert source.file.cost.read_s > 0
    assert source.window_tiles == ((0, 6),)


def sparse(tmp_path: Path) -> MemoryObject:
    """Return a file of three tiles, of which the second is not stored."""
    path = tmp_path / "sparse.tif"
    with rasterio.open(
        path, "w", driver="GTiff", width=48, height=16, count=1, dtype="uint8", SPARSE_OK=True, **TILED
    ) as target:
        target.write(np.full((1, 16, 16), 5, "u1"), window=((0, 16), (0, 16)))
        target.write(np.full((1, 16, 16), 6, "u1"), window=((0, 16), (32, 48)))
    return MemoryObject(path.read_bytes())


def test_tiles_that_are_not_stored_are_none(tmp_path: Path) -> None:
    """They have neither bytes nor a place. The others keep theirs."""
    source = opened(sparse(tmp_path))
    window = Window(col_off=0, row_off=0, width=48, height=16)

    (tiles,), (places,) = tiles_of(source, window, [1]), places_of(source, window, [1])

    assert [tile and bytes(tile) for tile in tiles] == [b"\5" * 256, None, b"\6" * 256]
    assert [place and place.nbytes for place in places] == [256, None, 256]
    np.testing.assert_array_equal(pixels(source)[0, 0], [5] * 16 + [0] * 16 + [6] * 16)


def test_stored_span_is_from_the_first_byte_to_the_last(tmp_path: Path) -> None:
    """Bytes between tiles are in the span, and not in the sum."""
    source = opened(sparse(tmp_path))

    def span(col_off: int, width: int) -> tuple[int, int, int]:
        window = Window(col_off=col_off, row_off=0, width=width, height=16)
        return asyncio.run(source.stored_span(window, [1]))

    ((first, _, third),) = places_of(source, Window(col_off=0, row_off=0, width=48, height=16), [1])
    assert first is not None
    assert third is not None
    assert span(0, 16) == (256, first.start, first.start + 256)
    assert span(16, 16) == (0, 0, 0)
    assert span(0, 48) == (512, min(first.start, third.start), max(first.start, third.start) + 256)


@pytest.mark.parametrize("etag", [None, 'W/"1"'])
def test_places_are_told_of_a_named_version_only(tmp_path: Path, etag: str | None) -> None:
    """Without a strong name of the version, a later change would not be noticed."""
    file, _ = stored("pixel", tmp_path)
    file.etag = etag

    with pytest.raises(UnsupportedError, match="no ETag"):
        places_of(opened(file), WHOLE, [1])


def test_uncompressed_tiles_of_another_size_are_refused(tmp_path: Path) -> None:
    """Their bytes would be read as other pixels."""
    image = noise((20, 20), "uint16")
    content = tiff(tmp_path / "a.tif", image, rowsperstrip=16)
    window = Window(col_off=0, row_off=0, width=20, height=20)
    source = opened(content)

    assert (source.layout.tile_height, source.layout.tile_rows(1)) == (16, 4)
    np.testing.assert_array_equal(pixels(source)[0], image)
    for look in (tiles_of, places_of):
        with pytest.raises(UnsupportedError, match="does not fit"):
            look(source, window, [1])  # the last strip is shorter than the others


@pytest.mark.parametrize("of", ["read_tiles", "read_into"])
def test_a_packed_header_is_checked_by_some_request(tmp_path: Path, of: str) -> None:
    """Where no tile is stored, one byte shows that the version still exists. One check is enough."""
    options = TILED | {"SPARSE_OK": True}
    file = MemoryObject(geotiff(tmp_path / "a.tif", np.zeros((1, 16, 16), "u1"), **options))
    packed = opened(file).packed_header
    reader = GeoTiffReader(file)
    source = asyncio.run(reader.open_(HREF, overview=None, cost=Cost(), packed_header=packed))
    window = Window(col_off=0, row_off=0, width=16, height=16)
    file.ranges.clear()

    for _ in range(2):
        if of == "read_tiles":
            tiles_of(source, window, [1])
        else:
            pixels(source)

    assert file.ranges == [(0, 1)]


def test_overviews_share_the_file_and_have_their_own_header(tmp_path: Path) -> None:
    """Their size, transform and blocks are those that rasterio reads. So are their pixels."""
    path = tmp_path / "a.tif"
    georeference = {"crs": "EPSG:32633", "transform": rasterio.Affine(10, 0, 5e5, 0, -10, 6e6)}
    options = TILED | {"compress": "deflate", "nodata": 7, "overviews": [2, 4]} | georeference
    file = MemoryObject(geotiff(path, noise((2, 64, 96), "uint16"), **options))
    source = opened(file)
    pixels(source, INSIDE)
    full = source.header

    found = asyncio.run(source.overviews())

    assert [each.overview for each in found] == [0, 1]
    for level, each in enumerate(found):
        direct = opened(file, overview=level)
        assert each.header == direct.header
        assert each.header.overviews == ((48, 32), (24, 16))
        assert (each.window_tiles, each.packed, each.file) == ((), None, source.file)
        with rasterio.open(path, overview_level=level) as expected:
            np.testing.assert_array_equal(pixels(each), expected.read())
            np.testing.assert_array_equal(pixels(direct), expected.read())
            assert (each.header.transform, each.header.nodata) == (expected.transform[:6], expected.nodata)
            assert (each.header.tile_height, each.header.tile_width) == expected.block_shapes[0]
    assert source.header == full
    assert found[0].packed_header is not None


@pytest.mark.parametrize(("dtype", "nodata"), [("float32", 0.0), ("float64", 0.0)])
def test_gdal_hides_negative_zero_as_well(tmp_path: Path, dtype: str, nodata: float) -> None:
    """With nodata 0, neither 0 nor -0 is written by a masked read. Integers are written as they are."""
    image = np.array([[[-0.0, 0.0, 1.0, -1.0]]], dtype)
    source = opened(geotiff(tmp_path / "a.tif", image, nodata=nodata))

    np.testing.assert_array_equal(pixels(source, masked=True, fill=9)[0, 0], [9, 9, 1, -1])
    np.testing.assert_array_equal(pixels(source, fill=9)[0, 0], [0, 0, 1, -1])


@pytest.mark.parametrize(
    ("dtype", "nodata", "values"), [("int16", 0, [0, 1, 2, 3]), ("float32", 5.0, [5, 0, 2, 3])]
)
def test_masked_reads_of_plain_files_write_all_pixels(
    tmp_path: Path, dtype: str, nodata: float, values: list[float]
) -> None:
    """Pixels of exactly the nodata value are found later, wherever the window lies."""
    source = opened(geotiff(tmp_path / "a.tif", np.array([[values]], dtype), nodata=nodata))
    window = Window(col_off=-1, row_off=-1, width=6, height=2)

    np.testing.assert_array_equal(pixels(source, window, masked=True, fill=9)[0], [[9] * 6, [9, *values, 9]])


def text_tag(tag: int, text: str) -> ExtraTag:
    """Return a tag of text."""
    return (tag, "s", 0, text, True)


@pytest.mark.parametrize(
    "tag",
    [
        text_tag(42112, '<GDALMetadata><Item name="x">ALPHA</Item></GDALMetadata>'),
        text_tag(42112, '<GDALMetadata><Item name="NODATA_VALUES">1 2 3</Item></GDALMetadata>'),
        text_tag(42113, "7.5"),
    ],
    ids=["alpha", "nodata of all bands", "a fraction"],
)
def test_what_hides_other_pixels_is_left_to_gdal(tmp_path: Path, tag: ExtraTag) -> None:
    """Without a mask such a file is read here."""
    image = noise((16, 16), "uint8")
    source = opened(tiff(tmp_path / "a.tif", image, tag))

    np.testing.assert_array_equal(pixels(source)[0], image)
    with pytest.raises(UnsupportedError, match="a mask or an alpha band"):
        pixels(source, masked=True)
    assert source.is_masked


def test_floats_near_nodata_are_left_to_gdal(tmp_path: Path) -> None:
    """GDAL may hide them, too."""
    source = opened(geotiff(tmp_path / "a.tif", np.array([[[1e6, 1e6 + 1]]], "float64"), nodata=1e6))

    with pytest.raises(UnsupportedError, match="close to nodata"):
        pixels(source, masked=True)


def test_halves_are_not_near_nodata_where_their_sum_is_more_than_a_half_holds(tmp_path: Path) -> None:
    """GDAL adds them as wider numbers."""
    image = np.array([[[-1000, 5, -65504]]], "float16")
    source = opened(geotiff(tmp_path / "a.tif", image, nodata=-65504))

    np.testing.assert_array_equal(pixels(source, masked=True)[0], image[0])


def test_absent_tiles_with_a_nodata_that_cannot_be_are_left_to_gdal(tmp_path: Path) -> None:
    """Nobody knows which value they have."""
    path = tmp_path / "a.tif"
    geotiff(path, np.full((1, 16, 16), 200, "u1"), SPARSE_OK=True, nodata=200, **TILED)
    content = path.read_bytes()
    source = opened(content.replace(b"200\0", b"300\0"))

    assert source.header.nodata is None
    with pytest.raises(UnsupportedError, match="absent tiles"):
        pixels(source)


@pytest.mark.parametrize(("text", "expected"), [("0.1", None), ("-.5", None), ("-0.", 0), ("-7.", -7)])
def test_absent_tiles_of_complex_integers_hold_integers(text: str, expected: int | None) -> None:
    """GDAL rounds their nodata, and knows no negative zero."""
    shorts = {256: 16, 257: 16, 258: 32, 259: 1, 262: 1, 277: 1, 284: 1, 322: 16, 323: 16, 339: 5}
    tags: dict[int, tuple[int, Sequence[int]]] = {tag: (SHORT, (value,)) for tag, value in shorts.items()}
    tags |= {324: (LONG, (0,)), 325: (LONG, (0,)), 42113: (ASCII, text.encode() + b"\0")}
    source = opened(handwritten(dict(sorted(tags.items()))))

    if expected is None:
        with pytest.raises(UnsupportedError, match="rounds"):
            pixels(source)
    else:
        assert pixels(source).tobytes() == np.full((1, 16, 16), expected, "complex64").tobytes()


def test_the_first_read_learns_from_every_file_but_those_of_an_index(tmp_path: Path) -> None:
    """Windows, stored tiles, and the offsets of all tiles show where headers end."""
    content = tiff(tmp_path / "a.tif", noise((512, 512), "uint8"), tile=(16, 16))
    window = Window(col_off=0, row_off=500, width=9, height=9)

    def size_after(what: str, packed: bytes | None) -> int:
        reader = GeoTiffReader(MemoryObject(content), settings=GeoTiffSettings(head_nbytes=1024))
        out = np.zeros((1, 9, 9), "u1")

        async def work() -> None:
            for _ in range(3):
                source = await reader.open_(HREF, overview=None, cost=Cost(), packed_header=packed)
                if what == "window":
                    await source.read_into([(out, window)], [1], masked=False)
                elif what == "tiles":
                    await source.read_tiles(window, [1])
                else:
                    await source.fetch_all_tiles()

        asyncio.run(work())
        return reader.first_read.nbytes

    packed = opened(content).packed_header
    assert {size_after(what, None) for what in ("window", "tiles", "all")} == {8192}
    assert {size_after(what, packed) for what in ("window", "tiles")} == {1024}


def test_offsets_of_more_tiles_than_an_index_takes_are_not_fetched() -> None:
    """65,536 tiles are taken, and one more is too many."""

    def n_ranges(n_strips: int) -> int:
        ones = (LONG, (1,) * n_strips)
        sides: Tags = {256: (SHORT, (1,)), 257: (LONG, (n_strips,)), 258: (SHORT, (8,))}
        file = MemoryObject(handwritten({**sides, 273: ones, 278: (SHORT, (1,)), 279: ones}))
        source = opened(file, settings=GeoTiffSettings(head_nbytes=512))
        before = len(file.ranges)
        asyncio.run(source.fetch_all_tiles())
        return len(file.ranges) - before

    assert n_ranges(65_536) == 2
    assert n_ranges(65_537) == 0


def test_a_long_first_tile_does_not_keep_others_waiting(tmp_path: Path) -> None:
    """No more requests are in flight than a window may have, and no fewer."""
    file, _ = stored("band", tmp_path)
    under_way = most = 0
    get_range = file.get_range

    async def slow(*args: Any, **options: Any) -> Any:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.001)
        under_way -= 1
        return await get_range(*args, **options)

    for in_flight in (1, 3):
        settings = GeoTiffSettings(max_get_nbytes=512, max_gets_in_flight=in_flight)
        source = opened(file, settings=settings)
        source.file.objects = type("Slow", (), {"get_range": staticmethod(slow)})()
        most = 0
        tiles_of(source, WHOLE, [1, 2])
        assert most == in_flight
        most = 0
        pixels(source, WHOLE)
        assert most == in_flight


def test_the_cost_has_the_seconds_of_reading_and_decoding(tmp_path: Path) -> None:
    """Each window adds to them. A window of nothing that is stored adds nothing."""
    source = opened(sparse(tmp_path))
    cost = source.file.cost

    pixels(source, Window(col_off=16, row_off=0, width=16, height=16))
    assert (cost.read_s, cost.decode_s) == (0.0, 0.0)
    pixels(source, Window(col_off=0, row_off=0, width=16, height=16))
    once = cost.read_s, cost.decode_s
    pixels(source, Window(col_off=0, row_off=0, width=48, height=16))
    assert 0 < once[0] < cost.read_s < 10
    assert 0 < once[1] < cost.decode_s < 10


def test_an_object_that_changes_before_an_overview_is_noticed(tmp_path: Path) -> None:
    """Overviews are pinned to the version of the file."""
    file = MemoryObject(geotiff(tmp_path / "a.tif", noise((1, 64, 64), "uint16"), overviews=[2], **TILED))
    (overview,) = asyncio.run(opened(file).overviews())
    file.etag = "v2"

    with pytest.raises(SourceError):
        pixels(overview)
