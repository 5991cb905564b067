"""What the tags say about stored pixels, also odd ones, as a hostile file may have them."""

import struct
from pathlib import Path

import numpy as np
import pytest
import rasterio

from geotiff.small_tiffs import LONG, LONG8, SHORT, STORED_AT, Tags, geotiff, ifd_of, noise, opened, tiff
from pixel_gather.core.model.window import Window
from pixel_gather.io.geotiff.ifd import Tag
from pixel_gather.io.geotiff.layout import TileLayout, parse_layout
from pixel_gather.io.geotiff.tile_reads import plan_whole_tiles
from pixel_gather.io.geotiff.unsupported import UnsupportedError

pytestmark = pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")

TILED = {"tiled": True, "blockxsize": 16, "blockysize": 16}
WHOLE = Window(col_off=0, row_off=0, width=20, height=20)


def with_tag(content: bytes, tag: Tag, value: int) -> bytes:
    """Return a little-endian TIFF whose first directory has another value of a tag with one value."""
    (start,) = struct.unpack_from("<I", content, 4)
    (n_entries,) = struct.unpack_from("<H", content, start)
    for at in range(start + 2, start + 2 + 12 * n_entries, 12):
        number, kind, count = struct.unpack_from("<HHI", content, at)
        if number == tag:
            assert (kind, count) in ((3, 1), (4, 1))
            return content[: at + 8] + struct.pack("<I", value) + content[at + 12 :]
    raise LookupError(tag)


@pytest.mark.parametrize("tag", [Tag.TILE_WIDTH, Tag.TILE_LENGTH])
def test_tiles_without_pixels_are_refused(tmp_path: Path, tag: Tag) -> None:
    """Nothing is divided by their size."""
    content = geotiff(tmp_path / "a.tif", noise((1, 20, 20), "int16"), compress="deflate", **TILED)

    with pytest.raises(UnsupportedError, match="tiles without pixels"):
        opened(with_tag(content, tag, 0))


def test_whole_tiles_are_all_tiles_of_the_window(tmp_path: Path) -> None:
    """A tile that is longer than allowed is refused."""
    source = opened(geotiff(tmp_path / "a.tif", noise((1, 20, 20), "int16"), compress="deflate", **TILED))

    reads = plan_whole_tiles(source.ifd, source.layout, WHOLE, [1], max_tile_nbytes=10_000)

    assert len(reads) == 4
    longest = max(each.stop - each.start for each in reads)
    assert plan_whole_tiles(source.ifd, source.layout, WHOLE, [1], max_tile_nbytes=longest) == reads
    with pytest.raises(UnsupportedError, match="size limit"):
        plan_whole_tiles(source.ifd, source.layout, WHOLE, [1], max_tile_nbytes=longest - 1)


def test_text_of_one_character_is_read(tmp_path: Path) -> None:
    """A nodata of one digit without a closing NUL is one."""
    nodata = (int(Tag.GDAL_NODATA), "s", 1, "7", True)
    source = opened(tiff(tmp_path / "a.tif", noise((20, 20), "int16"), nodata))

    assert source.header.nodata == 7


def test_resampling_of_overviews_is_named(tmp_path: Path) -> None:
    """GDAL writes how it made them."""
    text = '<GDALMetadata><Item name="OVERVIEW_RESAMPLING"> average </Item></GDALMetadata>\0'
    metadata = (int(Tag.GDAL_METADATA), "s", len(text), text, True)
    plain = tiff(tmp_path / "b.tif", noise((20, 20), "int16"))

    assert opened(tiff(tmp_path / "a.tif", noise((20, 20), "int16"), metadata)).resampling == "AVERAGE"
    assert opened(plain).resampling is None


