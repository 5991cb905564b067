"""Find where the pixels of a window are stored, so that their bytes are there before GDAL asks for them.

GDAL asks for one range after the other, and holds a child process meanwhile. There are as few processes as
cores, so with bytes that are far away they would mostly wait.

What is found here is only fetched early. A file that this module does not understand is read all the same.
"""

import struct
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, product
from typing import Final

from pixel_gather.core.model.window import Window
from pixel_gather.io.gdal.pinned_object import PinnedObject
from pixel_gather.io.geotiff.header_bytes import HeaderBytes, NeedBytes
from pixel_gather.io.geotiff.ifd import Ifd, Tag, following_ifds, parse_format, parse_ifd
from pixel_gather.io.geotiff.unsupported import TiffError

type Range = tuple[int, int]
"""Bytes [start, stop) of a file."""

_MOST_BLOCKS: Final = 4096
"""Most tiles or strips that are looked up."""

_MOST_READS: Final = 16
"""Most reads for the directories of a TIFF, and for the places of its tiles."""

_MOST_STEPS: Final = 65_536
"""Most boxes, markers and tile-parts of a JPEG 2000 file that are looked at."""

_AROUND_NBYTES: Final = 4
"""GDAL's COGs have the size of a tile before it, and repeat its last bytes after it. GDAL looks at both."""

_MASK: Final = 4
_PLANAR: Final = 2
"""Of the TIFF tags NewSubfileType and PlanarConfiguration."""

_GDALS_READ_NBYTES: Final = 1024
"""GDAL has OpenJPEG read so many bytes after each hop in a file."""

_CODESTREAM: Final = int.from_bytes(b"jp2c")
_SOC, _SIZ, _TLM, _SOT = 0xFF4F, 0xFF51, 0xFF55, 0xFF90
"""Markers of ISO/IEC 15444-1, annex A: start of the codestream, sizes, lengths of tile-parts, start of a
tile-part."""

_TILE_PART: Final = struct.Struct(">HHHIBB")
"""Marker, length of the segment, number of the tile, length of the tile-part, its number, number of parts."""


async def find_stored_ranges(
    pinned: PinnedObject,
    driver: str,
    window: Window,
    bands: Sequence[int],
    *,
    size: tuple[int, int],
    masked: bool,
) -> list[Range]:
    """Return the byte ranges of the tiles or strips that a window touches; none if they are not found.

    Args:
        pinned: The file. What is read on the way is kept in its cache.
        driver: GDAL's driver.
        window: Pixels of the image that is read. It lies on the image.
        bands: Numbers from 1.
        size: Width and height of the image that is read, which may be an overview.
        masked: Whether the mask is read, too.

    Raises:
        SourceError: The object cannot be read.
    """
    try:
        if driver == "GTiff":
            found = await _parse_with_blocks(
                pinned, lambda header: _find_blocks(header, window, bands, size, masked=masked)
            )
        else:
            found = await _find_tiles(pinned, window, size)
    except (TiffError, NeedBytes, struct.error, LookupError):
        return []
    return [(start, min(stop, pinned.nbytes)) for start, stop in found if start < pinned.nbytes]


async def _parse_with_blocks[T](pinned: PinnedObject, parse: Callable[[HeaderBytes], T]) -> T:
    """Call a parser until it succeeds, and read the blocks that it asks for."""
    header, block = HeaderBytes(pinned.nbytes), pinned.settings.block_nbytes
    for _ in range(_MOST_READS):
        try:
            return parse(header)
        except NeedBytes as need:
            start, stop = need.start // block * block, min(-(-need.stop // block) * block, pinned.nbytes)
        header.add(start, memoryview(await pinned.read(start, stop)))
    return parse(header)


