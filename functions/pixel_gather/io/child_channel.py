"""The frames that a parent and its child exchange: a kind, a length, a payload.

They use a socket pair, because a socket can be read straight into an array. A pipe cannot.
"""

import socket
import struct
from collections.abc import Buffer, Callable
from enum import IntEnum
from typing import Final

HEAD: Final = struct.Struct("<BQ")
"""Kind of the frame, and size of its payload in bytes."""

PAIR: Final = struct.Struct("<QQ")
"""The range [start, stop) of a file, or of rows."""

PLACE: Final = struct.Struct("<Q")
"""First byte of a range."""

LARGEST_FRAME_NBYTES: Final = 1 << 40
"""Longer than any valid frame. A longer one means that the child is broken."""


class Kind(IntEnum):
    """Frames from the parent, then frames from the child."""

    REQUEST = 1
    """What to do: of GDAL, JSON; of Parquet, a `PAIR` of the rows of a batch and the bytes of the file."""
    BYTES = 2
    """Answer to NEED."""
    NO_BYTES = 3
    """The range cannot be read. The parent knows why."""
    NEXT = 4
    """Asks for the next batch of a Parquet file."""
    AHEAD = 5
    """A u64, and bytes from there on of the file that the next request is about."""

    READY = 11
    """The child has started."""
    NEED = 12
    """A `PAIR`: the range that the child is reading."""
    HEADER = 13
    """JSON: the source's header."""
    PIXELS = 14
    """A `PAIR`, first row and stop row of the clipped window, then (band, y, x) pixels."""
    MASK = 15
    """As PIXELS, but one byte per pixel, 0 where hidden. For one band or for each. Precedes the pixels of the
    same rows."""
    DONE = 16
    """All rows or batches were sent."""
    FAILED = 17
    """What is wrong: of GDAL, JSON with the name of a status and a sentence; of Parquet, a text."""
    TABLE = 19
    """An Arrow stream of one batch of a Parquet file. First comes one without rows, for its schema."""


class Channel:
    """A blocking end of the socket pair."""

    def __init__(self, sock: socket.socket, check: Callable[[], None] = lambda: None) -> None:
        self.socket = sock
        self.check = check
        """Called each time that the socket's time-out has passed."""

    def send(self, kind: Kind, *parts: Buffer) -> None:
        """Send one frame. Its payload is the joined parts."""
        views = [memoryview(part).cast("B") for part in parts]
        self._all(HEAD.pack(kind, sum(view.nbytes for view in views)))
        for view in views:
            self._all(view)

    def receive(self) -> tuple[Kind, bytearray]:
        """Wait for one frame.

        Raises:
            EOFError: The other process has ended.
        """
        kind, nbytes = HEAD.unpack(self._exactly(HEAD.size))
        return Kind(kind), self._exactly(nbytes)

    def _all(self, content: Buffer) -> None:
        view = memoryview(content)
        while view.nbytes:
            try:
                view = view[self.socket.send(view) :]
            except TimeoutError:
                self.check()

    def _exactly(self, nbytes: int) -> bytearray:
        content = bytearray(nbytes)
        view = memoryview(content)
        while view.nbytes:
            try:
                n_received = self.socket.recv_into(view)
            except TimeoutError:
                self.check()
                continue
            if n_received == 0:
                raise EOFError
            view = view[n_received:]
        return content
