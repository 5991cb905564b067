"""Draws figure 3: times per source with few sources at a time, and with the best concurrency."""

from collections.abc import Sequence
from typing import Any, Final, Literal

import numpy as np
from matplotlib.axes import Axes
from msgspec import Struct

from pixel_gather.core.results import published_runs
from pixel_gather.core.results.timed_run import Run
from pixel_gather.features.report.findings import plain_number
from pixel_gather.features.report.in_flight import in_flight_at_start
from pixel_gather.io.pictures.theme import Theme
from pixel_gather_bench.figures.look import Drawn, finish_axes, head, new_figure
from pixel_gather_bench.figures.numbers import (
    FigureUnit,
    Numbers,
    fewest_and_best,
    label_with_number,
    span_around,
    span_of,
    tail_of,
    unit_of_times,
)

type Part = Literal["open", "read", "total"]

_PARTS: Final[tuple[Part, ...]] = ("open", "read", "total")
_FEWEST_IN_GROUP: Final = 5


class _Group(Struct, frozen=True, kw_only=True):
    """A group of sources whose times are compared with another group's."""

    name: str
    times_s: dict[Part, Numbers]


def draw(runs: Sequence[Run], theme: Theme, *, with_published: bool) -> Drawn:
    """Draw the lowest concurrency and the best. For one run, its sources with few and with many in flight."""
    chosen = fewest_and_best(runs)
    groups = _groups_within(runs[0]) if len(runs) == 1 else [_all_of(run) for run in chosen]
    unit = unit_of_times(groups[0].times_s["total"])
    figure, axes = new_figure(1, 3, height_in=4.3)
    head(figure, " against ".join(label_with_number(run.name, run.concurrency) for run in chosen), theme)
    for ax, part in zip(axes[0], _PARTS, strict=True):
        _draw_part(ax, part, groups, unit, theme, with_published=with_published)
    if len(runs) == 1:
        title = "Few in flight against many"
        who = (
            "Sources of this run that began while few others were in flight (the lowest quarter) are "
            "compared with those that began among many (the highest). If that did not vary, all are shown "
            "together."
        )
    else:
        title = "The fewest against the best"
        who = "The run with the fewest at a time against the one of the highest typical throughput."
    of_2018 = " Dotted and dash-dotted: medians published in 2018." if with_published else ""
    return Drawn(
        figure=figure,
        title=title if len(groups) > 1 else "Times of opening and reading",
        caption=(
            f"{who} Time to open a source, to read its window, and both. The means are marked.{of_2018}"
        ),
    )


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
    return _Group(name=name, times_s={part: getattr(run.timings, f"{part}_s")[chosen] for part in _PARTS})


def _draw_part(
    ax: Axes, part: Part, groups: Sequence[_Group], unit: FigureUnit, theme: Theme, *, with_published: bool
) -> None:
    shown = [group.times_s[part] * unit.per_one for group in groups]
    marks = [
        getattr(run.times, f"{part}_s").median * unit.per_one
        for run in published_runs.PUBLISHED
        if with_published
    ]
    span = span_around([span_of(times) for times in shown], marks)
    edges = span.edges(max(map(len, shown)))
    looks: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = (
        ({"color": theme.blue, "fill": True, "alpha": 0.45}, {"color": theme.blue}),
        ({"color": theme.vermilion, "linewidth": 1.6}, {"color": theme.vermilion, "linestyle": (0, (5, 2))}),
    )
    for group, times, (look, line) in zip(groups, shown, looks, strict=False):
        ax.stairs(100 * np.histogram(times, edges)[0] / len(times), edges, **look)
        mean = float(times.mean())
        told = f"{group.name}: mean {plain_number(mean)} {unit.name}"
        ax.axvline(min(mean, span.top), linewidth=1.8, label=told, **line)
    dashes: Any = ((0, (1, 1.5)), (0, (5, 1.5, 1, 1.5)))
    for run, median, dash in zip(published_runs.PUBLISHED, marks, dashes, strict=False):
        told = f"{run.name}: median {plain_number(median)} {unit.name}"
        ax.axvline(median, color=theme.published, linewidth=1.4, label=told, linestyle=dash)
    ax.set_xlim(span.low, span.top)
    ax.set_ylim(bottom=0)
    tail = tail_of(np.concatenate(shown), span, unit=unit.name)
    y_label = "% of the sources" if part == "open" else ""
    finish_axes(ax, title=part.capitalize(), x_label=unit.name + tail, y_label=y_label)
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.25), frameon=False)
