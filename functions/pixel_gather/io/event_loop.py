"""Run a coroutine to its end, whether or not an event loop is already running."""

import asyncio
import os
import signal
import threading
import time
from collections.abc import Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, Final, Self

try:
    from uvloop import new_event_loop
except ImportError:  # not made for Windows
    from asyncio import new_event_loop  # type: ignore[assignment] # both make a loop

_FORBIDDEN: Final = (OSError, AttributeError)
"""Errors where a sandbox forbids scheduling policies, or the system has none."""

_PATIENCE_S: Final = 10.0
"""How long work may clean up after an interrupt. A later interrupt breaks that off."""

_WAKE_EVERY_S: Final = 0.1


def open_runner() -> asyncio.Runner:
    """Return an event loop that runs one coroutine after another. The caller closes it.

    uvloop reads 5 to 10 % more tiles a second than asyncio's own loop, with 10 % less CPU. The calling
    thread, and every thread that it starts, becomes a batch thread: see `_batch_scheduling`.
    """
    _set_batch()
    return asyncio.Runner(loop_factory=new_event_loop)


def run[T](work: Coroutine[Any, Any, T]) -> T:
    """Run on a new event loop. If this thread has a running loop, run in a new thread.

    An interrupt cancels the work. It is raised once the work has ended. Further interrupts change nothing for
    the first 10 s.
    """
    return _run_beside(work) if _is_loop_running() else _run_here(work)


def _run_beside[T](work: Coroutine[Any, Any, T]) -> T:
    """Run in another thread. Only this thread gets interrupts, so it cancels the work of the other."""
    started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any] | None]] = Future()

    async def noted() -> T:
        started.set_result((asyncio.get_running_loop(), asyncio.current_task()))
        return await work

    with ThreadPoolExecutor(max_workers=1) as pool:
        done = pool.submit(_run_here, noted())
        try:
            return done.result()
        except BaseException:
            if not done.done():
                loop, task = started.result()
                assert task is not None  # noqa: S101 # the coroutine is one
                with suppress(RuntimeError):  # it has just ended, and its loop is closed
                    loop.call_soon_threadsafe(task.cancel)
            raise


def _is_loop_running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _run_here[T](work: Coroutine[Any, Any, T]) -> T:
    with _batch_scheduling(), _Interrupts() as interrupts, open_runner() as runner:
        return runner.run(interrupts.heeded(work))


class _Interrupts:
    """Cancels work on the first interrupt, and lets it clean up.

    asyncio's own runner does this too, but it raises the second interrupt at once. That can happen between
    any two steps of the loop. Then a result that somebody waits for is lost, and the clean-up never ends.
    With asyncio's runner this happened in 7 of 24 runs that were interrupted twice within 0.3 s.
    """

    def __init__(self) -> None:
        self._first: float | None = None
        self._task: asyncio.Task[Any] | None = None
        self._is_ours = False
        self._listener = -1

    def __enter__(self) -> Self:
        """Take the place of Python's own handler. One that somebody has set on purpose stays."""
        if threading.current_thread() is threading.main_thread():
            self._is_ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if self._is_ours:
            self._listener = signal.set_wakeup_fd(-1)
            signal.set_wakeup_fd(self._listener)
            signal.signal(signal.SIGINT, self._on_interrupt)
        return self

    async def heeded[T](self, work: Coroutine[Any, Any, T]) -> T:
        """Do the work, unless an interrupt came first."""
        self._task = asyncio.current_task()
        if self._first is not None:
            work.close()
            raise asyncio.CancelledError
        with self._listen_at_once():
            return await work

    @contextmanager
    def _listen_at_once(self) -> Iterator[None]:
        """Let the program's own listener hear of signals at once, even while one step of the loop lasts.

        uvloop has taken its place, to be woken up by signals. Instead, the loop wakes up by itself.
        """
        if self._listener < 0:
            yield
            return
        loop = asyncio.get_running_loop()
        tick: asyncio.TimerHandle | None = None

        def wake() -> None:
            nonlocal tick
            tick = loop.call_later(_WAKE_EVERY_S, wake)

        wake()
        loops = signal.set_wakeup_fd(self._listener)
        try:
            yield
        finally:
            signal.set_wakeup_fd(loops)
            if tick is not None:
                tick.cancel()

    def _on_interrupt(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self._first is None:
            self._first = now
            if self._listener >= 0:  # the loop may have its place
                os.write(self._listener, bytes([number]))
            if self._task is not None and not self._task.done():
                loop = self._task.get_loop()
                loop.call_soon_threadsafe(self._task.cancel)  # wakes the loop up
        elif now - self._first > _PATIENCE_S:
            signal.default_int_handler(number, frame)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        """Raise the interrupt."""
        if self._is_ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if self._first is not None and (kind is None or isinstance(error, asyncio.CancelledError)):
            raise KeyboardInterrupt from None


@contextmanager
def _batch_scheduling() -> Iterator[None]:
    """Make this thread, and those that it starts, batch threads: they do not preempt others on waking up.

    The loop, the transport's threads and the decoders wake each other some 25 times per tile. An ordinary
    thread that wakes up preempts one that decodes: 7 times per tile on 2 cores. Batch threads do so 0.6 times
    per tile, and take 6 to 8 % less CPU.
    """
    was_changed = _set_batch()
    try:
        yield
    finally:
        if was_changed:
            _set_policy(os.SCHED_OTHER)


def _set_batch() -> bool:
    """Make this a batch thread. Return whether that changed anything.

    Only Linux has batch threads. A policy that was set on purpose is kept.
    """
    with suppress(*_FORBIDDEN):
        return os.sched_getscheduler(0) == os.SCHED_OTHER and _set_policy(os.SCHED_BATCH)
    return False


def _set_policy(policy: int) -> bool:
    with suppress(*_FORBIDDEN):
        os.sched_setscheduler(0, policy, os.sched_param(0))
        return True
    return False
