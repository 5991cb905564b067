"""Watches a gather or table until it ends, with a progress bar. Retries after failures and throttling."""

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from time import sleep
from typing import Any, Final

import click
from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn
from rich.text import Text

from pixel_gather.core.errors import GatherError, GatherNotFoundError, ThrottledError, UnreachableError
from pixel_gather_cli.deployment.deployment import RemoteDeployment
from pixel_gather_cli.deployment.status_text import (
    duration_text,
    kind_of,
    scenes_text,
    shards_text,
    sources_text,
    state_text,
    status_text,
    usd_text,
    word_for_sources,
)
from pixel_gather_cli.exit_codes import ALL_GATHERED, INTERRUPTED, REFUSED, SOME_FAILED
from pixel_gather_cli.json_output import print_result
from pixel_gather_cli.progress import SIGN_EVERY_S, every
from pixel_gather_cli.with_options import with_options

EVERY_S: Final = 5.0
"""Step Functions allows one DescribeMapRun request a second for an account, and others may watch too."""

_SHORTEST_PAUSE_S: Final = 1.5
_LONGER: Final = 1.25
"""Factor between two pauses, up to ``every_s``: about 5 requests in the first 12 s, not 3."""

_LONGEST_PAUSE_S: Final = 60.0
_MOST_FAILURES: Final = 20
_MOST_FORMER: Final = 20
"""Looks that may show the end from before a redrive: over a minute of them. Then that end is believed."""

type Show = Callable[[Mapping[str, Any]], None]


watch_options = with_options(
    click.option(
        "--every",
        "every_s",
        type=click.FloatRange(0.2),
        default=EVERY_S,
        show_default=True,
        metavar="SECONDS",
        help="Pause between two requests.",
    ),
    click.option("--quiet", is_flag=True, help="Show no progress."),
)
"""Adds the options of watching."""


def watch(
    deployment: RemoteDeployment,
    id_: str,
    *,
    every_s: float,
    quiet: bool,
    as_json: bool,
    is_new: bool = False,
    former_end: str | None = None,
) -> int:
    """Show a gather or table until it ends, then print its status.

    The pause is longer while the deployment is busy. If it was started a moment ago, a request may not find
    it yet. If it was redriven, a request may find its ``former_end`` for a while.

    Returns:
        The exit code: 0 all gathered, 1 finished with sources that failed, 2 failed or stopped, 130 when
        only the watching was interrupted.
    """
    document: Mapping[str, Any] = {}
    try:
        with _open_output(quiet=quiet) as (show, say):
            look = partial(deployment.status, id_)
            for document in looks(
                look, every_s=every_s, is_new=is_new, on_failure=say, former_end=former_end
            ):
                show(document)
    except KeyboardInterrupt:
        what = kind_of(document)
        click.echo(f"stopped watching; the {what} continues: pixel-gather watch {id_}", err=True)
        return INTERRUPTED
    print_result(document, status_text, as_json=as_json)
    return exit_code(document)


def exit_code(document: Mapping[str, Any]) -> int:
    """Return the exit code for a gather or table that has ended."""
    if document["state"] != "succeeded":
        return REFUSED
    sources = document.get("sources") or document.get("scenes") or {}
    return SOME_FAILED if sources.get("failed") else ALL_GATHERED


def looks(
    look: Callable[[], Mapping[str, Any]],
    *,
    every_s: float,
    is_new: bool,
    on_failure: Callable[[str], None],
    former_end: str | None = None,
) -> Iterator[Mapping[str, Any]]:
    """Yield status documents until the gather or table ends. After a temporary failure the pause doubles.

    ``former_end`` is when it ended before a redrive. Documents with this end are left out for a while, as
    Step Functions does not promise to tell of a redrive at once.
    """
    n_failures, n_former, is_known = 0, 0, False
    pauses = _pauses(every_s, is_new=is_new)
    if is_new:
        sleep(next(pauses))
    while True:
        try:
            document = look()
        except (ThrottledError, UnreachableError, GatherNotFoundError) as error:
            n_failures += 1
            if n_failures > _MOST_FAILURES or not _may_pass(error, is_new=is_new, is_known=is_known):
                raise
            on_failure(f"{error}; trying again soon")
            sleep(_pause_s(error, n_failures, every_s))
            continue
        n_failures, is_known = 0, True
        is_former = former_end is not None and document.get("ended_at") == former_end
        if is_former and n_former < _MOST_FORMER:
            n_former += 1
            sleep(next(pauses))
            continue
        yield document
        if document["state"] != "running":
            return
        sleep(next(pauses))


