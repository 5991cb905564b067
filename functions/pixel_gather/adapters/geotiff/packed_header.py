"""What opening a GeoTIFF told, in few bytes that are opened again without parsing a TIFF.

Such bytes come from a user's index, so nothing in them is believed that would cost memory or time, and
nothing is read by them but the version of the object that they were made from: the caller pins every read
to their entity tag.
"""

import math
import re
from typing import Annotated, Any, Final, Literal

import msgspec
import numpy as np

from pixel_gather.adapters.geotiff.header_bytes import HeaderBytes
from pixel_gather.adapters.geotiff.ifd import Entry, Ifd, format_of
from pixel_gather.adapters.geotiff.layout import (
    MAX_BANDS,
    MAX_SIDE,
    PAIRS_OF_DTYPES,
    WITH_PREDICTOR,
    Compression,
    Layout,
    Predictor,
)
from pixel_gather.adapters.geotiff.offset_codec import MAX_TILES, PackedRun, Run, packed_run, unpacked_run
from pixel_gather.adapters.geotiff.tags import Tag
from pixel_gather.model.source import Header
from pixel_gather.model.window import Transform

MAX_PACKED_NBYTES: Final = 1 << 16
"""Longer ones are neither made nor opened."""

_VERSION: Final = 1
_MAX_OBJECT_NBYTES: Final = 1 << 48
_MAX_RUNS: Final = 8
_ALL: Final = 1 << 62
"""More tiles than any file has."""

_CRS: Final = re.compile(r"EPSG:\d{1,6}\Z|[A-Z_0-9]+\[")
"""What readers give; PROJ takes more, names of files among it."""

_KINDS: Final = {3: "u2", 4: "u4", 16: "u8"}
"""Field types of offsets and byte counts."""

type _Place = Annotated[int, msgspec.Meta(ge=0, le=_MAX_OBJECT_NBYTES)]
type _Side = Annotated[int, msgspec.Meta(ge=1, le=MAX_SIDE)]
type _Count = Annotated[int, msgspec.Meta(ge=1, le=MAX_BANDS)]


