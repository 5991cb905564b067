"""Describes a deployment's workers for estimates and prices. Pure."""

from handlers.deployment.settings import Settings
from pixel_gather.core.estimate.workload import FarBucket, WorkerPool


def deployed_workers(settings: Settings) -> WorkerPool:
    """Return the deployment's workers."""
    return WorkerPool.deployed(
        max_workers=settings.limits.get("workers"),
        memories_mib=settings.shard_memories_mib,
        concurrency=settings.concurrency,
        region=settings.region,
        buckets={
            each.name: FarBucket(region=each.region, is_charged=not each.unsigned)
            for each in settings.source_buckets
            if each.region is not None
        },
    )


def worker_size_index(memory_mib: int, settings: Settings) -> int:
    """Return the index of the worker function with this memory. The state machine chooses by it.

    Return the largest worker where no function has this memory. This happens where the deployment was
    changed after the plan was made.
    """
    sizes = settings.shard_memories_mib
    return sizes.index(memory_mib) if memory_mib in sizes else len(sizes) - 1
