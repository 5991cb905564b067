"""Draws figure 1: one run in depth, with the size and the time of each source."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes

from pixel_gather.core.model.plurals import counted
from pixel_gather.core.results.timed_run import Run
from pixel_gather.features.report.findings import plain_number
from pixel_gather.io.pictures.theme import Theme
from pixel_gather_bench.figures.look import Drawn, finish_axes, head, new_figure, say_not_counted, whole_ticks
from pixel_gather_bench.figures.numbers import (
    Numbers,
    kept_indexes,
    label_with_number,
    run_with_fewest,
    span_of,
    tail_of,
    unit_of_sizes,
    unit_of_times,
)

_MOST_DOTS: Final = 2000
"""Up to so many sources are drawn one by one, of more the extremes of each stretch of the list."""

_MOST_SCATTERED: Final = 4000
_MANY_DOTS: Final = 100
_MARGIN: Final = 0.04


def draw(runs: Sequence[Run], theme: Theme) -> Drawn:
    """Draw the run with the lowest concurrency."""
    run = run_with_fewest(runs)
    figure, axes = new_figure(2, 3, height_in=6.4)
    n_sources = counted(len(run.timings), "source")
    head(figure, f"{label_with_number(run.name, run.concurrency)} · {n_sources}", theme)
    _draw_sizes(axes[0], run, theme)
    unit = unit_of_times(run.timings.total_s)
    for ax, name, times_s, colour in (
        (axes[1, 0], "Open", run.timings.open_s, theme.blue),
        (axes[1, 1], "Read", run.timings.read_s, theme.vermilion),
        (axes[1, 2], "Total", run.timings.total_s, theme.green),
    ):
        _draw_counts(ax, times_s * unit.per_one, (name, unit.name), colour)
    which = f"The run with {run.concurrency:,} at a time, the fewest there are. " if len(runs) > 1 else ""
    return Drawn(
        figure=figure,
        title="One run in depth",
        caption=(
            f"{which}Above: bytes of each source's window without header, in the list's order; how they are "
            "distributed; and whether larger windows take longer. Below: time to open a source, to read its "
            "window, and both together, each on a scale of its own."
        ),
    )


def _draw_sizes(axes: Sequence[Axes], run: Run, theme: Theme) -> None:
    if not run.timings.nbytes.any():
        for ax, title in zip(axes, ("Bytes in order", "Bytes", "Time against bytes"), strict=True):
            finish_axes(ax, title=title, x_label="", y_label="")
            say_not_counted(ax, theme)
        return
    unit = unit_of_sizes(run.timings.nbytes)
    sizes = run.timings.nbytes * unit.per_one
    in_order, counted, against_time = axes
    kept = kept_indexes(sizes, most=_MOST_DOTS)
    is_thinned = len(kept) < len(sizes)
    look: dict[str, Any] = {"linewidth": 0.5} if is_thinned else _dots(len(kept))
    in_order.plot(kept + 1, sizes[kept], color=theme.purple, **look)
    whole_ticks(in_order.xaxis, longest=len(sizes))
    thinned = "\n(the extremes of each stretch)" if is_thinned else ""
    x_label = f"source, in the list's order{thinned}"
    finish_axes(in_order, title="Bytes in order", x_label=x_label, y_label=unit.name)
    _draw_counts(counted, sizes, ("Bytes", unit.name), theme.purple)
    _draw_against_time(against_time, sizes, unit.name, run.timings.total_s, theme.green)


def _draw_counts(ax: Axes, values: Numbers, words: tuple[str, str], colour: str) -> None:
    name, unit = words
    span = span_of(values)
    edges = span.edges(len(values))
    ax.stairs(np.histogram(values, edges)[0], edges, fill=True, color=colour, alpha=0.85)
    ax.set_xlim(span.low, span.top)
    ax.set_ylim(bottom=0)
    whole_ticks(ax.yaxis)
    title = f"{name}: median {plain_number(float(np.median(values)))} {unit}"
    finish_axes(ax, title=title, x_label=unit + tail_of(values, span, unit=unit), y_label="sources")


def _draw_against_time(ax: Axes, sizes: Numbers, size_unit: str, times_s: Numbers, colour: str) -> None:
    unit = unit_of_times(times_s)
    times = times_s * unit.per_one
    every = -(-len(sizes) // _MOST_SCATTERED)
    shown = slice(None, None, every)
    ax.plot(sizes[shown], times[shown], color=colour, alpha=0.6, **_dots(len(sizes)))
    x, y = span_of(sizes), span_of(times)
    ax.set_xlim(x.low - _MARGIN * (x.top - x.low), x.top + _MARGIN * (x.top - x.low))
    ax.set_ylim(y.low - _MARGIN * (y.top - y.low), y.top + _MARGIN * (y.top - y.low))
    more = f"\n(one of {every:,} sources)" if every > 1 else tail_of(times, y, unit=unit.name)
    finish_axes(
        ax,
        title="Time against bytes",
        x_label=f"size, {size_unit}{more}",
        y_label=f"open and read, {unit.name}",
    )


def _dots(n: int) -> dict[str, Any]:
    return {
        "linestyle": "none",
        "marker": ".",
        "markersize": 4 if n > _MANY_DOTS else 9,
        "markeredgewidth": 0,
    }
