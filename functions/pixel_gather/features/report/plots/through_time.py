"""Draws the mean and the valid share of the pixels along the cube."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

from pixel_gather.core.results.evidence import Series
from pixel_gather.features.report.plots.axes import (
    WIDTH_IN,
    finish_axes,
    legend_below,
    new_figure,
    whole_ticks,
)
from pixel_gather.features.report.plots.drawn import Drawn
from pixel_gather.features.report.plots.labels import short_label
from pixel_gather.features.report.plots.theme import LINES, MARKERS, Theme
from pixel_gather.features.report.plots.thinning import kept_indexes

_SIZE_IN: Final = (WIDTH_IN, 4.6)
_MOST_POINTS: Final = 600
_MARKED: Final = 80
"""Up to so many rows, each has a marker."""


def draw_through_time(series: Sequence[Series], theme: Theme, *, n_measurements: int) -> Drawn | None:
    """Draw the first five measurements. None if no measurement has pixels in two rows.

    Args:
        series: Statistics of the cube's measurements.
        theme: Colours of the figure.
        n_measurements: Number of measurements in the cube.
    """
    shown = [each for each in series if np.isfinite(each.mean).sum() > 1][: len(theme.series)]
    if not shown:
        return None
    figure, axes = new_figure(theme, n_rows=2, n_columns=1, size_in=_SIZE_IN)
    means, shares = axes[:, 0]
    handles = []
    for index, each in enumerate(shown):
        x = each.at.astype("datetime64[us]") if each.has_time else each.at
        look: dict[str, Any] = {"color": theme.series[index], "linestyle": LINES[index], "linewidth": 1.4}
        if len(x) <= _MARKED:
            look |= {"marker": MARKERS[index], "markersize": 4}
        (line,) = _draw(means, x, each.mean, look)
        _draw(shares, x, 100 * each.valid_share, look)
        line.set_label(short_label(each.measurement))
        handles.append(line)
    shares.set_ylim(0, 105)
    shares.sharex(means)
    has_time = shown[0].has_time
    for ax, title, y_label in ((means, "Mean", "raw value"), (shares, "Valid share", "% of the window")):
        if has_time:
            locator = AutoDateLocator()  # type: ignore[no-untyped-call] # matplotlib has no types here
            ax.xaxis.set_major_locator(locator)
            ax.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call] # as above
        else:
            whole_ticks(ax.xaxis, longest=0)
        x_label = "" if ax is means else "time" if has_time else "row"
        finish_axes(ax, title=title, x_label=x_label, y_label=y_label, theme=theme)
        ax.xaxis.get_offset_text().set(color=theme.muted, fontsize=8)
    if n_measurements > 1:
        legend_below(figure, theme, handles)
    what = "time" if has_time else "the rows"
    return Drawn(
        figure=figure,
        title=f"Mean and valid share through {what}",
        caption=(
            "The mean of each row's valid raw pixels, and their share of the window. Rows whose source was "
            f"not read are gaps; a row between two gaps is a mark.{_left_out(len(shown), n_measurements)}"
        ),
    )


def _draw(ax: Axes, x: np.ndarray[Any, Any], values: np.ndarray[Any, Any], look: dict[str, Any]) -> Any:
    """Draw a curve. Gaps stay gaps, and a row between two gaps is a mark."""
    drawn_x, drawn = _with_gaps(x, values)
    is_alone = _are_alone(drawn)
    if "marker" not in look and is_alone.any():
        marks = {"color": look["color"], "linestyle": "none", "marker": "o", "markersize": 3}
        ax.plot(drawn_x[is_alone], drawn[is_alone], **marks)
    return ax.plot(drawn_x, drawn, **look)


def _with_gaps(
    x: np.ndarray[Any, Any], values: np.ndarray[Any, Any]
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return the points of a curve, with NaN in each gap. A long curve is reduced to its extremes.

    Between two points of a reduced curve, a gap is where more than half of the rows were not read.
    """
    is_read = np.isfinite(values)
    (read,) = np.nonzero(is_read)
    kept = read[kept_indexes(values[read], most=_MOST_POINTS)]
    between = np.diff(kept) - 1
    unread = between - (np.diff(np.cumsum(is_read)[kept]) - 1)
    (breaks,) = np.nonzero(2 * unread > between)
    at = breaks + 1
    return np.insert(x[kept], at, x[kept[breaks] + 1]), np.insert(values[kept], at, np.nan)


def _are_alone(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return which values have no neighbour, so that a curve draws nothing there."""
    is_there = np.isfinite(np.pad(values, 1, constant_values=np.nan))
    return is_there[1:-1] & ~is_there[:-2] & ~is_there[2:]


def _left_out(n_shown: int, n_measurements: int) -> str:
    if n_shown == n_measurements:
        return ""
    return f" {n_shown} of {n_measurements} measurements are drawn: the first that have pixels in two rows."
