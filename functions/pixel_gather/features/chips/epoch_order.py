"""The order in which chips are read: shuffled, though shards are read one after the other. Pure."""

from typing import Any

import numpy as np
from msgspec import Struct

type Integers = np.ndarray[Any, np.dtype[np.int64]]


class EpochOrder(Struct, frozen=True, kw_only=True, eq=False):
    """The chips of one epoch, and which of them are read together."""

    chips: Integers
    """Numbers of the chips in the cube, in the order of the epoch."""

    starts: Integers
    """Where each window of shards begins in ``chips``; and its length at the end."""

    @property
    def n_windows(self) -> int:
        """Windows of shards."""
        return len(self.starts) - 1

    def window(self, number: int) -> Integers:
        """Return the chips of a window."""
        return self.chips[self.starts[number] : self.starts[number + 1]]

    def window_of(self, position: int) -> int:
        """Return the window that a position in the epoch lies in."""
        return int(np.searchsorted(self.starts, position, side="right")) - 1


def order_of_epoch(
    chips: Integers, *, shard_chips: int, window_shards: int, seed: int | None, epoch: int
) -> EpochOrder:
    """Return the order of an epoch.

    Shards are shuffled, some of them are read together, and their chips are shuffled. So an epoch reads whole
    shards, and neighbours, which share a shard, come apart. Without a seed, the chips keep their order.
    """
    shards, of_chip = np.unique(chips // shard_chips, return_inverse=True)
    rank = np.arange(len(shards))
    random = None if seed is None else np.random.default_rng((seed, epoch))
    if random is not None:
        rank = random.permutation(len(shards))
    else:  # in the order in which they come first
        first = np.full(len(shards), len(chips))
        np.minimum.at(first, of_chip, np.arange(len(chips)))
        rank[np.argsort(first)] = np.arange(len(shards))
    window = rank[of_chip] // window_shards
    order = np.argsort(window, kind="stable")
    if random is not None:
        order = order[np.lexsort((random.random(len(chips)), window[order]))]
    n_windows = -(-len(shards) // window_shards)
    return EpochOrder(
        chips=chips[order], starts=np.searchsorted(window[order], np.arange(n_windows + 1)).astype(np.int64)
    )
