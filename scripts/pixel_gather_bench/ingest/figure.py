"""The figure of ``bench ingest``: a panel for each measure, a bar for each way."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pixel_gather.features.report.findings import plain_number
from pixel_gather.io.pictures.theme import Theme
from pixel_gather_bench.figures.look import (
    NOTE_PT,
    TEXT_PT,
    finish_axes,
    log_ticks,
    new_figure,
    put_in_both_themes,
)
from pixel_gather_bench.ingest.summary import Summary

type _Value = Callable[[Summary], float | None]

_WHOLE: Final[dict[str, tuple[str, _Value]]] = {
    "First sample": ("ms", lambda each: each.first_sample_s * 1000),
    "All of it, in order": ("MB/s", lambda each: each.mb_per_s),
    "A random read, after any download": (
        "ms",
        lambda each: None if each.random_s is None else each.random_s * 1000,
    ),
    "First random read, from nothing": (
        "ms",
        lambda each: None if each.first_random_s is None else each.first_random_s * 1000,
    ),
    "CPU": ("s", lambda each: each.cpu_s),
    "Memory": ("MiB", lambda each: each.peak_rss_mib),
}
_WINDOWS: Final[dict[str, tuple[str, _Value]]] = {
    "First window": ("ms", lambda each: each.first_sample_s * 1000),
    "A window, on average": ("ms", lambda each: each.sample_s * 1000),
    "CPU": ("s", lambda each: each.cpu_s),
    "Memory": ("MiB", lambda each: each.peak_rss_mib),
}
_SPREAD: Final = 10
"""An axis is logarithmic from this ratio of the largest to the smallest value on."""

_ROOM: Final = 1.35
"""Length of the axis in lengths of the longest bar. The number needs room beside it."""


def write_figure(summaries: Sequence[Summary], folder: Path, *, n_objects: int) -> None:
    """Write the figure as PNG and SVG, light and dark."""
    put_in_both_themes(partial(draw, summaries, n_objects=n_objects), folder, "ingest")


def draw(summaries: Sequence[Summary], theme: Theme, *, n_objects: int) -> Figure:
    """Draw the panels. The best bar of each is coloured. A way without a value has no bar."""
    panels = _WHOLE if n_objects == 1 else _WINDOWS
    n_rows = len(panels) // 2
    height_in = n_rows * (1.1 + 0.26 * len(summaries))
    figure, axes = new_figure(n_rows, 2, height_in=height_in)
    for position, (ax, (title, (unit, value_of))) in enumerate(zip(axes.flat, panels.items(), strict=True)):
        _draw(ax, summaries, value_of, theme, is_best=max if unit == "MB/s" else min)
        finish_axes(ax, title=title, x_label=unit, y_label="")
        if position % 2:
            ax.set_yticklabels([])
    return figure


def _draw(
    ax: Axes,
    summaries: Sequence[Summary],
    value_of: _Value,
    theme: Theme,
    *,
    is_best: Callable[[Sequence[float]], float],
) -> None:
    values = [value_of(each) for each in summaries]
    known = [value for value in values if value is not None]
    is_wide = bool(known) and min(known) > 0 and max(known) > _SPREAD * min(known)
    lowest = min(known, default=1.0) / 2 if is_wide else 0.0
    for row, value in enumerate(values):
        if value is None:
            ax.text(
                lowest, row, " none: it only goes forward", va="center", fontsize=NOTE_PT, color=theme.muted
            )
            continue
        colour = theme.blue if value == is_best(known) else theme.quiet
        if is_wide:  # a bar's length would say nothing
            ax.plot([lowest, value], [row, row], color=theme.grid, linewidth=2)
            ax.plot(value, row, "o", color=colour, markersize=8)
        else:
            ax.barh(row, value, height=0.62, color=colour)
        number = plain_number(_round_to_digits(value))
        ax.text(value, row, f"   {number}", va="center", fontsize=NOTE_PT, color=theme.text)
    highest = max(known, default=1.0)
    if is_wide:
        ax.set_xscale("log")
        log_ticks(ax.xaxis)
        ax.set_xlim(lowest, highest * (highest / lowest) ** 0.22)
    else:
        ax.set_xlim(0, highest * _ROOM or 1)  # also if the clock saw no time pass
    ax.set_yticks(range(len(summaries)), [each.way.name for each in summaries], fontsize=TEXT_PT)
    ax.set_ylim(len(summaries) - 0.5, -0.5)
    ax.grid(visible=False, axis="y")


def _round_to_digits(value: float) -> float:
    return float(f"{value:.3g}")
