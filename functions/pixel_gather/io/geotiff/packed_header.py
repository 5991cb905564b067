"""Pack the header of a GeoTIFF into few bytes, from which it is opened again without parsing a TIFF.

Packed headers come from a user's index and are not trusted. Their sizes are checked before they cost memory
or time. They are only used to read the version of the object that they were made from: the caller pins every
read to their entity tag.
"""

import math
import re
from typing import Annotated, Any, Final, Literal

import msgspec
import numpy as np

from pixel_gather.core.model.band_meaning import MOST_CLASSES, BandClass, BandMeaning
from pixel_gather.core.model.source import Header
from pixel_gather.core.model.window import Transform
from pixel_gather.io.geotiff.header_bytes import HeaderBytes
from pixel_gather.io.geotiff.ifd import UNSIGNED, Entry, Ifd, Tag, make_format
from pixel_gather.io.geotiff.jpeg_tile import MAX_TABLES_NBYTES, JpegCoding
from pixel_gather.io.geotiff.layout import (
    MAX_BANDS,
    MAX_SIDE,
    PAIRS_OF_DTYPES,
    Compression,
    Predictor,
    TileLayout,
    check_coding,
)
from pixel_gather.io.geotiff.offset_codec import MAX_TILES, OffsetRun, PackedRun, packed_run, unpacked_run
from pixel_gather.io.geotiff.unsupported import UnsupportedError
from pixel_gather.io.store.object_store import strong_etag

MAX_PACKED_NBYTES: Final = 1 << 16
"""Longest packed header that is made or opened."""

_MAX_OBJECT_NBYTES: Final = 1 << 48
_MAX_RUNS: Final = 8
_ALL: Final = 1 << 62
"""More tiles than any file has."""

_CRS: Final = re.compile(r"EPSG:\d{1,6}\Z|[A-Z_0-9]+\[")
"""The CRSs that readers return. PROJ accepts more, including file names."""

type _Place = Annotated[int, msgspec.Meta(ge=0, le=_MAX_OBJECT_NBYTES)]
type _Side = Annotated[int, msgspec.Meta(ge=1, le=MAX_SIDE)]
type _Count = Annotated[int, msgspec.Meta(ge=1, le=MAX_BANDS)]


