"""The names of cubes and engines in figures, and the figure of the pixels."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.dates import num2date

from pixel_gather.core.results.evidence import Series
from pixel_gather.core.results.run import Run
from pixel_gather.features.report.plots import workers
from pixel_gather.features.report.plots.files import to_svg
from pixel_gather.features.report.plots.theme import LIGHT
from pixel_gather.features.report.plots.through_time import draw_through_time
from report.plots.made_runs import run_of


def drawn(*runs: Run) -> str:
    """Return the figure of concurrency as SVG."""
    figure = workers.draw(runs, LIGHT, with_published=False)
    assert figure is not None
    assert {ax.get_xscale() for ax in figure.figure.axes} == {"log"}
    return to_svg(figure.figure)


@pytest.mark.slow
def test_best_point_names_its_engine_on_a_logarithmic_axis() -> None:
    """With two engines the best point has its engine's name, with one it has none."""
    fast = [run_of(concurrency=n, engine="fast") for n in (1, 4, 16)]
    slow = [run_of(concurrency=n, engine="rasterio") for n in (1, 4, 16)]

    assert "fast: " in drawn(*fast, *slow)
    assert "fast: " not in drawn(*fast)


def test_cubes_are_named_where_they_are_compared() -> None:
    """Cubes of one engine are distinguished by name."""
    cubes = [
        replace(run_of(concurrency=n, name=name), is_cube=True) for n, name in ((4, "cold"), (9, "warm"))
    ]

    svg = drawn(*cubes)

    assert ">cold<" in svg
    assert ">warm<" in svg
    assert ">fast<" not in svg


def series(n: int, *, has_time: bool = True, name: str = "red") -> Series:
    """Return statistics of some days. The third day is missing."""
    mean, share = np.arange(n, dtype="float64"), np.full(n, 0.5)
    mean[2:3] = share[2:3] = np.nan
    at = np.arange(n) * (86_400_000_000 if has_time else 1)
    return Series(measurement=name, at=at, has_time=has_time, mean=mean, valid_share=share)


def test_statistics_are_drawn_through_time_with_gaps() -> None:
    """Both panels have every measurement, with shares in percent. A row that was not read is a gap."""
    figure = draw_through_time([series(9), series(9, name="nir")], LIGHT, n_measurements=2)

    assert figure is not None
    means, shares = figure.figure.axes
    assert [len(ax.lines) for ax in (means, shares)] == [2, 2]
    assert (
        np.isnan(np.asarray(means.lines[0].get_ydata(), "float64")).tolist()
        == [False, False, True] + [False] * 6
    )
    assert np.nanmax(np.asarray(shares.lines[0].get_ydata(), "float64")) == 50
    assert num2date(means.get_xlim()[1]).year == 1970  # type: ignore[no-untyped-call] # matplotlib has no types here
    assert figure.title == "Mean and valid share through time"
    assert ">nir<" in to_svg(figure.figure)


def test_statistics_of_many_rows_stay_small() -> None:
    """The extremes of a million rows are drawn."""
    figure = draw_through_time([series(1_000_000, has_time=False)], LIGHT, n_measurements=1)

    assert figure is not None
    assert len(to_svg(figure.figure)) < 60_000


@pytest.mark.parametrize("n", [300, 30_000])
def test_rows_between_unread_ones_are_marks(n: int) -> None:
    """A curve draws nothing where a row has no neighbour. Shares that are all alike are drawn, too."""
    of_all = series(n, has_time=False)
    is_read = np.arange(n) % 3 == 1
    mean, share = (np.where(is_read, each, np.nan) for each in (np.arange(n) % 7, np.ones(n)))

    figure = draw_through_time([replace(of_all, mean=mean, valid_share=share)], LIGHT, n_measurements=1)

    assert figure is not None
    for ax in figure.figure.axes:
        marks, curve = ax.lines
        found = np.asarray(marks.get_ydata(), "float64")
        y = np.asarray(curve.get_ydata(), "float64")
        assert (marks.get_marker(), len(found)) == ("o", np.isfinite(y).sum())
        assert len(found) >= min(n // 3, 200)
        assert not np.isfinite(y[:-1] + y[1:]).any()


def test_a_few_unread_rows_do_not_break_a_reduced_curve() -> None:
    """A long gap does."""
    n = 30_000
    mean = np.sin(np.arange(n) / 900)
    mean[::50] = np.nan
    mean[10_000:20_000] = np.nan

    figure = draw_through_time([replace(series(n, has_time=False), mean=mean)], LIGHT, n_measurements=1)

    assert figure is not None
    (curve,) = figure.figure.axes[0].lines
    breaks = np.asarray(curve.get_xdata(), "float64")[np.isnan(np.asarray(curve.get_ydata(), "float64"))]
    assert len(breaks) < 20
    assert ((breaks > 9_900) & (breaks < 20_000)).sum() == 1


def test_a_single_row_is_no_curve() -> None:
    """A single row is not drawn, nor is a gather that read nothing."""
    assert draw_through_time([series(1)], LIGHT, n_measurements=1) is None
    assert draw_through_time([], LIGHT, n_measurements=1) is None
