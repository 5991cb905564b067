"""Waits for obstore's threads before the process ends.

A thread of obstore hands each answer to the event loop. asyncio's own loop, which zarr uses too, releases the
GIL once in between, and the thread waits to get it back. If the process ends at that moment, Python 3.13 ends
the thread. Rust forbids that and aborts the process by SIGABRT, although all its work is done.

Without this wait, 158 of 800 processes were aborted that ended right after a read on two busy cores. With it,
none was. Python 3.14 does not end such threads (https://github.com/python/cpython/issues/87135).
"""

import sys
import threading
import time
from typing import Final

_LONGEST_WAIT_S: Final = 1.0


def wait_for_native_threads() -> None:
    """Wait until all threads that Python did not start have left Python code. Wait at most 1 s."""
    deadline = time.monotonic() + _LONGEST_WAIT_S
    while _native_threads_run_python() and time.monotonic() < deadline:
        time.sleep(0.001)


def _native_threads_run_python() -> bool:
    started_by_python = {thread.ident for thread in threading.enumerate()}
    return not started_by_python.issuperset(sys._current_frames())  # noqa: SLF001 # documented in spite of its name