STRIPS: Tags = {
    Tag.IMAGE_WIDTH: (SHORT, (20,)),
    Tag.IMAGE_LENGTH: (SHORT, (12,)),
    Tag.BITS_PER_SAMPLE: (SHORT, (16,)),
    Tag.STRIP_OFFSETS: (LONG, (STORED_AT, STORED_AT)),
    Tag.ROWS_PER_STRIP: (SHORT, (6,)),
    Tag.STRIP_BYTE_COUNTS: (LONG, (240, 240)),
}
TILES: Tags = {
    Tag.IMAGE_WIDTH: (SHORT, (20,)),
    Tag.IMAGE_LENGTH: (SHORT, (12,)),
    Tag.BITS_PER_SAMPLE: (SHORT, (16,)),
    Tag.TILE_WIDTH: (SHORT, (16,)),
    Tag.TILE_LENGTH: (SHORT, (16,)),
    Tag.TILE_OFFSETS: (LONG, (STORED_AT, STORED_AT)),
    Tag.TILE_BYTE_COUNTS: (LONG, (512, 512)),
}
BANDS: Tags = {**STRIPS, Tag.SAMPLES_PER_PIXEL: (SHORT, (3,))}


def layout(tags: Tags, *, byte_order: str = "<", without: tuple[Tag, ...] = ()) -> TileLayout:
    """Return the layout of a file with these tags."""
    kept = {tag: tags[tag] for tag in tags if tag not in without}
    return parse_layout(ifd_of(kept, byte_order=byte_order))


SIDES_AND_BANDS: Tags = {
    Tag.IMAGE_WIDTH: (LONG, (2**31 - 1,)),
    Tag.IMAGE_LENGTH: (LONG, (2**31 - 1,)),
    Tag.ROWS_PER_STRIP: (LONG, (2**31 - 1,)),
    Tag.SAMPLES_PER_PIXEL: (SHORT, (65_535,)),
    Tag.STRIP_OFFSETS: (LONG, (STORED_AT,)),
    Tag.STRIP_BYTE_COUNTS: (LONG, (240,)),
}
LARGE_TILE: Tags = {
    Tag.TILE_WIDTH: (LONG, (2**31 - 1,)),
    Tag.TILE_LENGTH: (LONG, (2**31 - 1,)),
    Tag.TILE_OFFSETS: (LONG, (STORED_AT,)),
    Tag.TILE_BYTE_COUNTS: (LONG, (240,)),
}
FLOATS: Tags = {Tag.BITS_PER_SAMPLE: (SHORT, (32,)), Tag.SAMPLE_FORMAT: (SHORT, (3,))}


@pytest.mark.parametrize(
    ("tags", "changes"),
    [
        (STRIPS, {}),
        (TILES, {}),
        (STRIPS, SIDES_AND_BANDS),
        (TILES, LARGE_TILE),
        (STRIPS, {Tag.COMPRESSION: (SHORT, (1,))}),
        (STRIPS, {Tag.FILL_ORDER: (SHORT, (1,))}),
        (STRIPS, {Tag.PLANAR_CONFIGURATION: (SHORT, (2,))}),
        (BANDS, {Tag.BITS_PER_SAMPLE: (SHORT, (16, 16, 16))}),
        (BANDS, {Tag.BITS_PER_SAMPLE: (SHORT, (16,)), Tag.SAMPLE_FORMAT: (SHORT, (2, 2, 2))}),
        (TILES, {Tag.TILE_DEPTH: (SHORT, (1,))}),
        (STRIPS, {Tag.ROWS_PER_STRIP: (LONG8, (10,))}),
        *((STRIPS, {Tag.ORIENTATION: (SHORT, (n,))}) for n in (1, 8)),
        *((STRIPS, {Tag.RESOLUTION_UNIT: (SHORT, (n,))}) for n in (1, 3)),
        *((STRIPS, {Tag.PHOTOMETRIC: (SHORT, (n,))}) for n in range(4)),
        *(
            (STRIPS, {**FLOATS, Tag.COMPRESSION: (SHORT, (8,)), Tag.PREDICTOR: (SHORT, (n,))})
            for n in (1, 2, 3)
        ),
        (STRIPS, {**FLOATS, Tag.COMPRESSION: (SHORT, (50002,))}),
        *(
            (STRIPS, {Tag.COMPRESSION: (LONG, (code,)), Tag.PREDICTOR: (SHORT, (2,))})
            for code in (5, 8, 32946, 34925, 50000)
        ),
    ],
)  # fmt: skip
def test_what_tiff_allows_is_read(tags: Tags, changes: Tags) -> None:
    """Values at the ends of what is allowed are read."""
    assert layout({**tags, **changes}).dtype.itemsize in (2, 4)


