"""Send a GET that is late a second time, and take the first answer.

A request that is not late costs next to nothing. Its caller awaits obstore's own future, and one timer
checks all requests every 10 ms. Only a hedge gets a task. Over HTTP/1.1 a hedge has its own connection,
because the connection of the first request is busy. That connection is closed when the hedge wins.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

from pixel_gather.core.model.source import Cost
from pixel_gather.io.store.fetched import Fetched
from pixel_gather.io.store.hedge_policy import BackEnd

_CHECK_EVERY_S: Final = 0.01

type Send = Callable[["Leg"], Awaitable[Fetched]]
"""Sends one request. It passes each future that it awaits to `Leg.waits_for`, and calls `Leg.begins` at the
first byte."""


class Leg:
    """One request in flight: the first one, or its hedge."""

    __slots__ = ("_awaited", "_n_cancelled", "_task", "first_byte_s", "is_stopped", "sent_s")

    def __init__(self) -> None:
        """Start now, in the current task."""
        self.sent_s = time.monotonic()
        self.first_byte_s: float | None = None
        """Seconds from the request to the first byte of its answer. None until then."""

        self.is_stopped = False
        """Whether `stop` was called."""

        self._awaited: asyncio.Future[object] | None = None
        self._task: asyncio.Task[object] = asyncio.current_task()  # type: ignore[assignment] # it runs in one
        self._n_cancelled = self._task.cancelling()

    def waits_for[T](self, awaited: Awaitable[T]) -> Awaitable[T]:
        """Remember the future that is awaited next, and return it."""
        self._awaited = awaited  # type: ignore[assignment] # obstore returns futures; its types say less
        if self.is_stopped:
            self._awaited.cancel()  # type: ignore[union-attr] # as above
        return awaited

    def begins(self) -> None:
        """Record the first byte of the answer. May be called from any thread."""
        self.first_byte_s = time.monotonic() - self.sent_s

    @property
    def is_waiting(self) -> bool:
        """Whether no byte has arrived."""
        return self.first_byte_s is None and self._awaited is not None and not self._awaited.done()

    @property
    def is_cancelled(self) -> bool:
        """Whether its task was cancelled from outside, not by `stop`."""
        return self._task.cancelling() > self._n_cancelled

    def stop(self) -> None:
        """Cancel the future that is awaited."""
        self.is_stopped = True
        if self._awaited is not None:
            self._awaited.cancel()


class _Sent:
    """A caller's request: its leg, and its hedge if there is one."""

    __slots__ = ("cost", "hedge", "legs", "send")

    def __init__(self, send: Send, cost: Cost) -> None:
        self.send = send
        self.cost = cost
        self.legs = [Leg()]
        self.hedge: asyncio.Task[Fetched] | None = None


class HedgedGets:
    """The requests to one bucket or host."""

    def __init__(
        self, back_end: BackEnd, *, first_byte_timeout_s: float, is_final: Callable[[BaseException], bool]
    ) -> None:
        """Send nothing yet.

        ``is_final`` tells whether another request would fail with the same error.
        """
        self.back_end = back_end
        self._first_byte_timeout_s = first_byte_timeout_s
        self._is_final = is_final
        self._under_way: dict[_Sent, None] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    async def get(self, send: Send, cost: Cost) -> Fetched:
        """Send a request, and a hedge if it is late. On return neither is in flight.

        A hedge is counted in the cost.

        Returns:
            The first good answer.

        Raises:
            TimeoutError: No answer began in time.
            Exception: The error of ``send``. A final error is raised at once, others when both have failed.
        """
        self.back_end.sent()
        sent = _Sent(send, cost)
        under_way = self._start_watch()
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

    async def _follow(self, send: Send, leg: Leg) -> Fetched:
        """Send one request and record its time to the first byte, or the time until it was given up."""
        try:
            answer = await send(leg)
        except asyncio.CancelledError as error:
            if not leg.is_stopped or leg.is_cancelled:
                raise
            self.back_end.record_answer(leg.first_byte_s or time.monotonic() - leg.sent_s)
            raise TimeoutError("no answer began in time") from error
        if leg.first_byte_s is not None:
            self.back_end.record_answer(leg.first_byte_s)
        return answer

    def _start_watch(self) -> dict[_Sent, None]:
        """Return the requests in flight on the running loop, and start the timer that checks them."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:  # requests of another loop are still checked by that loop's timer
            self._loop, self._under_way = loop, {}
            loop.call_later(_CHECK_EVERY_S, self._check_soon, loop, self._under_way)
        return self._under_way

    def _check_soon(self, loop: asyncio.AbstractEventLoop, under_way: dict[_Sent, None]) -> None:
        """Check after the answers that have already arrived: a busy loop may not have handled them yet."""
        loop.call_soon(self._check, loop, under_way)

    def _check(self, loop: asyncio.AbstractEventLoop, under_way: dict[_Sent, None]) -> None:
        now_s, late_s = time.monotonic(), self.back_end.late_s()
        longest_s = self._first_byte_timeout_s
        soonest_s = longest_s if late_s is None else min(late_s, longest_s)
        for sent in under_way:
            if now_s - sent.legs[0].sent_s < soonest_s:
                break  # those behind it were sent later
            for leg in sent.legs:
                if leg.is_waiting and now_s - leg.sent_s >= self._first_byte_timeout_s:
                    leg.stop()
            if (
                late_s is not None
                and sent.hedge is None
                and sent.legs[0].is_waiting
                and self.back_end.take_hedge(now_s=now_s)
            ):
                self._hedge(sent, loop)
        if under_way:
            loop.call_later(_CHECK_EVERY_S, self._check_soon, loop, under_way)
        elif under_way is self._under_way:
            self._loop = None

    def _hedge(self, sent: _Sent, loop: asyncio.AbstractEventLoop) -> None:
        async def second() -> Fetched:
            leg = Leg()
            sent.legs.append(leg)
            return await self._follow(sent.send, leg)

        def stop_first(hedge: asyncio.Task[Fetched]) -> None:
            if not hedge.cancelled() and ((error := hedge.exception()) is None or self._is_final(error)):
                sent.legs[0].stop()

        sent.cost.requests += 1
        sent.cost.hedges += 1
        sent.hedge = loop.create_task(second())
        sent.hedge.add_done_callback(stop_first)
