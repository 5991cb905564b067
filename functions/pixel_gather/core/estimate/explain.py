"""Write an estimate as text: each number with the counts or assumptions behind it. Pure."""

from collections.abc import Iterator
from math import inf
from typing import Final

from pixel_gather.core.estimate import assumptions, pricing, try_time_limits
from pixel_gather.core.estimate.estimate_result import Estimate, EstimatedFigure
from pixel_gather.core.estimate.range_parts import HERE, LAMBDA, Parts, choose_parts
from pixel_gather.core.estimate.worker import Share
from pixel_gather.core.estimate.workload import PER_HOST, WorkerPool, Workload
from pixel_gather.core.host_leases import lease_s
from pixel_gather.core.model.plurals import counted, size

ENOUGH: Final = "more workers would save less than 5 % of the time and are billed while they wait"

_NOT_DECODED: Final = "tiles are stored as they are: neither decoded, measured nor compressed"
_STORING: Final = (
    f"statistics: {assumptions.MEASURING}",
    f"compressing: {assumptions.COMPRESSING}",
    f"to be put: {assumptions.RATIO}",
)

type _Line = tuple[str, str, tuple[str, ...]]


def figures_of(
    estimate: Estimate, work: Workload, deployment: WorkerPool, *, share: Share, is_inline: bool
) -> tuple[EstimatedFigure, ...]:
    """Return every number of an estimate with its basis.

    Args:
        estimate: The numbers.
        work: The work.
        deployment: The workers, with all choices made.
        share: The average work of one task.
        is_inline: Whether the map has no Map Run.
    """
    lines = (
        *_work(work),
        *_workers(estimate, deployment, is_inline=is_inline),
        *_seconds(estimate, work, deployment, is_inline=is_inline),
        *_usd(estimate, deployment, is_inline=is_inline),
        _if_late(estimate, work, deployment, share, is_inline=is_inline),
    )
    return tuple(EstimatedFigure(*line) for line in lines)


def _work(work: Workload) -> Iterator[_Line]:
    indexed = f" except {work.n_indexed:,} that are in an index" if work.n_indexed else ""
    gets = f"one for each header{indexed}, the window's in the sampled sources, by their headers"
    puts = f"a shard: one object per measurement, two sidecars; {pricing.PUTS_BESIDE} others; coordinates"
    read = (
        "the window's tiles in the sampled sources, by their headers; else a share of their size",
        "if only failed sources are tried again: the mean of what the cube's other sources took",
    )
    yield from _search(work)
    yield "sources", f"{work.n_sources:,}", ("counted in the list",)
    yield "shards", f"{work.n_tasks:,}", ("the layout: each is a task and an object per measurement",)
    yield "GETs", f"{work.n_gets:,}", (gets,)
    yield "PUTs", f"{work.n_puts:,}", (puts,)
    yield "bytes to read", size(work.fetched_nbytes), read
    yield _parts(work)
    yield "bytes decoded", size(work.decoded_nbytes), ("the cube's shape and dtypes",)


def _search(work: Workload) -> Iterator[_Line]:
    """Say what the search took. GETs of a catalog in S3 are priced, pages of an API are not."""
    if work.n_search_pages:
        yield "search", counted(work.n_search_pages, "page"), ("asked of the API; not charged by AWS",)
    elif work.n_search_gets:
        usd = work.n_search_gets * pricing.USD_PER_GET
        gets = f"of the catalog's files, ${usd:.7f} in the dollars of s3 if they lie there"
        yield "search", counted(work.n_search_gets, "GET"), (gets,)


def _parts(work: Workload) -> _Line:
    """Say how one source's bytes are fetched on AWS and, if different, in process."""
    there, here = (
        choose_parts(work.window_nbytes, link=link, n_in_flight=work.n_side_by_side)
        for link in (LAMBDA, HERE)
    )
    in_process = "" if here == there else f" ({_side_by_side(here)} in process)"
    rests_on = (
        f"{size(work.window_nbytes)} per source, {work.n_side_by_side:,} sources at one time",
        f"one connection: {assumptions.CONNECTION}",
        f"a worker's network: {assumptions.NETWORK}",
        f"a machine's network in process: {assumptions.NETWORK_HERE}",
    )
    return "parts", f"{_side_by_side(there)}{in_process}", rests_on


def _side_by_side(parts: Parts) -> str:
    return "single" if parts.part_nbytes is None else f"{parts.n} of {size(parts.part_nbytes)}"


def _workers(estimate: Estimate, deployment: WorkerPool, *, is_inline: bool) -> Iterator[_Line]:
    needed = f"started as they are needed: {assumptions.CHILDREN}"
    memory = (
        f"{deployment.worker_memory_mib:,} MiB each, the smallest size that is at most 5 % slower; one vCPU: "
        f"{assumptions.ONE_VCPU}"
    )
    children = (
        f"of the map: up to {counted(estimate.tasks_per_child, 'shard')} each, in sequence; the last ones "
        "have fewer, so that all workers end at about the same time"
    )
    most = f"at most {deployment.n_workers:,}: {deployment.limit}"
    started = "started at once: an inline Map" if is_inline else needed
    yield "workers", f"{estimate.n_workers:,}", (most, started, memory)
    yield "children", f"{estimate.n_children:,}", (children,)