def _pauses(every_s: float, *, is_new: bool) -> Iterator[float]:
    """Yield the pause before each request. For a new gather the first ones are short, as it may end soon.

    That is harmless: before the map begins, no status request calls the throttled DescribeMapRun.
    """
    pause_s = _SHORTEST_PAUSE_S if is_new else every_s
    while True:
        yield min(pause_s, every_s)
        pause_s *= _LONGER


def _may_pass(error: GatherError, *, is_new: bool, is_known: bool) -> bool:
    if isinstance(error, GatherNotFoundError):
        return is_new and not is_known
    return is_known or is_new or isinstance(error, ThrottledError)


def _pause_s(error: GatherError, n_failures: int, every_s: float) -> float:
    longest = min(every_s * 2**n_failures, _LONGEST_PAUSE_S)
    asked_for = getattr(error, "retry_after_s", None) or 0.0
    return max(random.uniform(longest / 2, longest), asked_for)  # noqa: S311 # not for secrets


@contextmanager
def _open_output(*, quiet: bool) -> Iterator[tuple[Show, Callable[[str], None]]]:
    """Yield two functions that write to standard error: one shows a document, one prints a sentence."""
    console = Console(stderr=True)
    if quiet:
        yield (lambda _document: None), (lambda _sentence: None)
    elif console.is_terminal:
        with _bar(console) as show:
            yield show, lambda sentence: console.print(Text(sentence))
    else:
        lines = WatchLines()
        with every(SIGN_EVERY_S, lines.go_on):
            yield lines.show, lambda sentence: click.echo(sentence, err=True)


@contextmanager
def _bar(console: Console) -> Iterator[Show]:
    bar = Progress(TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[took]}"))
    task = bar.add_task("starting", total=None, took="")
    with Live(Group(bar), console=console, transient=True) as live:

        def show(document: Mapping[str, Any]) -> None:
            shards, scenes = document.get("shards"), document.get("scenes")
            done, total = (shards["succeeded"], shards["total"]) if shards else (0, None)
            if scenes:
                done, total = scenes["read"], scenes["wanted"]
            bar.update(
                task,
                description=phase_text(document),
                total=total,
                completed=done,
                took=duration_text(document["seconds"]),
            )
            live.update(Group(bar, Text("\n".join(_progress(document)), style="dim")), refresh=True)

        yield show


class WatchLines:
    """Writes a line whenever something has changed, and every few seconds that it goes on: for a log."""

    def __init__(self) -> None:
        self._last = ""
        self._is_said = False

    def show(self, document: Mapping[str, Any]) -> None:
        """Write what has changed."""
        line = ": ".join(filter(None, (phase_text(document), "; ".join(_progress(document)))))
        if line != self._last:
            click.echo(f"{line} ({duration_text(document['seconds'])})", err=True)
            self._last, self._is_said = line, True

    def go_on(self) -> None:
        """Write that it goes on, if nothing was written since the last call."""
        if not self._is_said:
            click.echo(f"{self._last or 'starting'}: goes on", err=True)
        self._is_said = False


def phase_text(document: Mapping[str, Any]) -> str:
    """Return the state. A gather that runs may also plan, finish or wait; a table has rounds."""
    shards = document.get("shards")
    if document["state"] != "running":
        return state_text(document)
    if document.get("scenes"):
        return f"round {document['round']}"
    if not shards:
        return "waiting for another append" if document.get("warnings") else "planning"
    return "finishing" if shards["succeeded"] == shards["total"] else state_text(document)


def _progress(document: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the progress in parts that each fit a narrow terminal."""
    shards, sources = document.get("shards"), document.get("sources")
    read = f"{word_for_sources(document)} {sources_text(sources)}" if sources else ""
    if document.get("scenes"):
        read = f"scenes {scenes_text(document)}"
    parts = (
        f"shards {shards_text(shards)}" if shards else "",
        "; ".join(filter(None, (read, usd_text(document)))),
    )
    return tuple(filter(None, parts))
