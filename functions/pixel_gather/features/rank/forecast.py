"""What a ranking, or a round of it, will take, and whether that is within its limits. Pure."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from pixel_gather.core.model.plurals import counted
from pixel_gather.core.model.source import Cost
from pixel_gather.features.rank.choose_reads import RankedScene, WantedRead
from pixel_gather.tables.read_forecast import ReadForecast
from pixel_gather.tables.table_limits import TableLimits

_CPU_PER_SCENE_S: Final = 9e-3
"""Python and NumPy around a scene. Measured on x86: 1,000 COGs whose overview of 256 x 256 pixels is read."""

_READ_ON: Final = 1.3
"""Scenes whose rank is open are read again. How many is not known before."""

_NEXT_LEVEL: Final = 4.0
"""An overview has about this many times the pixels of the next smaller one."""

_MOST_TIMES: Final = 4096.0


class RoundForecast(ReadForecast, frozen=True):
    """What reading scenes takes."""

    @classmethod
    def of(cls, first: Cost, *, n_scenes: int, in_flight: int, reads_on: bool) -> "RoundForecast":
        """Return the forecast for scenes that are like the first one."""
        n = n_scenes * (_READ_ON if reads_on else 1.0)
        return cls.of_each(
            n, first.requests, first.nbytes, first.decode_s + _CPU_PER_SCENE_S, in_flight=in_flight
        )

    @classmethod
    def of_round(cls, wanted: Iterable[WantedRead], *, like: Cost, in_flight: int) -> "RoundForecast":
        """Return the forecast for one round.

        The bytes of a scene that was read before are forecast from its bytes so far. They grow as the pixels
        do, from its last level to the wanted one. A scene that was not read before takes as much as ``like``.
        """
        n, requests, nbytes, decode_s = 0, 0.0, 0.0, 0.0
        for each in wanted:
            cost, times = (each.ranked.cost, _times(each)) if each.ranked.cost.requests else (like, 1.0)
            n += 1
            requests += cost.requests
            nbytes += cost.nbytes * times
            decode_s += cost.decode_s * times
        return cls.of_each(
            n,
            requests / max(n, 1),
            nbytes / max(n, 1),
            decode_s / max(n, 1) + _CPU_PER_SCENE_S,
            in_flight=in_flight,
        )


def _times(wanted: WantedRead) -> float:
    """Return how many times more pixels the wanted level of a scene has than its last one."""
    measured = wanted.ranked.measured
    if measured is None or measured.level is None:
        return 1.0
    at, last = measured.levels.index(measured.level), len(measured.levels) - 1
    step = last if wanted.step is None else max(wanted.step, at + 1)
    return min(measured.factor**2 if step >= last else _NEXT_LEVEL ** (step - at), _MOST_TIMES)


_INSTEAD: Final = (
    "rank fewer scenes or a smaller area, take precision coarse (--precision coarse), or raise the limit"
)


def check_ranking(limits: TableLimits, n_scenes: int, *, seconds: float, usd: float) -> None:
    """Refuse a ranking whose forecast is over a limit.

    Raises:
        BudgetError: It says which limit, and what to do.
    """
    limits.check(counted(n_scenes, "scene"), seconds=seconds, usd=usd, instead=_INSTEAD)


@dataclass(slots=True)
class FirstScene:
    """Forecasts a ranking once, by the first scene that could be read."""

    n_scenes: int
    in_flight: int
    reads_on: bool
    on_forecast: Callable[[RoundForecast], None]
    """May refuse the ranking."""

    _is_done: bool = False

    def look(self, ranked: RankedScene) -> None:
        """Take one scene that was read."""
        if self._is_done or ranked.measured is None:
            return
        self._is_done = True
        self.on_forecast(
            RoundForecast.of(
                ranked.cost, n_scenes=self.n_scenes, in_flight=self.in_flight, reads_on=self.reads_on
            )
        )
