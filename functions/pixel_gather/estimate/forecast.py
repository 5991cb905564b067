"""Forecast a gather on AWS: its time, by a simulation of its workers, its price, and which limit binds.

The model rests on `pixel_gather.estimate.assumptions` alone. Nothing here was measured on AWS. Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil, inf
from typing import Final

from pixel_gather.estimate import assumptions, pricing
from pixel_gather.estimate.estimate import Estimate
from pixel_gather.estimate.explain import figures_of
from pixel_gather.estimate.fleet import Course, Fleet, simulate
from pixel_gather.estimate.worker import Share, Worker
from pixel_gather.estimate.workload import Deployment, Workload

BESIDE: Final = "plan and finish"
"""Binds where they take longer than all that lies between them."""

_HARDLY_LONGER: Final = 1.05
_ROOM: Final = 2
"""Times what is enough: S3 may grant more than the model takes for granted, and a worker may be slow."""

_NO_TASK: Final = Share(n_sources=0, n_gets=0, n_puts=0, fetched_nbytes=0, decoded_nbytes=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What the model says, before it is put in words."""

    course: Course
    plan_s: float
    finish_s: float
    bound_by: str
    enough_workers: int

    @property
    def seconds(self) -> float:
        """From the start of the execution to its end."""
        return self.plan_s + self.course.seconds + self.finish_s

    @property
    def seconds_by_part(self) -> dict[str, float]:
        """They add up to ``seconds``."""
        return {"plan": self.plan_s, **self.course.parts_s, "finish": self.finish_s}


def estimate_on_aws(work: Workload, deployment: Deployment) -> Estimate:
    """Say what a gather takes on AWS, each number with what it rests on.

    Where the request asks for no number of workers, the gather gets no more than could help it: those
    beyond would only wait for S3, and be paid for it.
    """
    found = forecast(work, deployment)
    if deployment.asked_workers is None and _ROOM * found.enough_workers < found.course.n_workers:
        deployment = replace(deployment, chosen_workers=_ROOM * found.enough_workers)
        found = replace(forecast(work, deployment), enough_workers=found.enough_workers)
    usd = pricing.usd_on_aws(
        n_gets=work.n_gets,
        n_puts=work.n_puts,
        n_tasks=work.n_tasks,
        worker_s=found.course.worker_s,
        worker_mib=deployment.worker_memory_mib,
        beside_s=found.plan_s + found.finish_s + assumptions.DRAWING.value,
    )
    estimate = Estimate(
        n_gets=work.n_gets,
        n_puts=work.n_puts,
        fetched_nbytes=work.fetched_nbytes,
        decoded_nbytes=work.decoded_nbytes,
        n_workers=found.course.n_workers,
        most_workers=deployment.n_workers,
        seconds=found.seconds,
        seconds_by_part=found.seconds_by_part,
        bound_by=found.bound_by,
        enough_workers=found.enough_workers,
        usd=sum(usd.values()),
        usd_by_service=usd,
        figures=(),
    )
    return replace(estimate, figures=figures_of(estimate, work, deployment))


def forecast(work: Workload, deployment: Deployment) -> Forecast:
    """Simulate a gather, then again without each of its limits: the one that costs the most time binds."""
    worker = Worker.on_lambda(memory_mib=deployment.worker_memory_mib, in_flight=deployment.in_flight)
    fleet = fleet_of(work, deployment, worker)
    course = simulate(fleet)
    plan_s, finish_s = plan_s_of(work), finish_s_of(work)
    if course.seconds < plan_s + finish_s:
        bound_by = BESIDE
    else:
        seconds = {
            name: simulate(without).seconds
            for name, without in _without_each(fleet, share_of(work), worker, deployment).items()
        }
        bound_by = min(seconds, key=lambda name: seconds[name])
    return Forecast(
        course=course,
        plan_s=plan_s,
        finish_s=finish_s,
        bound_by=bound_by,
        enough_workers=_enough_workers(fleet, course, plan_s + finish_s),
    )


