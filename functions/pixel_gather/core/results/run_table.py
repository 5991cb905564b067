"""The table of one or several runs, with the lines of the published report. Pure.

A run, a gather's report and a published result each become a `RunColumn`. All lines are defined here.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import batched
from typing import Final

from msgspec import Struct

from pixel_gather.core.results.published_runs import PUBLISHED
from pixel_gather.core.results.timed_run import Run, RunColumn
from pixel_gather.core.results.timings import Spread

LABEL_WIDTH: Final = 22
"""Width of the labels, in characters."""

_WIDEST: Final = 36
"""Largest width of a column in text, in characters."""

_WIDEST_ALONE: Final = 400

COLUMNS_ABREAST: Final = 4
"""Most columns side by side, in text and on pages. More columns follow below."""

_UNKNOWN: Final = "-"


class TableRow(Struct, frozen=True, kw_only=True):
    """One line: its label and one cell per run."""

    label: str
    """Starts with two spaces if it is a part of the line above."""

    cells: tuple[str, ...]


def run_columns(runs: Sequence[Run], *, with_published: bool) -> tuple[RunColumn, ...]:
    """Return one column per run, followed by the published ones if wanted."""
    return (*(run.column for run in runs), *(PUBLISHED if with_published else ()))


def table_rows(columns: Sequence[RunColumn]) -> tuple[TableRow, ...]:
    """Return every line for which at least one column has a value."""
    rows = []
    for label, say in _LINES.items():
        cells = tuple(say(column) for column in columns)
        if any(cells):
            rows.append(TableRow(label=label, cells=tuple(cell or _UNKNOWN for cell in cells)))
        if label == _DIGEST and len(columns) > 1:
            rows += _agreement(columns)
    return tuple(rows)


def summary_rows(columns: Sequence[RunColumn]) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Return the heads and one narrow row per run, with its name and most important figures."""
    rows = tuple((column.name, *(say(column) or _UNKNOWN for say in _SUMMARY.values())) for column in columns)
    return tuple(_SUMMARY), rows


def table_as_text(columns: Sequence[RunColumn]) -> str:
    """Return the table as text, with runs side by side. Long names are shortened in the middle."""
    blocks = batched(range(len(columns)), COLUMNS_ABREAST, strict=False)
    return "\n\n".join("\n".join(_text_lines(columns, places)) for places in blocks)


def shorten_in_middle(text: str, most: int) -> str:
    """Return a text of at most ``most`` characters. Longer texts are shortened in the middle."""
    if len(text) <= most:
        return text
    kept = most - 1
    return f"{text[: kept - kept // 2]}…{text[len(text) - kept // 2 :]}"


def _text_lines(columns: Sequence[RunColumn], places: Sequence[int]) -> Iterator[str]:
    """Yield the lines of some columns. Digests are compared with that of the very first column."""
    head = TableRow(label="", cells=tuple(column.name for column in columns))
    rows = [(row.label, [row.cells[place] for place in places]) for row in (head, *table_rows(columns))]
    widest = _WIDEST if len(places) > 1 else _WIDEST_ALONE
    shown = [(label, [shorten_in_middle(cell, widest) for cell in cells]) for label, cells in rows]
    widths = [max(len(cells[place]) for _, cells in shown) for place in range(len(places))]
    for label, cells in shown:
        padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        yield f"{label:<{LABEL_WIDTH}} {'  '.join(padded)}".rstrip()


def _agreement(columns: Sequence[RunColumn]) -> list[TableRow]:
    """Return a line that compares each digest with the first known one."""
    known = [column.digest for column in columns if column.digest]
    if len(known) < 2:  # noqa: PLR2004 # nothing to compare
        return []
    cells = [
        _UNKNOWN if not column.digest else "equal" if column.digest == known[0] else "different"
        for column in columns
    ]
    cells[[column.digest for column in columns].index(known[0])] = "compared with"
    return [TableRow(label="  pixels", cells=tuple(cells))]


