"""Draws figure 2: throughput, efficiency per worker and bytes per second by concurrency."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from pixel_gather.core.results import published
from pixel_gather.core.results.run import Run
from pixel_gather.features.report.findings import group_by_series, plain_number
from pixel_gather.features.report.in_flight import Slices, cut_into_slices
from pixel_gather.io.pictures.theme import Theme
from pixel_gather_bench.figures.axes import (
    LINES,
    MARKERS,
    NOTE_PT,
    WIDTH_IN,
    finish_axes,
    head,
    legend_below,
    mark_powers,
    new_figure,
    say_not_counted,
)
from pixel_gather_bench.figures.files import Drawn
from pixel_gather_bench.figures.labels import plain_time, short_label
from pixel_gather_bench.figures.points import (
    Points,
    best_of_each,
    points_of_2018,
    points_of_runs,
    points_of_slices,
)

_SIZE_IN: Final = (WIDTH_IN, 3.9)
_ADAPTIVE: Final[dict[str, Any]] = {"marker": "*", "markersize": 12, "fillstyle": "none"}
_UNITS: Final = ("/s", " %", " MiB/s")


def draw(runs: Sequence[Run], theme: Theme, *, with_published: bool) -> Drawn | None:
    """Draw runs by concurrency, or one run's slices of time by the number of sources in flight."""
    if len(runs) == 1:
        slices = cut_into_slices(runs[0].timings)
        return None if slices is None else _draw_one(runs[0], slices, theme, with_published=with_published)
    of_2018 = {thread.n_threads for thread in published.PUBLISHED if with_published}
    if len({run.concurrency for run in runs} | of_2018) < 2:  # noqa: PLR2004 # one place is no axis
        return None
    return _draw_many(runs, theme, with_published=with_published)


def _draw_many(runs: Sequence[Run], theme: Theme, *, with_published: bool) -> Drawn:
    figure, axes = new_figure(theme, n_rows=1, n_columns=3, size_in=_SIZE_IN)
    handles: list[Artist] = []
    every: dict[str, Points] = {}
    cubes = [run for run in runs if run.is_cube]
    for index, (series, its_runs) in enumerate(group_by_series(runs).items()):
        name = short_label(series)
        points = points_of_runs(its_runs, among=cubes if its_runs[0].is_cube else None)
        every[name] = points
        style: dict[str, Any] = {
            "color": theme.series[index % len(theme.series)],
            "marker": MARKERS[index % len(MARKERS)],
            "markersize": 5,
        }
        on_line = best_of_each(points)
        for ax, values in zip(axes[0], points.panels(), strict=True):
            fixed = ~points.is_adaptive
            ax.plot(points.concurrency[fixed], values[fixed], linestyle="none", **style)
            ax.plot(points.concurrency[~fixed], values[~fixed], linestyle="none", **style | _ADAPTIVE)
            ax.plot(
                points.concurrency[on_line],
                values[on_line],
                color=style["color"],
                linestyle=LINES[index % len(LINES)],
                linewidth=1.6,
            )
        handles.append(Line2D([], [], label=name, linestyle=LINES[index % len(LINES)], **style))
        if points.is_adaptive.any():
            label = f"{name}, adaptive"
            handles.append(Line2D([], [], label=label, linestyle="none", **style | _ADAPTIVE))
    for ax in axes[0]:
        ax.set_xscale("log", base=2)
    _finish(axes[0], every, "sources at one time", theme, with_published=with_published)
    handles += _handles_of_2018(theme) if with_published else []
    if len(handles) > 1:
        legend_below(figure, theme, handles)
    return Drawn(
        figure=figure,
        title="What concurrency brings",
        caption=(
            "Each point is a run. A line joins the best run of each concurrency. A star is a run that "
            "adapted its concurrency. The axis of concurrency is logarithmic. Throughput is the median over "
            "the run of sources done per elapsed time. Efficiency is throughput per worker, relative to the "
            "same engine's run with the fewest workers. Bytes are without headers, per wall time."
            + _words_of_2018(with_published=with_published)
        ),
    )


