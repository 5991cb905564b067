"""Requests per second: none while nobody throttles, then as many as are granted."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from benchmarks.throttle import Throttle
from pixel_gather.adapters.object_store.limiter.rate import Rate

ROUND_TRIP_S = 0.02


def send(rate: Rate, throttle: Throttle, *, n: int, from_s: float) -> tuple[float, int]:
    """Send ``n`` requests as soon as allowed; return the time then, and how many were refused."""
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
    """Nothing waits, however much is sent."""
    rate = Rate()

    for _ in range(1000):
        rate.answered(0.0, first_byte_s=0.01)

    assert rate.per_s is None
    assert rate.pause_s(0.0) == 0


def test_rate_finds_what_is_granted() -> None:
    """Within the first requests, and then stays there with hardly any refused."""
    rate, throttle = Rate(), Throttle(100)
    began_s, _ = send(rate, throttle, n=500, from_s=0.0)

    ended_s, refused = send(rate, throttle, n=2000, from_s=began_s)

    assert refused < 0.015 * 2000
    assert 90 <= 2000 / (ended_s - began_s) <= 101


def test_rate_grows_when_more_is_granted() -> None:
    """Ten times as much is found within a few thousand requests."""
    rate = Rate()
    now_s, _ = send(rate, Throttle(50), n=1000, from_s=0.0)

    now_s, _ = send(rate, Throttle(500), n=4000, from_s=now_s)

    assert rate.per_s is not None
    assert rate.per_s > 400


def test_rate_hardly_falls_for_a_single_refusal() -> None:
    """A store that is busy once in a thousand requests is not slowed down to a crawl."""
    rate, now_s = Rate(), 0.0
    for index in range(3000):
        now_s += max(rate.pause_s(now_s), 0.002)
        if index % 1000 == 999:
            rate.throttled(now_s)
        else:
            rate.answered(now_s, first_byte_s=ROUND_TRIP_S)

    assert rate.per_s is not None
    assert rate.per_s > 250


@given(events=st.lists(st.tuples(st.booleans(), st.booleans(), st.floats(0, 3)), max_size=200))
def test_rate_never_stops_for_good(events: Sequence[tuple[bool, bool, float]]) -> None:
    """Whatever was refused, the next request may go within a second."""
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
