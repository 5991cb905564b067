"""An event loop in virtual time: time passes only while all tasks sleep, so hours take milliseconds."""

import asyncio
from collections.abc import Coroutine
from typing import Any


class _VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        super().__init__()
        self._now_s = 0.0
        self._clock_resolution = 1e-9
        selector: Any = self._selector  # type: ignore[attr-defined] # where the loop waits
        select = selector.select

        def select_at_once(timeout: float | None = None) -> Any:
            self._now_s += timeout or 0.0
            return select(0)

        selector.select = select_at_once

    def time(self) -> float:
        return self._now_s


def run_virtually[T](work: Coroutine[Any, Any, T]) -> T:
    """Run until the end. ``asyncio.get_running_loop().time()`` is the clock. For sleeps, not for sockets."""
    with asyncio.Runner(loop_factory=_VirtualLoop) as runner:
        return runner.run(work)
