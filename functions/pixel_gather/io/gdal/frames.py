"""The frames that parent and child exchange: a kind, a length, a payload.

They use a socket pair, because a socket can be read straight into an array. A pipe cannot.
"""

import socket
import struct
from enum import IntEnum
from typing import Final

HEAD: Final = struct.Struct("<BQ")
"""Kind of the frame, and size of its payload in bytes."""

LARGEST_FRAME_NBYTES: Final = 1 << 40
"""Longer than any valid frame. A longer one means that the child is broken."""


class Kind(IntEnum):
    """Frames from the parent, then frames from the child."""

    REQUEST = 1
    """JSON: open a source, or read a window of it."""
    BYTES = 2
    """Answer to NEED. Empty as answer to PREFETCH."""
    NO_BYTES = 3
    """The ranges cannot be read. The parent knows why."""

    READY = 11
    """The child has started."""
    NEED = 12
    """Two u64: the range [start, stop) that GDAL is reading."""
    PREFETCH = 18
    """Pairs of u64: the ranges [start, stop) that GDAL will read soon."""
    HEADER = 13
    """JSON: the source's header."""
    PIXELS = 14
    """Two u64, first row and stop row of the clipped window, then (band, y, x) pixels."""
    MASK = 15
    """As PIXELS, but one byte per pixel, 0 where hidden. For one band or for each. Precedes the pixels of the
    same rows."""
    DONE = 16
    """All rows were sent."""
    FAILED = 17
    """JSON: the name of a status, and a sentence."""


class Channel:
    """The child's end of the socket pair. It blocks. Reading ends when the parent has ended."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock

    def send(self, kind: Kind, *parts: bytes | memoryview) -> None:
        """Send one frame. Its payload is the joined parts."""
        views = [memoryview(part).cast("B") for part in parts]
        self._socket.sendall(HEAD.pack(kind, sum(view.nbytes for view in views)))
        for view in views:
            self._socket.sendall(view)

    def receive(self) -> tuple[Kind, memoryview]:
        """Wait for one frame.

        Raises:
            EOFError: The parent has closed its end.
        """
        kind, nbytes = HEAD.unpack(self._exactly(HEAD.size))
        return Kind(kind), self._exactly(nbytes)

    def _exactly(self, nbytes: int) -> memoryview:
        content = memoryview(bytearray(nbytes))
        filled = 0
        while filled < nbytes:
            n_received = self._socket.recv_into(content[filled:])
            if n_received == 0:
                raise EOFError
            filled += n_received
        return content
