"""How many sources to read at one time from one back end. Pure: the clock is an argument.

The limit grows fast while latency stays flat. Then it grows in steps that are kept only if throughput rises.
Where sources queue, a step down is tried, and kept if throughput does not fall. So the limit settles at the
knee: above it more requests in flight only make longer queues.
"""

from typing import Final

from msgspec import Struct

_UP: Final = 1.25
_DOWN: Final = 0.8
_ON_THROTTLE: Final = 0.7

_PAYS: Final = 1.04
"""A step up is kept if throughput rises by this factor. Far below the knee it rises by `_UP`."""

_COSTS: Final = 0.98
"""A step down is kept if throughput stays above this factor. Far below the knee it falls to `_DOWN`."""

_UNQUEUED: Final = 1.5
_SLACK_S: Final = 0.02
"""A source has queued if it took longer than `_UNQUEUED` times the quickest, plus this."""

_FAR_S: Final = 0.005
"""A back end whose first byte takes this long is far: its limit grows before any source has finished."""

_MOST_BY_ANSWERS: Final = 64
"""Highest limit that first bytes alone lead to. On a slow line they arrive soon, but bodies take long."""

MOST_NEAR: Final = 128
_DISTANT_S: Final = 0.05
"""A back end is distant if its first byte takes at least this long. Only then may the limit exceed
`MOST_NEAR`. Near back ends gain nothing from more requests, and each new connection costs a handshake."""

_LEAST_SAMPLE: Final = 32
_ENOUGH_SAMPLE: Final = 128
_ENOUGH_S: Final = 1.0
_FIRST_PATIENCE: Final = 4
_LONGEST_PATIENCE: Final = 32
_BASE_SAMPLE: Final = 512
_MOST_KINDS: Final = 32
"""Sources are compared with those that need as many requests. Sources that need this many requests, or more,
are all compared with each other."""


class Bounds(Struct, frozen=True, kw_only=True):
    """The start of the limit, and its range. A range of one value makes the limit fixed."""

    start: int
    lowest: int
    highest: int
    climbs_at_once: bool = True
    """Whether the limit grows fast at first. Not needed where ``start`` is about right."""


class Climb:
    """The limit of one back end. It moves as sources finish.

    A sample has at least as many finished sources as are in flight, all begun since the limit last moved.
    A shorter sample would measure the previous limit.

    Only sources that were read count. A missing source is answered in half the time: beside it all others
    would seem to have queued. For the same reason sources are only compared with those of as many requests.
    A source needs one request less where its header is known or its tile is not stored.
    """

    def __init__(self, bounds: Bounds) -> None:
        self.limit = bounds.start
        self.moves = 0
        """How often the limit moved. The value at the start of a source is passed to `finished`."""

        self._bounds = bounds
        self._is_ramping = bounds.climbs_at_once and bounds.start < bounds.highest
        self._quickest: dict[int, _Quickest] = {}
        """By number of requests."""

        self._nearest_s = float("inf")
        self._n_finished = 0
        self._sample = _Sample()
        self._rest = _Rest()
        self._tried_from: int | None = None
        self._deaf_until_s = 0.0

    def record_answer(self, *, first_byte_s: float, is_wanted: bool) -> None:
        """Record an answer, which comes before its source is finished."""
        self._nearest_s = min(self._nearest_s, first_byte_s)
        is_far = self._nearest_s >= _FAR_S
        if self._is_ramping and is_wanted and is_far:
            self._ramp(_MOST_BY_ANSWERS)

    def record_throttle(self, now_s: float, *, round_trip_s: float, enough: float) -> None:
        """Back off, at most once per round trip.

        Args:
            now_s: The time.
            round_trip_s: Seconds during which answers to earlier requests still arrive.
            enough: Requests in flight that use up the rate that the back end grants. The limit stays at or
                above it.
        """
        if now_s < self._deaf_until_s:
            return
        self._deaf_until_s = now_s + round_trip_s
        self._is_ramping = False
        self._rest = _Rest()
        self._tried_from = None
        self._move(min(max(self.limit * _ON_THROTTLE, enough), self.limit))

    def record_rest(self) -> None:
        """Record that nothing was in flight: such time is not part of a sample."""
        self._sample = _Sample()

    def record_failure(self, *, is_wanted: bool) -> None:
        """Record a source that was not read. Its time does not count."""
        if not is_wanted:
            self.record_rest()

    def record_source(
        self, now_s: float, *, took_s: float, n_requests: int, weight: int, moves: int, is_wanted: bool
    ) -> None:
        """Record a source that was read.

        Args:
            now_s: The time.
            took_s: Seconds since its start.
            n_requests: Requests that it needed, without retries and hedges.
            weight: How much of the limit it held.
            moves: The value of `moves` at its start.
            is_wanted: Whether another source waits for a permit. If none waits, throughput is not measured.
        """
        has_queued = self._record_queueing(took_s, n_requests)
        self._n_finished += 1
        most = max(_MOST_BY_ANSWERS, self._n_finished)  # so a store that throttles refuses fewer requests
        if self._is_ramping and is_wanted and not has_queued:
            self._ramp(most)
        if not is_wanted:
            self._sample = _Sample()
            return
        is_current = self._is_ramping or moves == self.moves
        self._sample.add(now_s, weight, has_queued=has_queued, is_current=is_current)
        if self._sample.tells(self.limit):
            sample, self._sample = self._sample, _Sample(began_s=now_s)
            self._judge(sample)

    def _record_queueing(self, took_s: float, n_requests: int) -> bool:
        """Record a source's time. Tell whether it took longer than the quickest with as many requests."""
        quickest = self._quickest.setdefault(min(n_requests, _MOST_KINDS), _Quickest())
        quickest.add(took_s)
        return took_s > _UNQUEUED * quickest.value + _SLACK_S

    @property
    def _highest(self) -> int:
        """Highest limit at this distance."""
        lowest, highest = self._bounds.lowest, self._bounds.highest
        return max(min(highest, MOST_NEAR), lowest) if self._nearest_s < _DISTANT_S else highest

    def _ramp(self, most: int) -> None:
        if self.limit < min(most, self._highest):
            self.limit += 1

    def _judge(self, sample: "_Sample") -> None:
        if self._is_ramping:
            self._is_ramping = self.limit < self._highest and not sample.has_queued
            if not self._is_ramping:
                self._move(self.limit)
        elif self._tried_from is None:
            self._rest.add(sample.throughput)
            self._try_another(sample)
        else:
            self._keep_or_return(sample, self._tried_from)

    def _try_another(self, sample: "_Sample") -> None:
        """Try one step up or down for one sample, when it is due."""
        rest, here = self._rest, self.limit
        if here > self._bounds.lowest and rest.is_due(down=True, sooner=sample.has_queued):
            self._move(min(here * _DOWN, here - 1))
        elif not sample.has_queued and here < self._highest and rest.is_due(down=False):
            self._move(max(here * _UP, here + 1))
        else:
            return
        self._tried_from = here

    def _keep_or_return(self, sample: "_Sample", before: int) -> None:
        is_down = self.limit < before
        self._tried_from = None
        if sample.throughput >= self._rest.throughput * (_COSTS if is_down else _PAYS):
            self._rest.keep(sample.throughput, down=is_down)
        else:
            self._rest.step_back(down=is_down)
            self._move(before)

    def _move(self, limit: float) -> None:
        self.limit = min(max(round(limit), self._bounds.lowest), self._highest)
        self.moves += 1
        self._sample = _Sample()


