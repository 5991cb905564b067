"""Run a coroutine to its end, wherever it is called from."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

try:
    from uvloop import new_event_loop
except ImportError:  # not made for Windows
    from asyncio import new_event_loop  # type: ignore[assignment] # both make a loop


def open_runner() -> asyncio.Runner:
    """Return an event loop that runs one coroutine after another; to be closed.

    uvloop reads 5 to 10 % more tiles a second than asyncio's own loop, for 10 % less CPU.
    """
    return asyncio.Runner(loop_factory=new_event_loop)


def run[T](work: Coroutine[Any, Any, T]) -> T:
    """Run on an event loop of its own, in a thread of its own where this one has a running loop."""
    if not _is_loop_running():
        return _run_here(work)
    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(_run_here, work).result()


def _is_loop_running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _run_here[T](work: Coroutine[Any, Any, T]) -> T:
    with open_runner() as runner:
        return runner.run(work)
