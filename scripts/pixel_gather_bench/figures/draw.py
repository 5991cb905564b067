"""Draws all figures of some runs, in the order of the report of 2018."""

from collections.abc import Sequence
from copy import replace
from pathlib import Path

import numpy as np

from pixel_gather.core.results.timed_run import Run
from pixel_gather.core.results.timings import Timings
from pixel_gather.features.report.page import Plot
from pixel_gather.io.pictures.theme import DARK, LIGHT, Theme
from pixel_gather_bench.figures import (
    in_depth,
    latency_hiding,
    one_against_best,
    throughput,
    warm_up,
    workers,
)
from pixel_gather_bench.figures.look import Drawn, drawn_in, make_plots, put_figure
from pixel_gather_bench.figures.numbers import unique_labels


def draw_figures(runs: Sequence[Run], *, with_published: bool, theme: Theme) -> dict[str, Drawn]:
    """Draw runs.

    Those that read nothing are left out.

    Returns:
        By name, in the order of a page: ``in_depth``, ``workers``, ``one_against_best``, ``latency_hiding``,
        ``throughput`` and ``warm_up``, without those that would be empty.
    """
    shown = _drawable(runs)
    if not shown:
        return {}
    with drawn_in(theme):
        drawn = {
            "in_depth": in_depth.draw(shown, theme),
            "workers": workers.draw(shown, theme, with_published=with_published),
            "one_against_best": one_against_best.draw(shown, theme, with_published=with_published),
            "latency_hiding": latency_hiding.draw(shown, theme),
            "throughput": throughput.draw(shown, theme, with_published=with_published),
            "warm_up": warm_up.draw(shown, theme),
        }
    return {name: figure for name, figure in drawn.items() if figure is not None}


def put_figures(runs: Sequence[Run], folder: Path, *, with_published: bool) -> tuple[Plot, ...]:
    """Write all figures as PNG and SVG, light and dark. Return them as parts of a page."""
    plots: tuple[Plot, ...] = ()
    for theme, suffix in ((LIGHT, ""), (DARK, "-dark")):
        drawn = draw_figures(runs, with_published=with_published, theme=theme)
        for name, each in drawn.items():
            put_figure(each.figure, folder, f"{name}{suffix}")
        plots = plots or make_plots(drawn)
    return plots


def _drawable(runs: Sequence[Run]) -> list[Run]:
    """Return the runs that read anything, with unique names that are safe in a figure."""
    known = [replace(run, timings=_with_known_times(run.timings)) for run in runs]
    shown = [run for run in known if len(run.timings)]
    names = unique_labels([run.name for run in shown])
    return [replace(run, name=name) for run, name in zip(shown, names, strict=True)]


def _with_known_times(timings: Timings) -> Timings:
    """Leave out sources with an unknown time."""
    times = (timings.start_s, timings.end_s, timings.open_s, timings.read_s)
    is_known = np.logical_and.reduce([np.isfinite(each) for each in times])
    return Timings(**{name: getattr(timings, name)[is_known] for name in Timings.__struct_fields__})
