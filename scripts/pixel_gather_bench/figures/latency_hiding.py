"""Draws figure 4, latency hiding: when each of the first sources was opened and read."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.patches import Patch

from pixel_gather.core.results.run import Run
from pixel_gather.core.results.timings import Timings
from pixel_gather.features.report.findings import plain_number
from pixel_gather.io.pictures.theme import Theme
from pixel_gather_bench.figures.axes import WIDTH_IN, finish_axes, legend_below, new_figure
from pixel_gather_bench.figures.choosing import few_and_best
from pixel_gather_bench.figures.files import Drawn
from pixel_gather_bench.figures.labels import MILLISECONDS, Numbers, label_with_number

_N_FIRST: Final = 40
_ZOOM_MS: Final = 750.0
_ZOOMED_AT_LEAST: Final = 1.3
"""If the whole is not longer than so many times the zoom, the zoom is made closer."""

_CLOSER: Final = (500.0, 200.0, 100.0, 50.0, 20.0, 10.0, 5.0, 2.0, 1.0)
_BAR: Final = 0.8
_ROOM: Final = 1.02
_ROW_IN: Final = 1.95
_ALONE_IN: Final = 3.2


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bars:
    """The first sources of one run in order of their start. Times are in ms since the first start."""

    start: Numbers
    opened: Numbers
    """End of opening."""

    reading: Numbers
    """Start of reading, which ends when the source ends."""

    end: Numbers


def draw(runs: Sequence[Run], theme: Theme) -> Drawn | None:
    """Draw the first sources of runs with 1, 2, 3 and the best concurrency, and a zoom on their beginning.

    None if no run took any time.
    """
    chosen = few_and_best(runs)
    bars = [_bars_of(run.timings) for run in chosen]
    extent = _ROOM * max(float(each.end.max()) for each in bars)
    if extent <= 0:
        return None
    zoom = _zoom_of(extent)
    height_in = 1.0 + (_ALONE_IN if len(chosen) == 1 else _ROW_IN * len(chosen))
    figure, axes = new_figure(theme, n_rows=len(chosen), n_columns=2, size_in=(WIDTH_IN, height_in))
    for run, each, (whole, closer) in zip(chosen, bars, axes, strict=True):
        is_last = run is chosen[-1]
        x_label = "ms since the first source began" if is_last else ""
        for ax, stop in ((whole, extent), (closer, zoom)):
            _draw_bars(ax, each, stop, theme)
        title = label_with_number(run.name, run.concurrency)
        finish_axes(whole, title=title, x_label=x_label, y_label="source", theme=theme)
        finish_axes(
            closer, title=f"the first {plain_number(zoom)} ms", x_label=x_label, y_label="", theme=theme
        )
    legend_below(
        figure,
        theme,
        [
            Patch(facecolor=theme.blue, label="open: until the header was known"),
            Patch(facecolor=theme.vermilion, label="read: the window's bytes, decoded"),
        ],
    )
    return Drawn(
        figure=figure,
        title="Latency hiding",
        caption=(
            f"Start and finish of the first {_N_FIRST} sources. Each is a bar, in the order of the starts. "
            f"All are on one scale. On the right is a zoom on the first {plain_number(zoom)} ms. The more "
            "bars overlap in time, the more waiting is hidden."
        ),
    )


def _bars_of(timings: Timings) -> _Bars:
    first = np.argsort(timings.start_s, kind="stable")[:_N_FIRST]
    start = timings.start_s[first] - timings.began_s
    end = np.maximum(timings.end_s[first] - timings.began_s, start)
    opened = np.minimum(start + timings.open_s[first], end)
    reading = np.maximum(end - timings.read_s[first], opened)
    factor = MILLISECONDS.per_one
    return _Bars(start=factor * start, opened=factor * opened, reading=factor * reading, end=factor * end)


def _zoom_of(extent: float) -> float:
    if extent > _ZOOMED_AT_LEAST * _ZOOM_MS:
        return _ZOOM_MS
    return next((closer for closer in _CLOSER if _ZOOMED_AT_LEAST * closer < extent), extent / 2)


def _draw_bars(ax: Axes, bars: _Bars, stop: float, theme: Theme) -> None:
    y = np.arange(1, len(bars.start) + 1)
    ax.hlines(y, bars.start, bars.end, color=theme.quiet, linewidth=0.8, zorder=0.9)
    for starts, ends, colour in (
        (bars.start, bars.opened, theme.blue),
        (bars.reading, bars.end, theme.vermilion),
    ):
        boxes = [
            [(x, row - _BAR / 2), (until, row - _BAR / 2), (until, row + _BAR / 2), (x, row + _BAR / 2)]
            for x, until, row in zip(starts, np.minimum(ends, stop), y, strict=True)
            if x < until
        ]
        ax.add_collection(PolyCollection(boxes, facecolors=colour, edgecolors="none"))
    ax.set_xlim(0, stop)
    ax.set_ylim(len(y) + 1, 0)
    ax.set_yticks([row for row in (1, 10, 20, 30, 40) if row <= len(y)])