def _in_bytes(spread: Spread) -> str:
    return f"{spread.median:,.0f} [{spread.min:,.0f}..{spread.max:,.0f}]"


def _in_ms(spread: Spread) -> str:
    return f"{spread.median * 1000:,.1f} [{spread.min * 1000:,.1f}..{spread.max * 1000:,.1f}] ms"


def _per_worker(column: RunColumn) -> str:
    return f"{column.times.typical_per_s / max(column.concurrency, 1):,.1f} sources/s"


def _if_counted(column: RunColumn, text: str) -> str:
    """Return a text about bytes; empty if sources were read and none of their bytes were counted."""
    return "" if column.n_read and not column.times.data_nbytes else text


def _format_known(value: float | None, form: str) -> str:
    """Format a number; empty if it is None."""
    return "" if value is None else form.format(value)


_DIGEST: Final = "digest of all pixels"
_LINES: Final[dict[str, Callable[[RunColumn], str]]] = {
    "engine": lambda each: each.engine,
    "window": lambda each: each.window,
    "band": lambda each: ", ".join(map(str, each.bands)),
    "shape and dtype": lambda each: f"{each.shape[0]} x {each.shape[1]} {each.dtype}",
    "sources in flight": lambda each: f"{each.concurrency:,}",
    _DIGEST: lambda each: each.digest,
    "sources read": lambda each: f"{each.n_read:,} of {each.n_sources:,}",
    "data without headers": lambda each: _if_counted(each, f"{each.times.data_nbytes:,} bytes"),
    "bytes per source": lambda each: _if_counted(each, _in_bytes(each.times.bytes_per_source)),
    "time per source": lambda each: _in_ms(each.times.total_s),
    "  open": lambda each: f"{_in_ms(each.times.open_s)}  {each.open_share:.1%}",
    "  read and decode": lambda each: f"{_in_ms(each.times.read_s)}  {1 - each.open_share:.1%}",
    "total wait": lambda each: f"{each.times.wait_s:,.2f} s",
    "wall time": lambda each: f"{each.times.wall_s:,.2f} s",
    "throughput": lambda each: f"{each.by_wall_per_s:,.1f} sources/s",
    "  typical": lambda each: f"{each.times.typical_per_s:,.1f} sources/s",
    "  per source in flight": _per_worker,
    "  data": lambda each: _if_counted(each, _format_known(each.mib_per_s, "{:,.1f} MiB/s")),
    "CPU": lambda each: _format_known(each.cpu_s, "{:,.2f} s"),
    "peak memory": lambda each: _format_known(each.peak_rss_mib, "{:,.0f} MiB"),
    "failed": lambda each: _format_known(each.n_failed, "{:,}"),
    "machine": lambda each: each.machine,
    "conditions": lambda each: each.conditions,
}
"""Cell of each line, by label; empty if unknown."""

_SUMMARY: Final[dict[str, Callable[[RunColumn], str]]] = {
    "at a time": lambda each: f"{each.concurrency:,}",
    "typical, sources/s": lambda each: f"{each.times.typical_per_s:,.1f}",
    "for each at a time": lambda each: _per_worker(each).removesuffix(" sources/s"),
    "MiB/s": lambda each: _if_counted(each, _format_known(each.mib_per_s, "{:,.1f}")),
    "ms a source": lambda each: f"{each.times.total_s.median * 1000:,.1f}",
    "opening": lambda each: f"{each.open_share:.1%}",
    "wall, s": lambda each: f"{each.times.wall_s:,.2f}",
    "CPU, s": lambda each: _format_known(each.cpu_s, "{:,.2f}"),
    "memory, MiB": lambda each: _format_known(each.peak_rss_mib, "{:,.0f}"),
    "failed": lambda each: _format_known(each.n_failed, "{:,}"),
}
"""Cells of a narrow row, by the column's head."""
