"""The ways that read an object's file: one that somebody else has mounted, or that was downloaded before."""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO

from pixel_gather_bench.ingest.job import IngestJob, Puller, Read


class FileWay(Puller):
    """Reads by seek and read."""

    def __init__(self, job: IngestJob) -> None:
        super().__init__(job)
        self._files: dict[int, IO[bytes]] = {}

    def path(self, index: int) -> Path:
        """Return where an object's file is."""
        return Path(str(self._job.objects[index].mounted))

    def reads(self, reads: Iterable[Read]) -> Iterator[bytes]:
        """Yield the bytes of each range."""
        for read in reads:
            if read.index not in self._files:
                self._files[read.index] = self._open(self.path(read.index))
            file = self._files[read.index]
            file.seek(read.start)
            yield file.read(read.stop - read.start)

    def end(self) -> None:
        """Close what is open."""
        while self._files:
            self._files.popitem()[1].close()

    def _open(self, path: Path) -> IO[bytes]:
        return path.open("rb", buffering=0)


class MountWay(FileWay):
    """A `FileWay` that first asks the system to drop what it has cached of the file."""

    def _open(self, path: Path) -> IO[bytes]:
        file = super()._open(path)
        if hasattr(os, "posix_fadvise"):
            with suppress(OSError):
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return file