def _find_blocks(
    header: HeaderBytes, window: Window, bands: Sequence[int], size: tuple[int, int], *, masked: bool
) -> list[Range]:
    """Return where the blocks of the image of this size are stored, and with ``masked`` those of its mask."""
    tiff_format = parse_format(header)
    first = parse_ifd(header, tiff_format, tiff_format.first_ifd)
    found: list[Range] = []
    for ifd in chain([first], following_ifds(first)):
        if (ifd.integer(Tag.IMAGE_WIDTH), ifd.integer(Tag.IMAGE_LENGTH)) != size:
            continue
        is_mask = bool(ifd.integer(Tag.NEW_SUBFILE_TYPE, 0) & _MASK)
        if is_mask or not found:
            found += _blocks_of(
                ifd, window, [1] if is_mask else bands, size, file_nbytes=header.object_nbytes
            )
        if is_mask or not masked:
            break
    return found


def _blocks_of(
    ifd: Ifd, window: Window, bands: Sequence[int], size: tuple[int, int], *, file_nbytes: int
) -> Iterator[Range]:
    """Yield where the blocks of one directory are stored. A block that is not stored is left out."""
    is_tiled = Tag.TILE_WIDTH in ifd.entries
    if is_tiled:
        block = ifd.integer(Tag.TILE_WIDTH), ifd.integer(Tag.TILE_LENGTH)
        offsets_tag, counts_tag = Tag.TILE_OFFSETS, Tag.TILE_BYTE_COUNTS
    else:
        block = size[0], min(ifd.integer(Tag.ROWS_PER_STRIP, size[1]), size[1])
        offsets_tag, counts_tag = Tag.STRIP_OFFSETS, Tag.STRIP_BYTE_COUNTS
    cols, rows = _touched_blocks(window, block)
    is_planar = ifd.integer(Tag.PLANAR_CONFIGURATION, 1) == _PLANAR
    planes = sorted({band - 1 for band in bands}) if is_planar else [0]
    if len(cols) * len(rows) * len(planes) > _MOST_BLOCKS:
        return
    n_across, n_down = -(-size[0] // block[0]), -(-size[1] // block[1])
    for plane, row in product(planes, rows):
        at = (plane * n_down + row) * n_across + cols.start
        offsets = ifd.array(offsets_tag, at, at + len(cols)).tolist()
        for offset, nbytes in zip(offsets, ifd.array(counts_tag, at, at + len(cols)).tolist(), strict=True):
            if nbytes > 0 and 0 < offset <= file_nbytes - nbytes:
                yield max(offset - _AROUND_NBYTES, 0), offset + nbytes + _AROUND_NBYTES


def _touched_blocks(window: Window, block: tuple[int, int]) -> tuple[range, range]:
    """Return the columns and rows of blocks that a window touches.

    Raises:
        TiffError: The blocks have no size.
    """
    width, height = block
    if min(width, height) < 1:
        raise TiffError("blocks without a size")
    return (
        range(window.col_off // width, -(-(window.col_off + window.width) // width)),
        range(window.row_off // height, -(-(window.row_off + window.height) // height)),
    )


async def _find_tiles(pinned: PinnedObject, window: Window, size: tuple[int, int]) -> list[Range]:
    """Return where the tiles of a JPEG 2000 window are stored.

    If the main header does not tell the lengths of tile-parts, each tells where the next one begins. So GDAL
    hops from one to the next, about 60 times for a window in the middle of a Sentinel-2 band. The same hops
    are made here, beside those of other files.
    """
    at = await _find_codestream(pinned)
    wanted: set[int] = set()
    lengths: list[tuple[int | None, int]] = []
    for _ in range(_MOST_STEPS):
        marker, nbytes = await _unpack(pinned, at, ">HH")
        if marker == _SIZ:
            wanted = _wanted_tiles(await _unpack(pinned, at + 6, ">8I"), window, size)
        elif marker == _TLM:
            lengths += _lengths_of(await pinned.read(at + 4, _within(pinned, at + 2 + nbytes)))
        elif marker == _SOT:
            break
        at += 2 if marker == _SOC else 2 + nbytes
    if not 0 < len(wanted) <= _MOST_BLOCKS:
        return []
    return _place_tiles(lengths, at, wanted) if lengths else await _hop(pinned, at, wanted)


async def _find_codestream(pinned: PinnedObject) -> int:
    """Return where the codestream begins: in the first box that holds one, or with the file."""
    if (await _unpack(pinned, 0, ">H"))[0] == _SOC:
        return 0
    at = 0
    for _ in range(_MOST_STEPS):
        nbytes, kind = await _unpack(pinned, at, ">II")
        head = 8
        if nbytes == 1:
            (nbytes,), head = await _unpack(pinned, at + 8, ">Q"), 16
        if kind == _CODESTREAM:
            return at + head
        if nbytes < head:
            break
        at += nbytes
    raise TiffError("no codestream")


def _wanted_tiles(sizes: Sequence[int], window: Window, size: tuple[int, int]) -> set[int]:
    """Return the numbers of the tiles that a window touches. ``sizes`` are those of the SIZ segment."""
    x_stop, y_stop, x, y, tile_width, tile_height, tiles_x, tiles_y = sizes
    across, down = (
        max(round((stop - start) / side), 1)
        for stop, start, side in zip((x_stop, y_stop), (x, y), size, strict=True)
    )
    on_grid = Window(
        col_off=window.col_off * across + x - tiles_x,
        row_off=window.row_off * down + y - tiles_y,
        width=window.width * across,
        height=window.height * down,
    )
    cols, rows = _touched_blocks(on_grid, (tile_width, tile_height))
    n_across, n_down = -(-(x_stop - tiles_x) // tile_width), -(-(y_stop - tiles_y) // tile_height)
    if len(cols) * len(rows) > _MOST_BLOCKS:
        return set()
    return {row * n_across + col for row in rows if row < n_down for col in cols if col < n_across}


def _lengths_of(segment: bytes) -> list[tuple[int | None, int]]:
    """Return tile number and length of the tile-parts of a TLM segment. No number: each tile has one part."""
    sizes = segment[1]
    number, length = ("", "B", "H")[sizes >> 4 & 3], "I" if sizes >> 6 & 1 else "H"
    parts = struct.iter_unpack(f">{number}{length}", segment[2:])
    return [(part[0] if number else None, part[-1]) for part in parts]


def _place_tiles(lengths: Sequence[tuple[int | None, int]], at: int, wanted: set[int]) -> list[Range]:
    """Return the ranges of the wanted tiles, whose tile-parts lie side by side from ``at`` on."""
    found = []
    for index, (number, nbytes) in enumerate(lengths):
        if (index if number is None else number) in wanted:
            found.append((at, at + nbytes))
        at += nbytes
    return found


async def _hop(pinned: PinnedObject, at: int, wanted: set[int]) -> list[Range]:
    """Hop from tile-part to tile-part until all wanted tiles are found. Return their ranges."""
    found, left = [], set(wanted)
    for _ in range(_MOST_STEPS):
        if not left or at + _TILE_PART.size > pinned.nbytes:
            break
        content = await pinned.read(at, min(at + _GDALS_READ_NBYTES, pinned.nbytes))
        marker, _length, tile, nbytes, part, n_parts = _TILE_PART.unpack_from(content)
        stop = at + nbytes if nbytes else pinned.nbytes  # the last tile-part may go on to the end
        if marker != _SOT or stop < at + _TILE_PART.size:
            break
        if tile in wanted:
            found.append((at, stop + _GDALS_READ_NBYTES))  # GDAL looks at what follows
        if part + 1 == n_parts:
            left.discard(tile)
        at = stop
    return found


async def _unpack(pinned: PinnedObject, at: int, layout: str) -> tuple[int, ...]:
    stop = _within(pinned, at + struct.calcsize(layout))
    return struct.unpack(layout, await pinned.read(at, stop))


def _within(pinned: PinnedObject, stop: int) -> int:
    """Return ``stop`` if it lies in the file.

    Raises:
        TiffError: It lies beyond the end.
    """
    if stop > pinned.nbytes:
        raise TiffError("it goes on beyond the end of the file")
    return stop