def _enough_workers(fleet: Fleet, course: Course, beside_s: float) -> int:
    """Return the fewest workers with which a gather takes at most 5 % longer."""
    longest_s = (course.seconds + beside_s) * _HARDLY_LONGER - beside_s
    too_few, enough = 0, max(course.n_workers, 1)
    while enough - too_few > 1:
        n = (too_few + enough) // 2
        if simulate(replace(fleet, n_workers=n)).seconds <= longest_s:
            enough = n
        else:
            too_few = n
    return enough


def share_of(work: Workload) -> Share:
    """Return what one task has to do."""
    n = work.n_tasks
    if not n:
        return _NO_TASK
    return Share(
        n_sources=work.n_sources / n,
        n_gets=work.n_gets / n,
        n_puts=work.n_puts / n,
        fetched_nbytes=work.fetched_nbytes / n,
        decoded_nbytes=work.decoded_nbytes / n,
    )


def fleet_of(work: Workload, deployment: Deployment, worker: Worker) -> Fleet:
    """Return the simulation's input."""
    share = share_of(work)
    return Fleet(
        n_tasks=work.n_tasks,
        n_workers=deployment.n_workers,
        children_per_s=assumptions.CHILDREN.value,
        burst=assumptions.BURST.value,
        burst_every_s=assumptions.BURST_EVERY.value,
        cold_start_s=assumptions.COLD_START.value,
        child_s=assumptions.CHILD.value,
        round_trips_s=assumptions.TASK_ROUND_TRIPS.value * worker.first_byte_s,
        reading_s=worker.reading_s(share),
        storing_s=worker.storing_s(share),
        n_gets=share.n_gets,
        gets_per_s=assumptions.S3_GETS.value * work.n_prefixes,
        late_share=1 - (1 - 1 / assumptions.GETS_UNTIL_LATE.value) ** share.n_gets,
        late_s=assumptions.LATE.value,
    )


def plan_s_of(work: Workload) -> float:
    """Return how long the plan takes, and the state machine around it."""
    header_s = 2 * assumptions.FIRST_BYTE.value
    return (
        assumptions.STEPS.value
        + assumptions.COLD_START.value
        + header_s
        + work.n_sources * assumptions.PLAN_PER_SOURCE.value
    )


def finish_s_of(work: Workload) -> float:
    """Return how long the finish takes until the cube is complete; the report is drawn after that."""
    sidecars = 2 * ceil(work.n_tasks / assumptions.SIDECARS_AHEAD.value)
    headers = ceil(work.n_tasks / assumptions.HEADERS_AHEAD.value)
    chunks = ceil(work.n_sources / pricing.ROWS_PER_PUT) * assumptions.CHUNK_ROUND_TRIPS.value
    round_trips = assumptions.FINISH_ROUND_TRIPS.value + sidecars + headers + chunks
    return (
        assumptions.COLD_START.value
        + round_trips * assumptions.FIRST_BYTE.value
        + work.n_sources * assumptions.FINISH_PER_SOURCE.value
    )


def _without_each(fleet: Fleet, share: Share, worker: Worker, deployment: Deployment) -> Mapping[str, Fleet]:
    """Return the fleet without each of its limits, by the limit's name."""

    def of(other: Worker) -> Fleet:
        return replace(
            fleet,
            round_trips_s=assumptions.TASK_ROUND_TRIPS.value * other.first_byte_s,
            reading_s=other.reading_s(share),
            storing_s=other.storing_s(share),
        )

    return {
        "network per worker": of(worker.without_network()),
        "CPU per worker": of(worker.without_cpu()),
        "time to first byte": of(worker.without_waiting()),
        "S3 rate per prefix": replace(fleet, gets_per_s=inf),
        "dispatch rate": replace(fleet, children_per_s=inf),
        deployment.limit: replace(fleet, n_workers=max(fleet.n_tasks, 1)),
        "cold starts": replace(fleet, cold_start_s=0.0, burst=inf),
        "late answers": replace(fleet, late_share=0.0),
    }
