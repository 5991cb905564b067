"""A source that cannot be read gets a plain sentence. Only damaged bytes are CORRUPT."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import imagecodecs
import numpy as np
import pytest
import tifffile

from pixel_gather.core.errors import SourceError
from pixel_gather.core.model.source import Cost
from pixel_gather.core.model.status import Status
from pixel_gather.core.model.window import Window
from pixel_gather.io.gdal.gdal_error_status import classify_messages
from pixel_gather.io.gdal.settings import GdalSettings
from pixel_gather.io.geotiff.geotiff_settings import GeoTiffSettings
from pixel_gather.io.reader import CogReader
from pixel_gather.io.store.object_store import Objects
from pixel_gather.io.store.store_settings import StoreSettings
from support.in_loop import in_loop

type Array = np.ndarray[Any, Any]

IMAGE: Final = np.random.default_rng(0).integers(0, 255, (64, 64), dtype="uint8")
COMPRESSION, PREDICTOR, WIDTH, HEIGHT, BITS, TILE_WIDTH = 259, 317, 256, 257, 258, 322


@dataclass(frozen=True)
class Case:
    """A file, and the expected status and reason."""

    id: str
    status: Status
    says: str
    image: Array = field(default_factory=lambda: IMAGE)
    tags: dict[int, int] = field(default_factory=dict)
    spoil: Callable[[bytes], bytes] = bytes
    options: dict[str, Any] = field(default_factory=dict)

    def write(self, path: Path) -> None:
        """Write the file."""
        tifffile.imwrite(
            path, self.image, tile=(32, 32), photometric="minisblack", metadata=None, **self.options
        )
        with tifffile.TiffFile(path, mode="r+") as target:
            for tag, value in self.tags.items():
                target.pages[0].aspage().tags[tag].overwrite(value)
        path.write_bytes(self.spoil(path.read_bytes()))


def scratched(content: bytes) -> bytes:
    """Return the content with a damaged first tile."""
    return content[:600] + b"\x99" * 300 + content[900:]


def without_tables(content: bytes) -> bytes:
    """Return the content without the tables of a JPEG, which come before its pixels."""
    return content[:500] + b"\x99" * 800 + content[1300:]


def with_a_smaller_band(_: bytes) -> bytes:
    """Return sound JPEG 2000 with a band of half the width."""
    content = bytearray(imagecodecs.jpeg2k_encode(np.stack([IMAGE] * 3, axis=-1), codecformat="j2k"))
    content[content.index(b"\xff\x51") + 44] = 2  # XRsiz of the second band
    return bytes(content)


TILE: Final = "the tile in column 0 and row 0 of band 1 is damaged"
UNUSUAL: Final = (
    "its pixels are stored in an unusual way that is not read here; convert it, for example to DEFLATE"
)
CODED: Final = "its compression ({}) is not read here; convert it, for example to DEFLATE"
DEFLATE: Final = {"compression": "deflate"}
JPEG_XL: Final[dict[str, Any]] = {"compression": "jpegxl", "compressionargs": {"lossless": True}}

CASES: Final = (
    Case("empty", Status.CORRUPT, "it is empty: it has no bytes at all", spoil=lambda _: b""),
    Case("one byte", Status.CORRUPT, "is not a raster: neither TIFF nor JPEG 2000", spoil=lambda _: b"I"),
    Case("a header", Status.CORRUPT, "its header is damaged or cut off", spoil=lambda all_: all_[:4]),
    Case("half a header", Status.CORRUPT, "its header is damaged or cut off", spoil=lambda all_: all_[:60]),
    Case("damaged", Status.CORRUPT, TILE, options=DEFLATE, spoil=scratched),
    Case("damaged LZW", Status.CORRUPT, TILE, options={"compression": "lzw"}, spoil=scratched),
    Case("damaged JPEG", Status.CORRUPT, TILE, options={"compression": "jpeg"}, spoil=without_tables),
    Case(
        "damaged JPEG XL",
        Status.CORRUPT,
        "one of its tiles is damaged: it cannot be decoded",
        options=JPEG_XL,
        spoil=scratched,
    ),
    Case("unknown codec", Status.UNSUPPORTED, CODED.format("code 60000"), tags={COMPRESSION: 60000}),
    Case(
        "JPEG 2000", Status.UNSUPPORTED, CODED.format("JPEG 2000 inside of TIFF"), tags={COMPRESSION: 34712}
    ),
    Case("PNG", Status.UNSUPPORTED, CODED.format("PNG inside of TIFF"), tags={COMPRESSION: 34933}),
    Case("JBIG", Status.UNSUPPORTED, CODED.format("JBIG"), tags={COMPRESSION: 34661}),
    Case("old JPEG", Status.UNSUPPORTED, CODED.format("the JPEG of TIFF 6.0"), tags={COMPRESSION: 6}),
    Case(
        "JPEG XL of signed integers",
        Status.UNSUPPORTED,
        CODED.format("JPEG XL"),
        image=IMAGE.astype("int16"),
        tags={COMPRESSION: 50002},
    ),
    Case(
        "predictor",
        Status.UNSUPPORTED,
        "its predictor (9) is not read here; convert it, for example to DEFLATE",
        options=DEFLATE | {"predictor": True},
        tags={PREDICTOR: 9},
    ),
    Case(
        "bits",
        Status.UNSUPPORTED,
        "its numbers (of 40 bits, sample format 1) are not read here; convert it, for example to DEFLATE",
        image=IMAGE.astype("uint32"),
        tags={BITS: 40},
    ),
    Case(
        "fax",
        Status.UNSUPPORTED,
        UNUSUAL,
        tags={COMPRESSION: 4},
    ),
    Case(
        "JPEG 2000 with a smaller band",
        Status.UNSUPPORTED,
        UNUSUAL,
        spoil=with_a_smaller_band,
    ),
    Case(
        "JPEG 2000 without a header",
        Status.CORRUPT,
        "its header is damaged or cut off",
        spoil=lambda all_: with_a_smaller_band(all_)[:20],
    ),
    Case(
        "too many tiles",
        Status.UNSUPPORTED,
        "it has no tiles, or more of them than can be read",
        tags={WIDTH: 2**31 - 1, HEIGHT: 2**31 - 1},
    ),
    Case(
        "tiles without a place",
        Status.CORRUPT,
        "its header contradicts itself: it does not say where each tile lies",
        tags={WIDTH: 1_000_000, HEIGHT: 1_000_000},
    ),
)


@pytest.mark.long
@in_loop
async def test_sources_that_are_refused_say_why(tmp_path: Path) -> None:
    """Status and reason are as expected, word for word."""
    told = {}
    settings = GdalSettings(max_children=1)
    objects = Objects(StoreSettings())
    async with CogReader.over(objects, fast=GeoTiffSettings(), fall_back=settings) as reader:
        for index, case in enumerate(CASES):
            path = tmp_path / f"{index}.tif"
            case.write(path)
            try:
                await _read(reader, path.as_uri())
            except SourceError as error:
                told[case.id] = (error.status, error.reason)
    assert told == {case.id: (case.status, case.says) for case in CASES}


@pytest.mark.parametrize(
    ("texts", "status", "says"),
    [
        (
            ["Too many blocks: 100000 x 100000"],
            "UNSUPPORTED",
            "it has no tiles, or more of them than can be read",
        ),
        (
            [
                "Read failed. See previous exception for details.",
                "'/vsiriopener_1f/source', band 2: IReadBlock failed at X offset 3, Y offset 4: x() failed.",
                "x() failed.",
            ],
            "CORRUPT",
            "the tile in column 3 and row 4 of band 2 is damaged",
        ),
        (
            ["source: Cannot open TIFF file with YCbCr, subsampling and BitsPerSample > 8"],
            "UNSUPPORTED",
            UNUSUAL,
        ),
        (["/vsiriopener_1f/source: TIFFThat: Odd thing."], "CORRUPT", "it cannot be read: Odd thing"),
        (["/vsiriopener_1f/source: Odd thing", "Odd thing"], "CORRUPT", "it cannot be read: Odd thing"),
        ([""], "CORRUPT", "it cannot be read"),
    ],
)
def test_a_classified_message_says_no_word_of_gdals_own_machinery(
    texts: list[str], status: str, says: str
) -> None:
    """The reason names neither GDAL's functions nor our paths, and repeats nothing."""
    assert classify_messages(texts) == (status, says)


