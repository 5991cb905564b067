"""The limit stays within its bounds and moves only for good reasons."""

from collections.abc import Sequence
from copy import replace
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixel_gather.io.store.limiter.adapt_concurrency import Bounds, Climb, _Quickest, _Rest, _Sample

REMOTE = Bounds(start=32, lowest=4, highest=128)


def read_one(
    climb: Climb, now_s: float, *, took_s: float = 0.1, n_requests: int = 2, is_wanted: bool = True
) -> None:
    """Let a source finish that began after the last move."""
    climb.record_source(
        now_s, took_s=took_s, n_requests=n_requests, weight=1, moves=climb.moves, is_wanted=is_wanted
    )


def finish(
    climb: Climb, n: int, *, from_s: float = 0.0, took_s: float = 0.1, is_wanted: bool = True
) -> list[int]:
    """Let ``n`` sources finish, each after ``took_s``, as many at one time as the limit allows.

    Returns:
        The limit after each.
    """
    now_s, limits = from_s, []
    for _ in range(n):
        now_s += took_s / climb.limit
        read_one(climb, now_s, took_s=took_s, is_wanted=is_wanted)
        limits.append(climb.limit)
    return limits


@given(
    lowest=st.integers(1, 8),
    more=st.tuples(st.integers(0, 40), st.integers(0, 200)),
    events=st.lists(
        st.tuples(
            st.sampled_from(["finished", "failed", "answered", "throttled"]), st.floats(0, 10), st.booleans()
        ),
        max_size=300,
    ),
)
def test_climb_stays_within_its_bounds(
    lowest: int, more: tuple[int, int], events: Sequence[tuple[str, float, bool]]
) -> None:
    """This holds for any events in any order, even if the clock stands still."""
    bounds = Bounds(lowest=lowest, start=lowest + more[0], highest=lowest + sum(more))
    climb, now_s = Climb(bounds), 0.0
    for what, seconds, is_wanted in events:
        now_s += seconds
        if what == "finished":
            read_one(climb, now_s, took_s=seconds, is_wanted=is_wanted)
        elif what == "failed":
            climb.record_failure(is_wanted=is_wanted)
        elif what == "answered":
            climb.record_answer(first_byte_s=0.015, is_wanted=is_wanted)
        else:
            climb.record_throttle(now_s, round_trip_s=0.1, enough=10)

        assert bounds.lowest <= climb.limit <= bounds.highest


def test_climb_doubles_with_the_first_answers() -> None:
    """The limit doubles before any source is finished. It grows further only if sources take no longer."""
    climb = Climb(REMOTE)

    for _ in range(1000):
        climb.record_answer(first_byte_s=0.015, is_wanted=True)
    assert climb.limit == 64

    finish(climb, 64)
    assert climb.limit == 64
    finish(climb, 64)
    assert climb.limit == 128


def test_climb_goes_beyond_128_only_for_distant_stores() -> None:
    """The first answer includes a handshake. A later one may show that the store is near."""
    climb = Climb(replace(REMOTE, highest=256))

    climb.record_answer(first_byte_s=0.06, is_wanted=True)
    finish(climb, 300)
    assert climb.limit == 256

    climb.record_answer(first_byte_s=0.02, is_wanted=True)
    finish(climb, 2000, from_s=10)
    assert climb.limit <= 128


@pytest.mark.parametrize("climbs_at_once", [True, False])
def test_climb_stops_at_128_near_the_store(*, climbs_at_once: bool) -> None:
    """From there it tries steps down, and comes back, because a lower limit is slower."""
    climb = Climb(replace(REMOTE, start=110, highest=256, climbs_at_once=climbs_at_once))
    climb.record_answer(first_byte_s=0.02, is_wanted=True)
    limits = finish(climb, 5000)

    assert max(limits) == 128
    assert min(limits[limits.index(128) :]) == 102


