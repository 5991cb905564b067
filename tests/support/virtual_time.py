"""An event loop in virtual time: time passes only while all tasks sleep, so hours take milliseconds."""

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from typing import Any, override


class _Call(list[Any]):
    """What the loop is to call: a context, a callback and its arguments. A cancelled call has no callback."""

    def cancel(self) -> None:
        """Leave it out."""
        self[1] = None


class _VirtualLoop(asyncio.BaseEventLoop):
    """An event loop without sockets, threads and clock.

    It calls everything in the order in which asyncio's own loop does. That one makes a handle for each call
    and asks its selector in each round, which takes half of the time of a simulation.
    """

    def __init__(self) -> None:
        super().__init__()
        self._now_s = 0.0
        self._calls: deque[_Call] = deque()
        self._timers: list[tuple[float, int, _Call]] = []
        self._n_timers = 0

    @override
    def time(self) -> float:
        return self._now_s

    @override
    def create_task(self, coro: Any, **options: Any) -> asyncio.Task[Any]:
        return asyncio.Task(coro, loop=self, **options)

    @override
    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    @override
    def call_soon[*Ts](
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> Any:
        call = _Call((context or copy_context(), callback, args))
        self._calls.append(call)
        return call

    @override
    def call_soon_threadsafe[*Ts](
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> Any:
        return self.call_soon(callback, *args, context=context)

    @override
    def call_at[*Ts](
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> Any:
        call = _Call((context or copy_context(), callback, args))
        self._n_timers += 1  # timers of the same time are called in the order in which they were made
        heapq.heappush(self._timers, (when, self._n_timers, call))
        return call

    @override
    def call_later[*Ts](
        self, delay: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> Any:
        return self.call_at(self._now_s + delay, callback, *args, context=context)

    def _run_once(self) -> None:
        """Call in rounds until the loop is stopped. A round has all that was to be called when it began.

        Raises:
            RuntimeError: All tasks wait, and nothing will wake them.
        """
        calls, timers = self._calls, self._timers
        stops: Any = self  # `stop` sets its flag
        while not stops._stopping:
            while timers and timers[0][2][1] is None:
                heapq.heappop(timers)
            if not calls:
                if not timers:
                    raise RuntimeError("all tasks wait for one another")
                self._now_s = max(self._now_s, timers[0][0])
            while timers and timers[0][0] <= self._now_s:
                calls.append(heapq.heappop(timers)[2])
            for _ in range(len(calls)):
                context, callback, args = calls.popleft()
                if callback is not None:
                    try:
                        context.run(callback, *args)
                    except Exception as error:  # noqa: BLE001 # as asyncio's own loop does
                        self.call_exception_handler({"message": f"in {callback}", "exception": error})


def run_virtually[T](work: Coroutine[Any, Any, T]) -> T:
    """Run until the end. ``asyncio.get_running_loop().time()`` is the clock. For sleeps alone."""
    loop = _VirtualLoop()
    try:
        return loop.run_until_complete(work)
    finally:
        if unended := asyncio.all_tasks(loop):
            for task in unended:
                task.cancel()
            loop.run_until_complete(asyncio.gather(*unended, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
