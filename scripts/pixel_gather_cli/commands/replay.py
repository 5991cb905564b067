"""``pixel-gather replay``: what has changed in a cube's sources since they were gathered."""

import csv
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import click

from pixel_gather.core.model.plurals import counted
from pixel_gather.core.model.shown import shown_href
from pixel_gather.core.results.find_drift import COLUMNS, Drift, Replayed, SourceDrift
from pixel_gather.features.replay.replay import replay
from pixel_gather_cli.json_output import json_option, print_json
from pixel_gather_cli.progress import with_progress
from pixel_gather_cli.request_options import check_folders, in_home, settings_of, settings_options

_MOST_LINES = 20


@click.command("replay")
@click.argument("cube")
@click.option("--to", metavar="NEW", help="Gather into a new cube here, and compare both.")
@click.option("--headers-only", is_flag=True, help="Compare only the versions (ETags) of the files.")
@click.option("--csv", "as_csv", is_flag=True, help="CSV of every source instead of a summary.")
@json_option
@click.option("--parquet", metavar="FILE", help="Write a line for every source here as well.")
@settings_options
@with_progress("replaying")
def replay_command(
    *,
    cube: str,
    to: str | None,
    headers_only: bool,
    as_csv: bool,
    as_json: bool,
    parquet: str | None,
    **options: Any,
) -> int:
    """Gather again what a cube's receipt says, and show what has changed.

    CUBE is a folder or s3://bucket/prefix. The windows of all its sources are read again and compared with
    its pixels; nothing is written without --to. If the cube's list came from a search, the same search is
    repeated. The exit code is 0 if nothing has changed, 1 if something has or cannot be compared, and 2 if
    the cube cannot be read.

    \b
    pixel-gather replay out/bolzano.zarr --headers-only
    """
    if as_csv and as_json:
        raise click.UsageError("give --json or --csv, not both")
    check_folders(parquet=parquet)
    lines = csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n")

    sources: list[SourceDrift] = []

    def write(found: SourceDrift) -> None:
        if as_csv:
            lines.writerow(found.to_json())
        if parquet is not None:
            sources.append(found)

    if as_csv:
        lines.writeheader()
    found = replay(
        in_home(cube), in_home(to), headers_only=headers_only, settings=settings_of(options), on_source=write
    )
    if parquet is not None:
        from pixel_gather.features.replay.drift_table import write_drifts  # noqa: PLC0415 # for Parquet alone

        write_drifts(sources, Path(in_home(parquet)), about=found.to_json() | {"drifted": len(found.drifted)})
    if as_json:
        print_json(found.to_json())
    elif as_csv:
        for remark in found.remarks:
            click.echo(remark, err=True)
    else:
        click.echo(_text(found))
    return 0 if found.is_same else 1


def _text(found: Replayed) -> str:
    n_said: Counter[Drift] = Counter()
    lines = []
    for each in found.drifted:
        n_said[each.drift] += 1
        if n_said[each.drift] <= _MOST_LINES:
            why = "" if each.reason is None else f" ({each.reason})"
            lines.append(f"{each.drift.value:<14} {shown_href(each.href)}{why}")
    for drift, n in n_said.items():
        if n > _MOST_LINES:
            lines.append(f"{drift.value:<14} {n - _MOST_LINES:,} more; --csv shows all of them")
    lines += found.remarks
    counts = ", ".join(f"{found.counts[each]:,} {each.value}" for each in Drift if found.counts[each])
    lines.append(f"{counted(found.counts.total(), 'source')}: {counts}")
    if found.to is not None:
        was_there = "; it was there already" if found.was_complete else ""
        lines.append(f"{'cube' if was_there else 'new cube'}: {found.to}{was_there}")
    return "\n".join(lines)