class _Array(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Where the offsets, or the byte counts, lie in the object."""

    kind: Literal[3, 4, 16]
    start: _Place


_Word = Annotated[str, msgspec.Meta(max_length=256)]
_PackedClass = tuple[int, _Word | None, _Word | None]
"""Value, name and colour."""

_PackedMeaning = tuple[
    _Word | None, Annotated[tuple[_PackedClass, ...], msgspec.Meta(max_length=MOST_CLASSES)]
]
"""Colour and classes of a band."""


_PackedJpeg = tuple[Annotated[bytes, msgspec.Meta(max_length=MAX_TABLES_NBYTES)], tuple[int, ...] | None]
"""Tables, and how chroma is sampled."""


class PackedHeader(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """All fields of a packed header. The version comes first, so that any other is refused at once."""

    version: Literal[2]
    overview: Annotated[int, msgspec.Meta(ge=0, le=MAX_SIDE)] | None
    etag: Annotated[str, msgspec.Meta(min_length=1, max_length=1024)]
    nbytes: _Place
    width: _Side
    height: _Side
    n_bands: _Count
    dtypes: str
    compression: int
    predictor: int
    is_tiled: bool
    tile_width: _Side
    tile_height: _Side
    n_planes: _Count
    has_alpha: bool
    is_masked: bool | None
    """None where it has not been checked."""

    declares_nodata: bool
    nodata: float | int | None
    scaling: tuple[tuple[float, ...], tuple[float, ...]] | None
    """None where all scales are 1 and all offsets 0."""

    transform: tuple[float, float, float, float, float, float] | None
    crs: str | None
    overviews: tuple[tuple[int, int], ...]
    byte_order: Literal["<", ">"]
    is_big: bool
    first_ifd: _Place
    next_ifd: _Place
    """Offset of the second directory, or 0."""

    offsets: _Array
    byte_counts: _Array
    runs: Annotated[tuple[PackedRun, ...], msgspec.Meta(max_length=_MAX_RUNS)]
    meanings: tuple[_PackedMeaning, ...]
    """Of each band; empty if nothing is said of any."""

    units: Annotated[tuple[_Word, ...], msgspec.Meta(max_length=MAX_BANDS)]
    """Unit of each band; empty if no band has one."""

    jpeg: _PackedJpeg | None
    """Of JPEG only."""

    @property
    def dtype(self) -> str:
        """NumPy's name of a pixel's dtype."""
        return self.dtypes.partition(" ")[2]

    @property
    def n_tiles(self) -> int:
        """Tiles or strips of the image. Counted for each band where bands have tiles of their own."""
        n_across, n_down = -(-self.width // self.tile_width), -(-self.height // self.tile_height)
        return n_across * n_down * self.n_planes

    @property
    def n_known_tiles(self) -> int:
        """Tiles whose offset is known."""
        return sum(run.n_tiles for run in self.runs)


class Restored(msgspec.Struct, frozen=True, gc=False):
    """A header, with the parts of the directories that reading needs."""

    header: Header
    layout: TileLayout
    first: Ifd
    """The first directory. It has only the tags that reading looks up."""

    ifd: Ifd
    """The directory that windows are read from. It has only offsets and byte counts."""

    is_masked: bool | None


_decoder: Final = msgspec.msgpack.Decoder(PackedHeader)


def pack(
    header: Header,
    layout: TileLayout,
    *,
    first: Ifd,
    ifd: Ifd,
    overview: int | None,
    is_masked: bool | None,
    wanted: tuple[tuple[int, int], ...] = (),
) -> bytes | None:
    """Pack a header, with the offsets and byte counts that have been fetched.

    Where all tiles together are too many, the wanted ones [first, stop) are packed. A full image has no
    overview. ``is_masked`` is None while it has not been checked.

    Returns:
        The packed header, or None: the object has no strong entity tag, the header is too long, `unpack`
        would refuse it, or only GDAL finds all overviews.
    """
    if strong_etag(header.etag) is None or header.nbytes > _MAX_OBJECT_NBYTES:
        return None
    arrays = ifd.entries[layout.offsets_tag], ifd.entries[layout.counts_tag]
    if not all(each.kind in UNSIGNED and each.start <= _MAX_OBJECT_NBYTES for each in arrays):
        return None
    if first.next_offset > _MAX_OBJECT_NBYTES or Tag.SUB_IFDS in first.entries:
        return None
    bare = _without_tiles(header, layout, first=first, ifd=ifd, overview=overview, is_masked=is_masked)
    for tiles in (((0, _ALL),), wanted):
        bare["runs"] = _runs(ifd, layout, tiles)
        packed = msgspec.msgpack.encode(PackedHeader(**bare))
        if len(packed) <= MAX_PACKED_NBYTES:
            return packed
    return None


def peek(packed: bytes) -> PackedHeader | None:
    """Return the fields of a packed header, or None for other bytes. Only their types are checked."""
    try:
        return _decoder.decode(packed)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def unpack(packed: bytes, *, href: str, overview: int | None) -> Restored | None:
    """Open a packed header. Return None where it is invalid, or belongs to another overview."""
    if len(packed) > MAX_PACKED_NBYTES:
        return None
    try:
        decoded = _decoder.decode(packed)
        if decoded.overview != overview:
            return None
        return _restore_parsed(decoded, href)
    except (msgspec.MsgspecError, ValueError, KeyError, OverflowError, UnsupportedError):
        return None


def _without_tiles(
    header: Header, layout: TileLayout, *, first: Ifd, ifd: Ifd, overview: int | None, is_masked: bool | None
) -> dict[str, Any]:
    """Return all fields of a packed header but the runs of tiles."""
    is_plain = set(header.scales) == {1.0} and set(header.offsets) == {0.0}
    return {
        "version": 2,
        "overview": overview,
        "etag": header.etag or "",
        "nbytes": header.nbytes,
        "width": layout.width,
        "height": layout.height,
        "n_bands": layout.n_bands,
        "dtypes": layout.dtypes,
        "compression": layout.compression,
        "predictor": layout.predictor,
        "is_tiled": layout.is_tiled,
        "tile_width": layout.tile_width,
        "tile_height": layout.tile_height,
        "n_planes": layout.n_planes,
        "has_alpha": layout.has_alpha,
        "is_masked": is_masked,
        "declares_nodata": Tag.GDAL_NODATA in first.entries,
        "nodata": header.nodata,
        "scaling": None if is_plain else (header.scales, header.offsets),
        "transform": header.transform,
        "crs": header.crs,
        "overviews": header.overviews,
        "byte_order": ifd.format.byte_order,
        "is_big": ifd.format.is_big,
        "first_ifd": first.format.first_ifd,
        "next_ifd": first.next_offset,
        "offsets": _array(ifd, layout.offsets_tag),
        "byte_counts": _array(ifd, layout.counts_tag),
        "meanings": tuple(
            (each.colour, tuple((one.value, one.name, one.colour) for one in each.classes))
            for each in header.meanings
        ),
        "units": tuple(each.unit for each in header.meanings),
        "jpeg": None if layout.jpeg is None else (layout.jpeg.tables, layout.jpeg.sampling),
    }


def _array(ifd: Ifd, tag: Tag) -> _Array:
    entry = ifd.entries[tag]
    return _Array(entry.kind, entry.start)  # type: ignore[arg-type] # checked when it is opened


def _runs(ifd: Ifd, layout: TileLayout, wanted: tuple[tuple[int, int], ...]) -> tuple[PackedRun, ...]:
    """Pack the wanted tiles whose offsets and byte counts have both been fetched, in few runs."""
    arrays = ifd.entries[layout.offsets_tag], ifd.entries[layout.counts_tag]
    of_offsets, of_counts = (_fetched_spans(ifd, entry) for entry in arrays)
    packed: list[PackedRun] = []
    done, left = 0, MAX_TILES
    for low, high in sorted(
        (max(one[0], two[0], want[0]), min(one[1], two[1], want[1]))
        for one in of_offsets
        for two in of_counts
        for want in wanted
    ):
        first = max(low, done)
        stop = min(high, first + left)
        if first < stop and len(packed) < _MAX_RUNS:
            done = stop
            offsets = ifd.array(layout.offsets_tag, first, stop).astype(np.int64)
            counts = ifd.array(layout.counts_tag, first, stop).astype(np.int64)
            nbytes = ifd.header_bytes.object_nbytes
            lowest = min(np.minimum.reduce(offsets), np.minimum.reduce(counts))
            if lowest < 0 or np.maximum.reduce(offsets + counts) > nbytes:
                continue
            run = packed_run(OffsetRun(first, offsets, counts))
            if run is not None:
                packed.append(run)
                left -= run.n_tiles
    return tuple(packed)


def _fetched_spans(ifd: Ifd, entry: Entry) -> list[tuple[int, int]]:
    """Return the spans [first, stop) of a tag's values that have been fetched."""
    size = np.dtype(UNSIGNED[entry.kind]).itemsize
    spans = []
    for start, stop in ifd.header_bytes.spans():
        first = max(-(-(start - entry.start) // size), 0)
        last = min((stop - entry.start) // size, entry.n_values)
        if first < last:
            spans.append((first, last))
    return spans


def _restore_parsed(decoded: PackedHeader, href: str) -> Restored:
    """Rebuild what the parser returned when the header was packed.

    Raises:
        ValueError: The fields contradict each other.
        KeyError: There is no such dtype.
    """
    layout = _layout(decoded)
    n_tiles = layout.n_tiles
    if n_tiles > decoded.nbytes or decoded.n_known_tiles > MAX_TILES:
        raise ValueError("more tiles than bytes, or than a packed header may hold")
    tiff_format = make_format(decoded.byte_order, is_big=decoded.is_big, first_ifd=decoded.first_ifd)
    header_bytes = HeaderBytes(decoded.nbytes)
    for packed in decoded.runs:
        if packed.first + packed.n_tiles > n_tiles:
            raise ValueError("more tiles than the image has")
        run = unpacked_run(packed, object_nbytes=decoded.nbytes)
        _add(header_bytes, decoded.offsets, run.first, run.offsets, decoded.byte_order)
        _add(header_bytes, decoded.byte_counts, run.first, run.byte_counts, decoded.byte_order)
    entries: dict[int, Entry] = {
        layout.offsets_tag: Entry(decoded.offsets.kind, n_tiles, decoded.offsets.start),
        layout.counts_tag: Entry(decoded.byte_counts.kind, n_tiles, decoded.byte_counts.start),
    }
    nodata: dict[int, Entry] = {Tag.GDAL_NODATA: Entry(0, 0, 0)} if decoded.declares_nodata else {}
    return Restored(
        header=_header(decoded, layout, href),
        layout=layout,
        first=Ifd(
            entries=nodata, next_offset=decoded.next_ifd, format=tiff_format, header_bytes=header_bytes
        ),
        ifd=Ifd(entries=entries, next_offset=0, format=tiff_format, header_bytes=header_bytes),
        is_masked=decoded.is_masked,
    )


def _add(
    header_bytes: HeaderBytes, array: _Array, first: int, values: np.ndarray[Any, Any], byte_order: str
) -> None:
    """Add values as if they had been fetched."""
    dtype = np.dtype(byte_order + UNSIGNED[array.kind])
    content = values.astype(dtype)
    header_bytes.add(array.start + first * dtype.itemsize, memoryview(content).cast("B"))


def _layout(decoded: PackedHeader) -> TileLayout:
    compression, predictor = Compression(decoded.compression), Predictor(decoded.predictor)
    stored, dtype = PAIRS_OF_DTYPES[decoded.dtypes]
    if decoded.n_planes not in (1, decoded.n_bands):
        raise ValueError("some planes, but not one for each band")
    if not decoded.is_tiled and (decoded.tile_width != decoded.width or decoded.tile_height > decoded.height):
        raise ValueError("strips that are not the image's")
    _check_nodata(decoded.nodata, dtype)
    if decoded.crs is not None and not _CRS.match(decoded.crs):
        raise ValueError("a CRS that is neither EPSG:n nor WKT")
    if decoded.transform is not None and not all(map(math.isfinite, decoded.transform)):
        raise ValueError("a transform that is not finite")
    layout = TileLayout(
        width=decoded.width,
        height=decoded.height,
        n_bands=decoded.n_bands,
        stored=stored,
        dtype=dtype,
        compression=compression,
        predictor=predictor,
        is_tiled=decoded.is_tiled,
        tile_width=decoded.tile_width,
        tile_height=decoded.tile_height,
        n_planes=decoded.n_planes,
        has_alpha=decoded.has_alpha,
        jpeg=decoded.jpeg and JpegCoding(tables=decoded.jpeg[0], sampling=decoded.jpeg[1]),
    )
    check_coding(layout)
    return layout


def _check_nodata(nodata: float | None, dtype: np.dtype[Any]) -> None:
    """Refuse a nodata value that a pixel cannot hold."""
    if nodata is None:
        return
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        if not isinstance(nodata, int) or not limits.min <= nodata <= limits.max:
            raise ValueError("nodata that the dtype cannot hold")
    elif not isinstance(nodata, float):
        raise ValueError("nodata of another type")


def _header(decoded: PackedHeader, layout: TileLayout, href: str) -> Header:
    n_bands = decoded.n_bands
    scales, offsets = decoded.scaling or ((1.0,) * n_bands, (0.0,) * n_bands)
    if len(scales) != n_bands or len(offsets) != n_bands:
        raise ValueError("scales of another number of bands")
    return Header(
        href=href,
        etag=decoded.etag,
        nbytes=decoded.nbytes,
        driver="GTiff",
        width=layout.width,
        height=layout.height,
        n_bands=n_bands,
        dtype=layout.dtype_name,
        nodata=decoded.nodata,
        scales=scales,
        offsets=offsets,
        transform=None if decoded.transform is None else Transform(*decoded.transform),
        crs=decoded.crs,
        tile_width=layout.tile_width,
        tile_height=layout.block_height,
        is_tiled=layout.is_tiled,
        overviews=decoded.overviews,
        meanings=_meanings(decoded),
        coding=layout.coding,
    )


def _meanings(decoded: PackedHeader) -> tuple[BandMeaning, ...]:
    n_bands, units = decoded.n_bands, decoded.units or ("",) * len(decoded.meanings)
    if len(decoded.meanings) not in (0, n_bands) or len(units) != len(decoded.meanings):
        raise ValueError("meanings of another number of bands")
    return tuple(
        BandMeaning(
            colour=colour,
            classes=tuple(BandClass(value=value, name=name, colour=of) for value, name, of in classes),
            unit=unit,
        )
        for (colour, classes), unit in zip(decoded.meanings, units, strict=True)
    )
