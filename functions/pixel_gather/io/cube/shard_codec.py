"""Encodes pixels as one Zarr v3 object: one chunk, or codec `sharding_indexed` with its index at the end.

This is not left to zarr-python: importing it costs a worker 0.3 s, and here a shard becomes one PUT without
a copy. Tests read the objects back by zarr-python. The format:
https://zarr-specs.readthedocs.io/en/latest/v3/codecs/sharding-indexed/
"""

import os
import struct
from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any, Final

import google_crc32c
import imagecodecs
import numpy as np

from pixel_gather.core.in_thread import in_thread
from pixel_gather.core.read.shard_buffers import Pixels
from pixel_gather.core.read.stored_tiles import BandTiles
from pixel_gather.core.task_group import all_of
from pixel_gather.io.cube.chunk_memory import Block, ChunkMemory, LentMemory

EMPTY: Final = np.uint64(2**64 - 1)
_INDEX_DTYPE: Final = np.dtype("<u8")
_CHECKSUM_NBYTES: Final = 4

type Part = bytes | bytearray | memoryview
type Encode = Callable[[Pixels], Part]


ZSTD_LEVEL: Final = 1
BLOSC_LEVELS: Final = {"lz4": 5, "zstd": 1}

_BLOSC_OVERHEAD: Final = 16
"""How much longer an incompressible chunk becomes. With more room Blosc stores it in another way."""

_ZSTD_OVERHEAD: Final = 128
"""As much for Zstandard, beside a 256th of the chunk."""

_UNIQUE_NBYTES: Final = 16
"""Random bytes that tell an object from every other. No reader looks at them."""

_ZSTD_SKIPPED: Final = 0x184D2A50
"""Begins a frame that decoders of Zstandard skip."""

_BLOSC_HEADER: Final = struct.Struct("<4B3I")
"""Two versions, flags, size of a number; then bytes of the chunk, of a block, and of the frame."""

_BLOSC_PLAIN, _BLOSC_WHOLE, _BLOSC_CODEC = 0x02, 0x10, 0xE0
"""Flags: the chunk is not compressed; a block is one part; the number of the codec."""


