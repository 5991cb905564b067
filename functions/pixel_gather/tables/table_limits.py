"""What a table may take by its forecast: dollars and seconds. Pure."""

from collections.abc import Mapping

from msgspec import Struct

from pixel_gather.core.errors import BudgetError, RequestError
from pixel_gather.core.estimate.pricing import dollars
from pixel_gather.core.request.given_fields import check_names


class TableLimits(Struct, frozen=True, kw_only=True):
    """What a table may take. None for no limit."""

    usd: float | None = None
    seconds: float | None = None

    @classmethod
    def of(cls, given: object) -> "TableLimits":
        """Check ``{usd, seconds}``.

        Raises:
            RequestError: It names what is wrong.
        """
        if given is None:
            return cls()
        if not isinstance(given, Mapping):
            raise RequestError("write {usd: 5, seconds: 600}", field="limits")
        check_names(given, ("usd", "seconds"), within="limits")
        for name, value in given.items():
            if value is not None and (
                isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf")
            ):
                raise RequestError(f"it is {value!r}; write a number above 0", field=f"limits.{name}")
        return cls(usd=given.get("usd"), seconds=given.get("seconds"))

    def check(self, what: str, *, seconds: float, usd: float, instead: str) -> None:
        """Refuse what is over a limit by its forecast.

        ``what`` is what was forecast, such as ``5 scenes``, and ``instead`` what to do.

        Raises:
            BudgetError: It says which limit, and what to do.
        """
        if self.seconds is not None and seconds > self.seconds:
            raise BudgetError(
                f"{what} would take about {seconds:,.1f} s, over the limit of {self.seconds:g} s: {instead}",
                field="limits.seconds",
            )
        if self.usd is not None and usd > self.usd:
            raise BudgetError(
                f"{what} would cost about {dollars(usd)}, over the limit of {dollars(self.usd)}: {instead}",
                field="limits.usd",
            )
