"""There is no rate until a store throttles. Then the rate follows what the store grants."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.throttle import Throttle
from pixel_gather.adapters.object_store.limiter.request_rate import Rate

ROUND_TRIP_S = 0.02


def send(rate: Rate, throttle: Throttle, *, n: int, from_s: float) -> tuple[float, int]:
    """Send ``n`` requests as soon as allowed. Return the time at the end, and how many were refused."""
    now_s, refused = from_s, 0
    for _ in range(n):
        while pause_s := rate.pause_s(now_s):
            now_s += pause_s
        if throttle.grants(now_s):
            rate.answered(now_s, first_byte_s=ROUND_TRIP_S)
        else:
            refused += 1
            rate.throttled(now_s)
        now_s += 0.0005
    return now_s, refused


def test_rate_is_none_while_nobody_throttles() -> None:
    """Requests do not wait, however many are sent."""
    rate = Rate()

    for _ in range(1000):
        rate.answered(0.0, first_byte_s=0.01)

    assert rate.per_s is None
    assert rate.pause_s(0.0) == 0


def test_rate_finds_what_is_granted() -> None:
    """The rate is found within the first requests. Afterwards few requests are refused."""
    rate, throttle = Rate(), Throttle(100)
    began_s, _ = send(rate, throttle, n=500, from_s=0.0)

    ended_s, refused = send(rate, throttle, n=2000, from_s=began_s)

    assert refused < 0.015 * 2000
    assert 90 <= 2000 / (ended_s - began_s) <= 101


def test_rate_grows_when_more_is_granted() -> None:
    """A rate that becomes ten times higher is found within a few thousand requests."""
    rate = Rate()
    now_s, _ = send(rate, Throttle(50), n=1000, from_s=0.0)

    now_s, _ = send(rate, Throttle(500), n=4000, from_s=now_s)

    assert rate.per_s is not None
    assert rate.per_s > 400


def test_rate_hardly_falls_for_a_single_refusal() -> None:
    """If a store refuses one request in a thousand, the rate falls only slightly."""
    rate, now_s = Rate(), 0.0
    for index in range(3000):
        now_s += max(rate.pause_s(now_s), 0.002)
        if index % 1000 == 999:
            rate.throttled(now_s)
        else:
            rate.answered(now_s, first_byte_s=ROUND_TRIP_S)

    assert rate.per_s is not None
    assert rate.per_s > 250


def paced() -> tuple[Rate, float]:
    """Return a rate that has met its first 503 and grown since, and the current time."""
    rate = Rate()
    for index in range(40):
        rate.answered(index * 0.01, first_byte_s=ROUND_TRIP_S)
    rate.throttled(0.4)
    return rate, send(rate, Throttle(1000), n=60, from_s=0.4)[0]


@pytest.mark.parametrize("idle_s", [2.0, 600.0, 1e6])
def test_rate_does_not_grow_while_nothing_is_asked_for(idle_s: float) -> None:
    """A worker that was frozen for minutes continues with about the same rate."""
    rate, now_s = paced()
    before = rate.per_s or 0.0

    now_s += idle_s
    while not rate.pause_s(now_s):
        pass
    now_s += ROUND_TRIP_S
    for _ in range(3):
        rate.answered(now_s, first_byte_s=ROUND_TRIP_S)

    assert before <= (rate.per_s or 0.0) <= 1.1 * before


def test_rate_grows_by_no_leap_after_a_stall() -> None:
    """A store may hang while requests wait for half a minute. Afterwards the rate at most doubles."""
    rate, now_s = paced()
    before = rate.per_s or 0.0

    for _ in range(300):
        while not rate.pause_s(now_s):
            pass
        now_s += 0.1
    rate.answered(now_s - 0.1, first_byte_s=ROUND_TRIP_S)

    assert rate.per_s == 2 * before


def test_rate_is_not_given_up_for_a_503_right_after_a_pause() -> None:
    """A 503 after a long pause lowers the rate by only a quarter."""
    rate, now_s = paced()
    before = rate.per_s or 0.0

    rate.throttled(now_s + 600)

    assert rate.per_s == 0.75 * before


def test_rate_remembers_its_first_guess_over_a_pause() -> None:
    """A shard may meet the first 503 at its last request. The next shard, minutes later, uses that rate."""
    soon, later = Rate(), Rate()
    for rate in (soon, later):
        for index in range(40):
            rate.answered(index * 0.01, first_byte_s=ROUND_TRIP_S)
        rate.throttled(0.4)

    assert soon.pause_s(0.46) == 0
    assert later.pause_s(600) == 0
    assert later.per_s == soon.per_s
    assert (later.per_s or 0.0) > 50


@given(
    events=st.lists(
        st.tuples(st.booleans(), st.booleans(), st.floats(0, 3) | st.floats(0, 1e7)), max_size=200
    )
)
def test_rate_never_stops_for_good(events: Sequence[tuple[bool, bool, float]]) -> None:
    """After any refusals, the next request may be sent within a second."""
    rate, now_s = Rate(), 0.0
    for is_sent, is_granted, seconds in events:
        now_s += seconds
        if is_sent:
            rate.pause_s(now_s)
        elif is_granted:
            rate.answered(now_s, first_byte_s=0.01)
        else:
            rate.throttled(now_s)

    waited_s = 0.0
    while (pause_s := rate.pause_s(now_s + waited_s)) and waited_s < 10:
        waited_s += pause_s

    assert waited_s <= 1


def test_round_trip_is_one_and_a_half_times_the_recent_first_bytes() -> None:
    """It moves by an eighth of the difference with each answer."""
    rate = Rate()

    rate.answered(0.0, first_byte_s=0.4)

    assert rate.round_trip_s == pytest.approx(0.05 + (0.6 - 0.05) / 8)


def test_first_rate_is_what_the_store_granted_lately() -> None:
    """Of the last 16 answers, 11 were granted within 0.16 s: nine tenths of that, times the root of 11/16."""
    rate = Rate()
    for n in range(20):
        rate.answered(1.0 + n / 100, first_byte_s=0.01)
    for _ in range(5):
        rate.throttled(1.2)

    assert rate.pause_s(1.2) == pytest.approx(0.05)
    assert rate.pause_s(1.25) == 0
    assert rate.per_s == pytest.approx(0.9 * (11 / 0.16) * (11 / 16) ** 0.5)


def test_sixteen_answers_are_enough_to_know_what_is_granted() -> None:
    """The second 503 sets the rate by what was granted, once that is known."""
    rates = []
    for n_answers in (14, 15):
        rate = Rate()
        rate.per_s, rate._grows_fast = 1000.0, False
        for n in range(n_answers):
            rate.answered(1.0 + n / 100, first_byte_s=0.01)
        rate.throttled(1.0 + n_answers / 100)
        rates.append(rate.per_s)

    assert rates == [pytest.approx(0.9 * 1000), pytest.approx(0.9 * 15 / 0.15)]
