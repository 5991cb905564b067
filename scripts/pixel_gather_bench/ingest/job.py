"""What one process of ``bench ingest`` is told to read, and what it answers."""

from dataclasses import dataclass
from random import Random
from typing import Literal

from pixel_gather.adapters.object_store.object_store import StoreSettings

type Phase = Literal["whole", "random", "windows"]
"""All of one object in order; random ranges of it, in a process that has read nothing before; or one range of
each of several objects."""

MIB = 2**20
_ALIGNED = 4096
"""Random ranges begin at multiples of this many bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredObject:
    """One object that is there."""

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
    objects: tuple[StoredObject, ...]
    sample_nbytes: int
    reads: tuple[Read, ...]
    """Random ones of the object; of several objects, one of each."""

    most_ahead: int
    """Ranges in flight, for the way that reads ahead."""

    stores: StoreSettings
    folder: str
    """For downloads; empty, and the process's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What one way took once. Times in seconds, from when the process was ready to start."""

    digest: str
    """Of all bytes in order; of several objects, of their windows in order."""

    first_sample_s: float
    """Until the first sample was there; of several objects, the first one's window."""

    total_s: float
    """Until all was there: the object, or all ranges."""

    n_samples: int
    download_s: float = 0.0
    """Of ``total_s``, what went by before anything could be read, where the way downloads first."""

    random_s: float | None = None
    """A random read, on average, after any download; None where the way only goes forward."""

    random_digest: str | None = None
    """Of the random ranges in order."""

    first_random_s: float | None = None
    """Until a first random read is there where nothing was read before: with the download."""

    cpu_s: float = 0.0
    """Of the process and its children."""

    peak_rss_mib: float = 0.0
    """Of the process, and of the largest of its children where that has more than the process itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One attempt at one way."""

    way: str
    round: int
    """From 1."""

    measured: Measured | None = None
    refused: str | None = None
    """Why there is no measurement."""


def random_reads(nbytes: int, *, sample_nbytes: int, n: int, seed: int = 1) -> tuple[Read, ...]:
    """Return ranges of one object, each a sample long, the same for every way."""
    draw = Random(seed)  # noqa: S311 # draws places, no secrets
    last = (nbytes - sample_nbytes) // _ALIGNED
    starts = [draw.randint(0, last) * _ALIGNED for _ in range(n)]
    return tuple(Read(index=0, start=start, stop=start + sample_nbytes) for start in starts)


def one_window_each(objects: tuple[StoredObject, ...], *, sample_nbytes: int) -> tuple[Read, ...]:
    """Return a range in the middle of every object, a sample long or as long as the object."""
    reads = []
    for index, each in enumerate(objects):
        start = max(each.nbytes - sample_nbytes, 0) // 2
        reads.append(Read(index=index, start=start, stop=min(start + sample_nbytes, each.nbytes)))
    return tuple(reads)
