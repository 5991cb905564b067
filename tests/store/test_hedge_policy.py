"""Which request is late, and how many of those may be sent again."""

from copy import replace

import pytest

from pixel_gather.io.store.hedge_policy import BackEnd, HedgeSettings

SETTINGS = HedgeSettings(
    quantile=0.95,
    margin=2.0,
    least_late_s=0.01,
    min_answers=20,
    n_recent=100,
    max_share=0.05,
    max_saved=3,
    quiet_s=10.0,
)


def known(*first_bytes_s: float, settings: HedgeSettings | None = SETTINGS) -> BackEnd:
    """Return a back end with these recent answers."""
    back_end = BackEnd(settings)
    for each in first_bytes_s:
        back_end.sent()
        back_end.record_answer(each)
    return back_end


def test_late_is_past_the_95th_percentile_times_the_margin() -> None:
    """A request is late after the 95th percentile of the last hundred answers, times the margin."""
    back_end = known(*[0.03] * 94, *[0.09] * 6)

    assert back_end.late_s() == pytest.approx(0.18)


def test_nothing_is_late_before_enough_is_known() -> None:
    """A percentile of few answers means nothing."""
    assert known(*[0.03] * 19).late_s() is None
    assert known(*[0.03] * 20).late_s() is not None


def test_late_follows_what_the_store_did_lately() -> None:
    """When the whole store becomes slow, requests are late only later."""
    back_end = known(*[0.03] * 100)
    assert back_end.late_s() == pytest.approx(0.06)

    for _ in range(100):
        back_end.record_answer(0.3)

    assert back_end.late_s() == pytest.approx(0.6)


def test_late_is_never_sooner_than_the_least() -> None:
    """A local store answers faster than timers can measure."""
    assert known(*[0.0001] * 50).late_s() == SETTINGS.least_late_s


@pytest.mark.parametrize("n_requests", [0, 19, 20, 59, 60, 1000])
def test_hedges_are_a_twentieth_of_the_requests_and_no_more_are_saved_than_so_many(n_requests: int) -> None:
    """A store that is slow as a whole gets at most 5 % more requests."""
    back_end = known(*[0.03] * n_requests)

    n_hedges = sum(back_end.take_hedge(now_s=0.0) for _ in range(n_requests))

    assert n_hedges == min(n_requests // 20, SETTINGS.max_saved)


def test_no_hedge_goes_to_a_store_that_throttled_lately() -> None:
    """A store that has just throttled gets no hedges."""
    back_end = known(*[0.03] * 100)
    back_end.record_throttle(now_s=100.0)

    assert not back_end.take_hedge(now_s=109.9)
    assert back_end.take_hedge(now_s=110.0)


def test_nothing_is_late_without_settings() -> None:
    """Hedging can be switched off."""
    assert known(*[0.03] * 100, settings=None).late_s() is None


def test_margin_of_one_is_the_percentile_itself() -> None:
    """With a margin of 1, requests are late after the percentile itself."""
    assert known(*[0.03] * 100, settings=replace(SETTINGS, margin=1.0)).late_s() == pytest.approx(0.03)


def test_late_is_computed_again_after_every_eighth_answer() -> None:
    """Not more often: sorting takes time."""
    back_end = known(*[0.03] * 20, settings=replace(SETTINGS, n_recent=20))
    assert back_end.late_s() == pytest.approx(0.06)
    for usual_s, before_s in ((0.3, 0.03), (0.9, 0.3)):
        for _ in range(7):
            back_end.record_answer(usual_s)
            assert back_end.late_s() == pytest.approx(2 * before_s)
        back_end.record_answer(usual_s)
        assert back_end.late_s() == pytest.approx(2 * usual_s)


def test_a_worker_waits_half_as_long_again_as_for_most_answers() -> None:
    """And 20 ms at least. It looks at 20 answers or more, and at the last 256 at most."""
    assert known(*[0.1] * 19, settings=HedgeSettings()).late_s() is None
    assert known(*[0.1] * 19, 9.0, settings=HedgeSettings()).late_s() == pytest.approx(13.5)
    assert known(*[0.1] * 20, 9.0, settings=HedgeSettings()).late_s() == pytest.approx(0.15)
    assert known(*[0.001] * 20, settings=HedgeSettings()).late_s() == 0.02
    assert known(*[9.0] * 99, *[0.1] * 256, settings=HedgeSettings()).late_s() == pytest.approx(0.15)
    assert known(*[9.0] * 13, *[0.1] * 243, settings=HedgeSettings()).late_s() == pytest.approx(13.5)
    assert known(*[9.0] * 13, *[0.1] * 244, settings=HedgeSettings()).late_s() == pytest.approx(0.15)


def test_a_back_end_saves_ten_hedges_and_gets_none_for_ten_seconds_after_a_503() -> None:
    """These are the settings of a worker. Its first hedge is due after 20 requests."""
    back_end = BackEnd(HedgeSettings())
    for _ in range(19):
        back_end.sent()
    assert not back_end.take_hedge(now_s=0.0)
    for _ in range(1000):
        back_end.sent()
    assert sum(back_end.take_hedge(now_s=0.0) for _ in range(20)) == 10

    for _ in range(20):
        back_end.sent()
    back_end.record_throttle(now_s=5.0)
    assert not back_end.take_hedge(now_s=14.99)
    assert back_end.take_hedge(now_s=15.0)
