"""JPEG tiles are decoded to the pixels that rasterio gives, or left to GDAL."""

import asyncio
import re
from copy import replace
from pathlib import Path
from typing import Any, Final

import imagecodecs
import numpy as np
import pytest
import rasterio
from rasterio.windows import Window

from geotiff.small_tiffs import (
    BYTE,
    HREF,
    LONG,
    SHORT,
    STORED_AT,
    MemoryObject,
    geotiff,
    handwritten,
    opened,
    pixels,
)
from pixel_gather.core.model.source import Cost
from pixel_gather.io.geotiff.decode import decode_block
from pixel_gather.io.geotiff.jpeg_tile import MAX_TABLES_NBYTES, JpegCoding, decode_jpeg
from pixel_gather.io.geotiff.layout import Compression
from pixel_gather.io.geotiff.reader import GeoTiffReader
from pixel_gather.io.geotiff.unsupported import UnsupportedError

SIDE: Final = 64
TILED: Final[dict[str, Any]] = {"tiled": True, "blockxsize": SIDE, "blockysize": SIDE}
STRIPS: Final[dict[str, Any]] = {"blockysize": 24}
KINDS: Final = [
    (1, TILED),
    (1, STRIPS),
    (2, TILED | {"interleave": "pixel"}),
    (3, TILED | {"interleave": "pixel", "photometric": "ycbcr"}),
    (3, TILED | {"interleave": "pixel", "photometric": "rgb"}),
    (3, STRIPS | {"interleave": "pixel"}),
    (3, TILED | {"interleave": "band"}),
    (4, TILED | {"interleave": "pixel", "jpeg_quality": 30}),
    (5, TILED | {"interleave": "band"}),
]


def picture(n_bands: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return waves with noise, shape (band, 200, 150)."""
    rows, cols = np.mgrid[:200, :150]
    waves = [127 + 80 * np.sin(cols / (7 + band)) + 40 * np.cos(rows / (5 + band)) for band in range(n_bands)]
    noisy = np.stack(waves) + np.random.default_rng(1).normal(0, 12, (n_bands, 200, 150))
    return noisy.clip(0, 255).astype("u1")


@pytest.mark.long
@pytest.mark.parametrize(("n_bands", "options"), KINDS, ids=range(len(KINDS)))
def test_jpeg_is_read_as_rasterio_reads_it(tmp_path: Path, n_bands: int, options: dict[str, Any]) -> None:
    """All pixels, the colours of bands, and an overview are rasterio's; a packed header gives the same."""
    path = tmp_path / "a.tif"
    geotiff(path, picture(n_bands), compress="jpeg", **options)
    with rasterio.open(path, "r+") as file:
        file.build_overviews([2])
    with rasterio.open(path) as file:
        expected, colours = file.read(), [each.name for each in file.colorinterp]
    with rasterio.open(path, overview_level=0) as file:
        reduced = file.read()
    stored = MemoryObject(path.read_bytes())

    source = opened(stored)
    np.testing.assert_array_equal(pixels(source), expected)
    np.testing.assert_array_equal(pixels(opened(stored, overview=0)), reduced)
    if "red" in colours:
        assert [each.colour for each in source.header.meanings][:3] == ["red", "green", "blue"]
    again = asyncio.run(
        GeoTiffReader(stored).open_(HREF, overview=None, cost=Cost(), packed_header=source.packed_header)
    )
    assert again.from_packed_header
    np.testing.assert_array_equal(pixels(again), expected)


@pytest.mark.parametrize(
    ("photometric", "names", "others"),
    [("ycbcr", b"\1\2\3", b"RGB"), ("rgb", b"RGB", b"\1\2\3")],
    ids=["YCbCr", "RGB"],
)
def test_the_directory_says_what_samples_are(
    tmp_path: Path, photometric: str, names: bytes, others: bytes
) -> None:
    """The names of a JPEG's components, by which libjpeg guesses, count for nothing."""
    path = tmp_path / "a.tif"
    content = geotiff(path, picture(3), compress="jpeg", photometric=photometric, interleave="pixel", **TILED)
    renamed = bytearray(content)
    for found in re.finditer(rb"\xff\xc0.{7}\x03|\xff\xda..\x03", content, re.DOTALL):  # a frame, or a scan
        step = 3 if found[0][1] == 0xC0 else 2
        component = slice(found.end(), found.end() + 3 * step, step)
        assert renamed[component] == names
        renamed[component] = others
    path.write_bytes(renamed)
    with rasterio.open(path) as file:
        expected = file.read()

    np.testing.assert_array_equal(pixels(opened(bytes(renamed))), expected)
    np.testing.assert_array_equal(pixels(opened(content)), expected)


@pytest.mark.long
def test_a_damaged_tile_gives_gdals_pixels_or_is_left_to_gdal(tmp_path: Path) -> None:
    """Whatever bytes are damaged, no other pixels than GDAL's are returned."""
    path = tmp_path / "a.tif"
    content = geotiff(
        path, picture(3)[:, :SIDE, :SIDE], compress="jpeg", photometric="ycbcr", interleave="pixel", **TILED
    )
    rng = np.random.default_rng(0)
    n_read = 0
    for _ in range(120):
        damaged = bytearray(content)
        damaged[-int(rng.integers(1, 1200))] ^= 1 << int(rng.integers(8))
        try:
            found = pixels(opened(bytes(damaged)))
        except UnsupportedError:
            continue
        path.write_bytes(damaged)
        with rasterio.open(path) as file:
            np.testing.assert_array_equal(found, file.read())
        n_read += 1

    assert n_read > 20


def tables_and_rest(content: bytes) -> tuple[bytes, bytes]:
    """Cut a JPEG's segments of tables out: return them alone as a JPEG, and the JPEG without them."""
    tables = rest = content[:2]
    at = 2
    while content[at + 1] != 0xDA:  # where the scan starts
        stop = at + 2 + int.from_bytes(content[at + 2 : at + 4])
        if content[at + 1] in (0xC4, 0xDB):
            tables += content[at:stop]
        else:
            rest += content[at:stop]
        at = stop
    return tables + b"\xff\xd9", rest + content[at:]


def test_tables_of_one_tile_are_not_those_of_the_next(tmp_path: Path) -> None:
    """A tile without tables has its directory's, also after a tile with its own.

    GDAL gives the same for a tile that is read alone. Reading both, it goes on with the first one's tables.
    """
    coarse, fine = (bytes(imagecodecs.jpeg8_encode(TILE, level=level, optimize=True)) for level in (20, 90))
    tables, without = tables_and_rest(fine)
    tags = {
        256: (LONG, [2 * SIDE]),
        257: (LONG, [SIDE]),
        258: (SHORT, [8]),
        259: (SHORT, [7]),
        262: (SHORT, [1]),
        277: (SHORT, [1]),
        322: (LONG, [SIDE]),
        323: (LONG, [SIDE]),
        324: (LONG, [STORED_AT, STORED_AT + len(coarse)]),
        325: (LONG, [len(coarse), len(without)]),
        347: (BYTE, tables),
    }
    path = tmp_path / "a.tif"
    path.write_bytes(handwritten(tags, stored=coarse + without))

    found = pixels(opened(path.read_bytes()))

    for col_off in (0, SIDE):
        with rasterio.open(path) as file:
            alone = file.read(window=Window(col_off, 0, SIDE, SIDE))
        np.testing.assert_array_equal(found[..., col_off : col_off + SIDE], alone)
    np.testing.assert_array_equal(found[0, :, SIDE:], imagecodecs.jpeg8_decode(fine))


TILE: Final = np.arange(SIDE * SIDE, dtype="u1").reshape(SIDE, SIDE)
PLAIN: Final = JpegCoding(tables=b"", sampling=None)


def spoilt(old: bytes, new: bytes) -> bytes:
    """Return a JPEG of `TILE` in which some bytes are replaced."""
    content = bytes(imagecodecs.jpeg8_encode(TILE))
    assert content.count(old) == 1
    return content.replace(old, new)


FRAME: Final = b"\xff\xc0\x00\x0b\x08\x00\x40\x00\x40\x01\x01\x11\x00"
"""64 x 64 pixels of 8 bits, one component that is not reduced."""


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xd8",
        b"no JPEG",
        b"\xff\xd8\xff\xda\x00\x03\x00\xff\xd9",
        spoilt(b"\xff\xda\x00\x08\x01", b"\xff\xda\x00\x08\x02"),
        spoilt(FRAME, FRAME.replace(b"\x00\x40", b"\x7f\x40")),
        spoilt(FRAME, FRAME.replace(b"\x01\x11", b"\x01\x22")),
        spoilt(FRAME, FRAME.replace(b"\xff\xc0", b"\xff\xc2")),
        spoilt(FRAME, FRAME + FRAME),
        spoilt(FRAME, b"\xff\xfe\x00\x02" * 64 + FRAME),
        spoilt(FRAME, FRAME[:6]),
        spoilt(FRAME, b"\x00\xfe\x00\x02" + FRAME),
        imagecodecs.jpeg8_encode(TILE)[:-2],
        imagecodecs.jpeg8_encode(np.dstack([TILE] * 3)),
    ],
    ids=range(14),
)
def test_other_jpeg_than_the_directory_says_is_left_to_gdal(content: bytes) -> None:
    """No frame of another shape, sampling or kind is decoded, nor a tile that does not end."""
    with pytest.raises(UnsupportedError):
        decode_jpeg(memoryview(content), PLAIN, np.empty((SIDE, SIDE, 1), "u1"))


