"""Draws figure 2: throughput, efficiency per worker and bytes per second by concurrency."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from msgspec import Struct

from pixel_gather.core.results import published_runs
from pixel_gather.core.results.timed_run import Run
from pixel_gather.core.results.timings import Floats
from pixel_gather.features.report.findings import group_by_series, plain_number
from pixel_gather.features.report.in_flight import Slices, cut_into_slices
from pixel_gather.io.pictures.theme import Theme
from pixel_gather_bench.figures.look import (
    LINES,
    MARKERS,
    NOTE_PT,
    Drawn,
    finish_axes,
    head,
    legend_below,
    mark_powers,
    new_figure,
    say_not_counted,
)
from pixel_gather_bench.figures.numbers import run_with_fewest, short_label

_HEIGHT_IN: Final = 3.9
_ADAPTIVE: Final[dict[str, Any]] = {"marker": "*", "markersize": 12, "fillstyle": "none"}
_PANELS: Final = (
    ("Throughput", "sources/s", "/s"),
    ("Efficiency per worker", "%, the fewest = 100", " %"),
    ("Bytes per second", "MiB/s, without headers", " MiB/s"),
)
"""The title, the label of the values, and their unit."""

_BASE_SHARE: Final = 0.25
"""Efficiency within a run is relative to the median of this share of slices, with the fewest in flight."""


class _Points(Struct, frozen=True, kw_only=True):
    """One series by rising concurrency. All arrays have the same length."""

    concurrency: Floats
    panels: tuple[Floats, Floats, Floats]
    """Values of the three panels; NaN where no bytes were counted."""

    is_adaptive: np.ndarray[Any, np.dtype[np.bool_]]
    """Whether the run adapted its concurrency while reading."""


def draw(runs: Sequence[Run], theme: Theme, *, with_published: bool) -> Drawn | None:
    """Draw runs by concurrency, or one run's slices of time by the number of sources in flight."""
    if len(runs) == 1:
        slices = cut_into_slices(runs[0].timings)
        return None if slices is None else _draw_one(runs[0], slices, theme, with_published=with_published)
    of_2018 = {run.concurrency for run in published_runs.PUBLISHED if with_published}
    if len({run.concurrency for run in runs} | of_2018) < 2:  # noqa: PLR2004 # one place is no axis
        return None
    return _draw_many(runs, theme, with_published=with_published)


def _draw_many(runs: Sequence[Run], theme: Theme, *, with_published: bool) -> Drawn:
    figure, axes = new_figure(1, 3, height_in=_HEIGHT_IN)
    handles: list[Artist] = []
    every: dict[str, _Points] = {}
    cubes = [run for run in runs if run.is_cube]
    for index, (series, its_runs) in enumerate(group_by_series(runs).items()):
        name = short_label(series)
        points = every[name] = _points_of_runs(its_runs, among=cubes if its_runs[0].is_cube else its_runs)
        line: Any = LINES[index % len(LINES)]
        style: dict[str, Any] = {
            "color": theme.series[index % len(theme.series)],
            "marker": MARKERS[index % len(MARKERS)],
            "markersize": 5,
        }
        on_line, adaptive = _best_of_each(points), points.is_adaptive
        for ax, values in zip(axes[0], points.panels, strict=True):
            at = points.concurrency
            ax.plot(at[~adaptive], values[~adaptive], linestyle="none", **style)
            ax.plot(at[adaptive], values[adaptive], linestyle="none", **style | _ADAPTIVE)
            ax.plot(at[on_line], values[on_line], color=style["color"], linestyle=line, linewidth=1.6)
        handles.append(Line2D([], [], label=name, linestyle=line, **style))
        if adaptive.any():
            label = f"{name}, adaptive"
            handles.append(Line2D([], [], label=label, linestyle="none", **style | _ADAPTIVE))
    for ax in axes[0]:
        ax.set_xscale("log", base=2)
    handles += _finish(axes[0], every, "sources at one time", theme, with_published=with_published)
    if len(handles) > 1:
        legend_below(figure, handles)
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
    figure, axes = new_figure(1, 3, height_in=_HEIGHT_IN)
    slice_s = slices.slice_s
    length = f"{plain_number(1000 * slice_s)} ms" if slice_s < 1 else f"{plain_number(slice_s)} s"
    head(figure, f"{run.name} · one run, {len(slices.in_flight)} slices of {length}", theme)
    points = _points_of_slices(slices)
    look: dict[str, Any] = {"color": theme.blue, "linestyle": "none", "marker": "o", "markersize": 5}
    for ax, values in zip(axes[0], points.panels, strict=True):
        ax.plot(points.concurrency, values, alpha=0.7, markeredgewidth=0, **look)
    of_2018 = _finish(axes[0], {run.name: points}, "sources in flight", theme, with_published=with_published)
    if of_2018:
        legend_below(figure, [Line2D([], [], label="one slice", **look), *of_2018])
    return Drawn(
        figure=figure,
        title="What concurrency brings, within one run",
        caption=(
            f"Each point is {length} of this run: sources that finished in it, by the "
            "average number of sources in flight. Efficiency is throughput per source in flight, relative "
            "to the quarter of the slices with the fewest. A report of several runs compares them by "
            "their concurrency instead." + _words_of_2018(with_published=with_published)
        ),
    )


def _words_of_2018(*, with_published: bool) -> str:
    return " Diamonds: rasterio with 1 and 49 threads, as published in 2018." if with_published else ""


