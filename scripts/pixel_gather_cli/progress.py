"""Shows progress in this process: a bar in a terminal, a line every five seconds in a log."""

import functools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Lock, Thread
from typing import Any, Final

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from pixel_gather.core.model.plurals import counted
from pixel_gather.in_process.progress import Progress

SIGN_EVERY_S: Final = 5.0
"""Longest time without a sign that the work goes on."""

type Show = Callable[[Progress], None]


@contextmanager
def open_progress(what: str, *, quiet: bool, thing: str = "file") -> Iterator[Show]:
    """Show progress on standard error while the context lasts. Yields the function that updates it.

    Nothing is shown of work that ends within five seconds without counting anything.
    """
    console = Console(stderr=True)
    if quiet:
        yield lambda _progress: None
    elif console.is_terminal:
        with _open_bar(what, console, thing) as show:
            yield show
    else:
        lines = Lines(what, thing=thing)
        with every(SIGN_EVERY_S, lines.write):
            yield lines.show


def with_progress[Command: Callable[..., Any]](what: str) -> Callable[[Command], Command]:
    """Let a command that counts nothing say every five seconds that it is at work."""

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def run(**values: Any) -> Any:
            with open_progress(what, quiet=False):
                return command(**values)

        return run  # type: ignore[return-value] # it takes the same

    return decorate


@contextmanager
def every(seconds: float, act: Callable[[], None]) -> Iterator[None]:
    """Call a function every so many seconds while the context lasts, in a thread."""
    is_over = Event()

    def repeat() -> None:
        while not is_over.wait(seconds):
            act()

    thread = Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


class Lines:
    """Writes how far the work is, a line at each call."""

    def __init__(
        self, what: str, *, thing: str = "file", clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Start the clock."""
        self._what = what
        self._thing = thing
        self._clock = clock
        self._started = clock()
        self._latest: Progress | None = None

    def show(self, progress: Progress) -> None:
        """Take the numbers of the next line."""
        self._latest = progress

    def write(self) -> None:
        """Write a line."""
        elapsed, now = self._clock() - self._started, self._latest
        if now is None:
            click.echo(f"{self._what}: {elapsed:,.0f} s", err=True)
            return
        failed = f", {now.n_failed:,} failed" if now.n_failed else ""
        click.echo(
            f"{self._what}: {now.n_done:,} of {counted(now.n_sources, self._thing)}{failed}, "
            f"{_rate(now, elapsed, self._thing)} ({elapsed:,.0f} s)",
            err=True,
        )


@contextmanager
def _open_bar(what: str, console: Console, thing: str) -> Iterator[Show]:
    bar = Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("[red]{task.fields[failed]}"),
        console=console,
    )
    beginning = Lock()

    def begin() -> None:
        """Show the bar, which then moves by itself. A gather that is refused at once shows none."""
        with beginning:
            if not bar.tasks:
                bar.start()
                bar.add_task(what, total=None, rate="", failed="")

    def show(progress: Progress) -> None:
        begin()
        task = bar.tasks[0]
        bar.update(
            task.id,
            total=progress.n_sources,
            completed=progress.n_done,
            rate=_rate(progress, task.elapsed or 0.0, thing),
            failed=f"{progress.n_failed:,} failed" if progress.n_failed else "",
        )

    try:
        with every(SIGN_EVERY_S, begin):
            yield show
    finally:
        if bar.tasks:
            bar.stop()


def _rate(progress: Progress, elapsed_s: float, thing: str) -> str:
    return f"{progress.n_done / elapsed_s:,.0f} {thing}s/s" if elapsed_s else ""
