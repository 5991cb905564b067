"""The job of one process of bench ingest, its answer, and what every way of pulling does with it."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal

from pixel_gather.io.store.object_store import StoreSettings

type Phase = Literal["whole", "random", "windows"]
"""``whole``: one object in order. ``random``: random ranges of it, by a process that has read nothing before.
``windows``: one range of each of several objects."""

MIB = 2**20
_ALIGNED = 4096
"""Random ranges begin at multiples of this many bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestObject:
    """One object of a store."""

    href: str
    """A checked href."""

    nbytes: int
    etag: str | None

    mounted: str | None = None
    """Its path on a mounted file system."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """Bytes [start, stop) of one of the objects."""

    index: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestJob:
    """One way, measured once in a process of its own."""

    way: str
    phase: Phase
    objects: tuple[IngestObject, ...]
    sample_nbytes: int
    reads: tuple[Read, ...]
    """Random ranges of one object, or one range of each of several objects."""

    most_ahead: int
    """Ranges in flight of the way that reads ahead."""

    stores: StoreSettings
    folder: str
    """Empty folder of this process for downloads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredWay:
    """What one way took once. Times are in seconds since the process was ready."""

    digest: str
    """Digest of all bytes that were read, in order."""

    first_sample_s: float
    """Time until the first sample, or the first window, was there."""

    total_s: float
    """Time until the object, or all ranges, were there."""

    n_samples: int
    download_s: float = 0.0
    """Part of ``total_s`` that a download took before anything could be read."""

    random_s: float | None = None
    """Average of a random read, without the download; None if the way only goes forward."""

    random_digest: str | None = None
    """Digest of the random ranges, in order."""

    first_random_s: float | None = None
    """Time of the first random read, with the download."""

    cpu_s: float = 0.0
    """CPU time of the process and its children."""

    peak_rss_mib: float = 0.0
    """Peak memory of the process. The largest child is added if it has more than the process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WayTrial:
    """One attempt at one way."""

    way: str
    round: int
    """Number of the round, from 1."""

    measured: MeasuredWay | None = None
    refused: str | None = None
    """The reason if there is no measurement."""


def random_reads(nbytes: int, *, sample_nbytes: int, n: int, seed: int = 1) -> tuple[Read, ...]:
    """Return random ranges of one object, each as long as a sample. They are the same for every way."""
    draw = Random(seed)  # noqa: S311 # draws places, no secrets
    last = (nbytes - sample_nbytes) // _ALIGNED
    starts = [draw.randint(0, last) * _ALIGNED for _ in range(n)]
    return tuple(Read(index=0, start=start, stop=start + sample_nbytes) for start in starts)


def one_window_each(objects: tuple[IngestObject, ...], *, sample_nbytes: int) -> tuple[Read, ...]:
    """Return a range in the middle of every object. It is a sample long, or less if the object is."""
    reads = []
    for index, each in enumerate(objects):
        start = max(each.nbytes - sample_nbytes, 0) // 2
        reads.append(Read(index=index, start=start, stop=min(start + sample_nbytes, each.nbytes)))
    return tuple(reads)


type Content = bytes | memoryview


class Puller(ABC):
    """A way at work on one job."""

    def __init__(self, job: IngestJob) -> None:
        """Start nothing yet."""
        self._job = job

    def ready(self, index: int) -> None:  # noqa: B027 # most ways have nothing to do
        """Do what comes before an object can be read at all, such as a download."""

    @abstractmethod
    def stream(self, index: int) -> Iterator[Content]:
        """Yield all bytes of an object in order, in pieces of any size."""

    @abstractmethod
    def reads(self, reads: Sequence[Read]) -> Iterator[Content]:
        """Yield the bytes of each range, in the order of the ranges."""

    def end(self) -> None:  # noqa: B027 # as above
        """Take away what was mounted before the clock started, and wait for its process."""