def _finish(
    axes: Sequence[Axes], every: Mapping[str, _Points], x_label: str, theme: Theme, *, with_published: bool
) -> list[Artist]:
    """Mark the published and the best points and label the axes. Return what the legend has of 2018."""
    diamond: dict[str, Any] = {
        "color": theme.published,
        "marker": "D",
        "markersize": 7,
        "markerfacecolor": theme.background,
        "markeredgewidth": 1.6,
        "linestyle": "none",
    }
    of_2018 = _points_of_2018() if with_published else None
    for index, (ax, (title, y_label, unit)) in enumerate(zip(axes, _PANELS, strict=True)):
        if of_2018 is not None:
            told = np.isfinite(of_2018.panels[index])
            ax.plot(of_2018.concurrency[told], of_2018.panels[index][told], clip_on=False, **diamond)
        counted = {name: points for name, points in every.items() if np.isfinite(points.panels[index]).any()}
        left_out = "".join(f"\n{name}: not counted" for name in every if counted and name not in counted)
        finish_axes(ax, title=title, x_label=f"{x_label}{left_out}", y_label=y_label)
        if not counted:
            say_not_counted(ax, theme)
            continue
        if ax.get_xscale() == "log":
            shown = [*every.values(), *([of_2018] if of_2018 is not None else [])]
            mark_powers(ax, np.concatenate([points.concurrency for points in shown]))
        else:
            ax.set_xlim(left=0)
        tops = [float(np.nanmax(points.panels[index])) for points in counted.values()]
        ax.set_ylim(0, 1.12 * max(ax.get_ylim()[1], *tops))
        _mark_best(ax, counted, index, unit, theme)
    return [] if of_2018 is None else [Line2D([], [], label="published in 2018", **diamond)]


def _mark_best(ax: Axes, every: Mapping[str, _Points], panel: int, unit: str, theme: Theme) -> None:
    name, points = max(every.items(), key=lambda each: float(np.nanmax(each[1].panels[panel])))
    best = int(np.nanargmax(points.panels[panel]))
    x, y = float(points.concurrency[best]), float(points.panels[panel][best])
    is_left = float(ax.transAxes.inverted().transform(ax.transData.transform((x, y)))[0]) < 0.5  # noqa: PLR2004 # the middle
    ax.plot(x, y, marker="o", markersize=11, color=theme.text, fillstyle="none", linestyle="none")
    whose = f"{name}: " if len(every) > 1 else ""
    ax.annotate(
        f"{whose}{plain_number(_round_to_digits(y))}{unit} at {plain_number(_round_to_digits(x))}",
        (x, y),
        xytext=(-4 if is_left else 4, 9),
        textcoords="offset points",
        ha="left" if is_left else "right",
        va="bottom",
        fontsize=NOTE_PT,
        annotation_clip=False,
    )


def _round_to_digits(value: float) -> float:
    return round(value, 1 if value < 100 else 0)  # noqa: PLR2004 # three digits tell enough


def _points_of_runs(runs: Sequence[Run], *, among: Sequence[Run]) -> _Points:
    """Return the points of one series. Efficiency is relative to the lowest concurrency ``among`` runs."""
    concurrency = np.array([max(float(run.concurrency), 1.0) for run in runs])
    per_s = np.array([run.typical_per_s for run in runs])
    base = run_with_fewest(among)
    efficiency = _percent(per_s / concurrency, base.typical_per_s / max(base.concurrency, 1))
    mib_per_s = np.array([run.mib_per_s if run.timings.nbytes.any() else np.nan for run in runs])
    return _Points(
        concurrency=concurrency,
        panels=(per_s, efficiency, mib_per_s),
        is_adaptive=np.array([run.is_adaptive for run in runs]),
    )


def _points_of_slices(slices: Slices) -> _Points:
    """Return the points of one run, one per slice of time."""
    order = np.argsort(slices.in_flight, kind="stable")
    in_flight, per_s = slices.in_flight[order], slices.ended_per_s[order]
    each = per_s / in_flight
    base = float(np.median(each[: max(1, int(_BASE_SHARE * len(order)))]))
    mib_per_s = slices.mib_per_s[order] if slices.mib_per_s.any() else np.full(len(order), np.nan)
    return _Points(
        concurrency=in_flight,
        panels=(per_s, _percent(each, base), mib_per_s),
        is_adaptive=np.zeros(len(order), dtype=np.bool_),
    )


def _points_of_2018() -> _Points:
    """Return the published results. Values that were not published are NaN."""
    runs = published_runs.PUBLISHED
    per_s = np.array([run.times.typical_per_s for run in runs])
    concurrency = np.array([float(run.concurrency) for run in runs])
    mib_per_s = np.array([np.nan if run.mib_per_s is None else run.mib_per_s for run in runs])
    efficiency = _percent(per_s / concurrency, float(per_s[0] / concurrency[0]))
    return _Points(
        concurrency=concurrency,
        panels=(per_s, efficiency, mib_per_s),
        is_adaptive=np.zeros(len(runs), dtype=np.bool_),
    )


def _percent(values: Floats, base: float) -> Floats:
    percent: Floats = 100 * values / base if base > 0 else np.zeros(len(values))
    return percent


def _best_of_each(points: _Points) -> list[int]:
    """Return the index of the best point for each fixed concurrency, in the order of the points."""
    best: dict[float, int] = {}
    per_s = points.panels[0]
    for index in np.flatnonzero(~points.is_adaptive):
        concurrency = points.concurrency[index]
        if concurrency not in best or per_s[index] > per_s[best[concurrency]]:
            best[concurrency] = int(index)
    return list(best.values())
