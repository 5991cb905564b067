"""A link of limited bandwidth, which all connections of the loopback server share."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

_PIECE_NBYTES: Final = 32 * 1024
"""Small enough for 64 connections to take turns every 30 ms at 78 MB/s, large enough to cost little."""

_TICK_S: Final = 0.002
"""uvloop rounds timers to whole milliseconds: waiting for each piece's own time would keep a core busy."""

type Write = Callable[[bytes | memoryview], bool]
"""Sends a piece; false where nobody listens any more."""


class PacedLink:
    """Sends bodies piece by piece, one connection after the other, at one rate in all.

    What an idle moment would have carried is lost, as on a real link; a timer that fires late is made up for.
    """

    def __init__(self, bytes_per_s: float) -> None:
        """Carry nothing yet."""
        self._bytes_per_s = bytes_per_s
        self._waiting: deque[tuple[Write, memoryview, Callable[[], None]]] = deque()
        self._is_free_at = 0.0
        self._is_sending = False

    def send(self, body: bytes | memoryview, write: Write, done: Callable[[], None]) -> None:
        """Give a body to ``write`` in pieces, as long as it wants them, then call ``done``."""
        self._waiting.append((write, memoryview(body), done))
        if not self._is_sending:
            self._is_sending = True
            self._is_free_at = max(self._is_free_at, asyncio.get_running_loop().time())
            self._send_what_is_due()

    def _send_what_is_due(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            if self._is_free_at > loop.time():
                loop.call_later(_TICK_S, self._send_what_is_due)
                return
            write, body, done = self._waiting.popleft()
            piece, rest = body[:_PIECE_NBYTES], body[_PIECE_NBYTES:]
            is_wanted = write(piece)
            self._is_free_at += is_wanted * len(piece) / self._bytes_per_s
            if rest and is_wanted:
                self._waiting.append((write, rest, done))
            else:
                done()  # may call `send` again
        self._is_sending = False
