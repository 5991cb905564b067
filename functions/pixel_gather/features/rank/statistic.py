"""One number of an area's pixels: mean, median, a percentile, or the share above a value. Pure."""

import re
from typing import Any, Final, Literal

import numpy as np
from msgspec import Struct

from pixel_gather.core.errors import RequestError

type Values = np.ndarray[Any, np.dtype[np.floating[Any]]]

_PERCENTILE: Final = re.compile(r"p(\d{1,2}(?:\.\d+)?|100)")
_SHARE: Final = re.compile(r"share_above\s*[:=(]\s*([-+0-9.eE]+)\s*\)?")
_FIELD: Final = "statistic"


class Statistic(Struct, frozen=True):
    """What is computed of the values of all pixels that count."""

    kind: Literal["mean", "quantile", "share"]
    at: float = 0.0
    """The quantile, 0 to 1, or the value that a share lies above."""

    @classmethod
    def parse(cls, text: str) -> "Statistic":
        """Parse ``mean``, ``median``, ``p90`` or ``share_above:0.3``.

        Raises:
            RequestError: It is none of them.
        """
        text = text.strip()
        if text == "mean":
            return cls("mean")
        if text == "median":
            return cls("quantile", 0.5)
        if found := _PERCENTILE.fullmatch(text):
            return cls("quantile", float(found[1]) / 100)
        if found := _SHARE.fullmatch(text):
            try:
                value = float(found[1])
            except ValueError:
                value = np.nan
            if np.isfinite(value):
                return cls("share", value)
        raise RequestError(
            f"it is {text[:60]!r}; write mean, median, "
            "p10 (any percentile from p0 to p100) or share_above:0.3",
            field=_FIELD,
        )

    @property
    def text(self) -> str:
        """The statistic as `parse` takes it."""
        if self.kind == "mean":
            return "mean"
        if self.kind == "share":
            return f"share_above:{np.format_float_positional(self.at, trim='-')}"
        return f"p{100 * self.at:.15g}"  # without the error of the product

    def of(self, values: Values, weights: Values | None = None) -> float:
        """Return the statistic; NaN of no values.

        Args:
            values: One dimension, finite.
            weights: How much each counts, above 0; None for equally. Without weights a quantile is NumPy's.
        """
        if not values.size:
            return float("nan")
        if self.kind == "share":
            return float(np.average(values > self.at, weights=weights))
        if self.kind == "mean":
            return float(np.average(values, weights=weights))
        if weights is None:
            return float(np.quantile(values, self.at))
        return _weighted_quantile(values, weights, self.at)


def _weighted_quantile(values: Values, weights: Values, at: float) -> float:
    """Return a quantile between the two values around it. Equal weights give NumPy's linear one."""
    order = np.argsort(values)
    values, weights = values[order], weights[order]
    middles = np.cumsum(weights) - weights / 2
    first, last = middles[0], middles[-1]
    if last == first:
        return float(values[0])
    return float(np.interp(at, (middles - first) / (last - first), values))
