"""Sources a second against sources at one time, a panel for each back end, what is found out marked on it."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pixel_gather.io.pictures.theme import Theme
from pixel_gather_bench.figures.look import (
    draw_star,
    finish_axes,
    legend_above,
    log_ticks,
    new_figure,
    note_below,
    put_in_both_themes,
)
from pixel_gather_bench.threads.numbers import BACK_ENDS, BackEndCurve, basis

_HEIGHT_IN: Final = 4.2
_HEADROOM: Final = 0.15


def write_figure(curves: Sequence[BackEndCurve], folder: Path) -> None:
    """Write the figure as PNG and SVG, light and dark."""
    put_in_both_themes(partial(draw, curves), folder, "threads")


def draw(curves: Sequence[BackEndCurve], theme: Theme) -> Figure:
    """Draw the curves side by side."""
    figure, axes = new_figure(1, len(curves), height_in=_HEIGHT_IN)
    for ax, curve in zip(axes.flat, curves, strict=True):
        _draw_curve(ax, curve, theme)
    legend_above(figure, axes[0, 0])
    note_below(figure, "\n".join(_notes(curves)), theme)
    return figure


def _notes(curves: Sequence[BackEndCurve]) -> list[str]:
    """Return on what each back end's default rests; those that have the same share a line."""
    names: dict[str, list[str]] = {}
    for curve in curves:
        names.setdefault(basis(curve), []).append(BACK_ENDS[curve.back_end])
    return [f"{', '.join(those)}: {note}" for note, those in names.items()]


def _draw_curve(ax: Axes, curve: BackEndCurve, theme: Theme) -> None:
    bounds = curve.bounds
    ax.axvspan(
        bounds.lowest, bounds.highest, color=theme.grid, alpha=0.5, linewidth=0, label="where it searches"
    )
    ax.axvline(bounds.start, color=theme.muted, linestyle=(0, (4, 2)), linewidth=1.2, label="where it begins")
    xs = [point.at_a_time for point in curve.fixed]
    medians = [point.median_per_s for point in curve.fixed]
    ax.fill_between(
        xs,
        [min(point.per_s) for point in curve.fixed],
        [max(point.per_s) for point in curve.fixed],
        color=theme.blue,
        alpha=0.2,
        linewidth=0,
    )
    ax.plot(xs, medians, color=theme.blue, marker="o", markersize=4.5, label="a fixed number (median, range)")
    if curve.found is not None:
        label = "found out while reading: the default"
        found = (curve.found.at_a_time, curve.found.median_per_s)
        draw_star(ax, *found, theme, label=label, colour=theme.vermilion)
    ax.set_xscale("log", base=2)
    drawn = curve.fixed if curve.found is None else (*curve.fixed, curve.found)
    fastest = max(max(point.per_s) for point in drawn)
    ax.set_ylim(0, fastest * (1 + _HEADROOM) or 1)
    title = BACK_ENDS[curve.back_end]
    if curve.share_of_best is not None:
        title = f"{title}: default at {curve.share_of_best:.0%} of best"
    finish_axes(ax, title=title, x_label="sources at one time", y_label="sources/s")
    log_ticks(ax.xaxis, xs)
