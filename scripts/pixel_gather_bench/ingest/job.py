"""The job of one process of bench ingest, its answer, and what every way of pulling does with it."""

import resource
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from copy import replace
from importlib import import_module
from random import Random
from typing import Literal

import xxhash
from msgspec import Struct

from pixel_gather.core import process_usage
from pixel_gather.io.store.store_settings import StoreSettings
from pixel_gather_bench.ingest.ways import BY_NAME, IngestObject

type Phase = Literal["whole", "random", "windows"]
"""``whole``: one object in order. ``random``: random ranges of it, by a process that has read nothing before.
``windows``: one range of each of several objects."""

type Content = bytes | memoryview

_ALIGNED = 4096
"""Random ranges begin at multiples of this many bytes."""


class Read(Struct, frozen=True, kw_only=True):
    """Bytes [start, stop) of one of the objects."""

    index: int
    start: int
    stop: int


class IngestJob(Struct, frozen=True, kw_only=True):
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


class MeasuredWay(Struct, frozen=True, kw_only=True):
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

    def with_random(self, random: "MeasuredWay") -> "MeasuredWay":
        """Return the measurement of the whole object together with that of its random ranges."""
        return replace(
            self,
            random_s=random.total_s / random.n_samples,
            random_digest=random.digest,
            first_random_s=self.download_s + random.first_sample_s,
        )


class WayTrial(Struct, frozen=True, kw_only=True):
    """One attempt at one way."""

    way: str
    round: int
    """Number of the round, from 1."""

    measured: MeasuredWay | None = None
    refused: str | None = None
    """The reason if there is no measurement."""


def random_reads(nbytes: int, *, sample_nbytes: int, n: int) -> tuple[Read, ...]:
    """Return random ranges of one object, each as long as a sample. They are the same for every way."""
    draw = Random(1)  # noqa: S311 # draws places, no secrets
    last = (nbytes - sample_nbytes) // _ALIGNED
    starts = [draw.randint(0, last) * _ALIGNED for _ in range(n)]
    return tuple(Read(index=0, start=start, stop=start + sample_nbytes) for start in starts)


def one_window_each(objects: tuple[IngestObject, ...], *, sample_nbytes: int) -> tuple[Read, ...]:
    """Return a range in the middle of every object. It is a sample long, or less if the object is."""
    starts = [max(each.nbytes - sample_nbytes, 0) // 2 for each in objects]
    return tuple(
        Read(index=index, start=start, stop=min(start + sample_nbytes, each.nbytes))
        for index, (start, each) in enumerate(zip(starts, objects, strict=True))
    )


class Puller(ABC):
    """A way at work on one job."""

    def __init__(self, job: IngestJob) -> None:
        self._job = job

    def ready(self, index: int) -> None:  # noqa: B027 # most ways have nothing to do
        """Do what comes before an object can be read at all, such as a download."""

    def samples(self, index: int) -> Iterator[Read]:
        """Yield an object's samples in order, as ranges."""
        nbytes, step = self._job.objects[index].nbytes, self._job.sample_nbytes
        for start in range(0, nbytes, step):
            yield Read(index=index, start=start, stop=min(start + step, nbytes))

    def stream(self, index: int) -> Iterator[Content]:
        """Yield all bytes of an object in order, in pieces of any size."""
        return self.reads(self.samples(index))

    @abstractmethod
    def reads(self, reads: Iterable[Read]) -> Iterator[Content]:
        """Yield the bytes of each range, in the order of the ranges."""

    def end(self) -> None:  # noqa: B027 # as above
        """Take away what was mounted before the clock started, and wait for its process."""


def measure(job: IngestJob) -> MeasuredWay:
    """Do a job and return what it took."""
    its = BY_NAME[job.way]
    module, _, name = its.puller.partition(":")  # imported now, because each has imports of its own
    way: Puller = getattr(import_module(f"pixel_gather_bench.ingest.{module}"), name)(job)
    cpu_before_s = process_usage.cpu_s()
    try:
        found = _measure_whole(job, way) if job.phase == "whole" else _measure_ranges(job, way)
    finally:
        way.end()  # the process of a mount has to end for its CPU to count
    found = replace(found, cpu_s=process_usage.cpu_s() - cpu_before_s, peak_rss_mib=_peak_rss_mib())
    if job.phase == "whole" and its.downloads:
        return found.with_random(_measure_ranges(job, way))
    return found


def _measure_whole(job: IngestJob, way: Puller) -> MeasuredWay:
    """Read the object from its beginning to its end."""
    digest, first_s, n_seen, began = xxhash.xxh3_128(), 0.0, 0, time.perf_counter()
    way.ready(0)
    download_s = time.perf_counter() - began if BY_NAME[job.way].downloads else 0.0
    for content in way.stream(0):
        digest.update(content)
        n_before, n_seen = n_seen, n_seen + len(content)
        if n_before < job.sample_nbytes <= n_seen:
            first_s = time.perf_counter() - began
    return MeasuredWay(
        digest=digest.hexdigest(),
        first_sample_s=first_s,
        total_s=time.perf_counter() - began,
        n_samples=-(-job.objects[0].nbytes // job.sample_nbytes),
        download_s=download_s,
    )


def _measure_ranges(job: IngestJob, way: Puller) -> MeasuredWay:
    """Read the ranges one after the other."""
    digest, first_s, began = xxhash.xxh3_128(), 0.0, time.perf_counter()
    for position, content in enumerate(way.reads(job.reads)):
        digest.update(content)
        first_s = first_s if position else time.perf_counter() - began
    return MeasuredWay(
        digest=digest.hexdigest(),
        first_sample_s=first_s,
        total_s=time.perf_counter() - began,
        n_samples=len(job.reads),
    )


def _peak_rss_mib() -> float:
    """Return the most memory of this process, and of the largest of its children where that has more.

    A child's figure starts from that of this process: what is less is not known.
    """
    of_children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    child_mib = of_children / (2**20 if sys.platform == "darwin" else 2**10)
    own_mib = process_usage.peak_rss_mib()
    return own_mib + (child_mib if child_mib > own_mib else 0.0)
