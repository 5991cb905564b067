"""The output of ``pixel-gather bench LIST``: progress, results, and whether the pixels agree."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from pixel_gather_bench.experiment import aligned
from pixel_gather_bench.suite.records import BestBy, Record
from pixel_gather_bench.suite.suite import Step
from pixel_gather_bench.suite.table import SuiteRow, group_by_digest, group_causes, suite_rows

_SHOWN_NAMES = 6
_SHOWN_CAUSES = 10


@contextmanager
def open_run_bar(*, quiet: bool) -> Iterator[Callable[[Step], None]]:
    """Show a bar on standard error, and a line for each run. Yields the function that updates it."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), disable=quiet) as bar:
        task = bar.add_task("runs", total=None)

        def show(step: Step) -> None:
            bar.update(task, total=step.n_runs, completed=step.n_done)
            if not quiet:
                bar.console.print(escape(_line(step)), highlight=False)

        yield show


def table_text(records: Sequence[Record], best_by: BestBy) -> str:
    """Return the table of a suite: the best run of each configuration, medians of all."""
    by = "typical throughput" if best_by == "throughput" else "wall time"
    heads = ("engine", "at a time", "runs", "tiles/s", "by wall", "wall s", "CPU s", "MiB", "failed")
    lines = [*aligned([heads, *map(_cells, suite_rows(records, best_by))])]
    lines.append(f"best by {by}; in brackets the median of all runs")
    digests = group_by_digest(records)
    if len(digests) == 1:
        lines.append(f"{'digest of all pixels':<22} {next(iter(digests))} in all runs")
    return "\n".join(lines)


def warning_of(digests: Mapping[str, Sequence[str]]) -> str | None:
    """Return a warning if the pixels of runs differ, or None."""
    if len(digests) < 2:  # noqa: PLR2004 # two differ
        return None
    lines = [f"  {digest}  {_some(names)}" for digest, names in digests.items()]
    return "\n".join(("THE PIXELS DIFFER between runs: their times cannot be compared.", *lines))


def failure_lines(records: Sequence[Record], hrefs: Sequence[str]) -> list[str]:
    """Return a line for each of the most frequent causes of failure."""
    causes = group_causes(records)
    lines = [
        f"{cause.engine}: {len(cause.positions):,} {cause.status}: {cause.reason}, "
        f"first of {hrefs[cause.positions[0]]}"
        for cause in causes[:_SHOWN_CAUSES]
    ]
    n_more = len(causes) - _SHOWN_CAUSES
    return lines + ([f"and {n_more:,} more causes, in the records"] if n_more > 0 else [])


def _line(step: Step) -> str:
    if step.record is None:
        return f"{step.name}: crashed"
    run = step.record.to_run()
    failed = f", {run.n_failed:,} failed" if run.n_failed else ""
    return f"{step.name}: {run.typical_per_s:,.1f} tiles/s, {step.record.wall_s:,.2f} s{failed}"


def _cells(row: SuiteRow) -> tuple[str, ...]:
    return (
        row.engine,
        row.concurrency,
        f"{row.n_runs}",
        f"{row.typical_per_s:,.1f} [{row.median_typical_per_s:,.1f}]",
        f"{row.sources_per_s:,.1f}",
        f"{row.wall_s:,.2f} [{row.median_wall_s:,.2f}]",
        f"{row.cpu_s:,.2f}",
        f"{row.peak_rss_mib:,.0f}",
        f"{row.n_failed:,}",
    )


def _some(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN_NAMES
    return ", ".join(names[:_SHOWN_NAMES]) + (f" and {more:,} more" if more > 0 else "")