@pytest.mark.parametrize(
    ("tags", "changes", "reason"),
    [
        *(
            (STRIPS, {**SIDES_AND_BANDS, tag: (LONG, (n,))}, "no or too many pixels or bands")
            for tag, n in [
                (Tag.IMAGE_WIDTH, 0), (Tag.IMAGE_WIDTH, 1 << 31), (Tag.IMAGE_LENGTH, 0),
                (Tag.IMAGE_LENGTH, 1 << 31), (Tag.SAMPLES_PER_PIXEL, 0), (Tag.SAMPLES_PER_PIXEL, 65_536),
            ]
        ),
        *((TILES, {**LARGE_TILE, tag: (LONG, (1 << 31,))}, "without pixels") for tag in (322, 323)),
        (STRIPS, {Tag.ROWS_PER_STRIP: (SHORT, (0,))}, "without pixels"),
        (STRIPS, {Tag.ROWS_PER_STRIP: (LONG8, (1 << 32,))}, "too many rows"),
        *((STRIPS, {Tag.PLANAR_CONFIGURATION: (SHORT, (n,))}, "planar") for n in (0, 3)),
        (BANDS, {Tag.BITS_PER_SAMPLE: (SHORT, (16, 16))}, "bands differ"),
        (BANDS, {Tag.BITS_PER_SAMPLE: (SHORT, (16, 8, 16))}, "bands differ"),
        (BANDS, {Tag.SAMPLE_FORMAT: (SHORT, (1, 1, 2))}, "bands differ"),
        (BANDS, {Tag.BITS_PER_SAMPLE: (SHORT, (16,) * 4)}, "number of values"),
        (BANDS, {Tag.SAMPLE_FORMAT: (SHORT, (1,) * 4)}, "number of values"),
        (STRIPS, {Tag.BITS_PER_SAMPLE: (SHORT, (12,))}, "bit depth"),
        (STRIPS, {Tag.SAMPLE_FORMAT: (SHORT, (4,))}, "bit depth"),
        (STRIPS, {Tag.COMPRESSION: (SHORT, (6,))}, "compression or predictor"),
        (STRIPS, {Tag.PREDICTOR: (SHORT, (4,))}, "compression or predictor"),
        (STRIPS, {Tag.FILL_ORDER: (SHORT, (2,))}, "fill order"),
        *(
            (STRIPS, {Tag.COMPRESSION: (LONG, (code,)), Tag.PREDICTOR: (SHORT, (2,))}, "predictor on this")
            for code in (1, 32773, 50002, 52546)
        ),
        (
            STRIPS,
            {Tag.BITS_PER_SAMPLE: (SHORT, (64,)), Tag.SAMPLE_FORMAT: (SHORT, (6,)),
             Tag.COMPRESSION: (SHORT, (8,)), Tag.PREDICTOR: (SHORT, (2,))},
            "predictor on this",
        ),
        (
            STRIPS,
            {Tag.BITS_PER_SAMPLE: (SHORT, (32,)), Tag.COMPRESSION: (SHORT, (8,)),
             Tag.PREDICTOR: (SHORT, (3,))},
            "predictor on integers",
        ),
        (STRIPS, {Tag.COMPRESSION: (LONG, (50002,)), Tag.SAMPLE_FORMAT: (SHORT, (2,))}, "JPEG XL"),
        *((STRIPS, {tag: (SHORT, (1,))}, "before TIFF 6.0") for tag in (Tag.MATTEING, Tag.DATA_TYPE)),
        (TILES, {Tag.TILE_DEPTH: (SHORT, (2,))}, "three dimensions"),
        (TILES, {Tag.STRIP_OFFSETS: (LONG, (8,))}, "neither tiles nor strips"),
        (TILES, {Tag.STRIP_BYTE_COUNTS: (LONG, (8,))}, "neither tiles nor strips"),
        *((STRIPS, {Tag.ORIENTATION: (SHORT, (n,))}, "orientation") for n in (0, 9)),
        *((STRIPS, {Tag.RESOLUTION_UNIT: (SHORT, (n,))}, "resolution unit") for n in (0, 4)),
        *((STRIPS, {Tag.PHOTOMETRIC: (SHORT, (n,))}, "photometric") for n in (4, 5, 6)),
        (STRIPS, {Tag.EXTRA_SAMPLES: (SHORT, (3,))}, "extra samples"),
        (BANDS, {Tag.EXTRA_SAMPLES: (SHORT, (0, 3))}, "extra samples"),
        (STRIPS, {Tag.EXTRA_SAMPLES: (SHORT, (0, 0))}, "number of values"),
        *((STRIPS, {tag: (LONG, (8,) * n)}, "number of offsets") for tag in (273, 279) for n in (1, 3)),
        *((TILES, {tag: (LONG, (8,) * n)}, "number of offsets") for tag in (324, 325) for n in (1, 3)),
        (BANDS, {Tag.PLANAR_CONFIGURATION: (SHORT, (2,))}, "number of offsets"),
    ],
)  # fmt: skip
def test_what_gdal_may_read_otherwise_is_refused(tags: Tags, changes: Tags, reason: str) -> None:
    """The reason is named."""
    with pytest.raises(UnsupportedError, match=reason):
        layout({**tags, **changes})


