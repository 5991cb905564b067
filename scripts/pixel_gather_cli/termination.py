"""Leaving in good order when the process is told to end."""

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import Final

_TERMINATED: Final = 128 + signal.SIGTERM
_NUMBERS: Final = tuple(
    getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)
)  # Windows has no SIGHUP


class TerminatedError(SystemExit):
    """The process was told to end; what it leaves with is the exit code that shells give."""


def answer_interrupts() -> None:
    """Have Ctrl-C end this process, and those that it starts, even if it was started in the background.

    A shell without job control has such a process ignore SIGINT, and every child would inherit that.
    """
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def ends_when_terminated() -> Generator[None]:
    """Leave through every context on SIGTERM and when the terminal goes, as on Ctrl-C.

    A signal that was ignored before stays so, as SIGHUP under nohup. Only the main thread gets signals: in
    any other this does nothing.
    """

    def leave(*_: int | FrameType | None) -> None:
        raise TerminatedError(_TERMINATED)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heeded = [number for number in _NUMBERS if signal.getsignal(number) is not signal.SIG_IGN]
    earlier = {number: signal.signal(number, leave) for number in heeded}
    try:
        yield
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)
