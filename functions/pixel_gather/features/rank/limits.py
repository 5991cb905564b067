"""The limits of a ranking. It is refused after its first scene if all scenes would exceed one. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from pixel_gather.core.errors import BudgetError, RequestError
from pixel_gather.core.model.plurals import counted
from pixel_gather.features.rank.forecast import Forecast
from pixel_gather.features.rank.rounds import RankedScene

_INSTEAD: Final = "rank fewer scenes or a smaller area, say precision: coarse, or raise the limit"


@dataclass(frozen=True, slots=True, kw_only=True)
class RankLimits:
    """What a ranking may take by its forecast. None for no limit."""

    usd: float | None = None
    seconds: float | None = None

    @classmethod
    def of(cls, given: object) -> "RankLimits":
        """Check ``{usd, seconds}``.

        Raises:
            RequestError: It names what is wrong.
        """
        if given is None:
            return cls()
        if not isinstance(given, Mapping) or given.keys() - {"usd", "seconds"}:
            raise RequestError("it takes usd and seconds", field="limits")
        for name, value in given.items():
            if value is not None and (
                isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf")
            ):
                raise RequestError(f"it is {value!r}; write a number above 0", field=f"limits.{name}")
        return cls(usd=given.get("usd"), seconds=given.get("seconds"))

    def check_forecast(self, n_scenes: int, forecast: Forecast) -> None:
        """Refuse a ranking in one process, as `check`."""
        self.check(n_scenes=n_scenes, seconds=forecast.seconds, usd=forecast.usd)

    def check(self, *, n_scenes: int, seconds: float, usd: float) -> None:
        """Refuse a ranking whose forecast is over a limit.

        Raises:
            BudgetError: It says which limit, and what to do.
        """
        scenes = counted(n_scenes, "scene")
        if self.seconds is not None and seconds > self.seconds:
            raise BudgetError(
                f"limits.seconds: {scenes} would take about {seconds:,.1f} s, over the limit of "
                f"{self.seconds:g} s: {_INSTEAD}"
            )
        if self.usd is not None and usd > self.usd:
            raise BudgetError(
                f"limits.usd: {scenes} would cost about ${usd:.6f}, "
                f"over the limit of ${self.usd:g}: {_INSTEAD}"
            )


@dataclass(slots=True)
class FirstScene:
    """Forecasts a ranking once, by the first scene that could be read."""

    n_scenes: int
    in_flight: int
    reads_on: bool
    on_forecast: Callable[[Forecast], None]
    """May refuse the ranking."""

    _is_done: bool = False

    def look(self, ranked: RankedScene) -> None:
        """Take one scene that was read."""
        if self._is_done or ranked.measured is None:
            return
        self._is_done = True
        self.on_forecast(
            Forecast.of(ranked.cost, n_scenes=self.n_scenes, in_flight=self.in_flight, reads_on=self.reads_on)
        )
