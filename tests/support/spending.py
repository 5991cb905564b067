"""What workers tell that they have spent."""

from typing import Final

import pytest

from pixel_gather.core.estimate.pricing import GETS_PER_TASK, TRANSITIONS_PER_CHILD
from pixel_gather.core.metric_names import SPENT_USD
from support.lambda_functions import records

_PRICES: Final = {"USD_PER_GET": 1.0, "USD_PER_PUT": 1e3, "USD_PER_TRANSITION": 1e6}

USD_OF_CHILD: Final = GETS_PER_TASK + 1e3 + TRANSITIONS_PER_CHILD * 1e6
"""By these prices, what a worker takes besides requests for sources: its own GETs, one file, its steps."""


def tell_parts_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set prices by which requests, files and steps are told apart in a sum. One GET is one dollar."""
    for name, usd in _PRICES.items():
        monkeypatch.setattr(f"handlers.deployment.report_spending.{name}", usd)


def spent_in(out: str) -> list[float]:
    """Return the dollars in a function's log output."""
    return [value for record in records(out, with_=SPENT_USD.name) for value in record[SPENT_USD.name]]
