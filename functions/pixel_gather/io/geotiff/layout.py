"""How the pixels of a directory are stored. Covers the layouts that this path reads as GDAL does."""

from enum import IntEnum
from typing import Any, Final

import numpy as np
from msgspec import Struct

from pixel_gather.core.model.tile_coding import COMPLEX_INTEGERS, TileCoding
from pixel_gather.io.geotiff.ifd import Ifd, Tag
from pixel_gather.io.geotiff.jpeg_tile import MAX_SAMPLES, MAX_TABLES_NBYTES, JpegCoding
from pixel_gather.io.geotiff.unsupported import UnsupportedError

MAX_SIDE: Final = 2**31 - 1
MAX_BANDS: Final = 65535
_SUBSAMPLING: Final = (2, 2)
"""Chroma's where the directory does not say it."""

ALPHAS: Final = (1, 2)
"""Kinds of extra samples that are alpha: with colours multiplied by it, and without."""

_DTYPES: Final = {
    (8, 1): "u1",
    (16, 1): "u2",
    (32, 1): "u4",
    (64, 1): "u8",
    (8, 2): "i1",
    (16, 2): "i2",
    (32, 2): "i4",
    (64, 2): "i8",
    (16, 3): "f2",
    (32, 3): "f4",
    (64, 3): "f8",
    (64, 6): "c8",
    (128, 6): "c16",
}
"""NumPy's dtype by bits per sample and sample format. Complex integers are handled separately."""
_STRIP_CHOP_NBYTES: Final = 8192
"""GDAL cuts a single uncompressed strip into strips of about this size."""
_COMPLEX_INT16: Final = (32, 5)

PAIRS_OF_DTYPES: Final = {
    f"{stored.str} {dtype.name}": (stored, dtype)
    for stored, dtype in [
        (np.dtype(order + name), np.dtype(name)) for order in "<>" for name in _DTYPES.values()
    ]
    + [(np.dtype(order + "i2"), np.dtype("c8")) for order in "<>"]
}
"""Every pair of stored dtype and pixel dtype that is read here, by name."""


_NAMES: Final = {pair: name for name, pair in PAIRS_OF_DTYPES.items()}


class Photometric(IntEnum):
    """What colours the numbers are: those that are read here, with their TIFF codes."""

    MIN_IS_WHITE = 0
    MIN_IS_BLACK = 1
    RGB = 2
    PALETTE = 3
    YCBCR = 6
    """Only in JPEG, whose decoder converts it to RGB."""


_PHOTOMETRICS: Final = frozenset(Photometric)


class Compression(IntEnum):
    """The compressions that are decoded here, with their TIFF codes."""

    NONE = 1
    LZW = 5
    JPEG = 7
    DEFLATE = 8
    PACKBITS = 32773
    DEFLATE_OLD = 32946
    LZMA = 34925
    ZSTD = 50000
    JPEG_XL = 50002
    JPEG_XL_OF_DNG = 52546


class Predictor(IntEnum):
    """How pixels were transformed before compression."""

    NONE = 1
    HORIZONTAL = 2
    FLOAT = 3


JPEG_XL: Final = frozenset({Compression.JPEG_XL, Compression.JPEG_XL_OF_DNG})
"""Such tiles hold an image, not bytes. Its shape and dtype have to be the tile's."""

_SAME_STREAM: Final = {Compression.DEFLATE_OLD: Compression.DEFLATE}
"""Compressions with two codes."""

WITH_PREDICTOR: Final = (
    frozenset(Compression) - {Compression.NONE, Compression.PACKBITS, Compression.JPEG} - JPEG_XL
)


