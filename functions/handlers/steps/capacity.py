"""Describes a deployment's workers for estimates and prices. Pure."""

from handlers.settings import Settings
from pixel_gather.estimate.worker_memory import max_task_nbytes
from pixel_gather.estimate.workload import FarBucket, WorkerPool, WorkerSize


def workers_of(settings: Settings) -> WorkerPool:
    """Return how many workers there may be, their sizes, and how many sources each reads at the same time."""
    most = settings.limits.get("workers")
    *smaller, largest = settings.shard_memories_mib
    return WorkerPool(
        is_deployed=True,
        max_workers=WorkerPool().max_workers if most is None else int(most),
        worker_memory_mib=largest,
        smaller=tuple(WorkerSize(memory_mib=each, max_task_nbytes=max_task_nbytes(each)) for each in smaller),
        in_flight=min(settings.concurrency, WorkerPool().in_flight),
        region=settings.region,
        far_buckets={
            each.name: FarBucket(region=each.region, is_charged=not each.unsigned)
            for each in settings.source_buckets
            if each.region is not None and settings.region is not None and each.region != settings.region
        },
    )


def size_index(memory_mib: int, settings: Settings) -> int:
    """Return the index of the worker function with this memory. The state machine chooses by it.

    Return the largest worker where no function has this memory. This happens where the deployment was
    changed after the plan was made.
    """
    sizes = settings.shard_memories_mib
    return sizes.index(memory_mib) if memory_mib in sizes else len(sizes) - 1
