"""Figures of ``bench blocks``: speed against block size, number in flight and number of processes."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pixel_gather.io.pictures.theme import Theme
from pixel_gather_bench.blocks.sweep import (
    CODECS,
    DEFAULT_CODEC,
    SWEEPS,
    BlockRecord,
    BlockSetting,
    curve,
    is_default,
)
from pixel_gather_bench.blocks.text import Medians, basis, take_medians
from pixel_gather_bench.figures.look import (
    LINES,
    MARKERS,
    draw_star,
    finish_axes,
    legend_above,
    log_ticks,
    new_figure,
    note_below,
    put_in_both_themes,
)

_HEIGHT_IN: Final = 7.6
_PANELS: Final = {
    "write_mb_per_s": ("Writing", "MB/s"),
    "whole_mb_per_s": ("Reading all", "MB/s"),
    "slices_per_s": ("Reading one slice in time after the other", "slices/s"),
    "series_per_s": ("Reading one pixel's series after the other", "series/s"),
}
_X_LABELS: Final = {
    "sizes": "block size, MB decoded",
    "in-flight": "in flight: shards when writing, chunks when reading",
    "workers": "processes at one time",
}
_DEFAULT: Final = "the plan's default"
_HEADROOM: Final = 0.12
_SPREAD: Final = 10
"""An axis is logarithmic from this ratio of the fastest to the slowest on."""


def write_figures(records: Sequence[BlockRecord], folder: Path) -> None:
    """Write each sweep's figure as PNG and SVG, light and dark. A sweep of one point has no figure."""
    medians = take_medians(records)
    for sweep in SWEEPS:
        codecs = [codec for codec in CODECS if len(curve(list(medians), sweep, codec)) > 1]
        if codecs:
            put_in_both_themes(partial(draw_sweep, medians, sweep, codecs), folder, f"blocks-{sweep}")


def draw_sweep(medians: Medians, sweep: str, codecs: Sequence[str], theme: Theme) -> Figure:
    """Draw four panels, one for each way of using a cube, with a line for each codec."""
    figure, axes = new_figure(2, 2, height_in=_HEIGHT_IN)
    for ax, (way, (title, y_label)) in zip(axes.flat, _PANELS.items(), strict=True):
        drawn = [_draw(ax, medians, sweep=sweep, way=way, codec=codec, theme=theme) for codec in codecs]
        xs, ys = ([value for values in each for value in values] for each in zip(*drawn, strict=True))
        ax.set_xscale("log")
        if max(ys) > _SPREAD * min(ys):
            ax.set_yscale("log")
            log_ticks(ax.yaxis)
        else:
            ax.set_ylim(0, max(ys) * (1 + _HEADROOM))
        finish_axes(ax, title=title, x_label=_X_LABELS[sweep], y_label=y_label)
        log_ticks(ax.xaxis, xs)
    legend_above(figure, axes[0, 0], last=_DEFAULT)
    note_below(figure, basis(), theme)
    return figure


def _draw(
    ax: Axes, medians: Medians, *, sweep: str, way: str, codec: str, theme: Theme
) -> tuple[list[float], list[float]]:
    """Draw one codec's line and the star of its default; return all that was drawn."""
    points = sorted(curve(list(medians), sweep, codec), key=lambda each: _x(each, sweep=sweep, way=way))
    default = next((each for each in medians if each.codec == codec and is_default(each)), None)
    tolerance, place = points[0].zfp_tolerance, CODECS.index(codec)
    xs = [_x(each, sweep=sweep, way=way) for each in points]
    ys = [getattr(medians[each], way) for each in points]
    ax.plot(
        xs,
        ys,
        label=codec if tolerance is None else f"{codec}, {points[0].dtype} within {tolerance:g}",
        color=theme.series[place],
        marker=MARKERS[place],
        markersize=4.5,
        linestyle=LINES[place],
    )
    if default is not None:
        is_plans = codec == DEFAULT_CODEC
        ys.append(getattr(medians[default], way))
        colour = theme.text if is_plans else theme.series[place]
        label = _DEFAULT if is_plans else None
        draw_star(ax, _x(default, sweep=sweep, way=way), ys[-1], theme, label=label, colour=colour)
    return xs, ys


def _x(setting: BlockSetting, *, sweep: str, way: str) -> float:
    if sweep == "sizes":
        return setting.block_mb
    if sweep == "workers":
        return setting.n_workers
    return setting.writes_in_flight if way == "write_mb_per_s" else setting.reads_in_flight
