"""Draws figure 5: throughput over the number of sources done, for every run."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from pixel_gather.core.results import published
from pixel_gather.core.results.run import Run
from pixel_gather.features.report.findings import plain_number
from pixel_gather.io.pictures.theme import Theme
from pixel_gather_bench.figures.axes import (
    LINES,
    NOTE_PT,
    WIDTH_IN,
    finish_axes,
    legend_below,
    new_figure,
    whole_ticks,
)
from pixel_gather_bench.figures.choosing import choose_runs
from pixel_gather_bench.figures.files import Drawn
from pixel_gather_bench.figures.thinning import kept_indexes

_MOST_POINTS: Final = 1200
_MOST_QUIET_POINTS: Final = 250
_TOP_PERCENTILE: Final = 97.0
"""The scale ends a little above this percentile: the first sources to finish together are outliers."""

_TOP_ROOM: Final = 1.12
_LABEL_HEIGHT: Final = 0.058
"""Distance between the middles of two labels, as a share of the axes' height."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Level:
    """A label at the right edge, at the height of a typical throughput."""

    name: str
    per_s: float
    colour: str
    line: str | tuple[int, tuple[float, ...]]


def draw(runs: Sequence[Run], theme: Theme, *, with_published: bool) -> Drawn | None:
    """Draw a few runs in colour and all others in grey. None if no run took any time."""
    shown = [run for run in runs if run.typical_per_s > 0]
    if not shown:
        return None
    chosen = choose_runs(shown)
    figure, axes = new_figure(theme, n_rows=1, n_columns=1, size_in=(WIDTH_IN, 4.6))
    ax: Axes = axes[0, 0]
    levels = [
        _Level(
            name=f"{run.name}: {plain_number(run.typical_per_s)}/s",
            per_s=run.typical_per_s,
            colour=theme.series[index],
            line=LINES[index],
        )
        for index, run in enumerate(chosen)
    ]
    for run in shown:
        if run in chosen:
            continue
        _draw_curve(ax, run, colour=theme.quiet, width=0.8, most=_MOST_QUIET_POINTS)
    for run, level in zip(chosen, levels, strict=True):
        _draw_curve(ax, run, colour=level.colour, width=1.7, most=_MOST_POINTS, line=level.line)
    if with_published:
        levels += _draw_published(ax, theme)
    ax.set_xlim(0, 1.01 * max(len(run.timings) for run in shown))
    ax.set_ylim(0, _top(shown, levels))
    _name_levels(ax, levels, theme)
    whole_ticks(ax.xaxis, longest=0)
    finish_axes(
        ax,
        title="Throughput so far, and its median (dots)",
        x_label="sources done",
        y_label="sources done / elapsed time, 1/s",
        theme=theme,
    )
    if len(shown) > len(chosen):
        legend_below(
            figure, theme, [Line2D([], [], color=theme.quiet, linewidth=0.8, label="every other run")]
        )
    return Drawn(
        figure=figure,
        title="Throughput over the sources done",
        caption=_caption(with_published=with_published),
    )


def _caption(*, with_published: bool) -> str:
    of_2018 = " Dashed across: typical values published in 2018." if with_published else ""
    return (
        "Each time a source finished: the number of sources done, divided by the elapsed time. Dots at the "
        "right mark each curve's median, the typical throughput. One late answer near the end does not "
        f"change it. The scale leaves out peaks of the first sources to finish.{of_2018}"
    )


def _draw_curve(
    ax: Axes,
    run: Run,
    *,
    colour: str,
    width: float,
    most: int,
    line: str | tuple[int, tuple[float, ...]] = "solid",
) -> None:
    curve = run.timings.throughput_per_s
    kept = kept_indexes(curve, most=most)
    lonely: dict[str, Any] = {"marker": "o", "markersize": 5} if len(kept) == 1 else {}
    ax.plot(kept + 1, curve[kept], color=colour, linewidth=width, linestyle=line, **lonely)


def _draw_published(ax: Axes, theme: Theme) -> list[_Level]:
    levels = []
    for run in published.PUBLISHED:
        ax.axhline(run.sources_per_s, color=theme.published, linewidth=1.2, linestyle=(0, (5, 4)))
        levels.append(
            _Level(
                name=f"{run.name}: {plain_number(run.sources_per_s)}/s",
                per_s=run.sources_per_s,
                colour=theme.published,
                line=(0, (5, 4)),
            )
        )
    return levels


def _top(runs: Sequence[Run], levels: Sequence[_Level]) -> float:
    curves = [float(np.percentile(run.timings.throughput_per_s, _TOP_PERCENTILE)) for run in runs]
    return _TOP_ROOM * max([*curves, *(level.per_s for level in levels)])


def _name_levels(ax: Axes, levels: Sequence[_Level], theme: Theme) -> None:
    """Label each level to the right of the axes, at its height or as near to it as there is room."""
    ordered = sorted(levels, key=lambda level: level.per_s)
    top = ax.get_ylim()[1]
    across = ax.get_yaxis_transform()
    heights = spread_out([level.per_s / top for level in ordered], gap=_LABEL_HEIGHT)
    for level, height in zip(ordered, heights, strict=True):
        ax.plot(
            1,
            level.per_s,
            transform=across,
            marker="o",
            markersize=5,
            color=level.colour,
            clip_on=False,
            zorder=5,
        )
        ax.annotate(
            level.name,
            (1, level.per_s),
            xycoords=across,
            xytext=(1.03, height),
            textcoords="axes fraction",
            va="center",
            fontsize=NOTE_PT,
            color=theme.text,
            arrowprops={
                "arrowstyle": "-",
                "color": level.colour,
                "linewidth": 1,
                "linestyle": level.line,
                "relpos": (0, 0.5),
                "shrinkA": 1,
                "shrinkB": 2,
            },
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
