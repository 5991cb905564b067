"""Draws figure 4, latency hiding: when each of the first sources was opened and read."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from pixel_gather.core.results.timed_run import Run
from pixel_gather.core.results.timings import Timings
from pixel_gather.features.report.findings import plain_number
from pixel_gather.io.pictures.theme import Theme
from pixel_gather_bench.figures.look import Drawn, finish_axes, legend_below, new_figure
from pixel_gather_bench.figures.numbers import Numbers, few_and_best, label_with_number

_N_FIRST: Final = 40
_ZOOMS_MS: Final = (750.0, 500.0, 200.0, 100.0, 50.0, 20.0, 10.0, 5.0, 2.0, 1.0)
"""The zoom is the longest of these that is clearly shorter than the whole."""

_CLEARLY: Final = 1.3
_ROOM: Final = 1.02


def draw(runs: Sequence[Run], theme: Theme) -> Drawn | None:
    """Draw the first sources of runs with 1, 2, 3 and the best concurrency, and a zoom on their beginning.

    None if no run took any time.
    """
    chosen = few_and_best(runs)
    bars = [_bars_of(run.timings) for run in chosen]
    extent = _ROOM * max(float(end.max()) for *_, end in bars)
    if extent <= 0:
        return None
    zoom = next((each for each in _ZOOMS_MS if _CLEARLY * each < extent), extent / 2)
    height_in = 1.0 + (3.2 if len(chosen) == 1 else 1.95 * len(chosen))
    figure, axes = new_figure(len(chosen), 2, height_in=height_in)
    for run, each, (whole, closer) in zip(chosen, bars, axes, strict=True):
        x_label = "ms since the first source began" if run is chosen[-1] else ""
        for ax, stop in ((whole, extent), (closer, zoom)):
            _draw_bars(ax, each, stop, theme)
        title = label_with_number(run.name, run.concurrency)
        finish_axes(whole, title=title, x_label=x_label, y_label="source")
        finish_axes(closer, title=f"the first {plain_number(zoom)} ms", x_label=x_label, y_label="")
    legend_below(
        figure,
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


def _bars_of(timings: Timings) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """Return when the first sources began, were open, began to be read, and ended, in ms since the first."""
    first = np.argsort(timings.start_s, kind="stable")[:_N_FIRST]
    start = timings.start_s[first] - timings.began_s
    end = np.maximum(timings.end_s[first] - timings.began_s, start)
    opened = np.minimum(start + timings.open_s[first], end)
    reading = np.maximum(end - timings.read_s[first], opened)
    return 1000 * start, 1000 * opened, 1000 * reading, 1000 * end


def _draw_bars(ax: Axes, bars: tuple[Numbers, Numbers, Numbers, Numbers], stop: float, theme: Theme) -> None:
    start, opened, reading, end = bars
    y = np.arange(1, len(start) + 1)
    ax.hlines(y, start, end, color=theme.quiet, linewidth=0.8, zorder=0.9)
    for begins, ends, colour in ((start, opened, theme.blue), (reading, end, theme.vermilion)):
        ax.barh(y, ends - begins, left=begins, color=colour)
    ax.set_xlim(0, stop)
    ax.set_ylim(len(y) + 1, 0)
    ax.set_yticks([row for row in (1, 10, 20, 30, 40) if row <= len(y)])