@pytest.mark.long
@pytest.mark.parametrize("code", [50002, 52546])
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float16", "float32"])
@pytest.mark.parametrize("n_bands", [1, 2, 3, 4, 5])
def test_jpeg_xl_is_read_as_it_was_written(tmp_path: Path, code: int, dtype: str, n_bands: int) -> None:
    """Lossless JPEG XL is read exactly, with any number of bands, up to the edge that tiles overhang."""
    assert imagecodecs.JPEGXL.available
    image = (np.random.default_rng(1).random((70, 50, n_bands)) * 200).astype(dtype)
    path = tmp_path / "a.tif"
    tifffile.imwrite(
        path, image, tile=(32, 32), photometric="minisblack", metadata=None, planarconfig="contig", **JPEG_XL
    )
    with tifffile.TiffFile(path, mode="r+") as target:
        target.pages[0].aspage().tags[COMPRESSION].overwrite(code)

    async def read() -> Array:
        objects = Objects(StoreSettings())
        async with CogReader.over(objects, fast=GeoTiffSettings(), fall_back=GdalSettings()) as reader:
            return await _read(reader, path.as_uri())

    np.testing.assert_array_equal(asyncio.run(read()), np.moveaxis(image, -1, 0))


def test_jpeg_xl_with_loss_is_read_as_its_own_library_reads_it(tmp_path: Path) -> None:
    """Every pixel is equal."""
    path = tmp_path / "a.tif"
    smooth = np.add.outer(np.arange(64), np.arange(64)).astype("uint8")
    options: dict[str, Any] = {"compression": "jpegxl", "compressionargs": {"lossless": False, "level": 80}}
    tifffile.imwrite(path, smooth, tile=(32, 32), photometric="minisblack", metadata=None, **options)

    async def read() -> Array:
        objects = Objects(StoreSettings())
        async with CogReader.over(objects, fast=GeoTiffSettings(), fall_back=GdalSettings()) as reader:
            return await _read(reader, path.as_uri())

    np.testing.assert_array_equal(asyncio.run(read())[0], tifffile.imread(path))


async def _read(reader: CogReader, href: str) -> Array:
    """Read a whole image, or its first tile if it is huge."""
    opened = await reader.open_(href, overview=None, cost=Cost())
    header = opened.header
    width, height = (32, 32) if header.width > 1000 else (header.width, header.height)
    out = np.zeros((header.n_bands, height, width), header.dtype)
    window = Window(col_off=0, row_off=0, width=width, height=height)
    await opened.read_into([(out, window)], range(1, header.n_bands + 1), masked=False)
    return out
