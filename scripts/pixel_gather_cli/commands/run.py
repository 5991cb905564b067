"""``pixel-gather run``: the whole gather in this process."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from pixel_gather.local.gather import Gathered, Progress, gather
from pixel_gather_cli.request_options import request_of, request_options, settings_of, settings_options


@click.command("run")
@request_options
@settings_options
@click.option("--to", required=True, metavar="PLACE", help="Folder or s3://bucket/prefix of the cube.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--quiet", is_flag=True, help="Show no progress.")
def run_command(*, to: str, as_json: bool, quiet: bool, **options: Any) -> int:
    """Gather in this process, to a folder or S3. Run again after a stop, it goes on where it was.

    REQUEST is a JSON or YAML file, or - for standard input; options take the place of its fields.

    \b
    pixel-gather run --sources list.txt --point 11.35,46.5 --size 64,64 --to cube.zarr
    """
    request, settings = request_of(options), settings_of(options)
    with open_bar("gathering", quiet=quiet) as show:
        gathered = gather(request, to=to, settings=settings, on_progress=show)
    click.echo(json.dumps(gathered_to_json(gathered), indent=2) if as_json else _as_text(gathered))
    return 1 if gathered.report.n_failed else 0


def gathered_to_json(gathered: Gathered) -> dict[str, Any]:
    """Return what became of a gather as plain values; times in seconds."""
    report = gathered.report
    return {
        "cube": gathered.place,
        "report_page": gathered.page,
        "was_complete": gathered.was_complete,
        "status": report.status_counts,
        "failed": report.n_failed,
        "digest": report.digest,
        "timings": {
            "wall": report.wall_s,
            "wait": report.wait_s,
            "write": report.write_s,
            "total": asdict(report.total_s),
            "open": asdict(report.open_s),
            "read": asdict(report.read_s),
        },
        "report": report.to_json(),
    }


def _as_text(gathered: Gathered) -> str:
    said = "was there already, complete" if gathered.was_complete else "is complete"
    lines = [gathered.report.to_text(), f"{'cube':<22} {gathered.place} {said}"]
    if gathered.page is not None:
        lines.append(f"{'report':<22} {gathered.page}")
    return "\n".join(lines)


@contextmanager
def open_bar(what: str, *, quiet: bool) -> Iterator[Callable[[Progress], None]]:
    """Show a bar on standard error for as long as the context; yields what moves it."""
    with _bar(quiet=quiet) as bar:

        def show(progress: Progress) -> None:
            if not bar.tasks:
                bar.add_task(what, rate="", failed="")
            task = bar.tasks[0]
            elapsed = task.elapsed or 0.0
            bar.update(
                task.id,
                total=progress.n_sources,
                completed=progress.n_done,
                rate=f"{progress.n_done / elapsed:,.0f} files/s" if elapsed else "",
                failed=f"{progress.n_failed:,} failed" if progress.n_failed else "",
            )

        yield show


def _bar(*, quiet: bool) -> Bar:
    return Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("[red]{task.fields[failed]}"),
        console=Console(stderr=True),
        disable=quiet,
    )
