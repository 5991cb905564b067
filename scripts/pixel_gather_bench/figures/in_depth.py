"""Draws figure 1: one run in depth, with the size and the time of each source."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgba

from pixel_gather.core.results.run import Run
from pixel_gather.features.report.findings import plain_number
from pixel_gather.io.pictures.theme import Theme
from pixel_gather_bench.figures.axes import (
    WIDTH_IN,
    finish_axes,
    head,
    new_figure,
    say_not_counted,
    whole_ticks,
)
from pixel_gather_bench.figures.choosing import run_with_fewest
from pixel_gather_bench.figures.files import Drawn
from pixel_gather_bench.figures.histogram import Span, counts_in, span_of, tail_of
from pixel_gather_bench.figures.labels import (
    Numbers,
    count_with_noun,
    label_with_number,
    unit_of_sizes,
    unit_of_times,
)
from pixel_gather_bench.figures.thinning import stretches_of

_MOST_DOTS: Final = 2000
"""Up to so many sources are drawn one by one, more in stretches of the list."""

_N_STRETCHES: Final = 400
_MOST_SCATTERED: Final = 5000
_CELLS: Final = (56, 40)
_N_SHADES: Final = 6
_MANY_DOTS: Final = 100
_MARGIN: Final = 0.04


def draw(runs: Sequence[Run], theme: Theme) -> Drawn:
    """Draw the run with the lowest concurrency."""
    run = run_with_fewest(runs)
    figure, axes = new_figure(theme, n_rows=2, n_columns=3, size_in=(WIDTH_IN, 6.4))
    head(
        figure,
        f"{label_with_number(run.name, run.concurrency)} · {count_with_noun(len(run.timings), 'source')}",
        theme,
    )
    _draw_sizes(axes[0], run, theme)
    unit = unit_of_times(run.timings.total_s)
    for ax, name, times_s, colour in (
        (axes[1, 0], "Open", run.timings.open_s, theme.blue),
        (axes[1, 1], "Read", run.timings.read_s, theme.vermilion),
        (axes[1, 2], "Total", run.timings.total_s, theme.green),
    ):
        _draw_counts(ax, times_s * unit.per_one, (name, unit.name), colour, theme)
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
            finish_axes(ax, title=title, x_label="", y_label="", theme=theme)
            say_not_counted(ax, theme)
        return
    unit = unit_of_sizes(run.timings.nbytes)
    sizes = run.timings.nbytes * unit.per_one
    in_order, counted, against_time = axes
    x_label = _draw_in_order(in_order, sizes, theme)
    finish_axes(in_order, title="Bytes in order", x_label=x_label, y_label=unit.name, theme=theme)
    _draw_counts(counted, sizes, ("Bytes", unit.name), theme.purple, theme)
    _draw_against_time(against_time, sizes, unit.name, run.timings.total_s, theme)


def _draw_in_order(ax: Axes, sizes: Numbers, theme: Theme) -> str:
    """Draw each size, or stretches of many. Return the label of the axis."""
    label = "source, in the list's order"
    whole_ticks(ax.xaxis, longest=len(sizes))
    if len(sizes) <= _MOST_DOTS:
        ax.plot(np.arange(1, len(sizes) + 1), sizes, color=theme.purple, **_dots(len(sizes)))
        return label
    parts = stretches_of(sizes, n=_N_STRETCHES)
    ax.fill_between(
        parts.middle + 1, parts.least, parts.greatest, color=theme.purple, alpha=0.35, linewidth=0.4
    )
    ax.plot(parts.middle + 1, parts.median, color=theme.purple, linewidth=1)
    return f"{label}\n(median and range of every {len(sizes) // _N_STRETCHES:,})"


def _draw_counts(ax: Axes, values: Numbers, words: tuple[str, str], colour: str, theme: Theme) -> None:
    name, unit = words
    span = span_of(values)
    edges = span.edges(len(values))
    ax.stairs(counts_in(values, edges), edges, fill=True, color=colour, alpha=0.85)
    ax.set_xlim(span.low, span.top)
    ax.set_ylim(bottom=0)
    whole_ticks(ax.yaxis, longest=0)
    title = f"{name}: median {plain_number(float(np.median(values)))} {unit}"
    x_label = unit + tail_of(values, span, unit=unit)
    finish_axes(ax, title=title, x_label=x_label, y_label="sources", theme=theme)


def _draw_against_time(ax: Axes, sizes: Numbers, size_unit: str, times_s: Numbers, theme: Theme) -> None:
    unit = unit_of_times(times_s)
    times = times_s * unit.per_one
    x, y = span_of(sizes), span_of(times)
    is_dense = len(sizes) > _MOST_SCATTERED
    if is_dense:
        _draw_density(ax, sizes, times, (x, y), theme.green)
    else:
        ax.plot(sizes, times, color=theme.green, alpha=0.6, **_dots(len(sizes)))
    ax.set_xlim(x.low - _MARGIN * (x.top - x.low), x.top + _MARGIN * (x.top - x.low))
    ax.set_ylim(y.low - _MARGIN * (y.top - y.low), y.top + _MARGIN * (y.top - y.low))
    more = "\n(stronger: more sources)" if is_dense else tail_of(times, y, unit=unit.name)
    finish_axes(
        ax,
        title="Time against bytes",
        x_label=f"size, {size_unit}{more}",
        y_label=f"open and read, {unit.name}",
        theme=theme,
    )


def _dots(n: int) -> dict[str, Any]:
    return {
        "linestyle": "none",
        "marker": ".",
        "markersize": 4 if n > _MANY_DOTS else 9,
        "markeredgewidth": 0,
    }


def _draw_density(ax: Axes, sizes: Numbers, times: Numbers, spans: tuple[Span, Span], colour: str) -> None:
    """Draw cells, more opaque for more sources. The file stays small even for a million sources."""
    counts, x, y = np.histogram2d(
        sizes, times, bins=_CELLS, range=[(spans[0].low, spans[0].top), (spans[1].low, spans[1].top)]
    )
    columns, rows = np.nonzero(counts)
    strength = np.log1p(counts[columns, rows]) / np.log1p(max(counts.max(), 1))
    shades = np.ceil(strength * _N_SHADES) / _N_SHADES
    corners = [
        [(x[i], y[j]), (x[i + 1], y[j]), (x[i + 1], y[j + 1]), (x[i], y[j + 1])]
        for i, j in zip(columns, rows, strict=True)
    ]
    colours = [to_rgba(colour, alpha=0.1 + 0.9 * shade) for shade in shades]
    ax.add_collection(PolyCollection(corners, facecolors=colours, edgecolors="none"))
