"""Image file directories: which tags a TIFF has and where their values lie.

Pure and bounded: every size that a directory claims is checked against the object's size before memory is
allocated or bytes are requested. Values are converted when they are looked up.
"""

import struct
from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import Any, Final, NamedTuple

import numpy as np
from msgspec import Struct

from pixel_gather.io.geotiff.header_bytes import HeaderBytes
from pixel_gather.io.geotiff.unsupported import TiffError


class Tag(IntEnum):
    """Tag numbers, with their names in the TIFF, GeoTIFF and GDAL specifications."""

    NEW_SUBFILE_TYPE = 254
    IMAGE_WIDTH = 256
    IMAGE_LENGTH = 257
    BITS_PER_SAMPLE = 258
    COMPRESSION = 259
    PHOTOMETRIC = 262
    FILL_ORDER = 266
    STRIP_OFFSETS = 273
    ORIENTATION = 274
    SAMPLES_PER_PIXEL = 277
    ROWS_PER_STRIP = 278
    STRIP_BYTE_COUNTS = 279
    PLANAR_CONFIGURATION = 284
    RESOLUTION_UNIT = 296
    PREDICTOR = 317
    COLOR_MAP = 320
    TILE_WIDTH = 322
    TILE_LENGTH = 323
    TILE_OFFSETS = 324
    TILE_BYTE_COUNTS = 325
    SUB_IFDS = 330
    EXTRA_SAMPLES = 338
    SAMPLE_FORMAT = 339
    JPEG_TABLES = 347
    YCBCR_SUBSAMPLING = 530
    MODEL_PIXEL_SCALE = 33550
    INTERGRAPH_MATRIX = 33920
    MODEL_TIEPOINT = 33922
    MODEL_TRANSFORMATION = 34264
    GEO_KEY_DIRECTORY = 34735
    GEO_DOUBLE_PARAMS = 34736
    GEO_ASCII_PARAMS = 34737
    GDAL_METADATA = 42112
    GDAL_NODATA = 42113
    MATTEING = 32995
    DATA_TYPE = 32996
    TILE_DEPTH = 32998


_MAX_ENTRIES: Final = 1024
_MAX_IFDS: Final = 64


UNSIGNED: Final = {3: "u2", 4: "u4", 16: "u8"}
"""NumPy's names of SHORT, LONG and LONG8."""
_BIG_OFFSET_NBYTES: Final = 8
_ASCII: Final = 2
_DOUBLE: Final = 12


class Entry(NamedTuple):
    """One tag of a directory."""

    kind: int
    """Field type, as in the file."""

    n_values: int
    start: int
    """First byte of its values in the object. The values may lie inside the directory."""


class Format(NamedTuple):
    """What the first bytes of a TIFF say."""

    byte_order: str
    """``<`` or ``>``, as struct and NumPy write it."""

    entry_count: struct.Struct
    entry: struct.Struct
    """Tag, type, count, and value or offset as an integer."""

    offset: struct.Struct
    first_ifd: int

    @property
    def is_big(self) -> bool:
        """Whether this is a BigTIFF."""
        return self.offset.size == _BIG_OFFSET_NBYTES

    @property
    def inline_nbytes(self) -> int:
        """Values up to this size lie inside the directory."""
        return self.offset.size


class Ifd(Struct, frozen=True, kw_only=True):
    """One directory. Its values are looked up in ``header_bytes`` when they are needed."""

    entries: Mapping[int, Entry]
    next_offset: int
    """Offset of the next directory, or 0 after the last one."""

    format: Format
    header_bytes: HeaderBytes

    def array(self, tag: int, start: int, stop: int) -> np.ndarray[Any, Any]:
        """Return values [start, stop) of an unsigned tag.

        Raises:
            TiffError: The tag has another type, or its values lie outside the object.
            NeedBytes: The values have not been fetched yet.
        """
        entry = self.entries[tag]
        name = UNSIGNED.get(entry.kind)
        if name is None:
            raise TiffError("a tag has an unexpected type")
        if not 0 <= start <= stop <= entry.n_values:
            raise TiffError("a tag has too few values")
        dtype = np.dtype(self.format.byte_order + name)
        first = entry.start + start * dtype.itemsize
        content = self.header_bytes.view(first, first + (stop - start) * dtype.itemsize)
        return np.frombuffer(content, dtype)

    def integers(self, tag: int, *, most: int) -> tuple[int, ...] | None:
        """Return all values of an unsigned tag, or None where it is absent."""
        entry = self.entries.get(tag)
        if entry is None:
            return None
        if not 1 <= entry.n_values <= most:
            raise TiffError("a tag has an unexpected number of values")
        if entry.n_values == 1 and entry.kind in _ONE:
            one = _ONE[entry.kind]
            content = self.header_bytes.view(entry.start, entry.start + one[self.format.byte_order].size)
            return one[self.format.byte_order].unpack(content)
        return tuple(self.array(tag, 0, entry.n_values).tolist())

    def integer(self, tag: int, default: int | None = None) -> int:
        """Return the only value of an unsigned tag."""
        values = self.integers(tag, most=1)
        if values is not None:
            return values[0]
        if default is None:
            raise TiffError("a needed tag is missing")
        return default

    def doubles(self, tag: int, *, most: int) -> tuple[float, ...] | None:
        """Return all values of a DOUBLE tag, or None where it is absent."""
        entry = self.entries.get(tag)
        if entry is None:
            return None
        if entry.kind != _DOUBLE or not 1 <= entry.n_values <= most:
            raise TiffError("a tag has an unexpected type or number of values")
        content = self.header_bytes.view(entry.start, entry.start + 8 * entry.n_values)
        return struct.unpack(f"{self.format.byte_order}{entry.n_values}d", content)

    def text(self, tag: int, *, most: int) -> bytes | None:
        """Return the text of an ASCII tag up to its first NUL, or None where it is absent."""
        entry = self.entries.get(tag)
        if entry is None:
            return None
        if entry.kind != _ASCII or not 1 <= entry.n_values <= most:
            raise TiffError("a text tag has an unexpected type or length")
        return bytes(self.header_bytes.view(entry.start, entry.start + entry.n_values)).partition(b"\0")[0]

    def raw(self, tag: int, *, most_nbytes: int) -> bytes:
        """Return the stored bytes of a tag's values, empty where the tag is absent."""
        entry = self.entries.get(tag)
        if entry is None:
            return b""
        nbytes = entry.n_values * _SIZES.get(entry.kind, 1)
        if nbytes > most_nbytes:
            raise TiffError("a tag has an unexpected number of values")
        return bytes(self.header_bytes.view(entry.start, entry.start + nbytes))