@pytest.mark.parametrize("without", [322, 323, 324, 325, 256, 257])
def test_missing_tags_of_tiles_are_refused(without: Tag) -> None:
    """Nothing stands for them."""
    with pytest.raises(UnsupportedError, match="missing"):
        layout(TILES, without=(without,))


@pytest.mark.parametrize("without", [273, 279])
def test_strips_without_a_place_are_refused(without: Tag) -> None:
    """An offset without a byte count says nothing, nor the other way round."""
    with pytest.raises(UnsupportedError, match="number of offsets"):
        layout(STRIPS, without=(without,))


def test_absent_tags_have_the_defaults_of_tiff() -> None:
    """One band of unsigned integers in one strip, not compressed, without alpha."""
    one = layout(
        {**STRIPS, Tag.STRIP_OFFSETS: (LONG, (8,)), Tag.STRIP_BYTE_COUNTS: (LONG, (8,))},
        without=(Tag.ROWS_PER_STRIP,),
    )

    assert (one.n_bands, one.dtype, one.n_planes, one.has_alpha) == (1, np.dtype("u2"), 1, False)
    assert (one.is_tiled, one.tile_width, one.tile_height) == (False, 20, 12)
    assert (one.coding.compression, one.coding.predictor) == ("none", 1)
    with pytest.raises(UnsupportedError, match="bit depth"):
        layout(STRIPS, without=(Tag.BITS_PER_SAMPLE,))  # one bit


@pytest.mark.parametrize(
    ("extras", "has_alpha"), [((0,), False), ((1,), True), ((2,), True), ((0, 2), True), ((0, 0), False)]
)
def test_alpha_is_any_extra_sample_of_that_kind(extras: tuple[int, ...], *, has_alpha: bool) -> None:
    """The kinds are unspecified, alpha that the colours are multiplied by, and alpha that they are not."""
    assert layout({**BANDS, Tag.EXTRA_SAMPLES: (SHORT, extras)}).has_alpha is has_alpha


@pytest.mark.parametrize(
    ("order", "bits", "kind", "dtype", "stored"),
    [
        (order, bits, kind, dtype, stored)
        for order in "<>"
        for bits, kind, dtype, stored in [
            (8, 1, "u1", "u1"), (16, 1, "u2", "u2"), (32, 1, "u4", "u4"), (64, 1, "u8", "u8"),
            (8, 2, "i1", "i1"), (16, 2, "i2", "i2"), (32, 2, "i4", "i4"), (64, 2, "i8", "i8"),
            (16, 3, "f2", "f2"), (32, 3, "f4", "f4"), (64, 3, "f8", "f8"),
            (64, 6, "c8", "c8"), (128, 6, "c16", "c16"), (32, 5, "c8", "i2"),
        ]
    ],
)  # fmt: skip
def test_dtypes_are_those_of_bits_and_sample_format(
    order: str, bits: int, kind: int, dtype: str, stored: str
) -> None:
    """The names of both are short to look up, and the coding tells the byte order where it matters."""
    tags: Tags = {**STRIPS, Tag.BITS_PER_SAMPLE: (SHORT, (bits,)), Tag.SAMPLE_FORMAT: (SHORT, (kind,))}
    one = layout(tags, byte_order=order)

    assert (one.dtype, one.stored) == (np.dtype(dtype), np.dtype(order + stored))
    assert one.dtype_name == np.dtype(dtype).name
    assert one.is_complex_int is (kind == 5)
    assert one.row_nbytes == 20 * bits // 8
    assert one.coding.dtype == ("complex integers" if kind == 5 else one.dtype_name)
    assert one.coding.byte_order == (order if one.stored.itemsize > 1 else "<")


