"""How many sources to read at one time from one back end. Pure: the clock is an argument.

It climbs fast at first, while sources take hardly longer for it, then in single steps, each of which has to
pay in throughput. A step down is tried wherever sources wait in a queue, and kept where throughput does not
fall. So it rests at the knee, from where more in flight means only longer queues.
"""

from dataclasses import dataclass
from typing import Final

_UP: Final = 1.25
_DOWN: Final = 0.8
_ON_THROTTLE: Final = 0.7

_PAYS: Final = 1.04
"""A step up is kept where throughput rises by this; elsewhere it would rise by all of `_UP`."""

_COSTS: Final = 0.98
"""A step down is kept where throughput does not fall below this; elsewhere it would fall to `_DOWN`."""

_UNQUEUED: Final = 1.5
_SLACK_S: Final = 0.02
"""A source that takes longer than `_UNQUEUED` times the quickest and this has queued."""

_FAR_S: Final = 0.005
"""From such a time to the first byte on, waiting is worth hiding before any source has finished."""

_MOST_BY_ANSWERS: Final = 64
"""Further only sources that finish lead: on a slow line answers begin soon, however long they last."""

_LEAST_SAMPLE: Final = 32
_ENOUGH_SAMPLE: Final = 128
_ENOUGH_S: Final = 1.0
_FIRST_PATIENCE: Final = 4
_LONGEST_PATIENCE: Final = 32
_BASE_SAMPLE: Final = 512
_MOST_KINDS: Final = 32
"""Sources of more requests than this are compared with each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Between what the number may move. Equal ones make it a fixed number."""

    start: int
    lowest: int
    highest: int
    climbs_at_once: bool = True
    """Whether to climb fast at first; not where ``start`` is known to be about right."""


