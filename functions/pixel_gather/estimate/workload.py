"""What a gather has to do, and who does it: what a forecast is made of. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pixel_gather.estimate import assumptions
from pixel_gather.estimate.worker_memory import max_task_nbytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What is to be done, in the units that take time or are paid for."""

    n_sources: int
    n_indexed: int = 0
    """Of the sources: those whose header is known, so that ``n_gets`` has none for it."""

    n_gets: int
    fetched_nbytes: int
    decoded_nbytes: int
    n_tasks: int
    n_puts: int
    task_nbytes: int = 0
    """Decoded, of the largest task: a worker has to hold it."""

    nbytes_by_bucket: Mapping[str, int] = field(default_factory=dict)
    """Of the bytes to fetch: those of each bucket of S3."""

    window_nbytes: float = 0.0
    """That a task needs of one source, of the slot where these are most."""

    n_side_by_side: int = 1
    """Sources that one worker reads at one time."""

    n_prefixes: int = 1
    """Prefixes of S3 that the sources are spread over, each with a rate of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSize:
    """One of the sizes that workers are deployed in."""

    memory_mib: int
    max_task_nbytes: int
    """Largest task, decoded, that it has room for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FarBucket:
    """A bucket of sources in another Region than the workers."""

    region: str
    is_charged: bool = True
    """Whether the reader pays for the transfer; of a bucket read without credentials, its owner does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """Who does it. The defaults are a deployment's."""

    max_workers: int = 500
    """Of the deployment: no request may have more."""

    is_deployed: bool = False
    """Whether a deployment says so; otherwise these are any deployment's defaults."""

    asked_workers: int | None = None
    """The request's ``limits.workers``."""

    chosen_workers: int | None = None
    """What a forecast takes where the request asks for no number."""

    worker_memory_mib: int = 1769
    """Of the largest workers, which any task fits."""

    smaller: tuple[WorkerSize, ...] = (WorkerSize(memory_mib=1024, max_task_nbytes=max_task_nbytes(1024)),)
    """Other sizes, the smallest first."""

    tasks_per_child: int | None = None
    """None for as many as the forecast finds best."""

    cap_usd: float | None = None
    """What the gather may cost: workers that are late may cost no more beside."""

    region: str | None = None
    """Of the workers; None where it is not known."""

    far_buckets: Mapping[str, FarBucket] = field(default_factory=dict)
    in_flight: int = 64
    """Sources that a worker reads at one time."""

    @property
    def n_workers(self) -> int:
        """Most that work at one time."""
        return min(self._limits.values())

    @property
    def limit(self) -> str:
        """Name what limits the number of workers."""
        limits = self._limits
        return min(limits, key=lambda name: limits[name])

    @property
    def _limits(self) -> dict[str, int]:
        asked = {} if self.asked_workers is None else {"the request's limits.workers": self.asked_workers}
        chosen = {} if self.chosen_workers is None else {"as many as help": self.chosen_workers}
        return {
            "the deployment's max_workers"
            if self.is_deployed
            else "max_workers, by default": self.max_workers,
            **asked,
            **chosen,
            "the account's concurrency": int(assumptions.ACCOUNT.value),
        }
