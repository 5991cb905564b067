"""Pack the offsets and byte counts of a run of tiles into few bytes. Pure, with bounded memory.

Most writers store one tile after the other. An offset is then the previous offset plus its byte count plus a
constant, so mainly the byte counts have to be stored. Each takes as few bytes as the largest needs. All
first bytes come before all second bytes, which compresses well.
"""

from typing import Annotated, Any, Final, NamedTuple

import msgspec
import numpy as np

MAX_TILES: Final = 1 << 16
"""Most tiles of one run: half a megabyte of offsets."""

_MAX_INT: Final = 1 << 62
_INT64_NBYTES: Final = 8
_LITTLE: Final = np.dtype("<i8")

type Integers = np.ndarray[Any, np.dtype[np.int64]]
type _Integer = Annotated[int, msgspec.Meta(ge=-_MAX_INT, le=_MAX_INT)]


class OffsetRun(NamedTuple):
    """Offsets and byte counts of neighbouring tiles. Both are 0 for a tile that is not stored."""

    first: int
    """Index of the first tile in the file's arrays."""

    offsets: Integers
    byte_counts: Integers


class PackedIntegers(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Integers, stored as differences from the smallest."""

    smallest: _Integer
    content: bytes
    """Little-endian differences, as wide as the largest needs: all first bytes, then all second bytes.
    Empty where all integers are equal."""


class PackedRun(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A run, packed."""

    first: Annotated[int, msgspec.Meta(ge=0, le=1 << 48)]
    n_tiles: Annotated[int, msgspec.Meta(ge=1, le=MAX_TILES)]
    byte_counts: PackedIntegers
    offset: _Integer
    """Offset of the first stored tile."""

    gaps: PackedIntegers
    """Bytes from the end of each stored tile to the start of the next. Negative where tiles are out of
    order."""


def packed_run(run: OffsetRun) -> PackedRun | None:
    """Pack a run of at least one tile, or return None where a tile has an offset but no bytes."""
    offsets, counts = run.offsets, run.byte_counts
    if not np.minimum.reduce(counts):
        stored = counts != 0
        if offsets[~stored].any():
            return None
        offsets, counts = offsets[stored], counts[stored]
    return PackedRun(
        first=run.first,
        n_tiles=run.byte_counts.size,
        byte_counts=_pack_integers(run.byte_counts),
        offset=int(offsets[0]) if offsets.size else 0,
        gaps=_pack_integers(offsets[1:] - offsets[:-1] - counts[:-1]),
    )


def unpacked_run(packed: PackedRun, *, object_nbytes: int) -> OffsetRun:
    """Restore a run.

    Raises:
        ValueError: `packed_run` cannot have made it, or a tile lies outside the object.
    """
    if packed.byte_counts.smallest < 0:
        raise ValueError("a tile with a negative byte count")
    all_counts = _unpack_integers(packed.byte_counts, packed.n_tiles)
    stored = all_counts != 0 if packed.byte_counts.smallest == 0 else None
    counts = all_counts if stored is None else all_counts[stored]
    offsets = np.empty(counts.size, np.int64)
    if counts.size:
        offsets[0] = packed.offset
        np.add(counts[:-1], _unpack_integers(packed.gaps, counts.size - 1), out=offsets[1:])
        np.cumsum(offsets, out=offsets)
        _check_inside(offsets, counts, in_order=packed.gaps.smallest >= 0, object_nbytes=object_nbytes)
    if stored is None:
        return OffsetRun(packed.first, offsets, all_counts)
    all_offsets = np.zeros(packed.n_tiles, np.int64)
    all_offsets[stored] = offsets
    return OffsetRun(packed.first, all_offsets, all_counts)


def _check_inside(offsets: Integers, counts: Integers, *, in_order: bool, object_nbytes: int) -> None:
    """Refuse tiles outside the object. Of tiles in order, only the first and the last are checked."""
    first = int(offsets[0]) if in_order else int(offsets.min())
    stop = int(offsets[-1] + counts[-1]) if in_order else int((offsets + counts).max())
    if first < 0 or stop > object_nbytes:
        raise ValueError("a tile lies outside the object")


def _pack_integers(values: Integers) -> PackedIntegers:
    if not values.size:
        return PackedIntegers(0, b"")
    smallest, largest = int(np.minimum.reduce(values)), int(np.maximum.reduce(values))
    if smallest == largest:
        return PackedIntegers(smallest, b"")
    width = ((largest - smallest).bit_length() + 7) // 8
    differences = (values - smallest).astype(_LITTLE, copy=False)
    planes = differences.view(np.uint8).reshape(values.size, _INT64_NBYTES)
    return PackedIntegers(smallest, planes[:, :width].T.tobytes())


def _unpack_integers(packed: PackedIntegers, n: int) -> Integers:
    content = packed.content
    if not content or not n:
        return np.full(n, packed.smallest, np.int64)
    width, rest = divmod(len(content), n)
    if rest or not 1 <= width < _INT64_NBYTES:
        raise ValueError("the number of bytes does not fit the number of integers")
    planes = np.zeros((n, _INT64_NBYTES), np.uint8)
    planes[:, :width] = np.frombuffer(content, np.uint8).reshape(width, n).T
    values: Integers = planes.ravel().view(_LITTLE)
    values += packed.smallest
    return values