def chunk_encoder(
    codec: str,
    *,
    itemsize: int,
    fill_value: float,
    zfp_tolerance: float | None = None,
    take: Callable[[int], Block] | None = None,
) -> Encode:
    """Return a function that compresses one C-ordered, little-endian chunk.

    Args:
        codec: Codec of the plan.
        itemsize: Bytes of a number.
        fill_value: What stands for no pixel.
        zfp_tolerance: Largest error of zfp. None or 0: no error.
        take: Returns memory of at least so many bytes to compress into. None: fresh memory.
    """
    if codec == "none":
        return as_it_is
    if codec == "zfp":
        return lambda chunk: _zfp_encoded(chunk, zfp_tolerance or 0.0, fill_value)

    def out(chunk: Pixels, overhead: int) -> memoryview | None:
        most = chunk.nbytes + overhead
        return None if take is None else take(most)[:most].data

    if codec == "zstd":
        return lambda chunk: imagecodecs.zstd_encode(
            chunk, ZSTD_LEVEL, out=out(chunk, chunk.nbytes // 256 + _ZSTD_OVERHEAD)
        )
    compressor = codec.removeprefix("blosc-")
    return lambda chunk: imagecodecs.blosc_encode(
        chunk,
        level=BLOSC_LEVELS[compressor],
        compressor=compressor,
        shuffle="bitshuffle",
        typesize=itemsize,
        numthreads=1,
        out=out(chunk, _BLOSC_OVERHEAD),
    )


def decode_chunk(content: Part, codec: str, out: Pixels) -> None:
    """Fill a C-ordered, little-endian array with a chunk that `chunk_encoder` has compressed.

    Raises:
        ValueError, RuntimeError: It is damaged, or of another size.
    """
    if codec == "none":
        out[...] = np.frombuffer(content, out.dtype).reshape(out.shape)
    elif codec == "zfp":
        out[...] = imagecodecs.zfp_decode(content).reshape(out.shape)
    else:
        decode = (
            imagecodecs.zstd_decode if codec == "zstd" else partial(imagecodecs.blosc_decode, numthreads=1)
        )
        if len(decode(content, out=as_it_is(out))) != out.nbytes:
            raise ValueError("a chunk has fewer pixels than its array says")


def as_it_is(chunk: Pixels) -> memoryview:
    """Return the bytes of a chunk, which are not copied."""
    return chunk.reshape(-1).view(np.uint8).data


def _zfp_encoded(chunk: Pixels, tolerance: float, fill_value: float) -> bytes | bytearray | memoryview:
    """Compress within the tolerance, or without loss if zfp cannot keep to it.

    NaN, infinities and a nodata far from the other values make zfp exceed its tolerance by any amount, and
    nodata changes a little. Each chunk stores its mode, so an array may hold chunks of both modes.
    """
    if tolerance:
        lossy = imagecodecs.zfp_encode(chunk, tolerance, mode="fixed_accuracy")  # type: ignore[arg-type] # its stub knows no float
        kept = imagecodecs.zfp_decode(lossy)
        fill = chunk.dtype.type(fill_value)
        with np.errstate(invalid="ignore", over="ignore"):
            is_close = bool((np.abs(kept - chunk) <= tolerance).all())  # never true for NaN
        if is_close and bool(((kept == fill) == (chunk == fill)).all()):
            return lossy
    return imagecodecs.zfp_encode(chunk, mode="reversible")


def with_unique_bytes(chunk: Part, codec: str) -> list[Part]:
    """Return a compressed chunk with random bytes behind it, which decoders skip.

    In Blosc, the places of all blocks stand at the frame's begin, so nothing reads what follows them. Only a
    chunk that is stored as it is has no room. It becomes one block of one part, which is as long as the plain
    bytes, so it is not compressed either. The codec is Zstandard or Blosc.
    """
    unique = os.urandom(_UNIQUE_NBYTES)
    if codec == "zstd":
        return [chunk, struct.pack("<II", _ZSTD_SKIPPED, len(unique)), unique]
    frame = memoryview(chunk)
    *versions, flags, itemsize, nbytes, block_nbytes, _ = _BLOSC_HEADER.unpack_from(frame)
    body: list[Part] = [frame[_BLOSC_HEADER.size :], unique]
    if flags & _BLOSC_PLAIN:
        flags, block_nbytes = flags & _BLOSC_CODEC | _BLOSC_WHOLE, nbytes
        body = [struct.pack("<2I", _BLOSC_HEADER.size + 4, nbytes), *body]
    size = _BLOSC_HEADER.size + sum(map(len, body))
    return [_BLOSC_HEADER.pack(*versions, flags, itemsize, nbytes, block_nbytes, size), *body]


async def encode_shard(
    pixels: Pixels,
    *,
    shard: tuple[int, int, int],
    chunk: tuple[int, int, int],
    fill_value: float,
    encode: Encode,
) -> list[Part]:
    """Compress a whole shard; see `ShardEncoder`. Return its parts."""
    encoder = ShardEncoder([pixels], shard=shard, chunk=chunk, fill_value=fill_value, encode=encode)
    await encoder.encode_rows(0, len(pixels))
    return encoder.parts()


class ShardEncoder:
    """Compresses a shard, or an object that is one chunk, some rows at a time, in one thread per core.

    The object is all parts in order. They are not joined here: copying 24 MB to fresh memory would cost a
    quarter of the CPU time of compressing them.
    """

    def __init__(
        self,
        bands: Sequence[Pixels],
        *,
        shard: tuple[int, int, int],
        chunk: tuple[int, int, int],
        fill_value: float,
        encode: Encode,
        codec_of_one: str | None = None,
        memory: LentMemory | None = None,
    ) -> None:
        """Compress nothing yet.

        Args:
            bands: Of each band, shape (row, y, x), not larger than the shard. A chunk has one band.
            shard: Shape of a full shard in one band.
            chunk: Shape of its chunks in one band.
            fill_value: Pads chunks at the edge. A chunk of a shard that holds only fill is not stored.
            encode: From `chunk_encoder`.
            codec_of_one: What ``encode`` is for, if the object is one chunk of one band. None for a shard.
            memory: What chunks are copied into, and perhaps what ``encode`` compresses into.
        """
        self._bands = bands
        rows, *others = (whole // part for whole, part in zip(shard, chunk, strict=True))
        self._grid = (rows, len(bands), *others)
        self._chunk = chunk
        self._fill = bands[0].dtype.type(fill_value)
        self._encode = encode
        self._codec_of_one = codec_of_one
        self._memory = memory or LentMemory(ChunkMemory())
        self._encoded: dict[tuple[int, ...], Part | None] = {}
        """By its place along rows, bands, y and x. None for a chunk that holds only fill."""

    async def encode_rows(self, start: int, stop: int) -> None:
        """Compress the chunks of rows [start, stop). The first row is the first one of a chunk."""
        depth = self._chunk[0]
        across = list(np.ndindex(*self._grid[1:]))
        places = [(row, *place) for row in range(start // depth, -(-stop // depth)) for place in across]

        def encode_some(first: int, step: int) -> None:
            for place in places[first::step]:
                self._encoded[place] = self._encode_one(place)

        n_threads = min(os.process_cpu_count() or 1, len(places))
        await all_of(
            in_thread(partial(encode_some, first, n_threads), goes_first=True) for first in range(n_threads)
        )

    @property
    def nbytes(self) -> int | None:
        """Bytes of the compressed chunks. None if they are the pixels themselves, which are not copied."""
        if self._encode is as_it_is:
            return None
        return sum(len(part) for part in self._encoded.values() if part is not None)

    def parts(self, *, is_unique: bool = False) -> list[Part]:
        """Return the stored chunks, then the index with its checksum. Chunks that have no rows are absent.

        An object that is one chunk has no index.

        Args:
            is_unique: Whether random bytes make the object unlike any other.
        """
        chunks = [self._encoded.get(place) for place in np.ndindex(*self._grid)]
        if self._codec_of_one is None:
            return assemble_shard(chunks, is_unique=is_unique)
        (chunk,) = (part for part in chunks if part is not None)
        return with_unique_bytes(chunk, self._codec_of_one) if is_unique else [chunk]

    def close(self) -> None:
        """Give the memory of the parts back, which nothing may read any more."""
        self._encoded.clear()
        self._memory.give_back()

    def _encode_one(self, place: tuple[int, ...]) -> Part | None:
        """Compress one chunk. Return None if it is one of a shard and holds only fill."""
        row, band, y, x = place
        sides = tuple(
            slice(index * side, (index + 1) * side)
            for index, side in zip((row, y, x), self._chunk, strict=True)
        )
        inside = self._bands[band][sides]
        if self._codec_of_one is None and (inside.size == 0 or _is_all(inside, self._fill)):
            return None
        dtype = inside.dtype.newbyteorder("<")
        if inside.shape == self._chunk and inside.flags.c_contiguous and inside.dtype == dtype:
            return self._encode(inside)
        nbytes, is_stored = prod(self._chunk) * dtype.itemsize, self._encode is as_it_is
        block = self._memory.take(nbytes) if is_stored else self._memory.scratch(nbytes)
        whole = block[:nbytes].view(dtype).reshape(self._chunk)
        if inside.shape != self._chunk:
            whole[...] = self._fill
        whole[tuple(slice(side) for side in inside.shape)] = inside
        part = self._encode(whole)
        if not is_stored:
            self._memory.free_scratch(block)
        return part


class TileShard:
    """A shard whose chunks are compressed tiles. There is nothing left to compress."""

    def __init__(self, tiles: BandTiles, *, shard: tuple[int, int, int], chunk: tuple[int, int, int]) -> None:
        """Hold the tiles of one band.

        Args:
            tiles: Tiles of at most as many rows as the shard has.
            shard: Shape of a full shard.
            chunk: Shape of its chunks: one row, and one tile.
        """
        self._tiles = tiles
        self._n_rows = shard[0]
        self._n_tiles = shard[1] // chunk[1] * (shard[2] // chunk[2])

    async def encode_rows(self, start: int, stop: int) -> None:
        """Do nothing."""

    @property
    def nbytes(self) -> int:
        """Bytes of the tiles."""
        tiles = (self._tiles.of_row(row) for row in range(len(self._tiles)))
        return sum(len(tile) for row in tiles for tile in row if tile is not None)

    def parts(self, *, is_unique: bool = False) -> list[Part]:
        """Return the tiles, then the index with its checksum; see `ShardEncoder.parts`.

        Tiles that are not stored are absent.
        """
        chunks: list[Part | None] = []
        for row in range(len(self._tiles)):
            tiles = self._tiles.of_row(row)
            chunks += [*tiles, *[None] * (self._n_tiles - len(tiles))]
        chunks += [None] * (self._n_rows * self._n_tiles - len(chunks))
        return assemble_shard(chunks, is_unique=is_unique)

    def close(self) -> None:
        """Do nothing: tiles have memory of their own."""


def split_chunks(content: memoryview, *, n: int) -> list[memoryview | None]:
    """Return the chunks of a stored shard in order. None for those that are absent.

    Raises:
        ValueError: Its index is damaged.
    """
    return [
        None if offset == EMPTY else content[int(offset) : int(offset) + int(nbytes)]
        for offset, nbytes in places_of(content, n=n)
    ]


def places_of(content: memoryview, *, n: int) -> "np.ndarray[Any, np.dtype[np.uint64]]":
    """Return the index of a shard: offset and length of each chunk. `EMPTY` is the offset of absent ones.

    The content is the shard, or its end.

    Raises:
        ValueError: The index is damaged.
    """
    stored, checksum = content[-index_nbytes(n) : -_CHECKSUM_NBYTES], content[-_CHECKSUM_NBYTES:]
    if len(stored) + _CHECKSUM_NBYTES != index_nbytes(n) or _checksum_of(bytes(stored)) != checksum:
        raise ValueError("the index of a shard is damaged")
    return np.frombuffer(stored, _INDEX_DTYPE).reshape(n, 2)


def index_nbytes(n_chunks: int) -> int:
    """Return the size of an index with its checksum, which is that of a shard without chunks."""
    return 2 * _INDEX_DTYPE.itemsize * n_chunks + _CHECKSUM_NBYTES


def index_bytes(index: "np.ndarray[Any, np.dtype[np.uint64]]") -> bytes:
    """Return the index as it is stored, with its checksum."""
    stored = index.astype(_INDEX_DTYPE).tobytes()
    return stored + _checksum_of(stored)


def _checksum_of(stored: bytes) -> bytes:
    checksum: int = google_crc32c.value(stored)
    return checksum.to_bytes(_CHECKSUM_NBYTES, "little")


def _is_all(pixels: Pixels, fill: Any) -> bool:
    """Whether every pixel equals the fill value bit by bit. So -0.0 and unusual NaNs are stored."""
    if pixels.itemsize > 8:  # noqa: PLR2004 # no integer is as wide as complex128
        return False
    bits = np.dtype(f"u{pixels.itemsize}")
    fill_bits = fill.reshape(1).view(bits)[0]
    return bool(pixels.flat[0].reshape(1).view(bits)[0] == fill_bits) and bool(
        (pixels.view(bits) == fill_bits).all()
    )


def assemble_shard(chunks: Sequence[Part | None], *, is_unique: bool = False) -> list[Part]:
    """Return the parts of an object: the chunks that are stored, and their index."""
    unique = [os.urandom(_UNIQUE_NBYTES)] if is_unique else []
    sizes = np.array([0 if chunk is None else len(chunk) for chunk in chunks], dtype=_INDEX_DTYPE)
    index = np.stack([np.cumsum(sizes) - sizes, sizes], axis=1)
    index[[chunk is None for chunk in chunks]] = EMPTY
    return [*(chunk for chunk in chunks if chunk is not None), *unique, index_bytes(index)]
