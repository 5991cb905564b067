"""Shows progress in this process: a bar in a terminal, a line every few seconds in a log."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from pixel_gather.local.progress import Progress
from pixel_gather.model.plurals import counted

_EVERY_S: Final = 5.0
"""Seconds between two lines of a log."""

type Show = Callable[[Progress], None]


@contextmanager
def open_progress(what: str, *, quiet: bool, thing: str = "file") -> Iterator[Show]:
    """Show progress on standard error while the context lasts. Yields the function that updates it.

    Args:
        what: First word of what is shown.
        quiet: Show nothing.
        thing: What is counted.
    """
    console = Console(stderr=True)
    if quiet:
        yield lambda _progress: None
    elif console.is_terminal:
        with _open_bar(what, console, thing) as show:
            yield show
    else:
        yield lines(what, every_s=_EVERY_S, thing=thing)


def lines(
    what: str, *, every_s: float, thing: str = "file", clock: Callable[[], float] = time.monotonic
) -> Show:
    """Return a function that writes a progress line at most every ``every_s`` seconds.

    Args:
        what: First word of each line.
        every_s: Seconds between two lines, and before the first.
        thing: What is counted.
        clock: Tells seconds.
    """
    started = last = clock()

    def show(progress: Progress) -> None:
        nonlocal last
        now = clock()
        if now - last < every_s:
            return
        last = now
        elapsed = now - started
        failed = f", {progress.n_failed:,} failed" if progress.n_failed else ""
        click.echo(
            f"{what}: {progress.n_done:,} of {counted(progress.n_sources, thing)}{failed}, "
            f"{_rate(progress, elapsed, thing)} ({elapsed:,.0f} s)",
            err=True,
        )

    return show


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

    def show(progress: Progress) -> None:
        if not bar.tasks:  # a gather that is refused first shows no bar
            bar.start()
            bar.add_task(what, rate="", failed="")
        task = bar.tasks[0]
        bar.update(
            task.id,
            total=progress.n_sources,
            completed=progress.n_done,
            rate=_rate(progress, task.elapsed or 0.0, thing),
            failed=f"{progress.n_failed:,} failed" if progress.n_failed else "",
        )

    try:
        yield show
    finally:
        if bar.tasks:
            bar.stop()


def _rate(progress: Progress, elapsed_s: float, thing: str) -> str:
    return f"{progress.n_done / elapsed_s:,.0f} {thing}s/s" if elapsed_s else ""
