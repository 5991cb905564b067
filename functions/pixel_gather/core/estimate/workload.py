"""Inputs of a forecast: the work and the workers. Pure."""

from collections.abc import Mapping, Sequence
from math import inf
from typing import Final, Self

from msgspec import Struct

from pixel_gather.core.estimate import assumptions, worker_limits

PER_HOST: Final = "limits.requests_per_s"
"""Name of that limit."""

_BUSY: Final = f"as many as {PER_HOST} keeps busy"

LEAST_GETS_PER_S: Final = 4.0
"""With fewer requests a second, a worker mostly waits for its turn and is paid for that."""


class Workload(Struct, frozen=True, kw_only=True):
    """The work of a gather, in the units that take time or cost money."""

    n_sources: int
    n_indexed: int = 0
    """Sources whose header is in an index. ``n_gets`` contains no request for it."""

    n_gets: int
    fetched_nbytes: int
    decoded_nbytes: int
    n_tasks: int
    n_puts: int
    is_decoded: bool = True
    """False if compressed tiles are stored as they are. They are neither decoded, measured nor compressed."""

    has_report: bool = True
    """Whether a report is drawn when the cube is complete."""

    task_nbytes: int = 0
    """Decoded size of the largest task. It must fit into a worker."""

    nbytes_by_bucket: Mapping[str, int] = {}
    """Bytes to fetch from each S3 bucket."""

    window_nbytes: float = 0.0
    """Bytes that a task needs of one source, in the slot where these are most."""

    n_side_by_side: int = 1
    """Sources that one worker reads at one time."""

    n_search_pages: int = 0
    """Pages that a search asked an API for. They cost nothing."""

    n_search_gets: int = 0
    """GETs of a catalog's files by a search. ``n_gets`` does not contain them."""

    n_prefixes: int = 1
    """S3 prefixes of the sources. Each has a request rate of its own."""


class FarBucket(Struct, frozen=True, kw_only=True):
    """A bucket of sources in another Region than the workers."""

    region: str
    is_charged: bool = True
    """Whether the reader pays for the transfer. If the bucket is read without credentials, its owner pays."""


class WorkerPool(Struct, frozen=True, kw_only=True):
    """The workers of a deployment. The defaults are those of a new deployment."""

    max_workers: int = 500
    """Most workers of one gather."""

    is_deployed: bool = False
    """Whether the values come from a real deployment, not from the defaults."""

    asked_workers: int | None = None
    """The request's ``limits.workers``."""

    chosen_workers: int | None = None
    """The forecast's choice if the request sets no number."""

    worker_memory_mib: int = worker_limits.ONE_VCPU_MIB
    """Memory of the largest workers. Every task fits them."""

    max_task_nbytes: int = worker_limits.max_task_nbytes(worker_limits.ONE_VCPU_MIB)
    """Decoded size of the largest task that the largest workers can hold."""

    smaller_mib: tuple[int, ...] = (1024,)
    """Memory of smaller sizes of worker, the smallest first."""

    tasks_per_child: int | None = None
    """Most tasks of a child. None to let the forecast choose."""

    may_be_inline: bool = True
    """Whether a small gather may run without a Map Run; see `worker_limits.MOST_INLINE`."""

    max_usd: float | None = None
    """Highest price of the gather. It limits the second tries of late workers."""

    region: str | None = None
    """Region of the workers; None if unknown."""

    gets_per_s: float = inf
    """GETs a second that ``limits.requests_per_s`` allows all workers together."""

    far_buckets: Mapping[str, FarBucket] = {}
    in_flight: int = 64
    """Sources that a worker reads at one time."""

    @classmethod
    def deployed(
        cls,
        *,
        max_workers: float | None,
        memories_mib: Sequence[int],
        concurrency: int,
        region: str | None,
        buckets: Mapping[str, FarBucket],
    ) -> Self:
        """Return the workers of a real deployment.

        Args:
            max_workers: Most workers of one gather; None for the default.
            memories_mib: Memory of each size of worker, the smallest first.
            concurrency: Most sources that a worker reads at one time from one bucket or host.
            region: Region of the workers; None if unknown.
            buckets: Region of each bucket that declares one.
        """
        default = cls()
        *smaller, largest = memories_mib
        return cls(
            is_deployed=True,
            max_workers=default.max_workers if max_workers is None else int(max_workers),
            worker_memory_mib=largest,
            max_task_nbytes=worker_limits.max_task_nbytes(largest),
            smaller_mib=tuple(smaller),
            in_flight=min(concurrency, default.in_flight),
            region=region,
            far_buckets={
                name: bucket
                for name, bucket in buckets.items()
                if region is not None and bucket.region != region
            },
        )

    @property
    def n_workers(self) -> int:
        """Most workers at one time."""
        return min(self._limits.values())

    @property
    def limit(self) -> str:
        """Name of the limit on the number of workers."""
        limits = self._limits
        return min(limits, key=lambda name: limits[name])

    @property
    def _limits(self) -> dict[str, int]:
        asked = {} if self.asked_workers is None else {"the request's limits.workers": self.asked_workers}
        chosen = {} if self.chosen_workers is None else {"as many as help": self.chosen_workers}
        worth_it = {} if self.gets_per_s == inf else {_BUSY: max(int(self.gets_per_s / LEAST_GETS_PER_S), 1)}
        return {
            "the deployment's max_workers"
            if self.is_deployed
            else "max_workers, by default": self.max_workers,
            **asked,
            **chosen,
            **worth_it,
            "the account's concurrency": int(assumptions.ACCOUNT.value),
        }