class Climb:
    """The number for one back end, which moves as sources finish.

    A sample is a spell of as many finished sources as are in flight, all begun since the number last
    moved: shorter ones would tell of the number before.

    Only sources that were read lead. A missing one is answered in half the time, and would make all others
    look as if they had queued. For the same reason like is compared with like: a source of one request,
    whose header is known or whose tile is not stored, is not the measure of one of two.
    """

    def __init__(self, bounds: Bounds) -> None:
        self.limit = bounds.start
        self.moves = 0
        """How often the number moved; whoever starts a source remembers it for `finished`."""

        self._bounds = bounds
        self._is_ramping = bounds.climbs_at_once and bounds.start < bounds.highest
        self._quickest: dict[int, _Quickest] = {}
        """By the number of requests."""

        self._nearest_s = float("inf")
        self._n_finished = 0
        self._sample = _Sample()
        self._rest = _Rest()
        self._tried_from: int | None = None
        self._deaf_until_s = 0.0

    def answered(self, *, first_byte_s: float, is_wanted: bool) -> None:
        """Take note of a request's answer, which comes earlier than the end of its source.

        Args:
            first_byte_s: How long after the request it began.
            is_wanted: Whether a source waits for its turn.
        """
        self._nearest_s = min(self._nearest_s, first_byte_s)
        is_far = self._nearest_s >= _FAR_S
        if self._is_ramping and is_wanted and is_far and self.limit < _MOST_BY_ANSWERS:
            self._ramp()

    def throttled(self, now_s: float, *, round_trip_s: float, enough: float) -> None:
        """Back off, at most once per round trip.

        Args:
            now_s: The time.
            round_trip_s: How long what was sent before still comes back.
            enough: So many keep up the rate that the back end grants; it is not left for less.
        """
        if now_s < self._deaf_until_s:
            return
        self._deaf_until_s = now_s + round_trip_s
        self._is_ramping = False
        self._rest = _Rest()
        self._tried_from = None
        self._move(min(max(self.limit * _ON_THROTTLE, enough), self.limit))

    def rested(self) -> None:
        """Take note that nothing was in flight: such time is no part of a sample."""
        self._sample = _Sample()

    def failed(self, *, is_wanted: bool) -> None:
        """Take note of a source that was not read: its time tells nothing.

        Args:
            is_wanted: Whether another source waits for its turn.
        """
        if not is_wanted:
            self.rested()

    def finished(
        self, now_s: float, *, took_s: float, n_requests: int, weight: int, moves: int, is_wanted: bool
    ) -> None:
        """Take note of a source that was read.

        Args:
            now_s: The time.
            took_s: Time since it was begun.
            n_requests: How many it needed, without retries and hedges.
            weight: How much of the number it held.
            moves: What `moves` was when it was begun.
            is_wanted: Whether another source waits for its turn: otherwise throughput says nothing.
        """
        if self._bounds.lowest == self._bounds.highest:
            return
        has_queued = self._has_queued(took_s, n_requests)
        self._n_finished += 1
        most = max(_MOST_BY_ANSWERS, self._n_finished)  # a store that throttles then has less to refuse
        if self._is_ramping and is_wanted and not has_queued and self.limit < most:
            self._ramp()
        if not is_wanted:
            self._sample = _Sample()
            return
        is_current = self._is_ramping or moves == self.moves
        self._sample.add(now_s, weight, has_queued=has_queued, is_current=is_current)
        if self._sample.tells(self.limit):
            sample, self._sample = self._sample, _Sample(began_s=now_s)
            self._judge(sample)

    def _has_queued(self, took_s: float, n_requests: int) -> bool:
        """Tell whether a source took longer than the quickest of its kind, and take note of it."""
        quickest = self._quickest.setdefault(min(n_requests, _MOST_KINDS), _Quickest())
        quickest.add(took_s)
        return took_s > _UNQUEUED * quickest.value + _SLACK_S

    def _ramp(self) -> None:
        self.limit = min(self.limit + 1, self._bounds.highest)

    def _judge(self, sample: "_Sample") -> None:
        if self._is_ramping:
            self._is_ramping = self.limit < self._bounds.highest and not sample.has_queued
            if not self._is_ramping:
                self._move(self.limit)
        elif self._tried_from is None:
            self._rest.add(sample.throughput)
            self._try_another(sample)
        else:
            self._keep_or_return(sample, self._tried_from)

    def _try_another(self, sample: "_Sample") -> None:
        """Go one step up or down for one sample, when it is time to."""
        rest, bounds, here = self._rest, self._bounds, self.limit
        if here > bounds.lowest and rest.is_due(down=True, sooner=sample.has_queued):
            self._move(min(here * _DOWN, here - 1))
        elif not sample.has_queued and here < bounds.highest and rest.is_due(down=False):
            self._move(max(here * _UP, here + 1))
        else:
            return
        self._tried_from = here

    def _keep_or_return(self, sample: "_Sample", before: int) -> None:
        is_down = self.limit < before
        self._tried_from = None
        if sample.throughput >= self._rest.throughput * (_COSTS if is_down else _PAYS):
            self._rest.moved(sample.throughput, down=is_down)
        else:
            self._rest.stayed(down=is_down)
            self._move(before)

    def _move(self, limit: float) -> None:
        self.limit = min(max(round(limit), self._bounds.lowest), self._bounds.highest)
        self.moves += 1
        self._sample = _Sample()


class _Sample:
    """What finished within one spell."""

    def __init__(self, *, began_s: float | None = None) -> None:
        self._began_s = began_s
        self._ended_s = 0.0
        self._done = 0
        self._n_current = self._n_queued = 0
        self.weight = 0

    def add(self, now_s: float, weight: int, *, has_queued: bool, is_current: bool) -> None:
        """Add a source; the first one that is current starts the clock."""
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
        """Whether it is long enough: two rounds of what is in flight, and not mere noise."""
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
        """Whether more than half of its sources have."""
        return 2 * self._n_queued > self._n_current


class _Rest:
    """What is known of the number that is neither up nor down for a try, and when the next try is due."""

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

    def moved(self, throughput: float, *, down: bool) -> None:
        """Rest at the number that was tried; the same direction may pay again at once."""
        if not down:
            self.throughput = throughput
        self._patience = {down: 1, not down: max(self._patience[not down], _FIRST_PATIENCE)}
        self._waited = {True: 0, False: 0}

    def stayed(self, *, down: bool) -> None:
        """Rest where it was; try that direction again only after twice as long."""
        self._patience[down] = min(2 * self._patience[down], _LONGEST_PATIENCE)
        self._waited[down] = 0


class _Quickest:
    """The least seconds that a source of one kind took lately: its time where it need not queue."""

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
