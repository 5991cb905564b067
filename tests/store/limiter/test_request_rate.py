"""There is no rate until a store throttles. Then the rate follows what the store grants."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.throttle import Throttle
from pixel_gather.io.store.limiter.request_rate import Rate, tcp_per_s

ROUND_TRIP_S = 0.02


def send(rate: Rate, throttle: Throttle, *, n: int, from_s: float) -> tuple[float, int]:
    """Send ``n`` requests as soon as allowed. Return the time at the end, and how many were refused."""
    now_s, refused = from_s, 0
    for _ in range(n):
        while pause_s := rate.take_turn(now_s):
            now_s += pause_s
        if throttle.grants(now_s):
            rate.record_answer(now_s, first_byte_s=ROUND_TRIP_S)
        else:
            refused += 1
            rate.record_throttle(now_s)
        now_s += 0.0005
    return now_s, refused


def test_rate_is_none_while_nobody_throttles() -> None:
    """Requests do not wait, however many are sent."""
    rate = Rate()

    for _ in range(1000):
        rate.record_answer(0.0, first_byte_s=0.01)

    assert rate.per_s is None
    assert rate.take_turn(0.0) == 0


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
        now_s += max(rate.take_turn(now_s), 0.002)
        if index % 1000 == 999:
            rate.record_throttle(now_s)
        else:
            rate.record_answer(now_s, first_byte_s=ROUND_TRIP_S)

    assert rate.per_s is not None
    assert rate.per_s > 250


def paced() -> tuple[Rate, float]:
    """Return a rate that has met its first 503 and grown since, and the current time."""
    rate = Rate()
    for index in range(40):
        rate.record_answer(index * 0.01, first_byte_s=ROUND_TRIP_S)
    rate.record_throttle(0.4)
    return rate, send(rate, Throttle(1000), n=60, from_s=0.4)[0]


@pytest.mark.parametrize("idle_s", [2.0, 600.0, 1e6])
def test_rate_does_not_grow_while_nothing_is_asked_for(idle_s: float) -> None:
    """A worker that was frozen for minutes continues with about the same rate."""
    rate, now_s = paced()
    before = rate.per_s or 0.0

    now_s += idle_s
    while not rate.take_turn(now_s):
        pass
    now_s += ROUND_TRIP_S
    for _ in range(3):
        rate.record_answer(now_s, first_byte_s=ROUND_TRIP_S)

    assert before <= (rate.per_s or 0.0) <= 1.1 * before


def test_rate_grows_by_no_leap_after_a_stall() -> None:
    """A store may hang while requests wait for half a minute. Afterwards the rate at most doubles."""
    rate, now_s = paced()
    before = rate.per_s or 0.0

    for _ in range(300):
        while not rate.take_turn(now_s):
            pass
        now_s += 0.1
    rate.record_answer(now_s - 0.1, first_byte_s=ROUND_TRIP_S)

    assert rate.per_s == 2 * before


def test_rate_is_not_given_up_for_a_503_right_after_a_pause() -> None:
    """A 503 after a long pause lowers the rate by only a quarter."""
    rate, now_s = paced()
    before = rate.per_s or 0.0

    rate.record_throttle(now_s + 600)

    assert rate.per_s == 0.75 * before


def test_rate_remembers_its_first_guess_over_a_pause() -> None:
    """A shard may meet the first 503 at its last request. The next shard, minutes later, uses that rate."""
    soon, later = Rate(), Rate()
    for rate in (soon, later):
        for index in range(40):
            rate.record_answer(index * 0.01, first_byte_s=ROUND_TRIP_S)
        rate.record_throttle(0.4)

    assert soon.take_turn(0.46) == 0
    assert later.take_turn(600) == 0
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
            rate.take_turn(now_s)
        elif is_granted:
            rate.record_answer(now_s, first_byte_s=0.01)
        else:
            rate.record_throttle(now_s)

    waited_s = 0.0
    while (pause_s := rate.take_turn(now_s + waited_s)) and waited_s < 10:
        waited_s += pause_s

    assert waited_s <= 1


def test_round_trip_is_one_and_a_half_times_the_recent_first_bytes() -> None:
    """It moves by an eighth of the difference with each answer."""
    rate = Rate()

    rate.record_answer(0.0, first_byte_s=0.4)

    assert rate.round_trip_s == pytest.approx(0.05 + (0.6 - 0.05) / 8)


def test_first_rate_is_what_the_store_granted_lately() -> None:
    """Of the last 16 answers, 11 were granted within 0.16 s: nine tenths of that, times the root of 11/16."""
    rate = Rate()
    for n in range(20):
        rate.record_answer(1.0 + n / 100, first_byte_s=0.01)
    for _ in range(5):
        rate.record_throttle(1.2)

    assert rate.take_turn(1.2) == pytest.approx(0.05)
    assert rate.take_turn(1.25) == 0
    assert rate.per_s == pytest.approx(0.9 * (11 / 0.16) * (11 / 16) ** 0.5)
    assert rate.take_turn(1.25) == pytest.approx(1 / (rate.per_s or 0.0))


def test_sixteen_answers_are_enough_to_know_what_is_granted() -> None:
    """The second 503 sets the rate by what was granted, once that is known."""
    rates = []
    for n_answers in (14, 15):
        rate = Rate()
        rate.per_s, rate._grows_fast = 1000.0, False
        for n in range(n_answers):
            rate.record_answer(1.0 + n / 100, first_byte_s=0.01)
        rate.record_throttle(1.0 + n_answers / 100)
        rates.append(rate.per_s)

    assert rates == [pytest.approx(0.9 * 1000), pytest.approx(0.9 * 15 / 0.15)]


def at(per_s: float, *, grows_fast: bool = False) -> Rate:
    """Return a rate that was found, and at which a request had to wait at 100 s."""
    rate = Rate()
    rate.record_answer(99.0, first_byte_s=ROUND_TRIP_S)
    rate.record_throttle(99.0)
    rate._stopped_until_s = None
    rate.per_s, rate._grows_fast = per_s, grows_fast
    rate._credited_s = rate._grown_s = rate._waited_s = 100.0
    return rate


def test_rate_doubles_in_half_a_second_until_the_second_503() -> None:
    """By what has passed since it grew, but at most by a factor of two for one answer."""
    rate = at(100.0, grows_fast=True)
    grown = []
    for now_s in (100.0, 100.0 + 1 / 32, 100.0 + 1 / 16, 109.0):
        rate._waited_s = now_s
        rate.record_answer(now_s, first_byte_s=ROUND_TRIP_S)
        grown.append(rate.per_s)

    assert grown == pytest.approx([100, 100 * 2 ** (1 / 16), 100 * 2**0.125, 200 * 2**0.125])


def test_rate_grows_with_the_square_of_the_granted_requests_after_the_second_503() -> None:
    """Twice as fast after 600 of them and five times as fast after 1,200, but never faster than at first.

    To it comes 0.35 a second for each of the nine seconds.
    """
    rate = at(100.0)
    grown = [0.0]
    for _ in range(1200):
        rate._waited_s, rate._grown_s, rate.per_s = 109.0, 100.0, 100.0
        rate.record_answer(109.0, first_byte_s=ROUND_TRIP_S)
        grown.append(rate.per_s)
    steadily = 100 + 9 * 0.35
    assert grown[600] == pytest.approx(steadily * 2 ** (0.0005 * 2), rel=1e-7)
    assert grown[1200] == pytest.approx(steadily * 2 ** (0.0005 * 5), rel=1e-7)

    rate.record_answer(109.0 + 1e-5, first_byte_s=ROUND_TRIP_S)
    assert rate.per_s == pytest.approx(steadily * 2 ** (0.0025 + 2e-5), rel=1e-7)


def test_rate_grows_only_while_requests_wait_for_it() -> None:
    """An answer that comes a round trip after the last wait shows nothing."""
    rate = at(100.0, grows_fast=True)
    rate._waited_s = rate._grown_s = 0.0
    rate.record_answer(rate.round_trip_s, first_byte_s=1 / 30)
    grown = rate.per_s
    rate.record_answer(0.1, first_byte_s=1 / 30)

    assert grown is not None
    assert grown > 100
    assert rate.per_s == grown


def test_rate_falls_once_per_round_trip_and_not_below_two_per_second() -> None:
    """A tenth below what was granted; a quarter below after fast growth, and only the first time."""
    rate = at(1000.0, grows_fast=True)
    rate._answers.clear()
    rates = []
    for now_s in (200.0, 200.01, 200.0 + rate.round_trip_s, 300.0):
        rate.record_throttle(now_s)
        rates.append(rate.per_s)
    assert rates == pytest.approx([750, 750, 675, 607.5])

    low = at(2.1)
    low._answers.clear()
    low.record_throttle(200.0)
    assert low.per_s == 2
    assert low._since == 0


def test_rate_never_rises_by_a_503() -> None:
    """Even if more was granted than it says."""
    rate = at(10.0)
    for n in range(32):
        rate.record_answer(199.0 + n / 32, first_byte_s=0.001)
    rate._waited_s, rate.per_s = 0.0, 10.0

    rate.record_throttle(200.0)

    assert rate.per_s == 10


def test_first_503_stops_requests_for_a_round_trip() -> None:
    """Another one in that time changes nothing."""
    rate = Rate()
    rate.record_throttle(10.0)
    rate.record_throttle(10.04)

    assert rate.per_s == 2
    assert rate.take_turn(10.02) == pytest.approx(0.03)
    assert rate.take_turn(10.05) == 0
    assert rate.per_s == 2
    assert rate.take_turn(10.05) == pytest.approx(0.5)
    assert rate.take_turn(10.30) == pytest.approx(0.25)
    assert rate.take_turn(10.55) == 0


@pytest.mark.parametrize(("per_s", "burst"), [(1000.0, 20), (10.0, 1), (50.0, 1), (150.0, 3)])
def test_an_idle_store_is_sent_20_ms_of_requests_at_once(per_s: float, burst: int) -> None:
    """At least one, however long nothing was sent. Then requests follow at the rate."""
    rate = at(per_s)
    n = 0
    while not (pause_s := rate.take_turn(500.0)):
        n += 1

    assert n == burst
    assert pause_s == pytest.approx(1 / per_s)
    assert rate.take_turn(500.0 + 0.5 / per_s) == pytest.approx(0.5 / per_s)
    assert rate.take_turn(500.0 + 1 / per_s) == 0


@pytest.mark.parametrize(("idle_s", "grows"), [(0.9, True), (1.1, False)])
def test_a_second_without_waiting_requests_does_not_let_the_rate_grow(idle_s: float, *, grows: bool) -> None:
    """Up to a second counts as time in which the store could have been asked for more."""
    rate = at(100.0, grows_fast=True)
    rate._credit = 0.0
    rate._credited_s = now_s = 100.0 + idle_s

    assert rate.take_turn(now_s) > 0
    rate.record_answer(now_s, first_byte_s=ROUND_TRIP_S)

    assert rate.per_s == (200.0 if grows else 100.0)


def test_requests_in_flight_are_twice_those_of_a_round_trip() -> None:
    """Half of them wait for their turn. Without a rate there are none."""
    rate = at(100.0)

    assert rate.in_flight == pytest.approx(200 * rate.round_trip_s)
    assert Rate().in_flight == 0


def answers(*granted_at: float, refused_at: Sequence[float] = ()) -> Rate:
    """Return a rate that knows these answers."""
    rate = Rate()
    for at_s, is_granted in sorted([(s, True) for s in granted_at] + [(s, False) for s in refused_at]):
        rate._answers.append((at_s, is_granted))
    return rate


def test_granted_is_the_rate_of_the_last_answers() -> None:
    """It counts the last 16 answers, or more if two round trips have more. None is older than 5 s."""
    every_10_ms = [10.0 + n / 100 for n in range(60)]

    assert answers(*every_10_ms)._granted_rate(10.6).per_s == pytest.approx(16 / 0.16)
    slow = answers(*every_10_ms)
    slow.round_trip_s = 0.15
    assert slow._granted_rate(10.6).per_s == pytest.approx(30 / 0.3)
    assert answers(1.0, 5.0, 6.0)._granted_rate(10.0).per_s == pytest.approx(2 / 5)
    assert answers(4.9, 6.0)._granted_rate(10.0).per_s == pytest.approx(1 / 4)
    assert answers(5.0, 9.0, refused_at=(6.0, 7.0, 8.0))._granted_rate(10.0).share == 2 / 5
    assert answers(9.99)._granted_rate(10.0).per_s == pytest.approx(1 / 0.05)
    assert answers(9.99)._granted_rate(10.0).share == 1
    of_two = answers(*(9.72 + n / 100 for n in range(20)), refused_at=[9.6, 9.65, 9.69])
    of_two.round_trip_s = 0.15
    assert of_two._granted_rate(10.0).share == 1
    assert answers()._granted_rate(10.0) == (0.0, 0.0, False)


@pytest.mark.parametrize(
    ("granted_at", "is_known"),
    [((9.0,), True), ((9.01,), False), ((9.9,) * 15, False), ((9.9,) * 16, True), ((1.0, 9.5), False)],
)
def test_granted_is_known_from_16_answers_or_from_a_second(
    granted_at: Sequence[float], *, is_known: bool
) -> None:
    """Of fewer, the rate that was used is a better guess."""
    assert answers(*granted_at)._granted_rate(10.0).is_known is is_known


def test_no_more_than_128_answers_are_remembered() -> None:
    """More would be older than what counts."""
    rate = Rate()
    rate.round_trip_s = 1.0
    for n in range(200):
        rate._answers.append((10.0 + n / 1000, True))

    assert rate._granted_rate(10.2).per_s == pytest.approx(128 / 1.0)


def refuse_each(rate: Rate, every: int, *, n: int, now_s: float = 0.0) -> float:
    """Send ``n`` requests as soon as allowed. One of ``every`` is refused at any rate. Return the time."""
    for index in range(1, n + 1):
        while pause_s := rate.take_turn(now_s):
            now_s += pause_s
        if index % every:
            rate.record_answer(now_s, first_byte_s=ROUND_TRIP_S)
        else:
            rate.record_throttle(now_s)
        now_s += 0.001
    return now_s


@pytest.mark.parametrize(("every", "least_per_s"), [(100, 500), (50, 400), (20, 200), (10, 100)])
def test_a_store_that_refuses_at_every_rate_is_not_sent_ever_less(every: int, least_per_s: float) -> None:
    """Three cuts in vain show it. The rate stays below that of eight connections of TCP."""
    rate = Rate()

    refuse_each(rate, every, n=4000)

    assert rate.per_s is not None
    assert rate.per_s > least_per_s
    assert rate.per_s < 1.5 * 8 * tcp_per_s(1 / every, round_trip_s=rate.round_trip_s)


def test_a_store_that_throttles_after_all_is_sent_less() -> None:
    """More is refused than before, so the rate matters again."""
    rate = Rate()
    now_s = refuse_each(rate, 50, n=4000)
    before_per_s = rate.per_s
    throttle = Throttle(100)

    now_s, _ = send(rate, throttle, n=1000, from_s=now_s)
    ended_s, refused = send(rate, throttle, n=2000, from_s=now_s)

    assert before_per_s is not None
    assert before_per_s > 400
    assert refused < 0.02 * 2000
    assert 85 <= 2000 / (ended_s - now_s) <= 101


def test_cuts_after_which_much_is_granted_are_not_in_vain() -> None:
    """A store that refuses one of three hundred requests may throttle: each 503 lowers the rate."""
    rate = Rate()
    now_s = refuse_each(rate, 300, n=900)

    heeded = []
    for _ in range(6):
        for _ in range(299):
            now_s += rate.take_turn(now_s) or 0.001
            rate.record_answer(now_s, first_byte_s=ROUND_TRIP_S)
        heeded.append(rate.record_throttle(now_s))

    assert all(heeded)


def test_one_503_of_a_round_trip_is_heeded() -> None:
    """`record_throttle` tells which one lowers the rate."""
    rate = Rate()

    assert [rate.record_throttle(0.0), rate.record_throttle(0.01), rate.record_throttle(1.0)] == [
        True,
        False,
        True,
    ]


@pytest.mark.parametrize(
    ("lost", "packets_a_round_trip"), [(0.0001, 122), (0.01, 11.2), (0.1, 1.77), (0.5, 0.042)]
)
def test_rate_of_tcp_is_that_of_its_specification(lost: float, packets_a_round_trip: float) -> None:
    """Few losses: 1.22 packets a round trip by the root of the lost share. Many: time-outs rule."""
    assert tcp_per_s(lost, round_trip_s=0.5) == pytest.approx(packets_a_round_trip / 0.5, rel=0.02)