class TileLayout(Struct, frozen=True, kw_only=True):
    """What decoding needs, and which tags hold offsets and byte counts."""

    width: int
    height: int
    n_bands: int
    stored: np.dtype[Any]
    """Dtype of one stored number, in the file's byte order."""

    dtype: np.dtype[Any]
    """Dtype of one pixel as GDAL reports it, in native byte order."""

    compression: Compression
    predictor: Predictor
    is_tiled: bool
    tile_width: int
    tile_height: int
    n_planes: int
    """The number of bands where each band has its own tiles, else 1."""

    has_alpha: bool
    jpeg: JpegCoding | None = None
    """Of JPEG only."""

    @property
    def n_across(self) -> int:
        """Tiles per row."""
        return -(-self.width // self.tile_width)

    @property
    def n_down(self) -> int:
        """Tiles per column."""
        return -(-self.height // self.tile_height)

    @property
    def n_tiles(self) -> int:
        """Tiles or strips of the image. Counted for each band where bands have tiles of their own."""
        return self.n_across * self.n_down * self.n_planes

    @property
    def samples(self) -> int:
        """Numbers stored for one pixel of a tile: one per band, or two for complex integers."""
        n_bands = self.n_bands if self.n_planes == 1 else 1
        return n_bands * (2 if self.is_complex_int else 1)

    @property
    def is_complex_int(self) -> bool:
        """Whether two stored integers make one complex pixel."""
        return self.dtype.kind == "c" and self.stored.kind == "i"

    @property
    def dtypes(self) -> str:
        """Name of the pair of dtypes in `PAIRS_OF_DTYPES`."""
        return _NAMES[self.stored, self.dtype]

    @property
    def dtype_name(self) -> str:
        """NumPy's name of the pixels' dtype, which takes NumPy itself 10 us to find."""
        return self.dtypes.partition(" ")[2]

    @property
    def coding(self) -> TileCoding:
        """How the tiles are stored, for readers of their bytes."""
        compression = _SAME_STREAM.get(self.compression, self.compression)
        return TileCoding(
            dtype=self.dtype_name if not self.is_complex_int else COMPLEX_INTEGERS,
            is_tiled=self.is_tiled,
            tile_width=self.tile_width,
            tile_height=self.tile_height,
            compression=compression.name.lower(),
            predictor=int(self.predictor),
            byte_order=">" if self.stored.str[0] == ">" else "<",
            is_interleaved=self.n_planes == 1 and self.n_bands > 1,
        )

    @property
    def row_nbytes(self) -> int:
        """Bytes of one decoded row of a tile."""
        return self.tile_width * self.samples * self.stored.itemsize

    @property
    def offsets_tag(self) -> Tag:
        """The tag with the offsets of tiles or strips."""
        return Tag.TILE_OFFSETS if self.is_tiled else Tag.STRIP_OFFSETS

    @property
    def counts_tag(self) -> Tag:
        """The tag with their byte counts."""
        return Tag.TILE_BYTE_COUNTS if self.is_tiled else Tag.STRIP_BYTE_COUNTS

    @property
    def block_height(self) -> int:
        """Rows of a tile or strip as GDAL reports them. It cuts a single uncompressed strip into 8 KiB."""
        is_single = self.tile_height == self.height and self.n_planes == 1
        if self.is_tiled or not is_single or self.compression is not Compression.NONE:
            return self.tile_height
        return min(self.tile_height, max(_STRIP_CHOP_NBYTES // self.row_nbytes, 1))

    def tile_rows(self, tile_row: int) -> int:
        """Return how many rows are stored. The last strip ends with the image. Tiles are padded."""
        if self.is_tiled:
            return self.tile_height
        return min(self.tile_height, self.height - tile_row * self.tile_height)


def parse_layout(ifd: Ifd) -> TileLayout:
    """Read the layout of a directory.

    Raises:
        UnsupportedError: This path does not read such pixels, or the tags contradict each other.
        NeedBytes: Values have not been fetched yet.
    """
    width, height = ifd.integer(Tag.IMAGE_WIDTH), ifd.integer(Tag.IMAGE_LENGTH)
    n_bands = ifd.integer(Tag.SAMPLES_PER_PIXEL, 1)
    if not (1 <= width <= MAX_SIDE and 1 <= height <= MAX_SIDE and 1 <= n_bands <= MAX_BANDS):
        raise UnsupportedError("no or too many pixels or bands")
    if Tag.MATTEING in ifd.entries or Tag.DATA_TYPE in ifd.entries:
        raise UnsupportedError("the tags for alpha and sample formats of before TIFF 6.0")
    stored, dtype = _dtypes(ifd, n_bands)
    compression, predictor = _coding(ifd)
    planar = ifd.integer(Tag.PLANAR_CONFIGURATION, 1)
    if planar not in (1, 2):
        raise UnsupportedError("unknown planar configuration")
    is_tiled, tile_width, tile_height = _tile_shape(ifd, width=width, height=height)
    layout = TileLayout(
        width=width,
        height=height,
        n_bands=n_bands,
        stored=stored,
        dtype=dtype,
        compression=compression,
        predictor=predictor,
        is_tiled=is_tiled,
        tile_width=tile_width,
        tile_height=tile_height,
        n_planes=n_bands if planar == 2 else 1,  # noqa: PLR2004 # separate planes, as TIFF numbers them
        has_alpha=_has_alpha(ifd, n_bands, compression),
        jpeg=_jpeg(ifd, planar) if compression is Compression.JPEG else None,
    )
    check_coding(layout)
    _check_tile_arrays(ifd, layout)
    return layout


def check_coding(layout: TileLayout) -> None:
    """Refuse compressions and predictors that this path cannot decode together with the numbers.

    Raises:
        UnsupportedError: A predictor on a compression or dtype that has none. JPEG XL in another byte order,
            or of signed integers.
            JPEG of other numbers than bytes, of many bands, or of YCbCr that is not three bands together.
    """
    if layout.predictor is not Predictor.NONE:
        if layout.compression not in WITH_PREDICTOR or layout.dtype.kind == "c":
            raise UnsupportedError("predictor on this compression or dtype")
        if layout.predictor is Predictor.FLOAT and layout.stored.kind != "f":
            raise UnsupportedError("floating point predictor on integers")
    if layout.compression in JPEG_XL and not (layout.stored.isnative and layout.dtype.kind in "uf"):
        raise UnsupportedError("JPEG XL in another byte order, or of signed integers")
    if (layout.jpeg is None) is (layout.compression is Compression.JPEG):
        raise UnsupportedError("JPEG without its coding, or the other way round")
    if layout.jpeg is None:
        return
    if layout.stored != np.uint8 or layout.samples > MAX_SAMPLES:
        raise UnsupportedError("JPEG of other numbers than bytes, or of many bands")
    if layout.jpeg.sampling is not None and layout.samples != 3:  # noqa: PLR2004 # Y, Cb and Cr
        raise UnsupportedError("YCbCr of other than three bands together")


def _jpeg(ifd: Ifd, planar: int) -> JpegCoding:
    sampling: tuple[int, ...] | None = None
    if ifd.integer(Tag.PHOTOMETRIC, Photometric.MIN_IS_BLACK) == Photometric.YCBCR:
        if planar != 1:
            raise UnsupportedError("YCbCr in planes of their own")
        sampling = ifd.integers(Tag.YCBCR_SUBSAMPLING, most=2) or _SUBSAMPLING
    return JpegCoding(tables=ifd.raw(Tag.JPEG_TABLES, most_nbytes=MAX_TABLES_NBYTES), sampling=sampling)


def _same(values: tuple[int, ...] | None, *, n_bands: int, default: int) -> int:
    """Return the value that all bands have in common."""
    if values is None:
        return default
    if len(values) not in (1, n_bands) or len(set(values)) != 1:
        raise UnsupportedError("bands differ in kind")
    return values[0]


def _dtypes(ifd: Ifd, n_bands: int) -> tuple[np.dtype[Any], np.dtype[Any]]:
    """Return the dtype of a stored number and of a pixel."""
    bits = _same(ifd.integers(Tag.BITS_PER_SAMPLE, most=n_bands), n_bands=n_bands, default=1)
    kind = _same(ifd.integers(Tag.SAMPLE_FORMAT, most=n_bands), n_bands=n_bands, default=1)
    if (bits, kind) == _COMPLEX_INT16:
        return np.dtype(ifd.format.byte_order + "i2"), np.dtype("c8")
    name = _DTYPES.get((bits, kind))
    if name is None:
        raise UnsupportedError("bit depth or sample format")
    return np.dtype(ifd.format.byte_order + name), np.dtype(name)


def _coding(ifd: Ifd) -> tuple[Compression, Predictor]:
    """Return compression and predictor, if this path knows them."""
    try:
        compression = Compression(ifd.integer(Tag.COMPRESSION, 1))
        predictor = Predictor(ifd.integer(Tag.PREDICTOR, 1))
    except ValueError as error:
        raise UnsupportedError("compression or predictor") from error
    if ifd.integer(Tag.FILL_ORDER, 1) != 1:
        raise UnsupportedError("fill order")
    return compression, predictor


def _tile_shape(ifd: Ifd, *, width: int, height: int) -> tuple[bool, int, int]:
    """Return whether there are tiles, and the width and height of a tile or strip."""
    tile_tags = (Tag.TILE_WIDTH, Tag.TILE_LENGTH, Tag.TILE_OFFSETS, Tag.TILE_BYTE_COUNTS)
    n_tile_tags = sum(tag in ifd.entries for tag in tile_tags)
    has_strip_tags = Tag.STRIP_OFFSETS in ifd.entries or Tag.STRIP_BYTE_COUNTS in ifd.entries
    if n_tile_tags not in (0, len(tile_tags)) or bool(n_tile_tags) is has_strip_tags:
        raise UnsupportedError("neither tiles nor strips, or both, or some tags missing")
    if ifd.integer(Tag.TILE_DEPTH, 1) != 1:
        raise UnsupportedError("tiles in three dimensions")
    if n_tile_tags:
        is_tiled, tile_width, tile_height = True, ifd.integer(Tag.TILE_WIDTH), ifd.integer(Tag.TILE_LENGTH)
    else:
        rows = ifd.integer(Tag.ROWS_PER_STRIP, height)
        if rows >= 1 << 32:
            raise UnsupportedError("too many rows in a strip")
        is_tiled, tile_width, tile_height = False, width, min(rows, height)
    if not (1 <= tile_width <= MAX_SIDE and 1 <= tile_height <= MAX_SIDE):
        raise UnsupportedError("tiles without pixels")
    return is_tiled, tile_width, tile_height


def _has_alpha(ifd: Ifd, n_bands: int, compression: Compression) -> bool:
    """Tell whether a band is alpha. Refuse colours that GDAL converts to RGB, but for those of JPEG."""
    if not 1 <= ifd.integer(Tag.ORIENTATION, 1) <= 8 or not 1 <= ifd.integer(Tag.RESOLUTION_UNIT, 1) <= 3:  # noqa: PLR2004 # as TIFF numbers them; libtiff refuses others
        raise UnsupportedError("orientation or resolution unit")
    photometric = ifd.integer(Tag.PHOTOMETRIC, Photometric.MIN_IS_BLACK)
    is_converted = photometric == Photometric.YCBCR and compression is not Compression.JPEG
    if photometric not in _PHOTOMETRICS or is_converted:
        raise UnsupportedError("photometric interpretation")
    extras = ifd.integers(Tag.EXTRA_SAMPLES, most=n_bands)
    if extras is None:
        return False
    if max(extras) > max(ALPHAS):
        raise UnsupportedError("unknown kind of extra samples")
    return any(extra in ALPHAS for extra in extras)


def _check_tile_arrays(ifd: Ifd, layout: TileLayout) -> None:
    """Refuse a file that does not have one offset and one byte count for each tile."""
    for tag in (layout.offsets_tag, layout.counts_tag):
        if tag not in ifd.entries or ifd.entries[tag].n_values != layout.n_tiles:
            raise UnsupportedError("the number of offsets or byte counts differs from that of tiles")
