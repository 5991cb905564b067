"""Who does the work of this deployment, as estimates and bills take it. Pure."""

from handlers.settings import Settings
from pixel_gather.estimate.workload import Deployment


def workers_of(settings: Settings) -> Deployment:
    """Return how many workers there may be, their size and how much each usually reads at a time."""
    most = settings.limits.get("workers")
    return Deployment(
        is_deployed=True,
        max_workers=Deployment().max_workers if most is None else int(most),
        worker_memory_mib=settings.shard_memory_mib,
        in_flight=min(settings.concurrency, Deployment().in_flight),
    )
