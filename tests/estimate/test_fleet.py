"""The simulation of the map agrees with calculations by hand and with random simulations."""

import heapq
import random
from copy import replace
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixel_gather.core.estimate.fleet import Course, Fleet, child_sizes, simulate

FLEET = Fleet(
    n_tasks=1000,
    n_workers=1000,
    children_per_s=100,
    burst=1000,
    burst_every_s=10,
    cold_start_s=1.0,
    child_s=0.1,
    round_trips_s=0.1,
    reading_s=0.5,
    storing_s=0.4,
    n_gets=128,
    gets_per_s=inf,
    late_share=0.0,
    late_s=1.0,
)
TASK_S = 0.1 + 0.1 + 0.5 + 0.4


def test_one_worker_does_one_task_after_another() -> None:
    """A single worker starts once and does all tasks in sequence."""
    course = simulate(replace(FLEET, n_tasks=50, n_workers=1))

    assert course.seconds == pytest.approx(0.01 + 1.0 + 50 * TASK_S)
    assert course.n_workers == 1
    assert course.worker_s == pytest.approx(1.0 + 50 * 1.0)


def test_as_many_workers_as_tasks_wait_for_their_children_alone() -> None:
    """The time is that of the last child: its dispatch, the start of its worker and one task."""
    course = simulate(replace(FLEET, n_tasks=80))

    assert course.seconds == pytest.approx(80 / 100 + 1.0 + TASK_S)
    assert course.n_workers == 80


def test_no_more_workers_start_than_the_dispatch_rate_keeps_busy() -> None:
    """By Little's law, the workers are the rate times a task's seconds, plus some for the first starts."""
    course = simulate(replace(FLEET, n_tasks=5000))

    assert course.seconds == pytest.approx(5000 / 100 + TASK_S, rel=0.05)
    assert 100 * TASK_S <= course.n_workers <= 100 * (TASK_S + 1.0) + 1


def test_s3_holds_all_workers_up_together_and_they_are_paid_for_it() -> None:
    """If S3 is the limit, twice the workers take the same time and cost more."""
    few = simulate(replace(FLEET, n_workers=100, gets_per_s=5500))
    many = simulate(replace(FLEET, n_workers=200, gets_per_s=5500))

    assert few.seconds == pytest.approx(1000 * 128 / 5500, rel=0.05)
    assert many.seconds == pytest.approx(few.seconds, rel=0.02)
    assert many.worker_s > 1.3 * few.worker_s


def test_new_workers_come_in_bursts_where_children_come_faster() -> None:
    """The second thousand workers wait for ten seconds."""
    course = simulate(
        replace(FLEET, n_tasks=2000, n_workers=2000, children_per_s=inf, reading_s=100.0, burst_every_s=10)
    )

    assert course.seconds == pytest.approx(10 + 1.0 + 0.6 + 100.0)


def test_no_task_takes_no_time() -> None:
    """Without missing shards the map takes no time."""
    assert simulate(replace(FLEET, n_tasks=0)) == Course(
        n_children=0,
        seconds=0.0,
        n_workers=0,
        worker_s=0.0,
        parts_s={"dispatch": 0.0, "start": 0.0, "read": 0.0, "store": 0.0},
    )


@pytest.mark.slow
@given(
    n_tasks=st.integers(1, 300),
    n_workers=st.integers(1, 300),
    reading_s=st.floats(0.01, 20),
    gets_per_s=st.floats(100, 10_000),
    late_share=st.floats(0, 1),
)
def test_simulate_beats_no_limit(
    n_tasks: int, n_workers: int, reading_s: float, gets_per_s: float, late_share: float
) -> None:
    """No fleet is faster than each of its limits alone. The parts add up to the total time."""
    fleet = replace(
        FLEET,
        n_tasks=n_tasks,
        n_workers=n_workers,
        reading_s=reading_s,
        gets_per_s=gets_per_s,
        late_share=late_share,
    )
    course = simulate(fleet)

    task_s = reading_s + 0.6
    limits_s = (n_tasks / 100, n_tasks * task_s / n_workers, n_tasks * 128 / gets_per_s, 1.0 + task_s)
    assert course.seconds >= max(limits_s) * 0.999
    assert course.n_workers <= min(n_tasks, n_workers)
    assert sum(course.parts_s.values()) == pytest.approx(course.seconds)
    assert course.worker_s >= n_tasks * (task_s - 0.1)


@pytest.mark.long
@pytest.mark.parametrize("n_workers", [1, 10, 100])
def test_late_answers_spread_evenly_cost_what_they_do_by_chance(n_workers: int) -> None:
    """The model is within 10 % of the mean of twenty runs with random late GETs."""
    fleet = replace(FLEET, n_tasks=600, n_workers=n_workers, late_share=1 - (1 - 1 / 1278) ** 128)
    by_chance = [_by_chance(fleet, random.Random(seed)) for seed in range(20)]  # noqa: S311 # no secret

    assert simulate(fleet).seconds == pytest.approx(sum(by_chance) / len(by_chance), rel=0.1)


def _by_chance(fleet: Fleet, chance: random.Random) -> float:
    """Return the time of a separate simulation in which each GET is late at random."""
    free = [0.0] * fleet.n_workers
    started = set[int]()
    heap = [(at, worker) for worker, at in enumerate(free)]
    ended_s = 0.0
    for task in range(fleet.n_tasks):
        at, worker = heapq.heappop(heap)
        at = max(at, (task + 1) / fleet.children_per_s)
        at += 0.0 if worker in started else fleet.cold_start_s
        started.add(worker)
        late = any(chance.random() < 1 / 1278 for _ in range(round(fleet.n_gets)))
        at += fleet.child_s + fleet.round_trips_s + fleet.reading_s + fleet.storing_s + late * fleet.late_s
        ended_s = max(ended_s, at)
        heapq.heappush(heap, (at, worker))
    return ended_s


@given(n_tasks=st.integers(0, 5000), tasks_per_child=st.integers(1, 20), n_workers=st.integers(1, 1000))
def test_child_sizes_share_out_all_tasks(n_tasks: int, tasks_per_child: int, n_workers: int) -> None:
    """Every task is in one child, and no child is too large.

    With a worker per task, each child has one task.
    """
    sizes = child_sizes(n_tasks, tasks_per_child=tasks_per_child, n_workers=n_workers)

    assert sum(sizes) == n_tasks
    assert all(1 <= each <= tasks_per_child for each in sizes)
    assert sizes == sorted(sizes, reverse=True)
    if n_tasks <= n_workers:
        assert sizes == [1] * n_tasks


@pytest.mark.parametrize("n_workers", [1, 10, 50, 300])
def test_children_with_many_tasks_cost_no_time(n_workers: int) -> None:
    """The last children are small, so that all workers end at about the same time.

    There are far fewer children.
    """
    single = simulate(replace(FLEET, n_tasks=5000, n_workers=n_workers))
    many = simulate(replace(FLEET, n_tasks=5000, n_workers=n_workers, tasks_per_child=11))

    assert many.seconds <= single.seconds * 1.005
    assert many.n_children < 0.4 * single.n_children
