"""Draws figure 6, warm-up: how long the first source takes to open."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from pixel_gather.core.model.plurals import counted
from pixel_gather.core.results.timed_run import Run
from pixel_gather.core.results.timings import Timings
from pixel_gather.features.report.findings import group_by_series
from pixel_gather.io.pictures.theme import Theme
from pixel_gather_bench.figures.look import (
    MARKERS,
    Drawn,
    finish_axes,
    head,
    legend_below,
    mark_powers,
    new_figure,
    whole_ticks,
)
from pixel_gather_bench.figures.numbers import (
    Numbers,
    short_label,
    span_of,
    tail_of,
    unit_of_times,
)

_HEIGHT_IN: Final = 3.8
_N_FIRST: Final = 40
_TOP_ROOM: Final = 1.05
_WHY: Final = "also pay for name look-ups, new connections and first requests"


def draw(runs: Sequence[Run], theme: Theme) -> Drawn | None:
    """Draw the first opens by concurrency, or in order for one run. None if all headers were cached."""
    timed = [run for run in runs if run.timings.open_s.any()]
    if not timed:
        return None
    return _draw_one(timed[0], theme) if len(runs) == 1 else _draw_many(timed, theme)


def _draw_many(runs: Sequence[Run], theme: Theme) -> Drawn:
    figure, axes = new_figure(1, 1, height_in=_HEIGHT_IN)
    ax: Axes = axes[0, 0]
    unit = unit_of_times(np.array([first_open_s(run.timings) for run in runs]))
    handles = []
    for index, (series, its_runs) in enumerate(group_by_series(runs).items()):
        look: dict[str, Any] = {
            "color": theme.series[index % len(theme.series)],
            "marker": MARKERS[index % len(MARKERS)],
            "linestyle": "none",
        }
        hollow: dict[str, Any] = {"markersize": 5, "markerfacecolor": theme.background}
        concurrency = [max(run.concurrency, 1) for run in its_runs]
        typical = [float(np.median(run.timings.open_s)) * unit.per_one for run in its_runs]
        first = [first_open_s(run.timings) * unit.per_one for run in its_runs]
        ax.vlines(concurrency, typical, first, color=look["color"], linewidth=1, alpha=0.6)
        ax.plot(concurrency, first, **look, markersize=7)
        ax.plot(concurrency, typical, **look, **hollow, zorder=3)
        name = short_label(series)
        handles += [
            Line2D([], [], **look, markersize=7, label=f"{name}: the first source"),
            Line2D([], [], **look, **hollow, label=f"{name}: median of all"),
        ]
    mark_powers(ax, [float(max(run.concurrency, 1)) for run in runs])
    ax.set_ylim(0, _TOP_ROOM * ax.dataLim.y1)
    finish_axes(
        ax, title="Opening the first source", x_label="sources at one time", y_label=f"open, {unit.name}"
    )
    legend_below(figure, handles, n_columns=4)
    return Drawn(
        figure=figure,
        title="Warm-up",
        caption=(
            "Time to open the first source of each run (filled), and the median of all its sources (hollow). "
            f"First sources {_WHY}, unless a warm-up before the measurement has done so."
        ),
    )


def _draw_one(run: Run, theme: Theme) -> Drawn:
    orders = opens_by_order_s(run.timings)
    unit = unit_of_times(run.timings.open_s)
    n_shards = len(np.unique(run.timings.shard))
    figure, axes = new_figure(1, 1, height_in=_HEIGHT_IN)
    head(figure, f"{run.name} · {counted(n_shards, 'shard')}", theme)
    ax: Axes = axes[0, 0]
    x = np.arange(1, len(orders) + 1)
    median, least, most = (
        np.array([each(order) for order in orders]) * unit.per_one for each in (np.median, np.min, np.max)
    )
    if n_shards > 1:
        ax.vlines(x, least, most, color=theme.blue, linewidth=3, alpha=0.35, label="range over the shards")
    label = "median over the shards" if n_shards > 1 else "one source"
    ax.plot(x, median, "o", color=theme.blue, markersize=5, label=label)
    overall = float(np.median(run.timings.open_s)) * unit.per_one
    ax.axhline(
        overall, color=theme.vermilion, linewidth=1.4, linestyle=(0, (5, 3)), label="median of the whole run"
    )
    opens = np.concatenate(orders) * unit.per_one
    span = span_of(opens)
    ax.set_xlim(0, len(orders) + 1)
    ax.set_ylim(0, _TOP_ROOM * span.top)
    whole_ticks(ax.xaxis)
    finish_axes(
        ax,
        title="Opening the first sources",
        x_label="order in which the sources of a shard began" + tail_of(opens, span, unit=unit.name),
        y_label=f"open, {unit.name}",
    )
    ax.legend(loc="best")
    return Drawn(
        figure=figure,
        title="Warm-up",
        caption=(
            f"Time to open the first {len(orders)} sources of each shard, in the order of their starts. "
            f"First sources {_WHY}."
        ),
    )


def first_open_s(timings: Timings) -> float:
    """Return the opening time of the source that began first."""
    return float(timings.open_s[np.argmin(timings.start_s)])


def opens_by_order_s(timings: Timings) -> list[Numbers]:
    """Return the opening times of all shards' first sources, of all their second ones, up to the 40th."""
    by_shard = np.lexsort((timings.start_s, timings.shard))
    shard = timings.shard[by_shard]
    order = np.arange(len(shard)) - np.searchsorted(shard, shard)
    n_orders = min(_N_FIRST, int(order.max()) + 1)
    return [timings.open_s[by_shard[order == index]] for index in range(n_orders)]
