"""The limits of a ranking. It is refused after its first scene if all scenes would exceed one. Pure."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pixel_gather.core.model.plurals import counted
from pixel_gather.features.rank.forecast import RoundForecast
from pixel_gather.features.rank.rounds import RankedScene
from pixel_gather.tables.table_limits import TableLimits

_INSTEAD: Final = "rank fewer scenes or a smaller area, say precision: coarse, or raise the limit"


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