@pytest.mark.parametrize(
    ("n_bands", "planar", "expected"),
    [(1, 1, (1, 1, False)), (1, 2, (1, 1, False)), (3, 1, (1, 3, True)), (3, 2, (3, 1, False))],
)
def test_bands_are_interleaved_or_in_planes(
    n_bands: int, planar: int, expected: tuple[int, int, bool]
) -> None:
    """Told are the planes, the numbers of a pixel in a tile, and whether a tile holds several bands."""
    n_strips = 2 * (n_bands if planar == 2 else 1)
    one = layout(
        {
            **STRIPS,
            Tag.SAMPLES_PER_PIXEL: (SHORT, (n_bands,)),
            Tag.PLANAR_CONFIGURATION: (SHORT, (planar,)),
            Tag.STRIP_OFFSETS: (LONG, (STORED_AT,) * n_strips),
            Tag.STRIP_BYTE_COUNTS: (LONG, (240,) * n_strips),
        }
    )

    assert (one.n_planes, one.samples, one.coding.is_interleaved) == expected
    assert one.row_nbytes == 40 * one.samples


@pytest.mark.parametrize(
    ("code", "name"),
    [(1, "none"), (5, "lzw"), (8, "deflate"), (32946, "deflate"), (32773, "packbits"), (34925, "lzma"),
     (50000, "zstd"), (50002, "jpeg_xl"), (52546, "jpeg_xl_of_dng")],
)  # fmt: skip
def test_compressions_have_the_codes_of_tiff(code: int, name: str) -> None:
    """Two codes of deflate are one and the same."""
    assert layout({**STRIPS, Tag.COMPRESSION: (LONG, (code,))}).coding.compression == name


def test_the_last_strip_ends_with_the_image_and_tiles_are_padded() -> None:
    """Strips of five rows in an image of twelve: the last has two."""
    three: Tags = dict.fromkeys((Tag.STRIP_OFFSETS, Tag.STRIP_BYTE_COUNTS), (LONG, (STORED_AT,) * 3))
    strips = layout({**STRIPS, **three, Tag.ROWS_PER_STRIP: (SHORT, (5,))})

    assert [strips.tile_rows(row) for row in range(3)] == [5, 5, 2]
    assert layout(TILES).tile_rows(0) == 16
    assert (layout(TILES).n_across, layout(TILES).n_down) == (2, 1)


@pytest.mark.parametrize(("width", "height"), [(16, 600), (1000, 1), (1000, 600), (4096, 3), (5000, 3)])
@pytest.mark.parametrize(
    "options", [{}, {"compress": "deflate"}, {"count": 2, "interleave": "band"}], ids=str
)
def test_blocks_of_a_single_strip_are_gdals(
    tmp_path: Path, width: int, height: int, options: dict[str, object]
) -> None:
    """GDAL cuts a single strip that is not compressed, has one plane, and has more than 8 KiB."""
    path = tmp_path / "a.tif"
    shape = {"width": width, "height": height, "count": 1, "dtype": "uint16", "blockysize": height}
    rasterio.open(path, "w", driver="GTiff", SPARSE_OK=True, **(shape | options)).close()

    with rasterio.open(path) as expected:
        header = opened(path.read_bytes()).header
        assert (header.tile_height, header.tile_width) == expected.block_shapes[0]
