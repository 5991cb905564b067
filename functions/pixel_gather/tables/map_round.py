"""How one round of a table runs in a distributed map: tasks, workers, time limits, price. Pure."""

import math
from typing import Final

from msgspec import Struct

from pixel_gather.core.estimate.assumptions import CHILD, CHILDREN, COLD_START, STEPS
from pixel_gather.core.estimate.pricing import (
    TRANSITIONS_PER_CHILD,
    USD_PER_GB_S,
    USD_PER_GET,
    USD_PER_INVOCATION,
    USD_PER_PUT,
    USD_PER_TRANSITION,
)
from pixel_gather.tables.read_forecast import GB_OF_ONE_VCPU, ReadForecast

_USUAL_TASK_S: Final = 10.0
"""Time of a task, if there are enough workers. A shorter task would be mostly the worker's start."""

_LONGEST_TASK_S: Final = 120.0
_MOST_TASKS: Final = 10_000
_LEAST_LIMIT_S: Final = 120
_MOST_LIMIT_S: Final = 800
_TIMES_LIMIT: Final = 6.0
"""A first try may take this many times as long as its forecast. Then a fresh worker starts."""

_TRANSITIONS_PER_ROUND: Final = 3
"""The choice, the map, and the function that decides the next round."""

_GETS_PER_TASK: Final = 5
"""By the worker: the request, the sidecar, the scenes. By the next round: the sidecar and its list."""

_PUTS_PER_ROUND: Final = 5
_DECIDING_S: Final = 3.0
"""Assumed, of the function that decides the next round."""


class MapRound(Struct, frozen=True, kw_only=True):
    """How the map runs one round."""

    n_tasks: int
    n_workers: int
    """At one time."""

    first_limit_s: int
    """Longest time of a task's first try."""

    seconds: float
    """Forecast, from the start of the round until the next one is decided."""

    usd: float
    """Forecast."""


def plan_round(
    forecast: ReadForecast,
    *,
    n_scenes: int,
    most_workers: int,
    n_tasks: int | None = None,
    least_tasks: int = 1,
) -> MapRound:
    """Return how the map runs one round.

    Without a number of tasks, it is chosen; at least ``least_tasks``.
    """
    if n_tasks is None:
        quick = min(math.ceil(forecast.seconds / _USUAL_TASK_S), most_workers)
        n_tasks = max(quick, math.ceil(forecast.seconds / _LONGEST_TASK_S), least_tasks, 1)
    n_tasks = min(n_tasks, n_scenes, _MOST_TASKS)
    n_workers = min(n_tasks, most_workers)
    task_s = forecast.seconds / n_tasks
    worker_s = forecast.seconds + n_workers * COLD_START.value
    runs_s = n_tasks / n_workers * (task_s + CHILD.value) + n_workers / CHILDREN.value
    return MapRound(
        n_tasks=n_tasks,
        n_workers=n_workers,
        first_limit_s=round(min(max(_TIMES_LIMIT * task_s, _LEAST_LIMIT_S), _MOST_LIMIT_S)),
        seconds=STEPS.value + COLD_START.value + runs_s + _DECIDING_S,
        usd=forecast.requests * USD_PER_GET + usd_of_round(worker_s=worker_s, n_tasks=n_tasks),
    )


def usd_of_round(*, worker_s: float, n_tasks: int) -> float:
    """Return the price of one round besides the requests for sources.

    Each task is a child of the map.
    """
    return (
        (worker_s + _DECIDING_S) * GB_OF_ONE_VCPU * USD_PER_GB_S
        + (n_tasks + 1) * USD_PER_INVOCATION
        + n_tasks * (_GETS_PER_TASK * USD_PER_GET + USD_PER_PUT)
        + _PUTS_PER_ROUND * USD_PER_PUT
        + (n_tasks * TRANSITIONS_PER_CHILD + _TRANSITIONS_PER_ROUND) * USD_PER_TRANSITION
    )
