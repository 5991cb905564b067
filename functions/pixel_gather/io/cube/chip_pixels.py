"""Reads the pixels of chips: those of one shard together, in one request or a few."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import imagecodecs
import numpy as np
import obstore
from obstore.exceptions import BaseError

from pixel_gather.core.errors import StoreError
from pixel_gather.core.results.receipt import Receipt
from pixel_gather.io.cube.grown_shard import index_nbytes
from pixel_gather.io.cube.shard_codec import EMPTY, as_it_is, places_of, split_chunks
from pixel_gather.io.store.object_store import Store
from pixel_gather.io.store.store_error_status import said_of_place

type Pixels = np.ndarray[Any, np.dtype[Any]]
type Content = memoryview | None
"""A compressed chip. None if it is all fill."""

_MOST_INDEXES: Final = 4096
"""Indexes of shards that are kept: 16 bytes for each chip."""

_WHOLE: Final = 0.5
"""Share of a shard's chips from which on the whole shard is fetched."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ChipPixels:
    """Fetches and decodes chips of one cube. Threads may share it."""

    store: Store
    place: str
    """The cube as users write it, for messages."""

    receipt: Receipt
    fill_values: Mapping[str, float | int]

    def __post_init__(self) -> None:
        """Keep some indexes."""
        object.__setattr__(self, "_index", lru_cache(_MOST_INDEXES)(self._read_index))

    @property
    def shard_chips(self) -> int:
        """Chips in one shard."""
        assert self.receipt.images_per_chip is not None  # noqa: S101 # it is a cube of chips
        return self.receipt.shard[0] // self.receipt.images_per_chip

    def fetch(self, name: str, shard: int, within: Sequence[int]) -> list[Content]:
        """Return compressed chips of one shard.

        Args:
            name: The measurement.
            shard: Number of the shard.
            within: Places of the chips in it.

        Raises:
            StoreError: They cannot be read, or are damaged.
        """
        key, n = f"{name}/c/{shard}/0/0/0", self.shard_chips
        if self.receipt.shards.get(key) is None:  # a worker was lost, and with it the shard
            return [None] * len(within)
        try:
            if len(within) >= _WHOLE * n:
                chunks = split_chunks(memoryview(obstore.get(self.store, key).bytes()), n=n)
                return [chunks[each] for each in within]
            index = self._index(key)  # type: ignore[attr-defined] # see `__post_init__`
            there = [each for each in within if int(index[each, 0]) != EMPTY]
            starts = [int(index[each, 0]) for each in there]
            lengths = [int(index[each, 1]) for each in there]
            parts = obstore.get_ranges(self.store, key, starts=starts, lengths=lengths) if there else []
        except (BaseError, OSError) as error:
            raise StoreError(f"{self.place}: the cube cannot be read: {said_of_place(error)}") from error
        except ValueError as error:
            raise StoreError(f"{self.place}: {key} is damaged; pixel-gather verify says where") from error
        found: dict[int, Content] = {each: memoryview(part) for each, part in zip(there, parts, strict=True)}
        return [found.get(each) for each in within]

    def decode(self, name: str, content: Content, out: Pixels) -> None:
        """Decode one chip.

        Args:
            name: The measurement.
            content: The compressed chip.
            out: Shape (image, y, x), C order.

        Raises:
            StoreError: It is damaged.
        """
        if content is None:
            out[...] = self.fill_values[name]
            return
        codec = self.receipt.codec
        try:
            if codec.startswith("blosc"):
                imagecodecs.blosc_decode(content, numthreads=1, out=as_it_is(out))
            elif codec == "zstd":
                imagecodecs.zstd_decode(content, out=as_it_is(out))
            elif codec == "zfp":
                out[...] = imagecodecs.zfp_decode(content)
            else:
                out[...] = np.frombuffer(content, out.dtype.newbyteorder("<")).reshape(out.shape)
        except (ValueError, RuntimeError) as error:
            raise StoreError(f"{self.place}: {name} is damaged; pixel-gather verify says where") from error

    def _read_index(self, key: str) -> Pixels:
        n = self.shard_chips
        tail = obstore.get(self.store, key, options={"range": {"suffix": index_nbytes(n)}}).bytes()
        return places_of(memoryview(tail), n=n)
