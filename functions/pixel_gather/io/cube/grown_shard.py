"""Puts rows into a shard that has some, in an object that begins with all the bytes of the former one.

Whoever still holds an index of a former object finds the same chunks at the same offsets. The chunks that
hold the given rows and a new index follow. If such a chunk has other rows of the cube, too, it is decoded and
encoded again. An object that is one chunk is such a chunk as a whole.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar, Final

import numpy as np

from pixel_gather.core.errors import StoreError
from pixel_gather.core.in_thread import in_thread
from pixel_gather.core.plan.cube_plan import CubePlan, Measurement, PixelArray
from pixel_gather.core.read.shard_buffers import Pixels
from pixel_gather.io.cube.shard_codec import (
    EMPTY,
    Encode,
    Part,
    assemble_shard,
    chunk_encoder,
    decode_chunk,
    encode_shard,
    index_bytes,
    places_of,
    with_unique_bytes,
)

_MOST_MIXED_PIXELS: Final = 2**22
"""Pixels of chunks with old and new rows that are in memory at one time, unless a single chunk has more."""

type _Index = np.ndarray[Any, np.dtype[np.uint64]]
"""Shape (rows, bands, y, x, 2) of the chunks in a shard, or without bands: offset and length of each."""


class GrownShard:
    """Rows that an append puts into a shard which has some: behind them, or in their places.

    They are compressed when the shard is stored. Only then the former object is known, and a chunk with old
    and new rows is encoded from both.
    """

    nbytes: ClassVar = None

    def __init__(
        self,
        plan: CubePlan,
        array: PixelArray,
        bands: Sequence[Pixels],
        *,
        n_before: int,
        places: Sequence[Sequence[int | None]] = (),
    ) -> None:
        """Compress nothing yet.

        Args:
            plan: The cube.
            array: Which array.
            bands: Of each measurement of it, shape (row, y, x).
            n_before: Rows of the shard that the cube has already.
            places: For each measurement, the rows' places in the shard, ascending; None for a row that is not
                put. If not given, they follow the rows before. New ones follow one another.
        """
        self._plan, self._array = plan, array
        self._bands, self._n_before = bands, n_before
        self._places = places or [range(n_before, n_before + len(each)) for each in bands]

    def is_tail(self, path: str) -> bool:
        """Return whether the shard of this key has chunks with rows of the cube."""
        return path in self._plan.append.tails

    def committed_nbytes(self, path: str, former: bytes) -> int:
        """Return how many of the former object's first bytes hold rows that are committed; see `parts_with`.

        A reduced row counts as read though it lacks sources. So a try that was not committed may have put
        other pixels behind.
        """
        return len(former) if self._plan.reduction is None else self._plan.append.nbytes_of(path)

    async def encode_rows(self, start: int, stop: int) -> None:
        """Do nothing: see the class."""

    def close(self) -> None:
        """Do nothing: nothing is held."""

    async def parts_with(self, former: bytes, *, committed_nbytes: int | None = None) -> list[Part]:
        """Return the new object: the former one, the new chunks, and the index of all; or one chunk.

        Args:
            former: The shard's object. It has the rows before, and perhaps others of an append that was given
                up. Empty if there is none.
            committed_nbytes: How many of its first bytes are the object of the version before. The new object
                has the rows of that one, but for those that are put. None if all bytes are.

        Raises:
            StoreError: The object is damaged.
        """
        plan, n_bands = self._plan, len(self._bands)
        if not plan.layout.is_sharded:
            return await in_thread(partial(self._chunk_with, former))
        rows, *others = (
            whole // part for whole, part in zip(plan.layout.shard, plan.layout.chunk, strict=True)
        )
        index = _committed_index(former, committed_nbytes, (rows, n_bands, *others))
        is_new = np.zeros((rows, n_bands), dtype=bool)
        new: list[Part] = []  # chunks that follow the former object
        for band in range(n_bands):
            is_new[:, band] = await self._put_band(band, index[:, band], new, former)
        # The new chunks lie behind the former object.
        has_moved = is_new[:, :, None, None] & (index[..., 0] != EMPTY)
        index[..., 0][has_moved] += np.uint64(len(former))
        parts = [former, *new, index_bytes(index)]
        if sum(map(len, parts)) == committed_nbytes:  # it is not that object: see `_committed_index`
            parts.insert(-1, b"\0")
        return parts

    def _chunk_with(self, former: bytes) -> list[Part]:
        """Return the chunk of the rows before and the given ones. It is unlike all former objects."""
        plan, (measurement,) = self._plan, self._array.measurements
        (pixels,), (all_places,) = self._bands, self._places
        both = np.full(plan.layout.chunk, measurement.fill_value, pixels.dtype.newbyteorder("<"))
        if former:
            both[: self._n_before] = _decoded(former, plan, pixels.dtype)[: self._n_before]
        _, height, width = pixels.shape
        for place, row in zip(all_places, pixels, strict=True):
            if place is not None:
                both[place, :height, :width] = row
        encode = _encoder(plan, measurement, pixels.itemsize, tolerance=None)
        return with_unique_bytes(encode(both), plan.codec)

    async def _put_band(
        self, band: int, index: _Index, parts: list[Part], former: bytes
    ) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Add the new chunks of one band, and set their places. Return which rows of chunks are new."""
        plan, measurement, n_before = self._plan, self._array.measurements[band], self._n_before
        chunk, all_places = plan.layout.chunk, self._places[band]
        is_new = np.zeros(len(index), dtype=bool)
        given = [at for at, place in enumerate(all_places) if place is not None]
        places = np.array([all_places[at] for at in given], dtype=int)
        pixels = self._bands[band]
        pixels = pixels if len(given) == len(pixels) else pixels[given]
        # Which chunks have rows of the cube? They are encoded again, from both.
        first_without = -(-n_before // chunk[0])
        index[first_without:] = EMPTY  # those of an append that was given up
        of_chunks = places // chunk[0]
        most = max(_MOST_MIXED_PIXELS // math.prod(chunk), 1)
        for first, stop in _runs(np.unique(of_chunks[of_chunks < first_without]), most):
            start, is_within = first * chunk[0], (of_chunks >= first) & (of_chunks < stop)
            within = places[is_within] - start
            n_kept = min(n_before - start, (stop - first) * chunk[0])
            n_rows = max(n_kept, int(within[-1]) + 1)
            both = np.full((n_rows, *pixels.shape[1:]), measurement.fill_value, pixels.dtype)
            for number in range(first, stop):
                at = (number - first) * chunk[0]
                _decode_row(both[at : min(at + chunk[0], n_kept)], index[number], former, plan=plan)
            both[within] = pixels[is_within]
            # stored pixels must not change, so the mixed chunks are encoded without loss
            await _add(index[first:stop], parts, both, plan, measurement, tolerance=None)
            is_new[first:stop] = True
        # All others have new rows alone.
        pixels = pixels[of_chunks >= first_without]
        if len(pixels):
            await _add(index[first_without:], parts, pixels, plan, measurement, tolerance=plan.zfp_tolerance)
            is_new[first_without:] = True
        return is_new


def _runs(numbers: np.ndarray[Any, np.dtype[np.int64]], most: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of numbers that follow one another, each of so many at most."""
    ends = np.flatnonzero(np.diff(numbers) != 1) + 1
    for run in np.split(numbers, ends) if len(numbers) else ():
        for first in range(int(run[0]), int(run[-1]) + 1, most):
            yield first, min(first + most, int(run[-1]) + 1)


async def _add(
    index: _Index,
    parts: list[Part],
    pixels: Pixels,
    plan: CubePlan,
    measurement: Measurement,
    *,
    tolerance: float | None,
) -> None:
    """Encode rows and append their chunks to ``parts``. Set their places, counted from the first part."""
    chunk = plan.layout.chunk
    encoded = await encode_shard(
        pixels,
        shard=(len(index) * chunk[0], *plan.layout.shard[1:]),
        chunk=chunk,
        fill_value=measurement.fill_value,
        encode=_encoder(plan, measurement, pixels.itemsize, tolerance),
    )
    found = read_index(bytes(encoded[-1]), index.shape[:3])
    found[..., 0][found[..., 0] != EMPTY] += np.uint64(sum(map(len, parts)))
    index[...] = found
    parts += encoded[:-1]


def _encoder(plan: CubePlan, measurement: Measurement, itemsize: int, tolerance: float | None) -> Encode:
    return chunk_encoder(
        plan.codec, itemsize=itemsize, fill_value=measurement.fill_value, zfp_tolerance=tolerance
    )


def read_index(content: bytes, grid: tuple[int, ...]) -> _Index:
    """Return the index at the end of a shard's object.

    Args:
        content: The object; empty for a shard without chunks.
        grid: Number of chunks along each axis.

    Raises:
        StoreError: The index is damaged.
    """
    if not content:
        return np.full((*grid, 2), EMPTY, dtype="<u8")
    try:
        return places_of(memoryview(content), n=math.prod(grid)).reshape(*grid, 2).copy()
    except ValueError as error:
        raise StoreError("a shard of the cube is damaged: its index has another checksum") from error


def _committed_index(content: bytes, nbytes: int | None, grid: tuple[int, ...]) -> _Index:
    """Return the index of the version before, with whose object a former one begins.

    A compaction that was stopped has left an object that is shorter and begins with no other. Then it is the
    first. Tries that follow it may make the object as long as that of the version before, or longer. None of
    them ends where that one did, so no other index is taken for its index.
    """
    if nbytes is None or nbytes <= len(content):
        with suppress(StoreError):
            return read_index(content[:nbytes], grid)
    return _first_index(content, grid)


def _first_index(content: bytes, grid: tuple[int, ...]) -> _Index:
    """Return the index of the first of the objects that follow one another. Each ends where chunks begin."""
    index = read_index(content, grid)
    for end in sorted(set(index[..., 0].ravel().tolist()) - {0, int(EMPTY)}):
        with suppress(StoreError):
            return _first_index(content[:end], grid)
    return index


def compact_shard(content: bytes, grid: tuple[int, ...]) -> list[Part]:
    """Return a shard's object without the chunks that its index does not name."""
    places = read_index(content, grid).reshape(-1, 2).tolist()
    return assemble_shard(
        [None if start == EMPTY else content[start : start + length] for start, length in places]
    )


def _decode_row(out: Pixels, index: _Index, former: bytes, *, plan: CubePlan) -> None:
    """Fill rows from the chunks of one position along the rows. Chunks that are not stored hold the fill."""
    _, height, width = plan.layout.chunk
    for y, x in np.ndindex(*index.shape[:2]):
        start, length = index[y, x].tolist()
        target = out[:, y * height : (y + 1) * height, x * width : (x + 1) * width]
        if start != int(EMPTY) and target.size:
            chunk = _decoded(former[start : start + length], plan, out.dtype)
            target[...] = chunk[: target.shape[0], : target.shape[1], : target.shape[2]]


def _decoded(content: bytes, plan: CubePlan, dtype: np.dtype[Any]) -> Pixels:
    """Return the pixels of one chunk."""
    chunk = np.empty(plan.layout.chunk, dtype.newbyteorder("<"))
    decode_chunk(content, plan.codec, chunk)
    return chunk
