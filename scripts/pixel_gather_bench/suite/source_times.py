"""The times of every source during a run. All engines note them in the same way."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from threading import Lock

from msgspec import Struct

from pixel_gather.core.errors import SourceError
from pixel_gather.core.process_usage import cpu_s

type Floats = list[float]
type Integers = list[int]


class SourceFailure(Struct, frozen=True, kw_only=True):
    """A source without pixels."""

    position: int
    """Place in the list, from 0."""

    status: str
    """Status as in a cube. It is ``failed`` if the engine does not know more."""

    reason: str


@dataclass(slots=True, kw_only=True)
class Columns:
    """One value for each source, in the order of the list. Times are in seconds since the clock started."""

    start_s: Floats
    end_s: Floats
    open_s: Floats
    """Time until the header was known."""

    read_s: Floats
    """Time from then until the pixels were there."""

    nbytes: Integers
    """Stored size of the tile, without the header."""

    header_nbytes: Integers
    """Bytes received until the header was known; 0 if the engine does not tell."""

    lane: Integers
    """Number of the thread, or of the place among concurrent sources, from 0."""

    @classmethod
    def empty(cls, n_sources: int) -> "Columns":
        """Return columns of zeros."""
        zeros = {field.name: [0.0 if field.type is Floats else 0] * n_sources for field in fields(cls)}
        return cls(**zeros)  # type: ignore[arg-type] # each of its own kind


@dataclass(slots=True)
class Lanes:
    """Gives each concurrent source the lowest free number."""

    _free: list[int] = field(default_factory=list)
    _n_made: int = 0

    @contextmanager
    def taken(self) -> Iterator[int]:
        """Hold a number. Use it in one event loop only."""
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
    """The times of one run. The engine starts and stops the clock."""

    def __init__(self, n_sources: int) -> None:
        self.columns = Columns.empty(n_sources)
        self.failures: list[SourceFailure] = []
        self.wall_s = 0.0
        self.cpu_s = 0.0
        self._lock = Lock()
        self._began_s = 0.0
        self._cpu_before_s = 0.0

    def start(self) -> None:
        """Start the clock. Imports and warm-up before do not count."""
        self._cpu_before_s = cpu_s()
        self._began_s = time.perf_counter()

    def stop(self) -> None:
        """Stop the clock after the last source."""
        self.wall_s = self.now_s()

    def count_cpu(self) -> None:
        """Note the CPU time since the start. Call it once child processes have ended."""
        self.cpu_s = cpu_s() - self._cpu_before_s

    def now_s(self) -> float:
        """Return the seconds since the clock started."""
        return time.perf_counter() - self._began_s

    @contextmanager
    def timed(self, position: int, lane: int) -> Iterator[None]:
        """Note when the reading of a source began and ended, and whether it failed."""
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
        """Note that a source failed."""
        with self._lock:
            self.failures.append(SourceFailure(position=position, status=status, reason=reason))
