"""``pixel-gather run``: the whole gather in this process."""

import time
from contextlib import ExitStack
from shlex import quote
from typing import Any, Final

import click
from msgspec import to_builtins

from pixel_gather.core.model.plurals import counted, size
from pixel_gather.core.model.shown import shown_href
from pixel_gather.core.request.request import GatherRequest
from pixel_gather.core.results.run_table import LABEL_WIDTH, shorten_in_middle
from pixel_gather.features.gather.gather import gather
from pixel_gather.features.gather.gathered import Gathered, what_was_added
from pixel_gather_cli.browser import open_option, open_page
from pixel_gather_cli.details import WARNING, details_option, in_few_lines, nothing_appended
from pixel_gather_cli.json_output import json_option, print_json
from pixel_gather_cli.progress import open_progress
from pixel_gather_cli.request_options import request_of, request_options, settings_of, settings_options

_WIDEST: Final = 120
_MOST_CAUSES: Final = 12


@click.command("run")
@request_options
@settings_options
@click.option("--to", metavar="PLACE", help="Folder or s3://bucket/prefix of a new cube.")
@open_option
@json_option
@click.option("--quiet", is_flag=True, help="Show no progress.")
@details_option
@click.pass_obj  # when the command began: its libraries took time as well
def run_command(
    started: float,
    /,
    *,
    to: str | None,
    opens: bool,
    as_json: bool,
    quiet: bool,
    verbose: bool,
    **options: Any,
) -> int:
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
                click.echo(_as_text(complete, request, verbose=verbose))
            if not complete.was_complete and request.output.report:
                stack.enter_context(open_progress("drawing the report", quiet=quiet))

        gathered = gather(request, to=to, settings=settings, on_progress=show, on_complete=say)
    if as_json:
        print_json(gathered_to_json(gathered))
    else:
        if gathered.page is not None:
            click.echo(_line("report", gathered.page))
        click.echo(_line("time in all", f"{time.monotonic() - started:,.1f} s"))
    if opens:
        open_page(gathered.page)
    n_failed = gathered.report.n_failed
    if n_failed and _did_nothing(gathered):  # nothing above tells of them
        said = f"exit code 1: the cube has {counted(n_failed, 'failed source')}, and none was read again"
        click.echo(said, err=True)
    return 1 if n_failed else 0


def gathered_to_json(gathered: Gathered) -> dict[str, Any]:
    """Return the result of a gather as plain values; times in seconds."""
    report = gathered.report
    return {
        "cube": gathered.place,
        "report_page": gathered.page,
        "was_complete": gathered.was_complete,
        "appended": gathered.n_appended,
        "retried": gathered.n_retried,
        "recovered": gathered.n_recovered,
        "status": report.status_counts,
        "failed": report.n_failed,
        "digest": report.digest,
        "timings": {
            "wall": report.wall_s,
            "wait": report.wait_s,
            "measure": report.measure_s,
            "write": report.write_s,
            "total": to_builtins(report.total_s),
            "open": to_builtins(report.open_s),
            "read": to_builtins(report.read_s),
        },
        "report": report.to_json(),
    }


def _did_nothing(gathered: Gathered) -> bool:
    """Tell whether it is an append that found nothing to do. Its report is the one of an earlier gather."""
    return gathered.n_appended == 0 and not gathered.n_retried


def _as_text(gathered: Gathered, request: GatherRequest, *, verbose: bool) -> str:
    """Return the whole report, or what most users want to know, and what went wrong, in few lines."""
    report, cube = gathered.report, _line("cube", _end_of(gathered))
    if _did_nothing(gathered):
        return cube
    if verbose:
        return f"{report.to_text()}\n{cube}"
    shape = " x ".join(f"{length:,}" for length in report.shape_of_arrays)
    arrays = zip(report.measurements, report.dtypes, strict=True)
    names = ", ".join(f"{name} ({dtype})" for name, dtype in arrays)
    speed = f"{report.wall_s:,.2f} s, {report.sources_per_s:,.1f} sources/s"
    received = f"{size(report.fetched_nbytes)} received in {counted(report.requests, 'request')}"
    failures = [
        (f"  {each.status}", f"{each.n_sources:,}: {each.reason}, such as {shown_href(each.hrefs[0])}")
        for each in report.causes
    ]
    lines = [
        ("shape", shorten_in_middle(f"{shape} of {names}", _WIDEST)),
        ("sources read", f"{report.n_read:,} of {report.n_sources:,}, {report.n_failed:,} failed; {speed}"),
        ("bytes", f"{received}, {size(report.stored_nbytes)} stored"),
        *in_few_lines(failures, most=_MOST_CAUSES),
        *in_few_lines([(WARNING, each) for each in report.warnings], most=3),
    ]
    return "\n".join([*(_line(*each) for each in lines), cube, _line("next", _next(gathered, request))])


def _next(gathered: Gathered, request: GatherRequest) -> str:
    report = gathered.report
    is_unreadable = request.output.codec == "zfp" or any("complex" in dtype for dtype in report.dtypes)
    if is_unreadable or report.images_per_chip is not None:  # the page shows none of these
        return "pixel_gather.open_cube opens it in Python; --verbose prints all figures"
    return f"pixel-gather view {quote(gathered.place)} shows it; --verbose prints all figures"


def _end_of(gathered: Gathered) -> str:
    said = "was already complete" if gathered.was_complete else "is complete"
    if gathered.n_appended is not None:
        said = f"has {counted(*what_was_added(gathered))} more"
    ended = f"{gathered.place} {said}"
    if gathered.n_appended == 0:
        ended = nothing_appended(gathered.place, has_chips=gathered.report.images_per_chip is not None)
    if gathered.n_retried:
        tried = counted(gathered.n_retried, "failed source")
        ended += f"; of {tried}, {gathered.n_recovered:,} were read now"
    return ended


def _line(label: str, said: str) -> str:
    return f"{label:<{LABEL_WIDTH}} {said}"