def _draw_one(run: Run, slices: Slices, theme: Theme, *, with_published: bool) -> Drawn:
    figure, axes = new_figure(theme, n_rows=1, n_columns=3, size_in=_SIZE_IN)
    n_slices = len(slices.in_flight)
    head(figure, f"{run.name} · one run, {n_slices} slices of {plain_time(slices.slice_s)}", theme)
    points = points_of_slices(slices)
    for ax, values in zip(axes[0], points.panels(), strict=True):
        ax.plot(
            points.concurrency,
            values,
            color=theme.blue,
            linestyle="none",
            marker="o",
            markersize=5,
            alpha=0.7,
            markeredgewidth=0,
        )
    _finish(axes[0], {run.name: points}, "sources in flight", theme, with_published=with_published)
    if with_published:
        ours = Line2D([], [], label="one slice", linestyle="none", marker="o", markersize=5, color=theme.blue)
        legend_below(figure, theme, [ours, *_handles_of_2018(theme)])
    return Drawn(
        figure=figure,
        title="What concurrency brings, within one run",
        caption=(
            f"Each point is {plain_time(slices.slice_s)} of this run: sources that finished in it, by the "
            "average number of sources in flight. Efficiency is throughput per source in flight, relative "
            "to the quarter of the slices with the fewest. A report of several runs compares them by "
            "their concurrency instead." + _words_of_2018(with_published=with_published)
        ),
    )


def _finish(
    axes: Sequence[Axes], every: Mapping[str, Points], x_label: str, theme: Theme, *, with_published: bool
) -> None:
    if with_published:
        measured = points_of_2018()
        for ax, values in zip(axes, measured.panels(), strict=True):
            told = np.isfinite(values)
            ax.plot(measured.concurrency[told], values[told], **_look_of_2018(theme))
    titles = ("Throughput", "Efficiency per worker", "Bytes per second")
    y_labels = ("sources/s", "%, the fewest = 100", "MiB/s, without headers")
    for index, ax in enumerate(axes):
        counted = {
            name: points for name, points in every.items() if np.isfinite(points.panels()[index]).any()
        }
        if not counted:
            finish_axes(ax, title=titles[index], x_label=x_label, y_label=y_labels[index], theme=theme)
            say_not_counted(ax, theme)
            continue
        if ax.get_xscale() == "log":
            of_2018 = points_of_2018().concurrency if with_published else np.array([])
            mark_powers(ax, np.concatenate([of_2018, *(points.concurrency for points in every.values())]))
        else:
            ax.set_xlim(left=0)
        tops = [float(np.nanmax(points.panels()[index])) for points in counted.values()]
        ax.set_ylim(0, 1.12 * max(ax.get_ylim()[1], *tops))
        _mark_best(ax, counted, index, theme)
        left_out = "".join(f"\n{name}: not counted" for name in every if name not in counted)
        x_words = f"{x_label}{left_out}"
        finish_axes(ax, title=titles[index], x_label=x_words, y_label=y_labels[index], theme=theme)


def _mark_best(ax: Axes, every: Mapping[str, Points], panel: int, theme: Theme) -> None:
    name, points = max(every.items(), key=lambda each: float(np.nanmax(each[1].panels()[panel])))
    values = points.panels()[panel]
    best = int(np.nanargmax(values))
    x, y = float(points.concurrency[best]), float(values[best])
    is_left = float(ax.transAxes.inverted().transform(ax.transData.transform((x, y)))[0]) < 0.5  # noqa: PLR2004 # the middle
    ax.plot(x, y, marker="o", markersize=11, color=theme.text, fillstyle="none", linestyle="none")
    whose = f"{name}: " if len(every) > 1 else ""
    ax.annotate(
        f"{whose}{plain_number(_round_to_digits(y))}{_UNITS[panel]} at {plain_number(_round_to_digits(x))}",
        (x, y),
        xytext=(-4 if is_left else 4, 9),
        textcoords="offset points",
        ha="left" if is_left else "right",
        va="bottom",
        fontsize=NOTE_PT,
        color=theme.text,
        annotation_clip=False,
    )


def _round_to_digits(value: float) -> float:
    return round(value, 1 if value < 100 else 0)  # noqa: PLR2004 # three digits tell enough


def _look_of_2018(theme: Theme) -> dict[str, Any]:
    return {
        "color": theme.published,
        "marker": "D",
        "markersize": 7,
        "markerfacecolor": theme.background,
        "markeredgewidth": 1.6,
        "clip_on": False,
        "linestyle": "none",
    }


def _handles_of_2018(theme: Theme) -> list[Artist]:
    return [Line2D([], [], label="published in 2018", **_look_of_2018(theme))]


def _words_of_2018(*, with_published: bool) -> str:
    return " Diamonds: rasterio with 1 and 49 threads, as published in 2018." if with_published else ""
