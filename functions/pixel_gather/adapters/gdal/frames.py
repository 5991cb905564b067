"""What parent and child say to each other: a kind, a length, a payload.

Both ends of one socket pair: pipes would do, but a socket can be read straight into an array.
"""

import socket
import struct
from enum import IntEnum
from typing import Final

HEAD: Final = struct.Struct("<BQ")
"""Kind of the frame and bytes of its payload."""

LARGEST_FRAME_NBYTES: Final = 1 << 40
"""Longer than any true frame: what announces more is not our child speaking."""


class Kind(IntEnum):
    """Frames from the parent, then frames from the child."""

    REQUEST = 1
    """JSON: open a source, or read a window of it."""
    BYTES = 2
    """What NEED asked for; empty after PREFETCH."""
    NO_BYTES = 3
    """The ranges cannot be had; the parent knows why."""

    READY = 11
    """The child has started."""
    NEED = 12
    """Two u64: the range [start, stop) that GDAL reads now."""
    PREFETCH = 18
    """Pairs of u64: the ranges [start, stop) that GDAL will read soon."""
    HEADER = 13
    """JSON: the source's header."""
    PIXELS = 14
    """Two u64, first row and stop row of the clipped window, then (band, y, x) pixels."""
    MASK = 15
    """As PIXELS, of one byte each, 0 where hidden, for one band or for each; comes before the pixels of the
    same rows."""
    DONE = 16
    """All rows were sent."""
    FAILED = 17
    """JSON: the status's name and a sentence."""


class Channel:
    """The child's end: blocking, and at its end when the parent is gone."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock

    def send(self, kind: Kind, *parts: bytes | memoryview) -> None:
        """Send one frame whose payload is the parts joined."""
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
