"""Batches of chips: fetched and decoded ahead by threads, in an order that can be resumed."""

from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Final

import numpy as np
import xxhash

from pixel_gather.core.errors import RequestError
from pixel_gather.features.chips.epoch_order import EpochOrder, order_of_epoch
from pixel_gather.features.chips.opened_chips import ChipCube, OpenedChips, Room

type Values = np.ndarray[Any, np.dtype[Any]]
type Batch = dict[str, Values]
type _Part = Future[dict[int, memoryview]]
type _Shards = dict[tuple[int, str, int], Future[dict[int, _Part]]]
"""For each cube, measurement and shard, the part that each chip is in."""

_BATCHES_AHEAD: Final = 2
_WINDOWS_AHEAD: Final = 1
_STATE: Final = ("epoch", "position", "seed", "window_shards", "chips")


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
    room: Room = np.empty
    """Of the pixels of each batch."""

    epoch: int = 0
    """Number of the epoch that the next loop begins or goes on with."""

    position: int = 0
    """Chips of this epoch that were given."""

    @cached_property
    def _digest(self) -> str:
        """Tells these chips, and the shards that they are read from, from others."""
        ids = self.opened.columns["chip"].tolist()
        found = xxhash.xxh3_64(repr((self.opened.shard_chips, len(self.numbers), ids)).encode())
        found.update(self.numbers.tobytes())
        return found.hexdigest()

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
            "window_shards": self.window_shards,
            "chips": self._digest,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where `state_dict` was taken.

        Raises:
            RequestError: The state has other fields, or is of another order or of other chips.
        """
        if set(state) != set(_STATE):
            raise RequestError(f"it has {', '.join(map(str, state))}, not {', '.join(_STATE)}", field="state")
        for name in ("seed", "window_shards"):
            if state[name] != (ours := self.state_dict()[name]):
                raise RequestError(f"its {name} is {state[name]}, not {ours}", field="state")
        if state["chips"] != self._digest:
            raise RequestError("it is of other chips", field="state")
        self.epoch, self.position = int(state["epoch"]), int(state["position"])

    def __iter__(self) -> Iterator[Batch]:
        """Yield the batches of an epoch, or those that are left of it."""
        order = order_of_epoch(
            self.numbers,
            shard_chips=self.opened.shard_chips,
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
            for each in self._start_batches(order, work, fetching):
                ahead.append(each)
                if len(ahead) > _BATCHES_AHEAD:
                    yield self._await_batch(*ahead.popleft())
            while ahead:
                yield self._await_batch(*ahead.popleft())
        self.epoch, self.position = self.epoch + 1, 0

    def _await_batch(self, stop: int, batch: Batch, decoding: list[Future[None]]) -> Batch:
        for each in decoding:
            each.result()
        self.position = stop
        return batch

    def _start_batches(
        self, order: EpochOrder, work: ThreadPoolExecutor, fetching: ThreadPoolExecutor
    ) -> Iterator[tuple[int, Batch, list[Future[None]]]]:
        """Yield batches whose chips are being decoded, with the position after each."""
        windows: dict[int, _Shards] = {}

        def shards_of(window: int) -> _Shards:
            for number in range(window, min(window + _WINDOWS_AHEAD + 1, order.n_windows)):
                if number not in windows:
                    windows[number] = self._fetch_window(order.window(number), fetching)
            for old in [number for number in windows if number < window]:
                del windows[old]
            return windows[window]

        n, start = len(order.chips), self.position
        while start < n:
            stop = min(start + self.batch, n)
            if stop - start < self.batch and self.drop_last:
                return
            batch = self.opened.empty(order.chips[start:stop], self.measurements, self.room)
            decoding: list[Future[None]] = []
            at = start
            while at < stop:  # a batch may end in the next window
                window = order.window_of(at)
                end, shards = min(stop, int(order.starts[window + 1])), shards_of(window)
                numbers, pixels = order.chips[at:end], batch["pixels"][at - start : end - start]
                n_jobs = min(self.workers, end - at)
                for job in range(n_jobs):
                    decode = partial(self._decode, numbers[job::n_jobs], pixels[job::n_jobs], shards)
                    decoding.append(work.submit(decode))
                at = end
            yield stop, batch, decoding
            start = stop

    def _fetch_window(self, chips: Values, fetching: ThreadPoolExecutor) -> _Shards:
        """Begin to fetch a window: the index of each shard, and then its parts."""

        def parts(cube: ChipCube, name: str, shard: int, within: Values) -> dict[int, _Part]:
            found: dict[int, _Part] = {}
            for part in cube.pixels.parts(name, shard, within.tolist()):
                found |= dict.fromkeys(part.spans, fetching.submit(cube.pixels.fetch, part))
            return found

        begun: _Shards = {}
        for number, cube in enumerate(self.opened.cubes):
            of_chips, places = cube.at(chips)
            for shard in np.unique(of_chips).tolist():
                within = np.sort(places[of_chips == shard])
                for name in self.measurements:
                    begun[number, name, shard] = fetching.submit(parts, cube, name, shard, within)
        return begun

    def _decode(self, numbers: Values, out: Values, shards: _Shards) -> None:
        for number, cube in enumerate(self.opened.cubes):
            of_chips, places = cube.at(numbers)
            for shard, within, chip in zip(of_chips.tolist(), places.tolist(), out, strict=True):
                for name, band in zip(self.measurements, chip, strict=True):
                    part = shards[number, name, shard].result().get(within)
                    content = None if part is None else part.result()[within]
                    cube.pixels.decode(name, content, band[cube.images])