@pytest.mark.parametrize("limit", [7, 300])
def test_climb_of_equal_bounds_never_moves(limit: int) -> None:
    """A fixed limit stays as it is, also above 128 and near the store."""
    climb = Climb(Bounds(start=limit, lowest=limit, highest=limit))

    finish(climb, 1000)
    climb.record_answer(first_byte_s=0.015, is_wanted=True)
    climb.record_throttle(5.0, round_trip_s=0.1, enough=0)

    assert climb.limit == limit


def test_climb_waits_for_sources_where_answers_come_at_once() -> None:
    """Without latency to hide, only finished sources show whether a higher limit helps."""
    climb = Climb(REMOTE)

    climb.record_answer(first_byte_s=0.001, is_wanted=True)
    for _ in range(1000):
        climb.record_answer(first_byte_s=0.02, is_wanted=True)

    assert climb.limit == 32


def test_climb_does_not_move_where_nobody_waits() -> None:
    """A shard with fewer sources than permits does not move the limit."""
    climb = Climb(REMOTE)

    for _ in range(100):
        climb.record_answer(first_byte_s=0.015, is_wanted=False)
    finish(climb, 1000, is_wanted=False)

    assert climb.limit == 32


def test_climb_backs_off_once_per_round_trip() -> None:
    """A burst of refusals lowers the limit once, but not below what the granted rate needs."""
    climb = Climb(REMOTE)

    for _ in range(50):
        climb.record_throttle(1.0, round_trip_s=0.1, enough=0)
    once = climb.limit
    climb.record_throttle(1.2, round_trip_s=0.1, enough=0)
    twice = climb.limit
    climb.record_throttle(1.4, round_trip_s=0.1, enough=20)

    assert (once, twice, climb.limit) == (22, 15, 15)


def test_climb_is_not_led_by_what_was_not_read() -> None:
    """A thousand quick failures neither raise the limit nor make slower sources look queued."""
    climb = Climb(REMOTE)

    for _ in range(1000):
        climb.record_failure(is_wanted=True)
    assert climb.limit == 32
    finish(climb, 200)

    assert climb.limit == 128


def test_climb_does_not_count_a_pause() -> None:
    """A worker that was frozen during a trial keeps the gain of that trial."""
    climb = Climb(replace(REMOTE, climbs_at_once=False))
    finish(climb, 140)
    assert climb.limit == 40

    finish(climb, 50)
    climb.record_rest()
    finish(climb, 140, from_s=600)

    assert climb.limit == 40


def test_climb_compares_like_with_like() -> None:
    """Sources that take one request are not compared with sources that take two.

    Those with two take twice as long even if nothing queues.
    """
    climb, now_s = Climb(REMOTE), 0.0
    for index in range(400):
        is_short = index % 20 == 0
        now_s += 0.1 / climb.limit
        read_one(climb, now_s, took_s=0.05 if is_short else 0.1, n_requests=1 if is_short else 2)

    assert climb.limit == 128


def test_sample_tells_at_twice_the_limit_and_its_throughput_is_weight_by_time() -> None:
    """It begins with the first source that began after the last move."""
    sample = _Sample()
    sample.add(1.0, 4, has_queued=False, is_current=False)
    sample.add(2.0, 4, has_queued=False, is_current=True)
    for n in range(1, 26):
        sample.add(2.0 + n / 100, 4, has_queued=n % 2 == 0, is_current=True)

    assert sample.weight == 100
    assert sample.span_s == pytest.approx(0.25)
    assert sample.throughput == pytest.approx(400)
    assert not sample.tells(51)
    assert not sample.has_queued  # 12 of 25


def test_rest_remembers_the_mean_of_its_last_samples() -> None:
    """The first sample counts whole, the second a half, and from the fourth on each a quarter."""
    rest = _Rest()
    seen = []
    for throughput in (100.0, 200.0, 300.0, 400.0, 1000.0):
        rest.add(throughput)
        seen.append(rest.throughput)

    assert seen == pytest.approx([100, 150, 200, 250, 437.5])


