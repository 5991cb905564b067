"""``pixel-gather presence``: for which bins a cube has rows."""

import json
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any, Final

import click
import numpy as np

from pixel_gather.core.model.plurals import counted
from pixel_gather.core.results.presence import Presence
from pixel_gather.features.rows.rows import presence
from pixel_gather_cli.progress import with_progress
from pixel_gather_cli.request_options import store_options, stores_of

_PERIODS: Final = ("day", "solar-day", "month")
_MOST_ALIKE: Final = 2
_MOST_AXES: Final = 2  # with three, the bins of one period have several lines


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
    value of the first name. Days and months without rows have a line, too; more than two of them in
    sequence that are alike share one. Each 1 or 0 in the line stands for one value of the last name. It is 1
    if the cube has a row there whose source was read.

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
        return _join_alike(
            found, [(str(label), str(bit)) for label, bit in zip(last, found.grid, strict=True)]
        )
    places = np.ndindex(*found.shape[:-1])
    names = [" ".join(str(labels[at]) for labels, at in zip(above, place, strict=True)) for place in places]
    bits = found.grid.reshape(-1, len(last))
    head = f"{found.names[-1]}: {', '.join(map(str, last))}"
    rows = [(name, "".join(map(str, row))) for name, row in zip(names, bits, strict=True)]
    return [head, *_join_alike(found, rows)]


def _join_alike(found: Presence, rows: list[tuple[str, str]]) -> list[str]:
    """Return one line for each bin. Days or months in sequence that are alike share one, if they are many."""
    lines: list[tuple[str, str]] = []
    for bits, alike in groupby(rows, key=itemgetter(1)):
        names = [name for name, _ in alike]
        if len(names) > _MOST_ALIKE and found.names[0] in _PERIODS and len(found.names) <= _MOST_AXES:
            names = [f"{names[0]} to {names[-1]}"]
        lines += [(name, bits) for name in names]
    width = max((len(name) for name, _ in lines), default=0)
    return [f"{name:<{width}} {bits}" for name, bits in lines]


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
