"""Draws figure 3: times per source with few sources at a time, and with the best concurrency."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from matplotlib.axes import Axes

from pixel_gather.core.results import published
from pixel_gather.core.results.run import Run
from pixel_gather.features.report.findings import plain_number
from pixel_gather.features.report.in_flight import in_flight_at_start
from pixel_gather.io.pictures.theme import Theme
from pixel_gather_bench.figures.axes import WIDTH_IN, finish_axes, head, legend, new_figure
from pixel_gather_bench.figures.choosing import fewest_and_best
from pixel_gather_bench.figures.files import Drawn
from pixel_gather_bench.figures.histogram import Span, counts_in, span_around, span_of, tail_of
from pixel_gather_bench.figures.labels import (
    MILLISECONDS,
    FigureUnit,
    Numbers,
    label_with_number,
    unit_of_times,
)

type Part = Literal["open", "read", "total"]

_PARTS: Final[tuple[Part, ...]] = ("open", "read", "total")
_FEWEST_IN_GROUP: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """A group of sources whose times are compared with another group's."""

    name: str
    times_s: dict[Part, Numbers]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shown:
    """One kind of times of a group, in the figure's unit."""

    name: str
    times: Numbers


def draw(runs: Sequence[Run], theme: Theme, *, with_published: bool) -> Drawn:
    """Draw the lowest concurrency and the best. For one run, its sources with few and with many in flight."""
    chosen = fewest_and_best(runs)
    groups = _groups_within(runs[0]) if len(runs) == 1 else [_all_of(run) for run in chosen]
    unit = unit_of_times(groups[0].times_s["total"])
    figure, axes = new_figure(theme, n_rows=1, n_columns=3, size_in=(WIDTH_IN, 4.3))
    head(figure, " against ".join(label_with_number(run.name, run.concurrency) for run in chosen), theme)
    for ax, part in zip(axes[0], _PARTS, strict=True):
        shown = [_Shown(name=group.name, times=group.times_s[part] * unit.per_one) for group in groups]
        marks = [_published_value(run, part, unit) for run in published.PUBLISHED if with_published]
        span = span_around([span_of(each.times) for each in shown], marks)
        _draw_groups(ax, shown, span, unit, theme)
        _mark_published(ax, marks, unit, theme)
        ax.set_xlim(span.low, span.top)
        ax.set_ylim(bottom=0)
        finish_axes(
            ax,
            title=part.capitalize(),
            x_label=unit.name + tail_of(np.concatenate([each.times for each in shown]), span, unit=unit.name),
            y_label="% of the sources" if part == "open" else "",
            theme=theme,
        )
        legend(ax, theme, below=True)
    return Drawn(
        figure=figure, title=_title(runs, groups), caption=_caption(runs, with_published=with_published)
    )


def _title(runs: Sequence[Run], groups: Sequence[_Group]) -> str:
    if len(groups) == 1:
        return "Times of opening and reading"
    return "Few in flight against many" if len(runs) == 1 else "The fewest against the best"


def _caption(runs: Sequence[Run], *, with_published: bool) -> str:
    who = (
        "Sources of this run that began while few others were in flight (the lowest quarter) are compared "
        "with those that began among many (the highest). If that did not vary, all are shown together."
        if len(runs) == 1
        else "The run with the fewest at a time against the one of the highest typical throughput."
    )
    of_2018 = " Dotted and dash-dotted: medians published in 2018." if with_published else ""
    return f"{who} Time to open a source, to read its window, and both. The means are marked.{of_2018}"


def _all_of(run: Run) -> _Group:
    return _group(run, np.ones(len(run.timings), dtype=bool), f"{run.concurrency:,} at a time")


def _groups_within(run: Run) -> list[_Group]:
    in_flight = in_flight_at_start(run.timings)
    few, many = np.percentile(in_flight, (25, 75), method="nearest")
    groups = [
        _group(run, in_flight <= few, f"few in flight (≤ {few:,})"),
        _group(run, in_flight >= many, f"many in flight (≥ {many:,})"),
    ]
    if few == many or any(len(group.times_s["total"]) < _FEWEST_IN_GROUP for group in groups):
        return [_all_of(run)]
    return groups


def _group(run: Run, chosen: Numbers, name: str) -> _Group:
    timings = run.timings
    return _Group(
        name=name,
        times_s={
            "open": timings.open_s[chosen],
            "read": timings.read_s[chosen],
            "total": timings.total_s[chosen],
        },
    )


def _draw_groups(ax: Axes, groups: Sequence[_Shown], span: Span, unit: FigureUnit, theme: Theme) -> None:
    looks: tuple[dict[str, Any], ...] = (
        {"color": theme.blue, "fill": True, "alpha": 0.45},
        {"color": theme.vermilion, "fill": False, "linewidth": 1.6},
    )
    lines: tuple[dict[str, Any], ...] = (
        {"color": theme.blue, "linestyle": "solid"},
        {"color": theme.vermilion, "linestyle": (0, (5, 2))},
    )
    edges = span.edges(max(len(group.times) for group in groups))
    for group, look, line in zip(groups, looks, lines, strict=False):
        ax.stairs(100 * counts_in(group.times, edges) / len(group.times), edges, **look)
        mean = float(group.times.mean())
        told = f"{group.name}: mean {plain_number(mean)} {unit.name}"
        ax.axvline(min(mean, span.top), linewidth=1.8, label=told, **line)


def _mark_published(ax: Axes, medians: Sequence[float], unit: FigureUnit, theme: Theme) -> None:
    lines: tuple[dict[str, Any], ...] = ({"linestyle": (0, (1, 1.5))}, {"linestyle": (0, (5, 1.5, 1, 1.5))})
    for run, median, line in zip(published.PUBLISHED, medians, lines, strict=False):
        told = f"{run.name}: median {plain_number(median)} {unit.name}"
        ax.axvline(median, color=theme.published, linewidth=1.4, label=told, **line)


def _published_value(run: published.PublishedRun, part: Part, unit: FigureUnit) -> float:
    spread: published.PublishedSpread = getattr(run, f"{part}_ms")
    return spread.median / MILLISECONDS.per_one * unit.per_one