def test_rest_after_a_step_up_knows_the_throughput_there() -> None:
    """A step down keeps what was known, which another step down is compared with."""
    rest = _Rest()
    rest.add(100.0)

    rest.keep(130.0, down=False)
    assert rest.throughput == 130
    rest.keep(90.0, down=True)
    assert rest.throughput == 130


@dataclass
class Judged:
    """A limit that samples of a known throughput are judged by, one after the other."""

    climb: Climb
    now_s: float = 0.0

    def after(self, done: int, *, seconds: float = 1.0, has_queued: bool = False) -> int:
        """Let ``done`` sources finish within the seconds. Return the limit then."""
        if self.climb._sample._began_s is None:
            self._finish(0.1)  # the clock starts at its end
        for _ in range(done - 1):
            self._finish(0.9 if has_queued else 0.1)
        self.now_s += seconds
        self._finish(0.9 if has_queued else 0.1)
        return self.climb.limit

    def _finish(self, took_s: float) -> None:
        read_one(self.climb, self.now_s, took_s=took_s)


STEADY = replace(REMOTE, climbs_at_once=False)
FULL = Bounds(start=32, lowest=4, highest=32)


@pytest.mark.parametrize(("done", "limit"), [(104, 40), (103, 32)])
def test_climb_keeps_a_step_up_that_pays(done: int, limit: int) -> None:
    """A step is a quarter of the limit. It pays if throughput rises by 4 %."""
    judged = Judged(Climb(STEADY))

    assert judged.after(100) == 40
    assert judged.after(done) == limit


def test_climb_goes_on_from_a_step_that_pays() -> None:
    """The next step up follows at once, and is measured by the throughput that the last one reached."""
    judged = Judged(Climb(STEADY))
    limits = [judged.after(done) for done in (200, 208, 208, 217, 217, 225)]

    assert limits == [40, 40, 50, 50, 62, 50]


def test_climb_waits_twice_as_long_after_each_step_that_does_not_pay() -> None:
    """A step up is tried after 1, 2, 4 and 8 samples, while a step down is tried after 4, 8 and so on."""
    climb = Climb(replace(STEADY, lowest=32))
    judged = Judged(climb)

    limits = [judged.after(100) for _ in range(22)]

    assert [n for n, limit in enumerate(limits) if limit == 40] == [0, 3, 8, 17]
    assert climb.moves == 8


def test_climb_tries_a_step_down_at_the_highest_limit() -> None:
    """After 4 samples, then after 8 more, where throughput falls by more than 2 %."""
    climb = Climb(FULL)
    judged = Judged(climb)

    limits = [judged.after(100 if climb.limit == 32 else 97) for _ in range(14)]

    assert [n for n, limit in enumerate(limits) if limit == 26] == [3, 12]
    assert set(limits) == {26, 32}


def test_climb_steps_down_at_once_while_sources_queue() -> None:
    """It steps down as long as throughput stays within 2 % of what it was. A step is a fifth of the limit."""
    judged = Judged(Climb(FULL))

    limits = [judged.after(done, has_queued=True) for done in (100, 98, 98, 98, 97, 92)]

    assert limits == [26, 26, 21, 21, 17, 21]


def test_climb_does_not_step_up_while_sources_queue() -> None:
    """Half of the sources may have queued."""
    climb = Climb(replace(STEADY, lowest=32))
    judged = Judged(climb)

    assert [judged.after(100, has_queued=True) for _ in range(9)] == [32] * 9
    assert climb.moves == 0


def test_climb_steps_are_at_least_one() -> None:
    """A step is one even if a quarter or a fifth of the limit is less."""
    up = Judged(Climb(Bounds(start=2, lowest=2, highest=9, climbs_at_once=False)))
    assert [up.after(done) for done in (100, 200, 200, 400)] == [3, 3, 4, 4]

    for limit in (2, 3, 4):
        down = Judged(Climb(Bounds(start=limit, lowest=1, highest=limit)))
        assert down.after(100, has_queued=True) == limit - 1


