"""Draws figure 5: throughput over the number of sources done, for every run."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from msgspec import Struct

from pixel_gather.core.results import published_runs
from pixel_gather.core.results.timed_run import Run
from pixel_gather.features.report.findings import plain_number
from pixel_gather.io.pictures.theme import Theme
from pixel_gather_bench.figures.look import (
    LINES,
    NOTE_PT,
    Drawn,
    Line,
    finish_axes,
    legend_below,
    new_figure,
    whole_ticks,
)
from pixel_gather_bench.figures.numbers import choose_runs, kept_indexes

_MOST_POINTS: Final = 1200
_MOST_QUIET_POINTS: Final = 250
_TOP_PERCENTILE: Final = 97.0
"""The scale ends a little above this percentile: the first sources to finish together are outliers."""

_TOP_ROOM: Final = 1.12
_LABEL_HEIGHT: Final = 0.058
"""Distance between the middles of two labels, as a share of the axes' height."""


class _Level(Struct, frozen=True):
    """A run's name at the right edge, at the height of its typical throughput."""

    name: str
    per_s: float
    colour: str
    line: Line


def draw(runs: Sequence[Run], theme: Theme, *, with_published: bool) -> Drawn | None:
    """Draw a few runs in colour and all others in grey. None if no run took any time."""
    shown = [run for run in runs if run.typical_per_s > 0]
    if not shown:
        return None
    chosen = choose_runs(shown)
    figure, axes = new_figure(1, 1, height_in=4.6)
    ax: Axes = axes[0, 0]
    for run in shown:
        if run not in chosen:
            _draw_curve(ax, run, most=_MOST_QUIET_POINTS, colour=theme.quiet)
    levels = []
    for run, colour, line in zip(chosen, theme.series, LINES, strict=False):
        _draw_curve(ax, run, most=_MOST_POINTS, colour=colour, line=line)
        levels.append(_Level(run.name, run.typical_per_s, colour, line))
    for of_2018 in published_runs.PUBLISHED if with_published else ():
        levels.append(_Level(of_2018.name, of_2018.times.typical_per_s, theme.published, (0, (5, 4))))
        ax.axhline(of_2018.times.typical_per_s, color=theme.published, linewidth=1.2, linestyle=(0, (5, 4)))
    curves = [float(np.percentile(run.timings.throughput_per_s, _TOP_PERCENTILE)) for run in shown]
    ax.set_xlim(0, 1.01 * max(len(run.timings) for run in shown))
    ax.set_ylim(0, _TOP_ROOM * max([*curves, *(level.per_s for level in levels)]))
    _name_levels(ax, levels)
    whole_ticks(ax.xaxis)
    finish_axes(
        ax,
        title="Throughput so far, and its median (dots)",
        x_label="sources done",
        y_label="sources done / elapsed time, 1/s",
    )
    if len(shown) > len(chosen):
        legend_below(figure, [Line2D([], [], color=theme.quiet, linewidth=0.8, label="every other run")])
    dashed = " Dashed across: typical values published in 2018." if with_published else ""
    return Drawn(
        figure=figure,
        title="Throughput over the sources done",
        caption=(
            "Each time a source finished: the number of sources done, divided by the elapsed time. Dots at "
            "the right mark each curve's median, the typical throughput. One late answer near the end does "
            f"not change it. The scale leaves out peaks of the first sources to finish.{dashed}"
        ),
    )


def _draw_curve(ax: Axes, run: Run, *, most: int, colour: str, line: Line | None = None) -> None:
    curve = run.timings.throughput_per_s
    kept = kept_indexes(curve, most=most)
    marker = "o" if len(kept) == 1 else None
    width = 0.8 if line is None else 1.7
    ax.plot(kept + 1, curve[kept], color=colour, linewidth=width, linestyle=line or "solid", marker=marker)


def _name_levels(ax: Axes, levels: Sequence[_Level]) -> None:
    """Label each level to the right of the axes, at its height or as near to it as there is room."""
    ordered = sorted(levels, key=lambda level: level.per_s)
    top = ax.get_ylim()[1]
    across = ax.get_yaxis_transform()
    heights = spread_out([level.per_s / top for level in ordered], gap=_LABEL_HEIGHT)
    for level, height in zip(ordered, heights, strict=True):
        place = (1, level.per_s)
        ax.plot(*place, "o", transform=across, markersize=5, color=level.colour, clip_on=False, zorder=5)
        arrow = {
            "arrowstyle": "-",
            "color": level.colour,
            "linestyle": level.line,
            "relpos": (0, 0.5),
            "shrinkA": 1,
        }
        ax.annotate(
            f"{level.name}: {plain_number(level.per_s)}/s",
            place,
            xycoords=across,
            xytext=(1.03, height),
            textcoords="axes fraction",
            va="center",
            fontsize=NOTE_PT,
            arrowprops=arrow,
        )


def spread_out(heights: Sequence[float], *, gap: float) -> list[float]:
    """Move ascending heights apart by at least ``gap``, between 0 and 1 if there is room."""
    up: list[float] = []
    for height in heights:
        up.append(max(height, up[-1] + gap if up else 0.0))
    down: list[float] = []
    for height in reversed(up):
        down.append(min(height, down[-1] - gap if down else max(1.0, gap * (len(up) - 1))))
    return down[::-1]
