"""Standard output that is written as a whole, or the command fails.

With PYTHONUNBUFFERED=1, Python writes a text by one system call and ignores how much of it was written. A
signal or a pipe that does not block may end that call early, as after the 64 KiB that a pipe holds.
"""

import io
import select
import sys
from collections.abc import Buffer


class WholeWrites(io.RawIOBase):
    """Writes all of each piece to a file or pipe, and waits for a reader that is slow."""

    def __init__(self, raw: io.RawIOBase) -> None:
        """Write to ``raw``, which stays open."""
        self._raw = raw
        self._has_failed = False

    def writable(self) -> bool:
        """Return True."""
        return True

    def isatty(self) -> bool:
        """Return whether it is a terminal."""
        return self._raw.isatty()

    def fileno(self) -> int:
        """Return the number of the file."""
        return self._raw.fileno()

    def write(self, data: Buffer, /) -> int:
        """Write all bytes and return how many there are. After an error, which is raised once, drop them."""
        left = memoryview(data).cast("B")
        n_bytes = left.nbytes
        while left and not self._has_failed:
            try:
                written = self._raw.write(left)
            except OSError:
                self._has_failed = True
                raise
            if written is None:  # the pipe is full and does not block
                select.select([], [self._raw], [])
            else:
                left = left[written:]
        return n_bytes


def write_whole_output() -> None:
    """Put one buffered writer over standard output. Nothing is done where it is no file of the system."""
    out = sys.stdout
    binary = getattr(out, "buffer", None)
    raw = getattr(binary, "raw", binary)
    if not isinstance(out, io.TextIOWrapper) or not isinstance(raw, io.FileIO):
        return
    out.flush()
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(WholeWrites(raw)),
        encoding=out.encoding,
        errors=out.errors,
        line_buffering=out.line_buffering or out.write_through,
    )
