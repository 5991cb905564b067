"""Defects that a test puts back, to prove that a simulation finds them."""

from collections.abc import Callable
from typing import Any

import pytest

from faults.storm import BrokenPromiseError

type PutBack = Callable[[pytest.MonkeyPatch], None]


def name_of(defect: PutBack) -> str:
    """Return what a defect is called."""
    return defect.__name__.removeprefix("_put_back_")


def assert_found(
    defect: PutBack,
    simulate: Callable[[int], Any],
    monkeypatch: pytest.MonkeyPatch,
    *,
    first_seed: int,
    most_seeds: int,
) -> None:
    """Put a defect back, and assert that a run finds it.

    An error that nobody foresees counts, as in all runs.
    """
    defect(monkeypatch)

    with pytest.raises((BrokenPromiseError, ExceptionGroup)):
        _simulate_all(simulate, range(first_seed, first_seed + most_seeds))


def _simulate_all(simulate: Callable[[int], Any], seeds: range) -> None:
    for seed in seeds:
        simulate(seed)
