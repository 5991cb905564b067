"""Draws the mean and the valid share of the pixels along the cube."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

from pixel_gather.adapters.report.plots.axes import (
    WIDTH_IN,
    finish_axes,
    legend_below,
    new_figure,
    whole_ticks,
)
from pixel_gather.adapters.report.plots.drawn import Drawn
from pixel_gather.adapters.report.plots.labels import short_label
from pixel_gather.adapters.report.plots.theme import LINES, MARKERS, Theme
from pixel_gather.adapters.report.plots.thinning import kept_indexes
from pixel_gather.report.evidence import Series

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
            f"not read are gaps.{_left_out(len(shown), n_measurements)}"
        ),
    )


def _draw(ax: Axes, x: np.ndarray[Any, Any], values: np.ndarray[Any, Any], look: dict[str, Any]) -> Any:
    """Draw a curve. A long one is drawn by its extremes. Gaps stay gaps."""
    filled = np.where(np.isfinite(values), values, np.nanmedian(values))
    kept = kept_indexes(filled, most=_MOST_POINTS)
    return ax.plot(x[kept], values[kept], **look)


def _left_out(n_shown: int, n_measurements: int) -> str:
    if n_shown == n_measurements:
        return ""
    return f" {n_shown} of {n_measurements} measurements are drawn: the first that have pixels in two rows."
