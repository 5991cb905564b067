"""``pixel-gather presence``: for which bins a cube has rows."""

import json
from itertools import pairwise
from typing import Any

import click
import numpy as np

from pixel_gather.core.model.plurals import counted
from pixel_gather.core.results.presence import Presence
from pixel_gather.features.rows.rows import presence
from pixel_gather_cli.progress import with_progress
from pixel_gather_cli.request_options import store_options, stores_of


@click.command("presence")
@click.argument("cube")
@click.option(
    "--by",
    required=True,
    metavar="NAME[,NAME]",
    help="day, solar-day, month or a coordinate of the rows; several with commas between.",
)
@click.option("--group", metavar="NAME", help="Name of the group, if joined cubes have several.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, with the rows of each bin.")
@store_options
@with_progress("reading")
def presence_command(*, cube: str, by: str, group: str | None, as_json: bool, **options: Any) -> None:
    """Show for which days, months or other values a cube has rows.

    CUBE is a folder or s3://bucket/prefix, of a cube or of joined cubes. No pixel is read. Each line is one
    value of the first name. Days and months without rows have a line, too. Each 1 or 0 in the line stands
    for one value of the last name. It is 1 if the cube has a row there whose source was read.

    \b
    pixel-gather presence out/bolzano.zarr --by month
    """
    found = presence(cube, by, group=group, stores=stores_of(options))
    click.echo(json.dumps(_to_json(found)) if as_json else "\n".join(_lines(found)))
    n_bins, n_rows = found.grid.size, len(found.order)
    left_out = f"; {counted(found.n_left_out, 'row')} left out" if found.n_left_out else ""
    click.echo(
        f"{len(found.starts) - 1:,} of {counted(n_bins, 'bin')} have {counted(n_rows, 'row')}{left_out}",
        err=True,
    )


def _lines(found: Presence) -> list[str]:
    """Return one line for each bin of all axes but the last; with one axis, for each bin."""
    *above, last = found.labels
    if not above:
        return [f"{label} {bit}" for label, bit in zip(last, found.grid, strict=True)]
    places = np.ndindex(*found.shape[:-1])
    names = [" ".join(str(labels[at]) for labels, at in zip(above, place, strict=True)) for place in places]
    bits = found.grid.reshape(-1, len(last))
    width = max(map(len, names), default=0)
    head = f"{found.names[-1]}: {', '.join(map(str, last))}"
    return [
        head,
        *(f"{name:<{width}} {''.join(map(str, row))}" for name, row in zip(names, bits, strict=True)),
    ]


def _to_json(found: Presence) -> dict[str, Any]:
    starts = found.starts.tolist()
    order = found.order.tolist()
    return {
        "names": found.names,
        "labels": [[str(label) for label in labels] for labels in found.labels],
        "grid": found.grid.tolist(),
        "rows": [order[start:stop] for start, stop in pairwise(starts)],
        "n_left_out": found.n_left_out,
    }
