"""Choose the size of the workers, their number, and the tasks of each child. Pure.

All choices come from the simulation. Smaller and fewer workers are cheaper. They are chosen if they make the
gather at most slightly slower. Children with more tasks are cheaper, too. They cost no time, because the last
children have few tasks (`pixel_gather.core.estimate.fleet.child_sizes`).
"""

from collections.abc import Iterator
from copy import replace
from math import inf
from typing import Final

from msgspec import Struct

from pixel_gather.core.estimate import assumptions
from pixel_gather.core.estimate.fleet import Course, Fleet, simulate
from pixel_gather.core.estimate.worker import Share, Worker
from pixel_gather.core.estimate.worker_limits import MOST_TASKS_PER_CHILD, is_inline, max_task_nbytes
from pixel_gather.core.estimate.workload import WorkerPool, Workload

SLIGHTLY_LONGER: Final = 1.05
"""A smaller worker is chosen if the whole gather takes at most this many times as long."""

_AS_FAST: Final = 1.01
"""The same for a smaller number of workers."""

_FEWER: Final = 0.95
"""A smaller number is chosen only if it is below this share of all workers."""

_LONGEST_CHILD_S: Final = 60.0
"""Longest time of all tasks of a child. Longer children would make second tries expensive."""


class Staffed(Struct, frozen=True, kw_only=True):
    """A deployment with all choices made, and the simulation of a gather with it."""

    deployment: WorkerPool
    fleet: Fleet
    course: Course
    is_inline: bool

    @property
    def overlap_s(self) -> float:
        """How much of the start of finish takes no time, because the workers read meanwhile.

        Finish also loads the plan meanwhile.
        """
        return assumptions.COLD_START.value + assumptions.FIRST_BYTE.value if self.is_inline else 0.0

    @property
    def map_run_s(self) -> float:
        """What a Map Run takes beside its children."""
        has_map_run = self.course.n_children > 0 and not self.is_inline
        return assumptions.MAP_RUN.value if has_map_run else 0.0

    @property
    def seconds(self) -> float:
        """Seconds of the workers that are added to those of plan and finish."""
        return self.course.seconds + self.map_run_s - self.overlap_s


def staff(work: Workload, deployment: WorkerPool, *, beside_s: float) -> Staffed:
    """Make the choices that the request and the deployment leave open.

    Args:
        work: The work.
        deployment: The workers. Its ``chosen_workers`` is ignored.
        beside_s: Seconds of the gather without workers: plan and finish.
    """
    of_sizes = [_with_all_workers(work, each) for each in _sizes(work, deployment)]
    wanted_s = min(each.seconds + beside_s for each in of_sizes) * SLIGHTLY_LONGER
    found = next(each for each in of_sizes if each.seconds + beside_s <= wanted_s)
    if deployment.asked_workers is not None:
        return found
    return _with_fewest_workers(found, (found.seconds + beside_s) * _AS_FAST - beside_s)


def fewest_workers(work: Workload, deployment: WorkerPool, *, beside_s: float, longest_s: float) -> int:
    """Return the smallest number of workers with which the whole gather takes at most ``longest_s``."""

    def seconds(n: int) -> float:
        asked = replace(deployment, asked_workers=n)
        return staff(work, asked, beside_s=beside_s).seconds + beside_s

    too_few, enough = 0, max(min(deployment.n_workers, work.n_tasks), 1)
    while enough - too_few > 1:
        n = (too_few + enough) // 2
        if seconds(n) <= longest_s:
            enough = n
        else:
            too_few = n
    return enough


def share_of(work: Workload) -> Share:
    """Return the average work of one task."""
    n = max(work.n_tasks, 1)
    return Share(
        n_sources=work.n_sources / n,
        n_gets=work.n_gets / n,
        n_puts=work.n_puts / n,
        fetched_nbytes=work.fetched_nbytes / n,
        decoded_nbytes=work.decoded_nbytes / n,
        is_decoded=work.is_decoded,
    )


def worker_of(deployment: WorkerPool) -> Worker:
    """Return one of the deployment's workers."""
    return Worker.on_lambda(memory_mib=deployment.worker_memory_mib, in_flight=deployment.in_flight)


def fleet_of(work: Workload, deployment: WorkerPool, worker: Worker) -> Fleet:
    """Return the input of the simulation."""
    share = share_of(work)
    return Fleet(
        n_tasks=work.n_tasks,
        n_workers=deployment.n_workers,
        tasks_per_child=deployment.tasks_per_child or 1,
        children_per_s=assumptions.CHILDREN.value,
        burst=assumptions.BURST.value,
        burst_every_s=assumptions.BURST_EVERY.value,
        cold_start_s=assumptions.COLD_START.value,
        child_s=assumptions.CHILD.value,
        load_s=assumptions.CHILD_ROUND_TRIPS.value * worker.first_byte_s,
        round_trips_s=assumptions.TASK_ROUND_TRIPS.value * worker.first_byte_s,
        reading_s=worker.reading_s(share),
        storing_s=worker.storing_s(share),
        n_gets=share.n_gets,
        gets_per_s=min(assumptions.S3_GETS.value * work.n_prefixes, deployment.gets_per_s),
        late_share=1 - (1 - 1 / assumptions.GETS_UNTIL_LATE.value) ** share.n_gets,
        late_s=assumptions.LATE.value,
    )


def _sizes(work: Workload, deployment: WorkerPool) -> Iterator[WorkerPool]:
    """Yield the deployment with each size of worker that can hold the tasks, the smallest first."""
    for memory_mib in deployment.smaller_mib:
        if memory_mib < deployment.worker_memory_mib and work.task_nbytes <= max_task_nbytes(memory_mib):
            yield replace(deployment, worker_memory_mib=memory_mib)
    yield deployment


def _with_all_workers(work: Workload, deployment: WorkerPool) -> Staffed:
    """Simulate a gather with as many workers as allowed."""
    worker, share = worker_of(deployment), share_of(work)
    task_s = worker.reading_s(share) + worker.storing_s(share)
    in_a_child = min(MOST_TASKS_PER_CHILD, max(int(_LONGEST_CHILD_S / task_s), 1))
    chosen = replace(
        deployment, chosen_workers=None, tasks_per_child=deployment.tasks_per_child or in_a_child
    )
    return _simulate(chosen, fleet_of(work, chosen, worker))


def _simulate(deployment: WorkerPool, fleet: Fleet) -> Staffed:
    course = simulate(fleet)
    inline = deployment.may_be_inline and is_inline(
        n_children=course.n_children, n_workers=fleet.n_workers, seconds=course.seconds
    )
    if inline:  # no child execution has to start, and none has to wait for its turn
        fleet = replace(fleet, children_per_s=inf, child_s=assumptions.ITEM.value)
        course = simulate(fleet)
    return Staffed(deployment=deployment, fleet=fleet, course=course, is_inline=inline)


def _with_fewest_workers(staffed: Staffed, longest_s: float) -> Staffed:
    """Return the same with the fewest workers that are done within ``longest_s``."""
    too_few, enough = 0, staffed
    while enough.course.n_workers - too_few > 1:
        n = (too_few + enough.course.n_workers) // 2
        fleet = replace(
            staffed.fleet,
            n_workers=n,
            children_per_s=assumptions.CHILDREN.value,
            child_s=assumptions.CHILD.value,
        )
        fewer = _simulate(replace(staffed.deployment, chosen_workers=n), fleet)
        if fewer.seconds <= longest_s:
            enough = fewer
        else:
            too_few = n
    return enough if enough.course.n_workers < _FEWER * staffed.course.n_workers else staffed
