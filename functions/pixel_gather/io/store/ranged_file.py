"""A seekable file whose bytes are fetched in ranges. Libraries that expect an open file can read it."""

import io
from abc import abstractmethod
from collections.abc import Buffer
from typing import override


class RangedFile(io.RawIOBase):
    """A file of known size. A subclass fetches the ranges."""

    def __init__(self, nbytes: int) -> None:
        """Start at the first byte. ``nbytes`` is the size of the file."""
        self._nbytes = nbytes
        self._position = 0

    @abstractmethod
    def fetch(self, start: int, stop: int) -> Buffer:
        """Return bytes [start, stop), which lie in the file."""

    @override
    def readable(self) -> bool:
        return True

    @override
    def seekable(self) -> bool:
        return True

    @override
    def tell(self) -> int:
        return self._position

    @override
    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        origin = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._nbytes}[whence]
        self._position = origin + offset
        return self._position

    def readinto(self, buffer: Buffer) -> int:
        """Read into a buffer. Return how many bytes; 0 at the end."""
        out = memoryview(buffer).cast("B")
        stop = min(self._position + out.nbytes, self._nbytes)
        if stop <= self._position:
            return 0
        content = memoryview(self.fetch(self._position, stop))
        out[: content.nbytes] = content
        self._position += content.nbytes
        return content.nbytes
