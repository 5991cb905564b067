"""Makes figures and axes in a theme's colours, so that all figures of a page look alike."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator, ScalarFormatter

from pixel_gather.features.report.findings import plain_number
from pixel_gather.io.pictures.theme import Theme

type AxesGrid = np.ndarray[Any, np.dtype[np.object_]]

WIDTH_IN: Final = 10.0
"""Width of a figure in inches. A page shows 96 pixels per inch."""

MARKERS: Final = ("o", "s", "^", "v", "P")
LINES: Final = ("solid", (0, (6, 1.5)), (0, (2, 1.2)), (0, (6, 1.5, 1.5, 1.5)), (0, (1, 1)))
"""Line styles of matplotlib, so that series differ by more than colour."""

TITLE_PT: Final = 10.5
TEXT_PT: Final = 9.0
NOTE_PT: Final = 8.0
_LONG_COUNT: Final = 9_999
_MOST_TICKS: Final = 8
_LOG_ROOM: Final = 1.25
_DISTINCT: Final = 1.05
"""Ticks of values whose ratio is less would touch."""


def new_figure(
    theme: Theme, *, n_rows: int, n_columns: int, size_in: tuple[float, float]
) -> tuple[Figure, AxesGrid]:
    """Return a figure with a grid of axes that do not overlap.

    Args:
        theme: Colours of the figure.
        n_rows: Rows of axes.
        n_columns: Columns of axes.
        size_in: (width, height) in inches. A page is some 1,000 pixels wide and shows 96 pixels per inch.

    Returns:
        The figure and its axes, shape (n_rows, n_columns).
    """
    figure = Figure(figsize=size_in, facecolor=theme.background, edgecolor="none", layout="constrained")
    axes: AxesGrid = figure.subplots(n_rows, n_columns, squeeze=False)
    for ax in axes.flat:
        style_axes(ax, theme)
    return figure, axes


def style_axes(ax: Axes, theme: Theme) -> None:
    """Give axes the theme's colours. `new_figure` does this for its axes."""
    ax.set_facecolor(theme.background)
    ax.set_axisbelow(True)
    ax.grid(visible=True, color=theme.grid, linewidth=0.8, linestyle="solid", alpha=1)
    ax.tick_params(which="both", color=theme.axis, labelcolor=theme.muted, labelsize=TEXT_PT, direction="out")
    for side, spine in ax.spines.items():
        spine.set(visible=side in {"left", "bottom"}, color=theme.axis, linewidth=0.8)


def finish_axes(ax: Axes, *, title: str, x_label: str, y_label: str, theme: Theme) -> None:
    """Set titles and labels after drawing. An axis of plain numbers gets ticks such as ``1,200``."""
    ax.set_title(title, loc="left", y=1.0, fontsize=TITLE_PT, fontweight="bold", color=theme.text)
    ax.set_xlabel(x_label, fontsize=TEXT_PT, color=theme.muted)
    ax.set_ylabel(y_label, fontsize=TEXT_PT, color=theme.muted)
    for axis in (ax.xaxis, ax.yaxis):
        _write_plainly(axis)


def say_not_counted(ax: Axes, theme: Theme) -> None:
    """Say in an empty panel that its bytes were not counted. Not every reader can."""
    ax.set(xticks=[], yticks=[])
    ax.text(0.5, 0.5, "not counted", transform=ax.transAxes, ha="center", color=theme.muted)


def _write_plainly(axis: Axis) -> None:
    if isinstance(axis.get_major_formatter(), ScalarFormatter) and axis.get_scale() == "linear":
        axis.set_major_formatter(FuncFormatter(lambda value, _: plain_number(value)))


def whole_ticks(axis: Axis, *, longest: int) -> None:
    """Put ticks at whole numbers only; fewer ticks for longer numbers.

    Args:
        axis: An axis of counts.
        longest: The largest number on the axis.
    """
    axis.set_major_locator(MaxNLocator(nbins=3 if longest > _LONG_COUNT else 6, integer=True))


def mark_powers(ax: Axes, values: "Sequence[float] | np.ndarray[Any, Any]") -> None:
    """Put ticks at powers of two on a logarithmic horizontal axis, and leave room at both ends.

    If the values hold fewer than two powers of two, the ticks are at the least and the greatest value.

    Args:
        ax: Its horizontal axis is logarithmic.
        values: The values on that axis; 1 or more.
    """
    first, last = min(values), max(values)
    powers = 2.0 ** np.arange(np.floor(np.log2(first)), np.ceil(np.log2(last)) + 1)
    if ((powers >= first) & (powers <= last)).sum() <= 1:
        powers = np.array([first, last] if last > _DISTINCT * first else [first])
    ax.xaxis.set_major_locator(FixedLocator(list(powers[:: -(-len(powers) // _MOST_TICKS)])))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: plain_number(value)))
    ax.set_xlim(first / _LOG_ROOM, last * _LOG_ROOM)


def legend(ax: Axes, theme: Theme, *, below: bool = False, n_columns: int = 1) -> None:
    """Add a legend of the labelled lines.

    Args:
        ax: Axes with their content.
        theme: Colours of the legend.
        below: Put the legend under the axes, not in the emptiest corner.
        n_columns: Columns of entries.
    """
    place: dict[str, Any] = (
        {"loc": "upper center", "bbox_to_anchor": (0.5, -0.25)} if below else {"loc": "best"}
    )
    ax.legend(
        **place,
        ncols=n_columns,
        fontsize=NOTE_PT,
        labelcolor=theme.text,
        facecolor=theme.background,
        edgecolor=theme.grid,
        frameon=not below,
        framealpha=0.9,
        fancybox=False,
        handlelength=2.2,
    )


def legend_below(figure: Figure, theme: Theme, handles: Sequence[Artist], *, n_columns: int = 5) -> None:
    """Add one legend for all axes, below them."""
    figure.legend(
        handles=list(handles),
        loc="outside lower center",
        ncols=min(n_columns, len(handles)),
        fontsize=TEXT_PT,
        labelcolor=theme.text,
        frameon=False,
        handlelength=2.4,
    )


def head(figure: Figure, text: str, theme: Theme) -> None:
    """Write above the axes which run they show."""
    figure.suptitle(text, x=0.008, ha="left", fontsize=TEXT_PT, color=theme.muted)
