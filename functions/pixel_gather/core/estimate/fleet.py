"""Simulate many workers on many tasks: the map, child by child. Pure.

Children start at a fixed rate. Each takes a free worker, or else a new one that starts cold, or else waits.
It does its tasks in sequence. Reading takes the worker's own time, or longer if all workers together exceed
the request rate of S3. The simulation of 10,000 children takes about 20 ms.
"""

import heapq
from math import floor, inf
from typing import Final

from msgspec import Struct


class Fleet(Struct, frozen=True, kw_only=True):
    """Equal tasks, and the limits of their speed. Times in seconds."""

    n_tasks: int
    n_workers: int
    """Most workers at one time."""

    tasks_per_child: int = 1
    """Most tasks of a child. The last children have fewer; see `child_sizes`."""

    children_per_s: float
    burst: float
    """Number of workers that may start at once, and again every ``burst_every_s``."""

    burst_every_s: float
    cold_start_s: float
    child_s: float
    """Overhead of a child outside of its worker."""

    load_s: float = 0.0
    """Time of a child in its worker before its first task."""

    round_trips_s: float
    """Time of a task in its worker besides reading and storing."""

    reading_s: float
    storing_s: float
    n_gets: float
    """GETs of a task, from the store that all workers share."""

    gets_per_s: float
    late_share: float
    """Share of the tasks with a late answer, 0 to 1."""

    late_s: float


class Course(Struct, frozen=True, kw_only=True):
    """Result of a simulation."""

    n_children: int

    seconds: float
    """Time until the last task was done."""

    n_workers: int
    """Workers that were started."""

    worker_s: float
    """Billed seconds of all workers, their starts included."""

    parts_s: dict[str, float]
    """Parts of ``seconds`` for the worker that ended last: dispatch (its waits), start, read, store."""


_PARTS = ("dispatch", "start", "read", "store")


_ROUNDS_TO_COME: Final = 1
"""A child gets as many tasks as are allowed while each worker can still have so many more children of that
size. Later children get fewer tasks."""


def child_sizes(n_tasks: int, *, tasks_per_child: int, n_workers: int) -> list[int]:
    """Return the number of tasks of each child, in order: many at first, single tasks at the end.

    Few tasks are then spread over many workers, and all workers end at about the same time.
    """
    sizes = []
    left = n_tasks
    while left > 0:
        sizes.append(max(min(tasks_per_child, left // (_ROUNDS_TO_COME * n_workers)), 1))
        left -= sizes[-1]
    return sizes


def simulate(fleet: Fleet) -> Course:
    """Simulate all tasks."""
    free: list[tuple[float, int]] = []
    spent: list[list[float]] = []
    s3_free_s = worker_s = 0.0
    done = 0
    sizes = child_sizes(fleet.n_tasks, tasks_per_child=fleet.tasks_per_child, n_workers=fleet.n_workers)
    for child, n in enumerate(sizes):
        dispatched_s = (child + 1) / fleet.children_per_s
        worker, free_s, started_cold_s = _worker(fleet, free, spent, dispatched_s)
        begun_s = max(free_s, dispatched_s)
        parts = spent[worker]
        s3_free_s = max(s3_free_s, begun_s) + n * fleet.n_gets / fleet.gets_per_s
        alone_s = fleet.load_s + n * (fleet.round_trips_s + fleet.reading_s)
        alone_s += fleet.late_s * _n_late(done, done + n, fleet.late_share)
        read_s = max(alone_s, s3_free_s - begun_s - started_cold_s)
        parts[0] += begun_s - free_s + fleet.child_s
        parts[1] += started_cold_s
        parts[2] += read_s
        parts[3] += n * fleet.storing_s
        paid_s = started_cold_s + read_s + n * fleet.storing_s
        done += n
        worker_s += paid_s
        heapq.heappush(free, (begun_s + fleet.child_s + paid_s, worker))
    seconds, last = max(free, default=(0.0, None))
    return Course(
        n_children=len(sizes),
        seconds=seconds,
        n_workers=len(spent),
        worker_s=worker_s,
        parts_s=dict(zip(_PARTS, [0.0] * len(_PARTS) if last is None else spent[last], strict=True)),
    )


def _worker(
    fleet: Fleet, free: list[tuple[float, int]], spent: list[list[float]], now_s: float
) -> tuple[int, float, float]:
    """Return the next worker, the time from which it is free, and the duration of its start."""
    soonest_s = free[0][0] if free else inf
    if len(spent) < fleet.n_workers:
        may_start_s = floor(len(spent) / fleet.burst) * fleet.burst_every_s
        if max(may_start_s, now_s) < soonest_s:
            spent.append([max(may_start_s, now_s), 0.0, 0.0, 0.0])
            return len(spent) - 1, max(may_start_s, now_s), fleet.cold_start_s
    free_s, worker = heapq.heappop(free)
    return worker, free_s, 0.0


def _n_late(start: int, stop: int, share: float) -> int:
    """Return the number of tasks with a late answer. Spread evenly: equal plans have equal prices."""
    return floor(stop * share) - floor(start * share)
