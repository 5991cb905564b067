"""Batches of chips: fetched and decoded ahead by threads, in an order that can be resumed."""

from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from pixel_gather.core.errors import RequestError
from pixel_gather.features.chips.epoch_order import EpochOrder, order_of_epoch
from pixel_gather.features.chips.opened_chips import OpenedChips
from pixel_gather.io.cube.chip_pixels import Content

type Values = np.ndarray[Any, np.dtype[Any]]
type Batch = dict[str, Values]
type _Fetched = dict[tuple[str, int], Content]

_BATCHES_AHEAD: Final = 2
_WINDOWS_AHEAD: Final = 1
_STATE: Final = ("epoch", "position", "seed", "n_chips")


@dataclass(kw_only=True, eq=False)
class ChipBatches:
    """Batches of NumPy arrays; made by `ChipDataset.batches`. A loop over it is an epoch, or the rest of one.

    A batch has ``pixels`` of shape (chip, band, time, y, x) and ``status`` of shape (chip, band, time), or
    (chip, time) of a cube with one measurement. It has ``chip`` (the ids), ``lon``, ``lat``, and each column
    of the table.
    """

    opened: OpenedChips
    numbers: Values
    measurements: tuple[str, ...]
    batch: int
    seed: int | None
    workers: int
    window_shards: int
    drop_last: bool
    epoch: int = 0
    """Number of the epoch that the next loop begins or goes on with."""

    position: int = 0
    """Chips of this epoch that were given."""

    def __len__(self) -> int:
        """Return the number of batches of a whole epoch."""
        n = len(self.numbers)
        return n // self.batch if self.drop_last else -(-n // self.batch)

    def state_dict(self) -> dict[str, Any]:
        """Return where the loop is. Loaded into equal batches, the next one goes on behind it."""
        return {
            "epoch": self.epoch,
            "position": self.position,
            "seed": self.seed,
            "n_chips": len(self.numbers),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where `state_dict` was taken.

        Raises:
            RequestError: The state has other fields, another seed, or another number of chips.
        """
        if set(state) != set(_STATE):
            raise RequestError(f"it has {', '.join(map(str, state))}, not {', '.join(_STATE)}", field="state")
        for name in ("seed", "n_chips"):
            if state[name] != (ours := self.state_dict()[name]):
                raise RequestError(f"its {name} is {state[name]}, not {ours}", field="state")
        self.epoch, self.position = int(state["epoch"]), int(state["position"])

    def __iter__(self) -> Iterator[Batch]:
        """Yield the batches of an epoch, or those that are left of it."""
        order = order_of_epoch(
            self.numbers,
            shard_chips=self.opened.pixels.shard_chips,
            window_shards=self.window_shards,
            seed=self.seed,
            epoch=self.epoch,
        )
        with ExitStack() as stack:
            work = stack.enter_context(ThreadPoolExecutor(self.workers))
            fetching = stack.enter_context(ThreadPoolExecutor(self.workers))
            for pool in (work, fetching):  # a loop that is left early waits for nothing that has not begun
                stack.callback(pool.shutdown, wait=False, cancel_futures=True)
            ahead: deque[tuple[int, Batch, list[Future[None]]]] = deque()
            for each in self._started(order, work, fetching):
                ahead.append(each)
                if len(ahead) > _BATCHES_AHEAD:
                    yield self._ended(*ahead.popleft())
            while ahead:
                yield self._ended(*ahead.popleft())
        self.epoch, self.position = self.epoch + 1, 0

    def _ended(self, stop: int, batch: Batch, decoding: list[Future[None]]) -> Batch:
        for each in decoding:
            each.result()
        self.position = stop
        return batch

    def _started(
        self, order: EpochOrder, work: ThreadPoolExecutor, fetching: ThreadPoolExecutor
    ) -> Iterator[tuple[int, Batch, list[Future[None]]]]:
        """Yield batches whose chips are being decoded, with the position after each."""
        windows: dict[int, list[Future[_Fetched]]] = {}

        def contents_of(position: int) -> tuple[int, list[Future[_Fetched]]]:
            window = order.window_of(position)
            for number in range(window, min(window + _WINDOWS_AHEAD + 1, order.n_windows)):
                if number not in windows:
                    windows[number] = self._fetched(order.window(number), fetching)
            for old in [number for number in windows if number < window]:
                del windows[old]
            return window, windows[window]

        n, start = len(order.chips), self.position
        while start < n:
            stop = min(start + self.batch, n)
            if stop - start < self.batch and self.drop_last:
                return
            numbers = order.chips[start:stop]
            batch = self.opened.empty(numbers, self.measurements)
            decoding: list[Future[None]] = []
            at = start
            while at < stop:  # a batch may end in the next window
                window, fetched = contents_of(at)
                end = min(stop, int(order.starts[window + 1]))
                contents = {key: each for some in fetched for key, each in some.result().items()}
                n_jobs = min(self.workers, end - at)
                decoding += [
                    work.submit(
                        self._decode, order, batch["pixels"], contents, start, range(at + job, end, n_jobs)
                    )
                    for job in range(n_jobs)
                ]
                at = end
            yield stop, batch, decoding
            start = stop

    def _fetched(self, chips: Values, fetching: ThreadPoolExecutor) -> list[Future[_Fetched]]:
        """Begin to fetch a window: each measurement of each shard by itself."""
        shards = chips // self.opened.pixels.shard_chips
        return [
            fetching.submit(self.opened.fetch, chips[shards == shard], (name,))
            for shard in np.unique(shards)
            for name in self.measurements
        ]

    def _decode(
        self, order: EpochOrder, pixels: Values, contents: _Fetched, start: int, positions: range
    ) -> None:
        for position in positions:
            number = int(order.chips[position])
            for band, name in enumerate(self.measurements):
                self.opened.pixels.decode(name, contents[name, number], pixels[position - start, band])
