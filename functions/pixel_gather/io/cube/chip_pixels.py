"""Reads the pixels of chips: neighbours of one shard together, in requests of some MiB."""

from collections.abc import Callable, Mapping, Sequence
from copy import replace
from functools import cached_property, lru_cache
from typing import Any, Final

import numpy as np
import obstore
from msgspec import Struct

from pixel_gather.core.errors import StoreError
from pixel_gather.core.results.receipt import Receipt
from pixel_gather.io.cube.shard_codec import EMPTY, decode_chunk, index_nbytes, places_of
from pixel_gather.io.store.object_store import Store
from pixel_gather.io.store.store_error_status import errors_of_store

type Pixels = np.ndarray[Any, np.dtype[Any]]
type Content = memoryview | None
"""A compressed chip. None if it is all fill."""

_MOST_INDEXES: Final = 4096
"""Indexes of shards that are kept: 16 bytes for each chip."""

_PART_NBYTES: Final = 8 * 2**20
"""Chips of up to so many bytes come in one request. Memory of this size is used again; fresh memory for whole
shards doubles the CPU time of fetching."""

_MOST_GAP_NBYTES: Final = 2**18
"""Bytes between two chips that are fetched with them rather than left out by another request."""


class ChipPart(Struct, frozen=True, kw_only=True):
    """A range of a shard, and the chips in it."""

    key: str
    start: int
    stop: int
    spans: dict[int, tuple[int, int]]
    """For each chip, by its place in the shard: its offset and its length."""


class ChipPixels(Struct, frozen=True, kw_only=True, eq=False, dict=True):
    """Fetches and decodes chips of one cube. Threads may share it."""

    store: Store
    place: str
    """The cube as users write it, for messages."""

    receipt: Receipt
    fill_values: Mapping[str, float | int]

    @cached_property
    def _index(self) -> Callable[[str], Pixels]:
        """Reads the index of a shard, and keeps some."""
        return lru_cache(_MOST_INDEXES)(self._read_index)

    @property
    def shard_chips(self) -> int:
        """Chips in one shard."""
        assert self.receipt.images_per_chip is not None  # noqa: S101 # it is a cube of chips
        return self.receipt.shard[0] // self.receipt.images_per_chip

    def parts(self, name: str, shard: int, within: Sequence[int]) -> list[ChipPart]:
        """Return what is to be fetched for chips of one shard. Chips that are all fill are in no part.

        Raises:
            StoreError: The shard's index cannot be read, or is damaged.
        """
        key = f"{name}/c/{shard}/0/0/0"
        if self.receipt.shards.get(key) is None:  # a worker was lost, and with it the shard
            return []
        index = self._index(key)
        spans = sorted((int(index[at, 0]), int(index[at, 1]), at) for at in within if index[at, 0] != EMPTY)
        parts: list[ChipPart] = []
        for offset, nbytes, at in spans:
            last, stop = parts[-1] if parts else None, offset + nbytes
            if last and offset - last.stop <= _MOST_GAP_NBYTES and stop - last.start <= _PART_NBYTES:
                parts[-1] = replace(last, stop=stop, spans=last.spans | {at: (offset, nbytes)})
            else:
                parts.append(ChipPart(key=key, start=offset, stop=stop, spans={at: (offset, nbytes)}))
        return parts

    def fetch(self, part: ChipPart) -> dict[int, memoryview]:
        """Return the compressed chips of a part, by their places in the shard.

        Raises:
            StoreError: They cannot be read.
        """
        with errors_of_store(f"{self.place}: the cube cannot be read"):
            content = memoryview(obstore.get_range(self.store, part.key, start=part.start, end=part.stop))
        return {
            at: content[offset - part.start : offset - part.start + nbytes]
            for at, (offset, nbytes) in part.spans.items()
        }

    def decode(self, name: str, content: Content, out: Pixels) -> None:
        """Decode one chip.

        ``out`` is (image, y, x), in C order and little-endian.

        Raises:
            StoreError: It is damaged.
        """
        if content is None:
            out[...] = self.fill_values[name]
            return
        try:
            decode_chunk(content, self.receipt.codec, out)
        except (ValueError, RuntimeError) as error:
            raise StoreError(f"{self.place}: {name} is damaged; pixel-gather verify says where") from error

    def _read_index(self, key: str) -> Pixels:
        n = self.shard_chips
        with errors_of_store(f"{self.place}: the cube cannot be read"):
            options: obstore.GetOptions = {"range": {"suffix": index_nbytes(n)}}
            tail = obstore.get(self.store, key, options=options).bytes()
        try:
            return places_of(memoryview(tail), n=n)
        except ValueError as error:
            raise StoreError(f"{self.place}: {key} is damaged; pixel-gather verify says where") from error
