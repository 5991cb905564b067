"""What every way does with one job."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

from pixel_gather_bench.ingest.job import IngestJob, Read

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
