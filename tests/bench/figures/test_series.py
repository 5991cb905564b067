"""The names of cubes and engines in figures, and the figure of the pixels."""

from copy import replace

import pytest

from bench.figures.made_runs import run_of
from pixel_gather.core.results.timed_run import Run
from pixel_gather.io.pictures.theme import LIGHT
from pixel_gather_bench.figures import workers
from pixel_gather_bench.figures.look import to_svg


def drawn(*runs: Run) -> str:
    """Return the figure of concurrency as SVG."""
    figure = workers.draw(runs, LIGHT, with_published=False)
    assert figure is not None
    assert {ax.get_xscale() for ax in figure.figure.axes} == {"log"}
    return to_svg(figure.figure)


@pytest.mark.long
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
