"""Cleans up when a signal ends the process, and ends the process if that takes long."""

import os
import signal
import socket
import sys
import threading
import weakref
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final, NoReturn

from pixel_gather_cli.exit_codes import INTERRUPTED, TERMINATED

_NUMBERS: Final = tuple(
    getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)
)  # Windows has no SIGHUP

_PATIENCE_S: Final = 1.5
"""How long the process may clean up after its first signal."""

_LAST_STEPS_S: Final = 0.3


class TerminatedError(SystemExit):
    """A signal ended the process. Carries the exit code that shells use."""


def answer_interrupts() -> None:
    """Let Ctrl-C end this process and its children, even if it was started in the background.

    A shell without job control starts such a process with SIGINT ignored, and children inherit that. While
    the command is imported, SIGINT ends the process. This sets Python's own handler again.
    """
    if signal.getsignal(signal.SIGINT) in (signal.SIG_IGN, signal.SIG_DFL):
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
            raise TerminatedError(TERMINATED)
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
            raise TerminatedError(TERMINATED) from error
        raise
    else:
        if is_terminated:  # Python drops an exception that is raised while an object is finalized
            raise TerminatedError(TERMINATED)
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)


@contextmanager
def ends_in_time(on_break: Callable[[], None]) -> Iterator[None]:
    """End the process after a signal at the end of the context, or 1.5 s after the signal if that is earlier.

    Python answers a signal between two steps of the main thread. A request that waits inside a library is one
    step. And a process that ends waits for all its threads, which may wait for requests of their own. So
    another thread watches. It hears of signals at once, and nothing keeps it from ending the process.

    Only the main thread can have this; in any other thread it does nothing.

    Args:
        on_break: Called if the process is broken off within the context.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ours, pythons = socket.socketpair()
    pythons.settimeout(0)
    ended: Future[int] = Future()
    watching = threading.Thread(target=_watch, args=(ours, ended, on_break), daemon=True)
    watching.start()
    earlier = signal.set_wakeup_fd(pythons.fileno(), warn_on_full_buffer=False)
    try:
        yield
    except SystemExit as error:
        ended.set_result(error.code if isinstance(error.code, int) else 0)
        raise
    finally:
        signal.set_wakeup_fd(earlier)
        pythons.close()
        watching.join()  # ends the process if there was a signal


def _watch(signals: socket.socket, ended: Future[int], on_break: Callable[[], None]) -> None:
    """Wait for the first signal that ends the process, and see that it does."""
    with signals:
        while number := signals.recv(1):
            if number[0] not in (signal.SIGINT, *_NUMBERS):
                continue
            try:
                _leave(ended.result(_PATIENCE_S), [sys.stdout.flush, sys.stderr.flush])
            except TimeoutError:
                _leave(INTERRUPTED if number[0] == signal.SIGINT else TERMINATED, [on_break])


def _leave(code: int, last_steps: Sequence[Callable[[], object]]) -> NoReturn:
    """End the process at once: no thread is waited for. Its temporary folders are removed."""

    def do() -> None:
        for step in (*last_steps, weakref.finalize._exitfunc):  # type: ignore[attr-defined] # noqa: SLF001 # of TemporaryDirectory
            with suppress(Exception):
                step()

    last = threading.Thread(target=do, daemon=True)
    last.start()
    last.join(_LAST_STEPS_S)
    os._exit(code)