class _Sample:
    """The sources that finished within some time."""

    def __init__(self, *, began_s: float | None = None) -> None:
        self._began_s = began_s
        self._ended_s = 0.0
        self._done = 0
        self._n_current = self._n_queued = 0
        self.weight = 0

    def add(self, now_s: float, weight: int, *, has_queued: bool, is_current: bool) -> None:
        """Add a source. The clock starts at the first source that began after the last move."""
        if self._began_s is None:
            self._began_s = now_s if is_current else None
            return
        self._ended_s = now_s
        self._done += weight
        if is_current:
            self._n_current += 1
            self._n_queued += has_queued
            self.weight += weight

    def tells(self, limit: int) -> bool:
        """Whether it is long enough: twice the limit, and enough sources or seconds to outweigh noise."""
        is_enough = self.weight >= _ENOUGH_SAMPLE or self.span_s >= _ENOUGH_S
        return is_enough and self.weight >= max(2 * limit, _LEAST_SAMPLE) and self.span_s > 0

    @property
    def span_s(self) -> float:
        return 0.0 if self._began_s is None else self._ended_s - self._began_s

    @property
    def throughput(self) -> float:
        return self._done / self.span_s

    @property
    def has_queued(self) -> bool:
        """Whether more than half of its sources queued."""
        return 2 * self._n_queued > self._n_current


class _Rest:
    """The throughput at the current limit, and when the next step up or down is due."""

    def __init__(self) -> None:
        self.throughput = 0.0
        self._n_samples = 0
        self._patience = {True: _FIRST_PATIENCE, False: 1}
        self._waited = {True: 0, False: 0}

    def add(self, throughput: float) -> None:
        self._n_samples += 1
        self.throughput += (throughput - self.throughput) / min(self._n_samples, 4)
        for direction in self._waited:
            self._waited[direction] += 1

    def is_due(self, *, down: bool, sooner: bool = False) -> bool:
        return self._waited[down] >= (
            self._patience[down] // _FIRST_PATIENCE if sooner else self._patience[down]
        )

    def keep(self, throughput: float, *, down: bool) -> None:
        """Keep the limit that was tried. The same direction may be tried again at once."""
        if not down:
            self.throughput = throughput
        self._patience = {down: 1, not down: max(self._patience[not down], _FIRST_PATIENCE)}
        self._waited = {True: 0, False: 0}

    def step_back(self, *, down: bool) -> None:
        """Return to the limit before. That direction is tried again after twice as many samples."""
        self._patience[down] = min(2 * self._patience[down], _LONGEST_PATIENCE)
        self._waited[down] = 0


class _Quickest:
    """The shortest recent time of a source with some number of requests: its time without a queue."""

    def __init__(self) -> None:
        self._now, self._before, self._n = float("inf"), float("inf"), 0

    def add(self, took_s: float) -> None:
        self._now = min(self._now, took_s)
        self._n += 1
        if self._n >= _BASE_SAMPLE:
            self._now, self._before, self._n = float("inf"), self._now, 0

    @property
    def value(self) -> float:
        return min(self._now, self._before)