class _Array(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Where one of the two arrays of tiles stands in the object."""

    kind: Literal[3, 4, 16]
    start: _Place


class PackedHeader(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Everything; the version comes first, so that another one is told at once."""

    version: Literal[1]
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
    """None where nobody has looked."""

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
    """After the first one; 0 where there is none."""

    offsets: _Array
    byte_counts: _Array
    runs: Annotated[tuple[PackedRun, ...], msgspec.Meta(max_length=_MAX_RUNS)]

    @property
    def dtype(self) -> str:
        """Of a pixel, by NumPy's name."""
        return self.dtypes.partition(" ")[2]

    @property
    def n_tiles(self) -> int:
        """Tiles or strips of the image, of each band where bands are stored by themselves."""
        n_across, n_down = -(-self.width // self.tile_width), -(-self.height // self.tile_height)
        return n_across * n_down * self.n_planes

    @property
    def n_known_tiles(self) -> int:
        """Those of them whose place is known."""
        return sum(run.n_tiles for run in self.runs)


class Restored(msgspec.Struct, frozen=True, gc=False):
    """A header, and the parts of its directories that reading needs."""

    header: Header
    layout: Layout
    first: Ifd
    """Of the first directory, only what reading asks of it."""

    ifd: Ifd
    """Of the one that is read from, only where tiles lie."""

    fragments: HeaderBytes
    is_masked: bool | None


_decoder: Final = msgspec.msgpack.Decoder(PackedHeader)


def pack(
    header: Header,
    layout: Layout,
    *,
    first: Ifd,
    ifd: Ifd,
    overview: int | None,
    is_masked: bool | None,
    wanted: tuple[tuple[int, int], ...] = (),
) -> bytes | None:
    """Return a header packed, with all offsets and byte counts of tiles that were fetched.

    Args:
        header: Of the image or the overview.
        layout: Of the same.
        first: The first directory.
        ifd: The directory that is read from.
        overview: Which it is.
        is_masked: Whether a mask or an alpha band hides pixels, if that is known.
        wanted: Tiles [first, stop) to be content with where all would be too many.

    Returns:
        None where nothing tells this version of the object from others, or the bytes would be too many.
    """
    if header.etag is None or header.etag.startswith("W/") or header.nbytes > _MAX_OBJECT_NBYTES:
        return None
    told = _without_tiles(header, layout, first=first, ifd=ifd, overview=overview, is_masked=is_masked)
    for tiles in (((0, _ALL),), wanted):
        runs = _runs(ifd, layout, tiles)
        packed = msgspec.msgpack.encode(msgspec.structs.replace(told, runs=runs))
        if len(packed) <= MAX_PACKED_NBYTES:
            return packed
    return None


def peek(packed: bytes) -> PackedHeader | None:
    """Return what a packed header says, unchecked but for its form, or None where it is none."""
    try:
        return _decoder.decode(packed)
    except msgspec.MsgspecError:
        return None


def unpack(packed: bytes, *, href: str, overview: int | None) -> Restored | None:
    """Open a packed header, or return None where it is none, or is of another overview."""
    if len(packed) > MAX_PACKED_NBYTES:
        return None
    try:
        told = _decoder.decode(packed)
        if told.overview != overview:
            return None
        return _restored(told, href)
    except (msgspec.MsgspecError, ValueError, KeyError, OverflowError):
        return None


def _without_tiles(
    header: Header, layout: Layout, *, first: Ifd, ifd: Ifd, overview: int | None, is_masked: bool | None
) -> PackedHeader:
    is_plain = set(header.scales) == {1.0} and set(header.offsets) == {0.0}
    return PackedHeader(
        version=1,
        overview=overview,
        etag=header.etag or "",
        nbytes=header.nbytes,
        width=layout.width,
        height=layout.height,
        n_bands=layout.n_bands,
        dtypes=f"{layout.stored.str} {layout.dtype.name}",
        compression=layout.compression,
        predictor=layout.predictor,
        is_tiled=layout.is_tiled,
        tile_width=layout.tile_width,
        tile_height=layout.tile_height,
        n_planes=layout.n_planes,
        has_alpha=layout.has_alpha,
        is_masked=is_masked,
        declares_nodata=Tag.GDAL_NODATA in first.entries,
        nodata=header.nodata,
        scaling=None if is_plain else (header.scales, header.offsets),
        transform=header.transform,
        crs=header.crs,
        overviews=header.overviews,
        byte_order=ifd.format.byte_order,  # type: ignore[arg-type] # one of the two
        is_big=ifd.format.is_big,
        first_ifd=first.format.first_ifd,
        next_ifd=first.next_offset,
        offsets=_array(ifd, layout.offsets_tag),
        byte_counts=_array(ifd, layout.counts_tag),
        runs=(),
    )


def _array(ifd: Ifd, tag: Tag) -> _Array:
    entry = ifd.entries[tag]
    return _Array(entry.kind, entry.start)  # type: ignore[arg-type] # held against the three when it is opened


def _runs(ifd: Ifd, layout: Layout, wanted: tuple[tuple[int, int], ...]) -> tuple[PackedRun, ...]:
    """Return the wanted tiles of which both arrays were fetched, in as few runs as may be."""
    arrays = ifd.entries[layout.offsets_tag], ifd.entries[layout.counts_tag]
    if not all(entry.kind in _KINDS for entry in arrays):
        return ()
    of_offsets, of_counts = (_fetched(ifd, entry) for entry in arrays)
    packed: list[PackedRun] = []
    done, left = 0, MAX_TILES
    for low, high in sorted(
        (max(spans[0] for spans in three), min(spans[1] for spans in three))
        for three in ((one, two, want) for one in of_offsets for two in of_counts for want in wanted)
    ):
        first = max(low, done)
        stop = min(high, first + left)
        if first < stop and len(packed) < _MAX_RUNS:
            done = stop
            offsets = ifd.array(layout.offsets_tag, first, stop).astype(np.int64)
            counts = ifd.array(layout.counts_tag, first, stop).astype(np.int64)
            nbytes = ifd.fragments.object_nbytes
            if min(int(offsets.min()), int(counts.min())) < 0 or int((offsets + counts).max()) > nbytes:
                continue
            run = packed_run(Run(first, offsets, counts))
            if run is not None:
                packed.append(run)
                left -= run.n_tiles
    return tuple(packed)


def _fetched(ifd: Ifd, entry: Entry) -> list[tuple[int, int]]:
    """Return which values [first, stop) of a tag were fetched, piece by piece."""
    size = np.dtype(_KINDS[entry.kind]).itemsize
    spans = []
    for start, stop in ifd.fragments.spans():
        first = max(-(-(start - entry.start) // size), 0)
        last = min((stop - entry.start) // size, entry.n_values)
        if first < last:
            spans.append((first, last))
    return spans


def _restored(told: PackedHeader, href: str) -> Restored:
    """Build what a parser would have, and refuse what none would.

    Raises:
        ValueError: The parts contradict each other.
        KeyError: There is no such dtype.
    """
    layout = _layout(told)
    n_tiles = layout.n_across * layout.n_down * layout.n_planes
    if n_tiles > told.nbytes or told.n_known_tiles > MAX_TILES:
        raise ValueError("more tiles than bytes, or than an entry may hold")
    form = format_of(told.byte_order, is_big=told.is_big, first_ifd=told.first_ifd)
    fragments = HeaderBytes(told.nbytes)
    for packed in told.runs:
        if packed.first + packed.n_tiles > n_tiles:
            raise ValueError("more tiles than the image has")
        run = unpacked_run(packed, object_nbytes=told.nbytes)
        _add(fragments, told.offsets, run.first, run.offsets, told.byte_order)
        _add(fragments, told.byte_counts, run.first, run.byte_counts, told.byte_order)
    entries: dict[int, Entry] = {
        layout.offsets_tag: Entry(told.offsets.kind, n_tiles, told.offsets.start),
        layout.counts_tag: Entry(told.byte_counts.kind, n_tiles, told.byte_counts.start),
    }
    nodata: dict[int, Entry] = {Tag.GDAL_NODATA: Entry(0, 0, 0)} if told.declares_nodata else {}
    return Restored(
        header=_header(told, layout, href),
        layout=layout,
        first=Ifd(entries=nodata, next_offset=told.next_ifd, format=form, fragments=fragments),
        ifd=Ifd(entries=entries, next_offset=0, format=form, fragments=fragments),
        fragments=fragments,
        is_masked=told.is_masked,
    )


def _add(
    fragments: HeaderBytes, array: _Array, first: int, values: np.ndarray[Any, Any], byte_order: str
) -> None:
    """Put values where a fetch would have put them."""
    dtype = np.dtype(byte_order + _KINDS[array.kind])
    content = values.astype(dtype)
    fragments.add(array.start + first * dtype.itemsize, memoryview(content).cast("B"))


def _layout(told: PackedHeader) -> Layout:
    compression, predictor = Compression(told.compression), Predictor(told.predictor)
    stored, dtype = PAIRS_OF_DTYPES[told.dtypes]
    if predictor is not Predictor.NONE and (compression not in WITH_PREDICTOR or dtype.kind == "c"):
        raise ValueError("predictor on this compression or dtype")
    if predictor is Predictor.FLOAT and stored.kind != "f":
        raise ValueError("floating point predictor on integers")
    if told.n_planes not in (1, told.n_bands):
        raise ValueError("some planes, but not one for each band")
    if not told.is_tiled and (told.tile_width != told.width or told.tile_height > told.height):
        raise ValueError("strips that are not the image's")
    _check_nodata(told.nodata, dtype)
    if told.crs is not None and not _CRS.match(told.crs):
        raise ValueError("a CRS that is neither EPSG:n nor WKT")
    if told.transform is not None and not all(map(math.isfinite, told.transform)):
        raise ValueError("a transform that is not finite")
    return Layout(
        width=told.width,
        height=told.height,
        n_bands=told.n_bands,
        stored=stored,
        dtype=dtype,
        compression=compression,
        predictor=predictor,
        is_tiled=told.is_tiled,
        tile_width=told.tile_width,
        tile_height=told.tile_height,
        n_planes=told.n_planes,
        has_alpha=told.has_alpha,
    )


def _check_nodata(nodata: float | None, dtype: np.dtype[Any]) -> None:
    """Refuse what a pixel cannot hold."""
    if nodata is None:
        return
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        if not isinstance(nodata, int) or not limits.min <= nodata <= limits.max:
            raise ValueError("nodata that the dtype cannot hold")
    elif not isinstance(nodata, float):
        raise ValueError("nodata of another type")  # the index's fault


def _header(told: PackedHeader, layout: Layout, href: str) -> Header:
    n_bands = told.n_bands
    scales, offsets = told.scaling or ((1.0,) * n_bands, (0.0,) * n_bands)
    if len(scales) != n_bands or len(offsets) != n_bands:
        raise ValueError("scales of another number of bands")
    return Header(
        href=href,
        etag=told.etag,
        nbytes=told.nbytes,
        driver="GTiff",
        width=layout.width,
        height=layout.height,
        n_bands=n_bands,
        dtype=layout.dtype.name,
        nodata=told.nodata,
        scales=scales,
        offsets=offsets,
        transform=None if told.transform is None else Transform(*told.transform),
        crs=told.crs,
        tile_width=layout.tile_width,
        tile_height=layout.block_height,
        is_tiled=layout.is_tiled,
        overviews=told.overviews,
    )