def _if_late(
    estimate: Estimate, work: Workload, deployment: WorkerPool, share: Share, *, is_inline: bool
) -> _Line:
    first_s = try_time_limits.first_limit_s(share, deployment)
    second_s = try_time_limits.second_limit_s(share, deployment, n_tasks=work.n_tasks)
    stopped = "stopped twice" if is_inline else "stopped"
    tries = (
        f"if every child is {stopped} after {first_s:,} s, and each shard takes {second_s:,} s at its second "
        "try; there is no third"
    )
    beside = "beside it: a child whose worker is killed or whose store fails is tried again, a few times"
    throttled = (
        f"and if Lambda throttles {deployment.n_workers:,} workers, each every "
        f"{try_time_limits.THROTTLED_PAUSE_S:.0f} s, for two days"
    )
    return "dollars if all are late", f"${estimate.usd_if_late or 0.0:,.2f}", (tries, beside, throttled)


def _seconds(
    estimate: Estimate, work: Workload, deployment: WorkerPool, *, is_inline: bool
) -> Iterator[_Line]:
    # What each part of the seconds is computed from.
    rests_on = {
        "plan": (
            f"steps: {assumptions.STEPS}",
            *(() if is_inline else (f"and {assumptions.MAP_RUN}",)),
            f"function's start: {assumptions.COLD_START}",
            f"each source: {assumptions.PLAN_PER_SOURCE}",
            f"waits for {assumptions.PLAN_ROUND_TRIPS}",
        ),
        "dispatch": (
            "of the worker that ends last, like the next three parts",
            *(() if is_inline else (f"waiting for its turn: {assumptions.CHILDREN}",)),
            f"each item: {assumptions.ITEM}" if is_inline else f"each child: {assumptions.CHILD}",
        ),
        "start": (f"worker's start: {assumptions.COLD_START}",),
        "read": (
            f"network: {assumptions.NETWORK}",
            f"first byte: {assumptions.FIRST_BYTE}, {deployment.in_flight} sources in flight",
            f"decoding: {assumptions.DECODING}" if work.is_decoded else _NOT_DECODED,
            f"CPU time of each source: {assumptions.CPU_PER_ROW}",
            f"S3: {assumptions.S3_GETS}; {work.n_prefixes:,} assumed",
            *_turns(deployment),
            f"late: one of {assumptions.GETS_UNTIL_LATE}",
            f"by {assumptions.LATE}",
        ),
        "store": (
            *(_STORING if work.is_decoded else (_NOT_DECODED,)),
            f"network: {assumptions.NETWORK}",
        ),
        "finish": (
            f"function's start{', while the workers read' if is_inline else ''}: {assumptions.COLD_START}",
            f"each source: {assumptions.FINISH_PER_SOURCE}",
            f"waits for {assumptions.FINISH_ROUND_TRIPS}, and more for many shards and sources",
        ),
    }
    # The total comes first, then its parts, then what limits them.
    simulated = "until the cube is complete: a simulation of the workers, not measured on AWS"
    yield "seconds", f"{estimate.seconds:,.1f}", (simulated,)
    for name, part in estimate.seconds_by_part.items():
        yield f"seconds of {name}", f"{part:,.1f}", rests_on[name]
    if work.has_report:
        yield (
            "report",
            f"{assumptions.DRAWING.value:,.1f} s more",
            (f"drawn after that: {assumptions.DRAWING}",),
        )
    yield "bound by", estimate.bound_by, ("the binding limit: without it, the gather would end soonest",)
    yield "enough", counted(estimate.enough_workers, "worker"), (ENOUGH,)


def _usd(estimate: Estimate, deployment: WorkerPool, *, is_inline: bool) -> Iterator[_Line]:
    transitions = (
        f"{pricing.TRANSITIONS_PER_ITEM} transition per item of the inline Map, "
        f"{pricing.TRANSITIONS_BESIDE_INLINE} others"
        if is_inline
        else f"{pricing.TRANSITIONS_PER_CHILD} transitions per child of the map"
    )
    rests_on = {
        "s3": (
            f"${pricing.USD_PER_GET * 1000:.4f} per 1,000 GETs, with {pricing.GETS_PER_TASK} more per shard",
            f"${pricing.USD_PER_PUT * 1000:.3f} per 1,000 PUTs",
            *_ledger(estimate, deployment),
        ),
        "lambda": (
            f"${pricing.USD_PER_GB_S} per GB-second, {deployment.worker_memory_mib / 1024:.3f} GB per worker",
            f"${pricing.USD_PER_INVOCATION * 1e6:.2f} per million invocations",
        ),
        "step_functions": (transitions, f"${pricing.USD_PER_TRANSITION * 1000:.3f} per 1,000"),
        "transfer": (
            f"{size(estimate.transfer_nbytes)} from other Regions",
            *(
                f"{bucket} in {far.region}: "
                f"${pricing.usd_per_gb_from(far.region, to=deployment.region or ''):.3f} per GB"
                for bucket, far in deployment.far_buckets.items()
                if far.is_charged
            ),
        ),
    }
    near = "sources are in the workers' Region: transfer is free"
    transfer = "with transfer between Regions" if estimate.transfer_nbytes else near
    yield "dollars", f"${estimate.usd:,.4f}", (f"prices of {pricing.PRICES_OF}", transfer)
    for name, usd in estimate.usd_by_service.items():
        yield f"dollars of {name}", f"${usd:,.5f}", rests_on[name]


def _turns(deployment: WorkerPool) -> tuple[str, ...]:
    """Say how many requests all workers may send together."""
    per_s = deployment.gets_per_s
    return () if per_s == inf else (f"{PER_HOST}: {per_s:,g} a second by all workers",)


def _ledger(estimate: Estimate, deployment: WorkerPool) -> tuple[str, ...]:
    """Say what it takes to share them."""
    if deployment.gets_per_s == inf:
        return ()
    lasts_s = lease_s(estimate.n_workers, deployment.gets_per_s)
    return (f"{PER_HOST}: each worker looks and puts {pricing.TRIES_PER_LEASE:g} times in {lasts_s:,.0f} s",)
