"""``pixel-gather virtual``: a cube of references to the tiles of files."""

from typing import Any

import click

from pixel_gather.core.model.plurals import counted
from pixel_gather.core.results.report import failure_lines
from pixel_gather.features.virtual.virtual import Virtual, make_virtual
from pixel_gather_cli.json_output import json_option, print_result
from pixel_gather_cli.progress import open_progress
from pixel_gather_cli.request_options import request_of, request_options, settings_of, settings_options


@click.command("virtual")
@request_options
@settings_options
@click.option("--to", required=True, metavar="PLACE", help="A folder or s3://bucket/prefix.")
@click.option("--replace", is_flag=True, help="Write a new version at PLACE. Former versions stay.")
@json_option
@click.option("--quiet", is_flag=True, help="Show no progress.")
def virtual_command(*, to: str, replace: bool, as_json: bool, quiet: bool, **options: Any) -> int:
    """Write a cube that refers to the tiles of every file. No pixel is read or copied.

    PLACE becomes an Icechunk repository. Its arrays refer to the compressed tiles in the files, which must
    stay where they are. Rows and statuses are those of a gather with --codec source. It has the same
    conditions: the window begins at a corner of tiles, and all files store their tiles alike. With --index no
    file is asked for its header.

    REQUEST is a JSON or YAML file, or - for standard input; options replace its fields.

    \b
    pixel-gather index list.txt --to headers.parquet
    pixel-gather virtual --sources list.txt --tile centre --index headers.parquet --to cube.icechunk
    """
    request, settings = request_of(options), settings_of(options)
    with open_progress("referring", quiet=quiet) as show:
        made = make_virtual(request, to=to, replace=replace, settings=settings, on_progress=show)
    print_result(_to_json(made), _as_text(made), as_json=as_json)
    return 1 if made.report.n_failed else 0


def _to_json(made: Virtual) -> dict[str, Any]:
    return {
        "cube": made.place,
        "version": made.version,
        "references": made.n_references,
        "referred_bytes": made.referred_nbytes,
        "requests": made.report.requests,
        "fetched_bytes": made.report.fetched_nbytes,
        "status": made.report.status_counts,
        "failed": made.report.n_failed,
        "report": made.report.to_json(),
    }


def _as_text(made: Virtual) -> str:
    report = made.report
    rows, height, width = report.shape
    figures = {
        "window": f"{height} x {width} pixels of {counted(rows, 'row')}",
        "sources referred to": f"{report.status_counts.get('ok', 0):,} of {report.n_sources:,}",
        "references": f"{counted(made.n_references, 'tile')} of {made.referred_nbytes:,} bytes, none read",
        "header bytes": f"{report.fetched_nbytes:,} in {counted(report.requests, 'request')}",
        "failed": f"{report.n_failed:,}",
    }
    lines = [f"{name:<22} {figure}" for name, figure in figures.items()]
    warnings = [f"{'warning':<22} {each}" for each in report.warnings]
    return "\n".join(
        [*lines, *failure_lines(report), *warnings, f"{'cube':<22} {made.place}, version {made.version}"]
    )