def test_climb_at_its_lowest_stays() -> None:
    """Nothing is tried below."""
    climb = Climb(Bounds(start=4, lowest=4, highest=9, climbs_at_once=False))
    judged = Judged(climb)

    for _ in range(9):
        judged.after(100, has_queued=True)

    assert (climb.limit, climb.moves) == (4, 0)


def test_climb_that_starts_at_its_highest_judges_the_first_sample() -> None:
    """It need not find out first that there is nothing to grow to."""
    assert Judged(Climb(FULL)).after(100, has_queued=True) == 26


def test_climb_ends_its_fast_growth_when_sources_queue() -> None:
    """The limit stays where it is, and answers raise it no more."""
    climb = Climb(REMOTE)
    judged = Judged(climb)
    judged.after(1)
    grown = climb.limit

    judged.after(100, has_queued=True)
    assert (climb.limit, climb.moves) == (grown, 1)
    climb.record_answer(first_byte_s=0.015, is_wanted=True)

    assert climb.limit == grown


def test_climb_grows_fast_until_its_highest() -> None:
    """A sample without a queue does not end it. At the highest, the next sample is judged."""
    climb = Climb(Bounds(start=32, lowest=4, highest=160))
    judged = Judged(climb)
    for done in (64, 64, 200, 400):
        judged.after(done)
    assert climb.limit == 160

    assert judged.after(400, has_queued=True) == 128


def test_climb_ends_its_fast_growth_at_a_refusal() -> None:
    """A limit that was tried is not judged by what came before the refusal."""
    climb = Climb(REMOTE)
    climb.record_throttle(0.0, round_trip_s=0.5, enough=0)
    climb.record_answer(first_byte_s=0.015, is_wanted=True)
    assert climb.limit == 22
    climb.record_throttle(0.5, round_trip_s=0.5, enough=0)
    assert climb.limit == 15

    trying = Climb(STEADY)
    judged = Judged(trying)
    assert judged.after(200) == 40
    trying.record_throttle(9.0, round_trip_s=0.5, enough=0)
    assert trying.limit == 28
    assert judged.after(100) == 35  # another step up is tried
    assert judged.after(104) == 35  # and kept: 4 % more than 100


def test_climb_forgets_a_sample_of_which_nobody_waited_at_the_end() -> None:
    """Its throughput is not the back end's. The next one begins anew."""
    for end in ("finished", "failed", "rested"):
        climb = Climb(STEADY)
        judged = Judged(climb)
        judged.after(60, seconds=0.5)
        if end == "finished":
            read_one(climb, judged.now_s, is_wanted=False)
        elif end == "failed":
            climb.record_failure(is_wanted=False)
        else:
            climb.record_rest()

        assert judged.after(60, seconds=0.5) == 32
        assert judged.after(60, seconds=0.5) == 40


def test_climb_does_not_count_sources_of_the_limit_before() -> None:
    """They began before it moved."""
    climb = Climb(STEADY)
    judged = Judged(climb)
    assert judged.after(100) == 40

    for n in range(1000):
        climb.record_source(
            2.0 + n, took_s=0.1, n_requests=2, weight=1, moves=climb.moves - 1, is_wanted=True
        )

    assert climb.limit == 40
    assert climb._tried_from == 32


def test_climb_grows_from_a_first_byte_after_five_milliseconds() -> None:
    """By one for each answer, and no further than its bounds."""
    climb = Climb(replace(REMOTE, highest=34))

    climb.record_answer(first_byte_s=0.00499, is_wanted=True)
    assert climb.limit == 32
    climb = Climb(replace(REMOTE, highest=34))
    limits = []
    for _ in range(4):
        climb.record_answer(first_byte_s=0.005, is_wanted=True)
        limits.append(climb.limit)

    assert limits == [33, 34, 34, 34]


