"""The time-outs of tasks: time in which a call waits for this machine does not count.

AWS starts another worker, or throttles. Here a call waits until a worker of its function is free, and until
a core is free to start it. Under load that takes longer than a task may.
"""

# ruff: noqa: SLF001 # an addition reaches into ministack

import contextvars
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotDoneError
from contextlib import contextmanager
from typing import Any, Final

from ministack.services import stepfunctions as sf

_MOMENT_S: Final = 0.05


class TaskClock:
    """Counts the seconds of one task, but for those in which it waits for this machine."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._began_s = now()
        self._waited_s = 0.0
        self._waits_since: float | None = None

    @property
    def counted_s(self) -> float:
        """Seconds that count."""
        now_s = self._now()
        waits_since = self._waits_since
        waiting_s = 0.0 if waits_since is None else now_s - waits_since
        return now_s - self._began_s - self._waited_s - waiting_s

    @contextmanager
    def waits(self) -> Iterator[None]:
        """Do not count the time of the block."""
        self._waits_since = began_s = self._now()
        try:
            yield
        finally:
            self._waited_s += self._now() - began_s
            self._waits_since = None


_CLOCK: Final[contextvars.ContextVar[TaskClock | None]] = contextvars.ContextVar("task_clock", default=None)
"""The clock of the task whose call this thread serves; None for a call of the API."""


@contextmanager
def uncounted() -> Iterator[None]:
    """Do not count the time of the block for the task whose call this thread serves, if there is one."""
    clock = _CLOCK.get()
    if clock is None:
        yield
        return
    with clock.waits():
        yield


def apply() -> None:
    """Put the addition in place."""
    sf._invoke_resource_with_timeout = invoke_resource_with_timeout


def invoke_resource_with_timeout(resource: str, given: Any, timeout: float) -> Any:
    """Run a task. Raise States.Timeout once it has taken too long, without its waits for this machine."""
    clock = TaskClock()
    context = contextvars.copy_context()
    context.run(_CLOCK.set, clock)
    pool = ThreadPoolExecutor(max_workers=1)
    task: Future[Any] = pool.submit(context.run, sf._invoke_resource, resource, given)
    pool.shutdown(wait=False)
    while (left_s := timeout - clock.counted_s) > 0:
        try:
            return task.result(timeout=max(left_s, _MOMENT_S))
        except NotDoneError:
            if task.done():
                return task.result()  # or raise its own error
    raise sf._ExecutionError("States.Timeout", f"Task timed out after {timeout} seconds")
