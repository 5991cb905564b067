"""Cleans up when a signal ends the process."""

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
    """A signal ended the process. Carries the exit code that shells use."""


def answer_interrupts() -> None:
    """Let Ctrl-C end this process and its children, even if it was started in the background.

    A shell without job control starts such a process with SIGINT ignored, and children inherit that.
    """
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def ends_when_terminated() -> Generator[None]:
    """Exit through all contexts on SIGTERM and SIGHUP, as on Ctrl-C.

    A running event loop cancels its work on Ctrl-C, and so it does here. An exception that is raised between
    two steps of a loop can make it lose a result that somebody waits for.

    An ignored signal stays ignored, such as SIGHUP under nohup. Only the main thread gets signals; in any
    other thread this does nothing.
    """
    is_terminated = False

    def leave(_: int, frame: FrameType | None) -> None:
        nonlocal is_terminated
        is_terminated = True
        interrupt = signal.getsignal(signal.SIGINT)
        if not callable(interrupt) or interrupt is signal.default_int_handler:
            raise TerminatedError(_TERMINATED)
        interrupt(signal.SIGINT, frame)  # an event loop's

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heeded = [number for number in _NUMBERS if signal.getsignal(number) is not signal.SIG_IGN]
    earlier = {number: signal.signal(number, leave) for number in heeded}
    try:
        yield
    except BaseException as error:  # click turns KeyboardInterrupt into an exception of its own
        if is_terminated:
            raise TerminatedError(_TERMINATED) from error
        raise
    else:
        if is_terminated:  # Python drops an exception that is raised while an object is finalized
            raise TerminatedError(_TERMINATED)
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)