def test_climb_tells_queued_sources_by_the_quickest_of_their_kind() -> None:
    """They take more than half as long again, and 20 ms. Kinds are numbers of requests, from 32 on one."""
    climb = Climb(REMOTE)
    climb._record_queueing(1.0, 2)

    assert not climb._record_queueing(1.5 + 0.02, 2)
    assert climb._record_queueing(1.5 + 0.021, 2)
    assert not climb._record_queueing(9.0, 3)
    climb._record_queueing(1.0, 32)
    assert climb._record_queueing(9.0, 33)
    assert not climb._record_queueing(9.0, 31)


@pytest.mark.parametrize(
    ("weight", "span_s", "limit", "tells"),
    [
        (128, 0.1, 64, True),
        (127, 0.1, 10, False),
        (127, 1.0, 63, True),
        (127, 0.999, 63, False),
        (127, 1.0, 64, False),
        (32, 1.0, 1, True),
        (31, 1.0, 1, False),
        (128, 0.0, 1, False),
    ],
)
def test_sample_tells_from_enough_sources(weight: int, span_s: float, limit: int, *, tells: bool) -> None:
    """Twice the limit and 32 at least; and 128, unless they took a second."""
    sample = _Sample(began_s=0.0)
    sample.add(0.0, weight - 1, has_queued=False, is_current=True)
    sample.add(span_s, 1, has_queued=False, is_current=True)

    assert sample.tells(limit) is tells


def test_sample_has_queued_when_more_than_half_of_it_has() -> None:
    """Those of the limit before do not count, but their throughput does."""
    sample = _Sample(began_s=0.0)
    assert not sample.has_queued
    for n in range(4):
        sample.add(1.0, 3, has_queued=n % 2 == 0, is_current=True)
    assert not sample.has_queued
    sample.add(2.0, 3, has_queued=True, is_current=False)
    assert not sample.has_queued
    assert (sample.weight, sample.throughput) == (12, 7.5)
    sample.add(2.0, 3, has_queued=True, is_current=True)
    assert sample.has_queued
    assert _Sample().span_s == 0


def test_rest_is_due_for_each_direction_by_itself() -> None:
    """Down after 4 samples, or after one where sources queue; up after one."""
    rest = _Rest()
    assert not rest.is_due(down=False)
    assert not rest.is_due(down=True, sooner=True)

    rest.add(1.0)
    assert rest.is_due(down=False)
    assert rest.is_due(down=True, sooner=True)
    due = []
    for _ in range(3):
        due.append(rest.is_due(down=True))
        rest.add(1.0)
    assert [*due, rest.is_due(down=True)] == [False, False, False, True]


def test_rest_doubles_its_patience_up_to_32_samples() -> None:
    """In the direction that was tried. Where sources queue, a quarter of it is enough."""
    rest = _Rest()
    waits = []
    for _ in range(5):
        n_soon = n = 0
        while not rest.is_due(down=True):
            n_soon += not rest.is_due(down=True, sooner=True)
            n += 1
            rest.add(1.0)
        waits.append((n_soon, n))
        assert rest.is_due(down=False)
        rest.step_back(down=True)

    assert waits == [(1, 4), (2, 8), (4, 16), (8, 32), (8, 32)]


@pytest.mark.parametrize("down", [True, False])
def test_rest_after_a_step_tries_the_same_direction_next(*, down: bool) -> None:
    """After one sample. The other direction waits as long as before, but at least for 4."""
    rest = _Rest()
    for _ in range(2):
        rest.step_back(down=not down)
        rest.step_back(down=down)
    rest.add(1.0)

    rest.keep(1.0, down=down)

    assert not rest.is_due(down=down)
    rest.add(1.0)
    assert rest.is_due(down=down)
    n = 1
    while not rest.is_due(down=not down):
        n += 1
        rest.add(1.0)
    assert n == (4 if down else 16)


def test_quickest_is_that_of_the_last_512_to_1024_sources() -> None:
    """A back end that became slower is known to be slower after that."""
    quickest = _Quickest()
    quickest.add(1.0)
    for n in range(2, 1024):
        quickest.add(2.0 if n % 2 else 3.0)
        assert quickest.value == 1
    quickest.add(3.0)

    assert quickest.value == 2
