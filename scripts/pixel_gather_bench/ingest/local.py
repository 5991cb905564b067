"""The way of a mounted file system, where the object is a file."""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from pixel_gather_bench.ingest.job import IngestJob, Read
from pixel_gather_bench.ingest.puller import Puller


class MountWay(Puller):
    """Reads by seek and read. The system is first asked to drop what it has cached of the file."""

    def __init__(self, job: IngestJob) -> None:
        """Open nothing yet."""
        super().__init__(job)
        self._files: dict[int, IO[bytes]] = {}

    def stream(self, index: int) -> Iterator[bytes]:
        """Yield all bytes in order."""
        file = self._file(index)
        while chunk := file.read(self._job.sample_nbytes):
            yield chunk
        self._forget(file)

    def reads(self, reads: Sequence[Read]) -> Iterator[bytes]:
        """Yield the bytes of each range."""
        for read in reads:
            file = self._file(read.index)
            file.seek(read.start)
            yield file.read(read.stop - read.start)

    def end(self) -> None:
        """Close what is open."""
        for file in self._files.values():
            file.close()

    def _file(self, index: int) -> IO[bytes]:
        if index not in self._files:
            path = Path(str(self._job.objects[index].mounted))
            self._files[index] = path.open("rb", buffering=0)  # open as long as this process is
            self._forget(self._files[index])
        return self._files[index]

    def _forget(self, file: IO[bytes]) -> None:
        if hasattr(os, "posix_fadvise"):
            with suppress(OSError):
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
