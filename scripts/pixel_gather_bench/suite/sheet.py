"""What is noted of every source while a run is under way, in the same way for every engine."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from threading import Lock

from pixel_gather.errors import SourceError
from pixel_gather.usage import cpu_s

type Floats = list[float]
type Integers = list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A source that gave no pixels."""

    position: int
    """In the list, from 0."""

    status: str
    """As in a cube; ``failed`` where the engine does not tell causes apart."""

    reason: str


@dataclass(slots=True, kw_only=True)
class Columns:
    """One value per source, in the order of the list; times in seconds since the clock started."""

    start_s: Floats
    end_s: Floats
    open_s: Floats
    """Until the header was known."""

    read_s: Floats
    """From then until the pixels were there."""

    nbytes: Integers
    """Of the tile as stored, without the header."""

    header_nbytes: Integers
    """Received until the header was known; 0 where the engine does not tell."""

    lane: Integers
    """Which of the places, or threads, it was read in, from 0."""

    @classmethod
    def empty(cls, n_sources: int) -> "Columns":
        """Return columns of zeros."""
        zeros = {field.name: [0.0 if field.type is Floats else 0] * n_sources for field in fields(cls)}
        return cls(**zeros)  # type: ignore[arg-type] # each of its own kind


@dataclass(slots=True)
class Lanes:
    """Numbers for what is going on at one time: the lowest that is free, first."""

    _free: list[int] = field(default_factory=list)
    _n_made: int = 0

    @contextmanager
    def taken(self) -> Iterator[int]:
        """Hold a number; belongs to one event loop."""
        if not self._free:
            self._free.append(self._n_made)
            self._n_made += 1
        lane = min(self._free)
        self._free.remove(lane)
        try:
            yield lane
        finally:
            self._free.append(lane)


class Sheet:
    """Filled by an engine: from `start` to `stop` the clock runs."""

    def __init__(self, n_sources: int) -> None:
        self.columns = Columns.empty(n_sources)
        self.failures: list[Failure] = []
        self.wall_s = 0.0
        self.cpu_s = 0.0
        self._lock = Lock()
        self._began_s = 0.0
        self._cpu_before_s = 0.0

    def start(self) -> None:
        """Start the clock: what was imported, made and warmed up before does not count."""
        self._cpu_before_s = cpu_s()
        self._began_s = time.perf_counter()

    def stop(self) -> None:
        """Stop the clock: the last source is done."""
        self.wall_s = self.now_s()

    def count_cpu(self) -> None:
        """Note the CPU time since the start, once child processes, if any, have ended."""
        self.cpu_s = cpu_s() - self._cpu_before_s

    def now_s(self) -> float:
        """Return what the clock shows."""
        return time.perf_counter() - self._began_s

    @contextmanager
    def timed(self, position: int, lane: int) -> Iterator[None]:
        """Note when work on a source began and ended, and its failure, if it is one."""
        columns = self.columns
        columns.lane[position] = lane
        columns.start_s[position] = self.now_s()
        try:
            yield
        except SourceError as error:
            self.fail(position, error.status.name.lower(), error.reason)
        finally:
            columns.end_s[position] = self.now_s()

    def fail(self, position: int, status: str, reason: str) -> None:
        """Note that a source gave no pixels."""
        with self._lock:
            self.failures.append(Failure(position=position, status=status, reason=reason))
