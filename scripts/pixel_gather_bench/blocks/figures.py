"""Figures of ``bench blocks``: speed against block size, number in flight and number of processes."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pixel_gather.adapters.report.plots import DARK, LIGHT, Theme, finish_axes, new_figure
from pixel_gather.adapters.report.plots.axes import WIDTH_IN
from pixel_gather.adapters.report.plots.theme import LINES, MARKERS
from pixel_gather_bench.blocks.setting import CODECS, DEFAULT_CODEC, BlockRecord, BlockSetting
from pixel_gather_bench.blocks.summary import Medians, medians_of
from pixel_gather_bench.blocks.sweep import SWEEPS, curve, is_default
from pixel_gather_bench.blocks.text import basis
from pixel_gather_bench.figure_files import legend_above, log_ticks, note_below, put_themed

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


def write_figures(records: Sequence[BlockRecord], folder: Path) -> list[Path]:
    """Write each sweep's figure as PNG and SVG, light and dark. A sweep of one point has no figure."""
    medians = medians_of(records)
    files: list[Path] = []
    for sweep in SWEEPS:
        codecs = [codec for codec in CODECS if len(curve(list(medians), sweep, codec)) > 1]
        for theme_name, theme in (("light", LIGHT), ("dark", DARK)) if codecs else ():
            figure = draw_sweep(medians, sweep, codecs, theme)
            files += put_themed(figure, folder, f"blocks-{sweep}", theme_name)
    return files


def draw_sweep(medians: Medians, sweep: str, codecs: Sequence[str], theme: Theme) -> Figure:
    """Draw four panels, one for each way of using a cube, with a line for each codec."""
    figure, axes = new_figure(theme, n_rows=2, n_columns=2, size_in=(WIDTH_IN, _HEIGHT_IN))
    lines = list(_lines(medians, sweep, codecs, theme))
    for ax, (way, (title, y_label)) in zip(axes.flat, _PANELS.items(), strict=True):
        xs, ys = _draw(ax, lines, medians, theme, x_of=partial(_x, sweep=sweep, way=way), way=way)
        ax.set_xscale("log")
        if max(ys) > _SPREAD * min(ys):
            ax.set_yscale("log")
            log_ticks(ax.yaxis, ys)
        else:
            ax.set_ylim(0, max(ys) * (1 + _HEADROOM))
        finish_axes(ax, title=title, x_label=_X_LABELS[sweep], y_label=y_label, theme=theme)
        log_ticks(ax.xaxis, xs, only_these=True)
    legend_above(figure, axes[0, 0], theme, last=_DEFAULT)
    note_below(figure, basis(), theme)
    return figure


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    label: str
    colour: str
    marker: str
    style: object
    points: tuple[BlockSetting, ...]
    default: BlockSetting | None


def _lines(medians: Medians, sweep: str, codecs: Sequence[str], theme: Theme) -> Iterator[_Line]:
    for codec in codecs:
        points = curve(list(medians), sweep, codec)
        place = CODECS.index(codec)
        tolerance = points[0].zfp_tolerance
        yield _Line(
            label=codec if tolerance is None else f"{codec}, {points[0].dtype} within {tolerance:g}",
            colour=theme.series[place],
            marker=MARKERS[place],
            style=LINES[place],
            points=tuple(sorted(points, key=lambda each: _x(each, sweep=sweep, way="write_mb_per_s"))),
            default=next((each for each in medians if each.codec == codec and is_default(each)), None),
        )


def _draw(
    ax: Axes,
    lines: Sequence[_Line],
    medians: Medians,
    theme: Theme,
    *,
    x_of: Callable[[BlockSetting], float],
    way: str,
) -> tuple[list[float], list[float]]:
    all_xs, all_ys = [], []
    for line in lines:
        xs = [x_of(each) for each in line.points]
        ys = [getattr(medians[each], way) for each in line.points]
        ax.plot(
            xs,
            ys,
            label=line.label,
            color=line.colour,
            marker=line.marker,
            markersize=4.5,
            linestyle=line.style,
        )
        all_xs += xs
        all_ys += ys
        if line.default is not None:
            is_plans = line.default.codec == DEFAULT_CODEC
            ax.plot(
                x_of(line.default),
                getattr(medians[line.default], way),
                label=_DEFAULT if is_plans else None,
                color=theme.text if is_plans else line.colour,
                marker="*",
                markersize=15 if is_plans else 10,
                markeredgecolor=theme.background,
                linestyle="none",
                zorder=5,
            )
            all_ys.append(getattr(medians[line.default], way))
    return all_xs, all_ys


def _x(setting: BlockSetting, *, sweep: str, way: str) -> float:
    if sweep == "sizes":
        return setting.block_mb
    if sweep == "workers":
        return setting.n_workers
    return setting.writes_in_flight if way == "write_mb_per_s" else setting.reads_in_flight
