"""The function that AWS Budgets calls when the month's budget is spent."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from support.lambda_functions import ENVIRONMENT, STATE_MACHINE, Context, cold_start


def test_gathers_and_tables_are_halted_within_the_functions_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each by its own state machine."""
    left: list[float] = []

    def halt(*, left_s: Callable[[], float]) -> int:
        left.append(left_s())
        return 3

    with cold_start(monkeypatch, "halt") as imported:
        module: Any = imported
        machines = [
            (each.kind, each.state_machine_arn) for each in (module.switch.gathers, module.switch.tables)
        ]
        module.switch = SimpleNamespace(halt=halt)
        answer = module.handler({}, Context(left_s=60.0))

    tables = ENVIRONMENT["PIXEL_GATHER_TABLE_STATE_MACHINE_ARN"]
    assert machines == [("gather", STATE_MACHINE), ("table", tables)]
    assert (answer, left) == ({"limited": 3}, [60.0])
