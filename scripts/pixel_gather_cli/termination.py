"""Leaving in good order when the process is told to end."""

import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import Final

_TERMINATED: Final = 128 + signal.SIGTERM


@contextmanager
def ends_when_terminated() -> Generator[None]:
    """Leave through every context on SIGTERM and when the terminal goes, as on Ctrl-C."""

    def leave(*_: int | FrameType | None) -> None:
        sys.exit(_TERMINATED)

    earlier = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)