def test_a_tile_may_be_padded() -> None:
    """Zeros may follow the end."""
    content = bytes(imagecodecs.jpeg8_encode(TILE))
    block = np.empty((SIDE, SIDE), "u1")

    decode_jpeg(memoryview(content + b"\0"), PLAIN, block)

    np.testing.assert_array_equal(block, imagecodecs.jpeg8_decode(content))


def test_what_libjpeg_refuses_is_left_to_gdal(tmp_path: Path) -> None:
    """Its errors say that GDAL has to read the tile."""
    layout = opened(geotiff(tmp_path / "a.tif", picture(1), compress="jpeg", **TILED)).layout
    content = spoilt(FRAME, FRAME[:-1] + b"\x03")  # there is no third quantisation table

    with pytest.raises(UnsupportedError, match="cannot be decoded"):
        decode_block(memoryview(content), replace(layout, jpeg=PLAIN), np.empty((SIDE, SIDE, 1), "u1"))


@pytest.mark.parametrize(
    "options",
    [{"tables": bytes(MAX_TABLES_NBYTES + 1), "sampling": None}, {"tables": b"", "sampling": (4, 4)}],
)
def test_a_coding_that_is_not_decoded_is_refused(options: dict[str, Any]) -> None:
    """Long tables and coarse chroma are left to GDAL."""
    with pytest.raises(UnsupportedError):
        JpegCoding(**options)


def test_only_jpeg_has_a_coding(tmp_path: Path) -> None:
    """Other compressions have none."""
    assert opened(geotiff(tmp_path / "a.tif", picture(1), compress="jpeg", **TILED)).layout.jpeg is not None
    plain = opened(geotiff(tmp_path / "b.tif", picture(1), **TILED)).layout
    assert (plain.compression, plain.jpeg) == (Compression.NONE, None)