_ONE: Final = {
    kind: {order: struct.Struct(order + letter) for order in "<>"}
    for kind, letter in ((3, "H"), (4, "I"), (16, "Q"))
}
_SIZES: Final = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4} | {
    16: 8,
    17: 8,
    18: 8,
}
"""Bytes per value, by field type."""

type _Layouts = tuple[struct.Struct, struct.Struct, struct.Struct]


def _layouts(order: str, *, big: bool) -> _Layouts:
    """Return the structs of a directory's entry count, an entry and an offset."""
    count, entry, offset = ("Q", "HHQQ", "Q") if big else ("H", "HHII", "I")
    return struct.Struct(order + count), struct.Struct(order + entry), struct.Struct(order + offset)


_LAYOUTS: Final = {(order, big): _layouts(order, big=big) for order in "<>" for big in (False, True)}
_MAGIC: Final = {b"II*\0": ("<", False), b"MM\0*": (">", False), b"II+\0": ("<", True), b"MM\0+": (">", True)}


def make_format(byte_order: str, *, is_big: bool, first_ifd: int) -> Format:
    """Return the format of a file whose first bytes were parsed earlier."""
    return Format(byte_order, *_LAYOUTS[byte_order, is_big], first_ifd)


def parse_format(header_bytes: HeaderBytes) -> Format:
    """Parse the first bytes: classic TIFF or BigTIFF, byte order, and offset of the first directory.

    Raises:
        TiffError: It is not a TIFF.
        NeedBytes: The first bytes have not been fetched yet.
    """
    magic = _MAGIC.get(bytes(header_bytes.view(0, 4)))
    if magic is None:
        raise TiffError("not a TIFF")
    order, is_big = magic
    layouts = _LAYOUTS[order, is_big]
    if is_big and struct.unpack(order + "HH", header_bytes.view(4, 8)) != (8, 0):
        raise TiffError("a broken BigTIFF")
    start = 8 if is_big else 4
    (first,) = layouts[2].unpack(header_bytes.view(start, start + layouts[2].size))
    return Format(order, *layouts, first)


def parse_ifd(header_bytes: HeaderBytes, tiff_format: Format, offset: int) -> Ifd:
    """Parse the directory at an offset.

    Raises:
        TiffError: It is broken: no entries, too many, or tags that repeat or are out of order.
        NeedBytes: It has not been fetched yet.
    """
    (n_entries,) = tiff_format.entry_count.unpack(
        header_bytes.view(offset, offset + tiff_format.entry_count.size)
    )
    if not 1 <= n_entries <= _MAX_ENTRIES:
        raise TiffError("a directory has no or too many entries")
    start = offset + tiff_format.entry_count.size
    stop = start + n_entries * tiff_format.entry.size
    content = header_bytes.view(start, stop + tiff_format.offset.size)
    entries: dict[int, Entry] = {}
    last = -1
    inline, value_start = (
        tiff_format.inline_nbytes,
        start + tiff_format.entry.size - tiff_format.inline_nbytes,
    )
    for tag, kind, count, value in tiff_format.entry.iter_unpack(
        content[: n_entries * tiff_format.entry.size]
    ):
        if tag <= last:
            raise TiffError("tags are out of order")
        last = tag
        is_inline = count * _SIZES.get(kind, 1) <= inline
        entries[tag] = Entry(kind, count, value_start if is_inline else value)
        value_start += tiff_format.entry.size
    (next_offset,) = tiff_format.offset.unpack(content[stop - start :])
    return Ifd(entries=entries, next_offset=next_offset, format=tiff_format, header_bytes=header_bytes)


def following_ifds(first: Ifd) -> Iterator[Ifd]:
    """Yield the directories after the first one, in file order.

    Raises:
        TiffError: The chain of directories is broken, circular or too long.
        NeedBytes: The next one has not been fetched yet. Fetch it and start again.
    """
    seen = {first.format.first_ifd}
    ifd = first
    while ifd.next_offset:
        if ifd.next_offset in seen or len(seen) >= _MAX_IFDS:
            raise TiffError("the chain of directories does not end")
        seen.add(ifd.next_offset)
        ifd = parse_ifd(first.header_bytes, first.format, ifd.next_offset)
        yield ifd
