"""Sends a GET that is late a second time, and takes the answer that is there first.

Usual requests pay next to nothing: their caller awaits obstore's own future, and one timer for all of them
looks every 10 ms which are late. Only those get a task, for the hedge. Over HTTP/1.1 a hedge always has a
connection of its own, the first one's being busy; and that one is closed when the hedge wins.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, cast

from pixel_gather.adapters.object_store.hedge_policy import BackEnd
from pixel_gather.adapters.object_store.no_redirect_http import RangeAnswer
from pixel_gather.model.source import Cost

_LOOK_EVERY_S: Final = 0.01

type Send = Callable[["Leg"], Awaitable[RangeAnswer]]
"""Sends one request; it tells `Leg.waits_for` what it awaits, and `Leg.begins` of the first byte."""


class Leg:
    """One request under way."""

    __slots__ = ("_awaited", "_n_cancelled", "_task", "first_byte_s", "is_stopped", "sent_s")

    def __init__(self) -> None:
        """Begin now, in the task that is running."""
        self.sent_s = time.monotonic()
        self.first_byte_s: float | None = None
        """From sending the request to the beginning of its answer; None before."""

        self.is_stopped = False
        """Whether whoever awaits it is no longer to."""

        self._awaited: asyncio.Future[object] | None = None
        self._task = cast("asyncio.Task[object]", asyncio.current_task())
        self._n_cancelled = self._task.cancelling()

    def waits_for[T](self, awaited: Awaitable[T]) -> Awaitable[T]:
        """Take note of the future that is awaited next, and return it."""
        self._awaited = cast("asyncio.Future[object]", awaited)  # obstore gives more than its types promise
        if self.is_stopped:
            self._awaited.cancel()
        return awaited

    def begins(self) -> None:
        """Take note that the answer has begun to arrive; from any thread."""
        self.first_byte_s = time.monotonic() - self.sent_s

    @property
    def is_waiting(self) -> bool:
        """Whether no byte has come."""
        return self.first_byte_s is None and self._awaited is not None and not self._awaited.done()

    @property
    def is_cancelled(self) -> bool:
        """Whether its task was cancelled by somebody else than `stop`."""
        return self._task.cancelling() > self._n_cancelled

    def stop(self) -> None:
        """Raise ``CancelledError`` in whoever awaits it."""
        self.is_stopped = True
        if self._awaited is not None:
            self._awaited.cancel()


class _Sent:
    """A caller's request: its leg, and the hedge once there is one."""

    __slots__ = ("cost", "hedge", "legs", "send")

    def __init__(self, send: Send, cost: Cost) -> None:
        self.send = send
        self.cost = cost
        self.legs = [Leg()]
        self.hedge: asyncio.Task[RangeAnswer] | None = None


class HedgedGets:
    """The requests to one bucket or host."""

    def __init__(
        self, back_end: BackEnd, *, first_byte_timeout_s: float, is_final: Callable[[BaseException], bool]
    ) -> None:
        """Send nothing yet.

        Args:
            back_end: What is known of it.
            first_byte_timeout_s: Longest to wait for an answer to begin.
            is_final: Tells of an error whether another request would end in the same.
        """
        self.back_end = back_end
        self._first_byte_timeout_s = first_byte_timeout_s
        self._is_final = is_final
        self._under_way: dict[_Sent, None] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    async def get(self, send: Send, cost: Cost) -> RangeAnswer:
        """Send a request, and a hedge if it is late; on return neither is under way any more.

        Args:
            send: Called for each of the two.
            cost: A hedge is added to it.

        Returns:
            The first good answer.

        Raises:
            TimeoutError: No answer began in time.
            Exception: What ``send`` raised: at once where it is final, else when both have failed.
        """
        self.back_end.sent()
        sent = _Sent(send, cost)
        under_way = self._watched()
        under_way[sent] = None
        try:
            return await self._follow(send, sent.legs[0])
        except Exception as error:
            if sent.hedge is None or self._is_final(error):
                raise
            return await sent.hedge
        finally:
            del under_way[sent]
            if sent.hedge is not None and not sent.hedge.done():
                sent.hedge.cancel()
                await asyncio.wait((sent.hedge,))

    async def _follow(self, send: Send, leg: Leg) -> RangeAnswer:
        """Send one request, and remember when its answer began or how long it was waited for in vain."""
        try:
            answer = await send(leg)
        except asyncio.CancelledError as error:
            if not leg.is_stopped or leg.is_cancelled:
                raise
            self.back_end.answered(leg.first_byte_s or time.monotonic() - leg.sent_s)
            raise TimeoutError("no answer began in time") from error
        if leg.first_byte_s is not None:
            self.back_end.answered(leg.first_byte_s)
        return answer

    def _watched(self) -> dict[_Sent, None]:
        """Return the requests under way on the running loop, which from now on are looked at."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:  # what another loop still has under way goes on being looked at there
            self._loop, self._under_way = loop, {}
            loop.call_later(_LOOK_EVERY_S, self._look_soon, loop, self._under_way)
        return self._under_way

    def _look_soon(self, loop: asyncio.AbstractEventLoop, under_way: dict[_Sent, None]) -> None:
        """Look once the answers that have come meanwhile are known, which a busy loop may not have got to."""
        loop.call_soon(self._look, loop, under_way)

    def _look(self, loop: asyncio.AbstractEventLoop, under_way: dict[_Sent, None]) -> None:
        now_s, late_s = time.monotonic(), self.back_end.late_s()
        for sent in under_way:
            for leg in sent.legs:
                if leg.is_waiting and now_s - leg.sent_s >= self._first_byte_timeout_s:
                    leg.stop()
            if (
                late_s is not None
                and sent.hedge is None
                and sent.legs[0].is_waiting
                and now_s - sent.legs[0].sent_s >= late_s
                and self.back_end.takes_hedge(now_s=now_s)
            ):
                self._hedge(sent, loop)
        if under_way:
            loop.call_later(_LOOK_EVERY_S, self._look_soon, loop, under_way)
        elif under_way is self._under_way:
            self._loop = None

    def _hedge(self, sent: _Sent, loop: asyncio.AbstractEventLoop) -> None:
        async def second() -> RangeAnswer:
            leg = Leg()
            sent.legs.append(leg)
            return await self._follow(sent.send, leg)

        def stop_first(hedge: asyncio.Task[RangeAnswer]) -> None:
            if not hedge.cancelled() and ((error := hedge.exception()) is None or self._is_final(error)):
                sent.legs[0].stop()

        sent.cost.requests += 1
        sent.cost.hedges += 1
        sent.hedge = loop.create_task(second())
        sent.hedge.add_done_callback(stop_first)
