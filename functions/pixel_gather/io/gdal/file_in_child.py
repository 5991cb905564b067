"""The only file that the child can read: seekable, with its bytes requested from the parent."""

from bisect import bisect_right
from collections.abc import Sequence
from operator import itemgetter
from typing import Any, Final, override

from rasterio.abc import FileContainer

from pixel_gather.io.child_channel import PAIR, Channel, Kind
from pixel_gather.io.store.ranged_file import RangedFile

NAME: Final = "source"
"""Without a suffix, so that the name tells GDAL nothing."""

_MOST_BLOCKS: Final = 64
"""Most blocks that the child caches."""


class RangedBytes:
    """The bytes of the object, requested from the parent.

    GDAL reads a header in dozens of small reads. So a small read requests whole blocks, and some are cached.
    """

    def __init__(self, channel: Channel, *, nbytes: int, block_nbytes: int) -> None:
        self._channel = channel
        self._block_nbytes = block_nbytes
        self._blocks: dict[int, bytes] = {}
        self.nbytes = nbytes
        self.ahead: Sequence[tuple[int, memoryview]] = ()
        """Where ranges begin that came with the request, and their bytes, in the order of the file."""

        self.has_failed = False
        """Whether some bytes could not be read. GDAL's results are then worthless."""

    def read(self, start: int, stop: int) -> bytes:
        """Return bytes [start, stop), cut at the object's end."""
        start, stop = min(start, self.nbytes), min(stop, self.nbytes)
        if place := bisect_right(self.ahead, start, key=itemgetter(0)):
            first, content = self.ahead[place - 1]
            if stop <= first + content.nbytes:
                return bytes(content[start - first : stop - first])
        size = self._block_nbytes
        if stop - start > size:
            return self._ask(start, stop)
        parts = []
        for index in range(start // size, -(-stop // size)):
            block = self._block(index)
            parts.append(block[max(start - index * size, 0) : stop - index * size])
        return b"".join(parts)

    def _ask(self, start: int, stop: int) -> bytes:
        """Request bytes that lie in the object."""
        if self.has_failed:
            return b""
        self._channel.send(Kind.NEED, PAIR.pack(start, stop))
        kind, content = self._channel.receive()
        self.has_failed = kind is not Kind.BYTES
        return b"" if self.has_failed else bytes(content)

    def _block(self, index: int) -> bytes:
        if index not in self._blocks:
            start = index * self._block_nbytes
            block = self._ask(start, min(start + self._block_nbytes, self.nbytes))
            if self.has_failed:
                return b""
            if len(self._blocks) >= _MOST_BLOCKS:
                del self._blocks[next(iter(self._blocks))]
            self._blocks[index] = block
        return self._blocks[index]


class _Handle(RangedFile):
    """One file handle. GDAL may open several."""

    def __init__(self, content: RangedBytes) -> None:
        super().__init__(content.nbytes)
        self._content = content

    @override
    def fetch(self, start: int, stop: int) -> bytes:
        return self._content.read(start, stop)


class OneFile(FileContainer):  # type: ignore[misc] # rasterio ships no types
    """A file system with a single file, as the opener of ``rasterio.open``.

    It does not implement rasterio's interface for several ranges. With it GDAL trusts other fields of a COG
    than for a file on disk, and so reads broken COGs differently.
    """

    def __init__(self, content: RangedBytes) -> None:
        self._content = content

    def open(self, path: str, mode: str = "r", **_options: Any) -> RangedFile:
        """Open the one file."""
        if "r" not in mode or not self.isfile(path):
            raise FileNotFoundError(path)
        return _Handle(self._content)

    def isfile(self, path: str) -> bool:
        """Tell whether this is its path."""
        return path.rpartition("/")[2] == NAME

    def isdir(self, path: str) -> bool:  # noqa: ARG002 # rasterio's interface
        """There are no folders."""
        return False

    def ls(self, path: str) -> list[str]:  # noqa: ARG002 # as above
        """There is nothing to list."""
        return []

    def mtime(self, path: str) -> int:  # noqa: ARG002 # as above
        """Return 0: the time does not matter."""
        return 0

    def rm(self, path: str) -> None:
        """Refuse."""
        raise PermissionError(path)

    def size(self, path: str) -> int:
        """Return its size in bytes."""
        if not self.isfile(path):
            raise FileNotFoundError(path)
        return self._content.nbytes
