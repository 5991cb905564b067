"""The limit stays within its bounds and moves only for good reasons."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixel_gather.adapters.object_store.limiter.find_limit import Bounds, Climb, _Rest, _Sample

REMOTE = Bounds(start=32, lowest=4, highest=128)


def finish(climb: Climb, n: int, *, from_s: float = 0.0, took_s: float = 0.1, is_wanted: bool = True) -> None:
    """Let ``n`` sources finish. Each takes ``took_s``. As many run at one time as the limit allows."""
    now_s = from_s
    for _ in range(n):
        now_s += took_s / climb.limit
        climb.finished(now_s, took_s=took_s, n_requests=2, weight=1, moves=climb.moves, is_wanted=is_wanted)


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
            climb.finished(
                now_s, took_s=seconds, n_requests=2, weight=1, moves=climb.moves, is_wanted=is_wanted
            )
        elif what == "failed":
            climb.failed(is_wanted=is_wanted)
        elif what == "answered":
            climb.answered(first_byte_s=0.015, is_wanted=is_wanted)
        else:
            climb.throttled(now_s, round_trip_s=0.1, enough=10)

        assert bounds.lowest <= climb.limit <= bounds.highest


def test_climb_doubles_with_the_first_answers() -> None:
    """The limit doubles before any source is finished. It grows further only if sources take no longer."""
    climb = Climb(REMOTE)

    for _ in range(1000):
        climb.answered(first_byte_s=0.015, is_wanted=True)
    assert climb.limit == 64

    finish(climb, 64)
    assert climb.limit == 64
    finish(climb, 64)
    assert climb.limit == 128


def test_climb_waits_for_sources_where_answers_come_at_once() -> None:
    """Without latency to hide, only finished sources show whether a higher limit helps."""
    climb = Climb(REMOTE)

    climb.answered(first_byte_s=0.001, is_wanted=True)
    for _ in range(1000):
        climb.answered(first_byte_s=0.02, is_wanted=True)

    assert climb.limit == 32


def test_climb_does_not_move_where_nobody_waits() -> None:
    """A shard with fewer sources than permits does not move the limit."""
    climb = Climb(REMOTE)

    for _ in range(100):
        climb.answered(first_byte_s=0.015, is_wanted=False)
    finish(climb, 1000, is_wanted=False)

    assert climb.limit == 32


def test_climb_backs_off_once_per_round_trip() -> None:
    """A burst of refusals lowers the limit once, but not below what the granted rate needs."""
    climb = Climb(REMOTE)

    for _ in range(50):
        climb.throttled(1.0, round_trip_s=0.1, enough=0)
    once = climb.limit
    climb.throttled(1.2, round_trip_s=0.1, enough=0)
    twice = climb.limit
    climb.throttled(1.4, round_trip_s=0.1, enough=20)

    assert (once, twice, climb.limit) == (22, 15, 15)


def test_climb_is_not_led_by_what_was_not_read() -> None:
    """A thousand quick failures neither raise the limit nor make slower sources look queued."""
    climb = Climb(REMOTE)

    for _ in range(1000):
        climb.failed(is_wanted=True)
    assert climb.limit == 32
    finish(climb, 200)

    assert climb.limit == 128


def test_climb_does_not_count_a_pause() -> None:
    """A worker that was frozen during a trial keeps the gain of that trial."""
    climb = Climb(replace(REMOTE, climbs_at_once=False))
    finish(climb, 140)
    assert climb.limit == 40

    finish(climb, 50)
    climb.rested()
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
        climb.finished(
            now_s,
            took_s=0.05 if is_short else 0.1,
            n_requests=1 if is_short else 2,
            weight=1,
            moves=climb.moves,
            is_wanted=True,
        )

    assert climb.limit == 128


def test_climb_of_equal_bounds_never_moves() -> None:
    """A fixed limit never moves."""
    climb = Climb(Bounds(start=7, lowest=7, highest=7))

    finish(climb, 1000)
    climb.answered(first_byte_s=0.015, is_wanted=True)
    climb.throttled(5.0, round_trip_s=0.1, enough=0)

    assert climb.limit == 7


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

    rest.moved(130.0, down=False)
    assert rest.throughput == 130
    rest.moved(90.0, down=True)
    assert rest.throughput == 130
