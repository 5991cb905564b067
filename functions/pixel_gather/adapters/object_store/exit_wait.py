"""Waits for obstore's threads before the process ends.

Such a thread hands each answer to the event loop. asyncio's own loop, which zarr uses too, releases the GIL
meanwhile. While an interpreter is torn down, Python 3.13 ends every thread that waits for the GIL. For a
thread of obstore that means SIGABRT, although all work is done: 158 of 800 processes that ended right after a
read on two busy cores. With this wait it was none. Python 3.14 does not end such threads
(https://github.com/python/cpython/issues/87135).
"""

import sys
import threading
import time
from typing import Final

_LONGEST_WAIT_S: Final = 1.0


def wait_for_native_threads() -> None:
    """Wait until only threads that Python started run Python code, at most 1 s."""
    deadline = time.monotonic() + _LONGEST_WAIT_S
    while _native_threads_run_python() and time.monotonic() < deadline:
        time.sleep(0.001)


def _native_threads_run_python() -> bool:
    started_by_python = {thread.ident for thread in threading.enumerate()}
    return not started_by_python.issuperset(sys._current_frames())  # noqa: SLF001 # documented in spite of its name
