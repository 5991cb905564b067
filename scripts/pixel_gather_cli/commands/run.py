"""``pixel-gather run``: the whole gather in this process."""

import json
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

import click

from pixel_gather.local.gather import gather
from pixel_gather.local.gathered import Gathered
from pixel_gather.model.plurals import counted
from pixel_gather_cli.browser import open_option, open_page
from pixel_gather_cli.progress import open_progress
from pixel_gather_cli.request_options import request_of, request_options, settings_of, settings_options


@click.command("run")
@request_options
@settings_options
@click.option("--to", metavar="PLACE", help="Folder or s3://bucket/prefix of a new cube.")
@open_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--quiet", is_flag=True, help="Show no progress.")
def run_command(*, to: str | None, opens: bool, as_json: bool, quiet: bool, **options: Any) -> int:
    """Gather in this process, to a folder or S3. After a stop, the same command resumes.

    With --append-to instead of --to, rows are added to a cube. Sources that it has already are left out.

    REQUEST is a JSON or YAML file, or - for standard input; options replace its fields.

    \b
    pixel-gather run --sources list.txt --point 11.35,46.5 --size 64,64 --to cube.zarr
    pixel-gather run --sources new.txt --point 11.35,46.5 --size 64,64 --append-to cube.zarr
    """
    if options["no_report"] and opens:
        raise click.UsageError("give --no-report or --open, not both")
    request, settings = request_of(options), settings_of(options)
    if (to is None) == (request.output.append_to is None):
        raise click.UsageError("give --to for a new cube, or --append-to for an existing one")
    with ExitStack() as stack:
        show = stack.enter_context(open_progress("gathering", quiet=quiet))

        def say(complete: Gathered) -> None:
            stack.close()
            if not as_json:
                click.echo(_as_text(complete))

        gathered = gather(request, to=to, settings=settings, on_progress=show, on_complete=say)
    if as_json:
        click.echo(json.dumps(gathered_to_json(gathered), indent=2))
    elif gathered.page is not None:
        click.echo(f"{'report':<22} {gathered.page}")
    if opens:
        open_page(gathered.page)
    return 1 if gathered.report.n_failed else 0


def gathered_to_json(gathered: Gathered) -> dict[str, Any]:
    """Return the result of a gather as plain values; times in seconds."""
    report = gathered.report
    return {
        "cube": gathered.place,
        "report_page": gathered.page,
        "was_complete": gathered.was_complete,
        "appended": gathered.n_appended,
        "status": report.status_counts,
        "failed": report.n_failed,
        "digest": report.digest,
        "timings": {
            "wall": report.wall_s,
            "wait": report.wait_s,
            "measure": report.measure_s,
            "write": report.write_s,
            "total": asdict(report.total_s),
            "open": asdict(report.open_s),
            "read": asdict(report.read_s),
        },
        "report": report.to_json(),
    }


def _as_text(gathered: Gathered) -> str:
    said = "was already complete" if gathered.was_complete else "is complete"
    if gathered.n_appended is not None:
        more = counted(gathered.n_appended, "row")
        said = (
            f"has {more} more" if gathered.n_appended else "has these sources already: nothing was appended"
        )
    return f"{gathered.report.to_text()}\n{'cube':<22} {gathered.place} {said}"
