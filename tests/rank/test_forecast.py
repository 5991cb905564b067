"""What a ranking will take, by what its scenes took so far."""

from copy import replace

import pytest

from pixel_gather.core.model.source import Cost
from pixel_gather.features.rank.choose_reads import RankedScene, WantedRead
from pixel_gather.features.rank.forecast import RoundForecast
from pixel_gather.features.rank.measured_scene import MeasuredScene
from support.measured_scene import measured_scene

FIRST = Cost(requests=4, nbytes=1_000_000, decode_s=0.0142)
"""With 9 ms for Python around a scene and 0.2 ms for each request, its CPU time is 24 ms."""

MEASURED = measured_scene(
    1.0,
    level=2,
    levels=(2, 1, 0, None),
    level_nbytes=(1.0, 4.0, 16.0, 64.0),
    factor=8.0,
)


def next_round_of(*measured: MeasuredScene | None, cost: Cost = FIRST) -> RoundForecast:
    """Return the forecast for reading scenes of one cost again."""
    scenes = [
        RankedScene(scene=None, measured=each, cost=cost)  # type: ignore[arg-type] # it is not looked at
        for each in measured
    ]
    return RoundForecast.of_round([WantedRead(each, 0) for each in scenes], like=FIRST, in_flight=1000)


def test_a_hundred_scenes_take_a_hundred_times_the_first() -> None:
    """Whatever takes longest of the cores, the answers' first bytes and the network is what counts."""
    busy = RoundForecast.of(FIRST, n_scenes=100, in_flight=1000, reads_on=False)
    waiting = RoundForecast.of(FIRST, n_scenes=100, in_flight=1, reads_on=False)
    large = RoundForecast.of(replace(FIRST, nbytes=78_000_000), n_scenes=100, in_flight=1000, reads_on=False)

    assert (busy.requests, busy.nbytes) == (400, 100_000_000)
    assert busy.seconds == pytest.approx(2.4)
    assert waiting.seconds == pytest.approx(400 * 0.030)
    assert large.seconds == pytest.approx(100)


def test_scenes_whose_rank_is_open_are_read_again() -> None:
    """Nearly a third of them, or so it is assumed."""
    once, again = (
        RoundForecast.of(FIRST, n_scenes=100, in_flight=8, reads_on=each) for each in (False, True)
    )

    assert again.requests == pytest.approx(1.3 * once.requests)
    assert again.nbytes == pytest.approx(1.3 * once.nbytes)
    assert again.seconds == pytest.approx(1.3 * once.seconds)


def test_price_is_of_requests_and_of_one_vcpu() -> None:
    """S3 takes $0.40 for a million GETs; a function of 1,769 MiB costs 8.3 cents an hour."""
    assert RoundForecast(1e6, 0.0, 0.0).usd == pytest.approx(0.40)
    assert RoundForecast(0.0, 0.0, 3600.0).usd == pytest.approx(0.08292, rel=1e-4)


@pytest.mark.parametrize(
    ("level", "times"), [(2, 4), (1, 4), (0, 64)], ids=["coarsest", "middle", "then full resolution"]
)
def test_next_level_has_four_times_the_pixels_or_all_of_them(level: int, times: int) -> None:
    """Full resolution has 8 x 8 pixels for each pixel of the overview that was read before it."""
    found = next_round_of(replace(MEASURED, level=level))

    assert (found.requests, found.nbytes) == (4, times * 1_000_000)
    assert found.seconds == pytest.approx(times * 0.0142 + 0.009 + 4 * 0.0002)


def test_a_scene_is_read_again_at_the_same_size_if_it_showed_nothing_or_all() -> None:
    """It has no value yet, or it was read at full resolution."""
    found = next_round_of(None, replace(MEASURED, level=None))

    assert found.nbytes == 2_000_000


def test_full_resolution_counts_as_at_most_64_by_64_pixels_each() -> None:
    """An overview of a few pixels tells little about how many bytes all of them take."""
    assert next_round_of(replace(MEASURED, level=0, factor=1000.0)).nbytes == 4096 * 1_000_000


def test_a_round_of_no_scene_takes_nothing() -> None:
    """It takes neither requests nor time."""
    assert next_round_of() == RoundForecast(0.0, 0.0, 0.0)
