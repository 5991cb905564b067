"""Work on rows that have been read, done while the next ones are read."""

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Coroutine, Sequence
from itertools import pairwise
from typing import Any, Self

from pixel_gather.core.model.outcome import Outcome

type Work = Callable[[int, Sequence[Sequence[Outcome]]], Coroutine[Any, Any, None]]
"""Takes the first row, and the outcomes of it and the next rows: one per slot."""


class RowWork:
    """Starts the work on a group of rows when the last source of the group has been read.

    Without it, the cores would wait for the network while a shard is read. Then the network would wait for
    the cores.
    """

    def __init__(self, *, n_slots: int, stops: Sequence[int], work: Work) -> None:
        """Start with no row read.

        Args:
            n_slots: Sources of each row.
            stops: Where each group of rows ends. The last one is the number of rows.
            work: Done once for each group.
        """
        self._starts = [0, *stops]
        self._outcomes: list[list[Outcome | None]] = [[None] * n_slots for _ in range(stops[-1])]
        self._missing = [(stop - start) * n_slots for start, stop in pairwise(self._starts)]
        """For each group, how many sources have not been read."""

        self._work = work
        self._started: list[asyncio.Task[None]] = []

    def note(self, row: int, slot: int, outcome: Outcome) -> None:
        """Note a source that was read, or failed."""
        self._outcomes[row][slot] = outcome
        group = bisect_right(self._starts, row) - 1
        self._missing[group] -= 1
        if not self._missing[group]:
            start, stop = self._starts[group : group + 2]
            rows = [[each for each in row if each] for row in self._outcomes[start:stop]]
            self._started.append(asyncio.ensure_future(self._work(start, rows)))

    async def __aenter__(self) -> Self:
        """Return itself."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Cancel what has not ended, and wait for it: its pixels' memory is used again."""
        for each in self._started:
            each.cancel()
        await asyncio.gather(*self._started, return_exceptions=True)

    async def ended(self) -> None:
        """Wait for the work on all rows.

        Raises:
            Exception: The first one that the work raised.
        """
        await asyncio.gather(*self._started)
