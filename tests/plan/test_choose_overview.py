"""The overview that is read where a grid has larger pixels than the sources."""

import asyncio
from collections.abc import Sequence
from copy import replace
from dataclasses import dataclass
from math import nan
from typing import Any

import numpy as np
import pytest

from pixel_gather.core.model.source import Header
from pixel_gather.core.model.window import Transform
from pixel_gather.core.plan.choose_overview import choose_overview, open_level, times_finer
from pixel_gather.core.plan.locate_window import Grid
from support.fakes import UTM, FakeProjector, header_of

ONE = header_of(np.zeros((1, 1, 1), "uint16"), "s3://b/a")
TARGET = Grid(
    width=100, height=50, transform=UTM.scaled(4, 4), crs="EPSG:32633", tile_width=100, tile_height=50
)
"""Of pixels of 40 m."""


def sized(width: int, height: int, *, of: Header | None = None) -> Header:
    """Return the header of an image of pixels of 10 m, or of an overview of it."""
    whole = of or replace(ONE, width=width, height=height)
    transform = UTM.scaled(whole.width / width, whole.height / height)
    return replace(ONE, width=width, height=height, transform=transform)


@dataclass
class Pyramid:
    """An opened source with overviews."""

    header: Header
    levels: Sequence["Pyramid"] = ()
    resampling: str | None = None

    async def overviews(self) -> Sequence["Pyramid"]:
        """Return them, the largest first."""
        return self.levels


def level_of(
    size: tuple[int, int],
    *overviews: tuple[int, int],
    target: Grid | None = None,
    resolution: float = 40.0,
    resampling: str | None = None,
    keeps_classes: bool = False,
) -> int | None:
    """Return the overview that is read of an image of pixels of 10 m."""
    full = sized(*size)
    opened: Any = Pyramid(full, [Pyramid(sized(*each, of=full)) for each in overviews], resampling)
    found, number = asyncio.run(
        open_level(
            opened,
            target=target,
            resolution=resolution,
            keeps_classes=keeps_classes,
            projector=FakeProjector(),
        )
    )
    assert found is (opened if number is None else opened.levels[number])
    return number


@pytest.mark.parametrize(
    ("times", "overviews", "expected"),
    [
        (4.0, [(500, 500), (250, 250), (125, 125)], 1),
        (3.97, [(500, 500), (250, 250)], 1),  # sizes of overviews are rounded
        (3.9, [(500, 500), (250, 250)], 0),
        (1.9, [(500, 500), (250, 250)], None),
        (2.0, [(500, 200)], None),  # along y it is coarser than the grid
        (2.0, [(200, 500)], None),
        (9.0, [], None),
    ],
)
def test_the_coarsest_overview_that_is_not_coarser_than_the_grid_is_read(
    times: float, overviews: list[tuple[int, int]], expected: int | None
) -> None:
    """Along both axes. Without one, it is the image."""
    levels = [sized(*each) for each in overviews]

    assert choose_overview(sized(1000, 1000), levels, times) == expected


@pytest.mark.parametrize(
    ("size", "overviews", "resolution", "expected"),
    [
        ((480, 480), [(240, 240), (120, 120), (60, 60)], 40.0, 1),
        ((480, 480), [(240, 240), (120, 120), (69, 69)], 80.0, 1),
        ((480, 480), [(240, 240), (160, 160)], 40.0, 0),  # no whole number of 30 m makes 40 m
        ((480, 480), [(240, 240)], 10.0, None),  # its pixels would be repeated
        ((10_981, 2), [(5491, 1)], 20.0, None),  # its last column lies partly beyond the image
        ((2, 10_981), [(1, 5491)], 20.0, None),
        ((10_980, 10_980), [(5490, 5490), (2746, 2746)], 40.0, 0),
    ],
)
def test_blocks_are_made_of_the_coarsest_overview_that_fills_them(
    size: tuple[int, int], overviews: list[tuple[int, int]], resolution: float, expected: int | None
) -> None:
    """No pixel of it is cut or shifted."""
    assert level_of(size, *overviews, resolution=resolution) == expected


def test_a_warp_reads_overviews_that_fill_no_blocks() -> None:
    """Pixels of 30 m are finer than those of 40 m."""
    assert level_of((480, 480), (240, 240), (160, 160), target=TARGET) == 1


@pytest.mark.parametrize(
    ("resampling", "keeps_classes", "expected"),
    [
        (None, False, 1),
        ("AVERAGE", False, 1),
        ("NEAREST", True, 1),
        ("MODE", True, 1),
        ("AVERAGE", True, None),
        (None, True, None),
    ],
)
@pytest.mark.parametrize("target", [None, TARGET])
def test_classes_are_read_from_overviews_that_have_no_other_values(
    *, resampling: str | None, keeps_classes: bool, expected: int | None, target: Grid | None
) -> None:
    """Only the file can say how its overviews were made."""
    levels = ((240, 240), (120, 120), (60, 60))

    found = level_of((480, 480), *levels, target=target, resampling=resampling, keeps_classes=keeps_classes)

    assert found == expected


def finer(transform: Transform | None, *, crs: str | None = "EPSG:32631", **projector: Any) -> float:
    """Return how many times finer than the grid the pixels of a source are."""
    own = replace(Grid.of(ONE), width=500, height=500, transform=transform, crs=crs)
    return times_finer(own, TARGET, FakeProjector(**projector))


@pytest.mark.parametrize(
    ("transform", "expected"),
    [
        (UTM, 4.0),
        (UTM._replace(e=-20.0), 2.0),
        (UTM._replace(a=20.0), 2.0),
        (UTM.scaled(8, 8), 0.5),
        (UTM._replace(a=0.0, b=10.0, d=-20.0, e=0.0), 2.0),  # turned by a quarter
        (UTM._replace(a=8.0, b=6.0, d=6.0, e=-8.0), 4.0),
    ],
)
def test_pixels_are_compared_along_the_axis_where_those_of_the_source_are_coarser(
    transform: Transform, expected: float
) -> None:
    """Wherever it lies."""
    assert finer(transform) == pytest.approx(expected)
    assert finer(transform, shift=1e4) == pytest.approx(expected)


def test_sources_without_a_place_on_the_grid_are_read_at_full_resolution() -> None:
    """The warp says later why they do not fit."""
    assert finer(None) == 1.0
    assert finer(UTM, crs=None) == 1.0
    assert finer(UTM._replace(a=0.0)) == 1.0
    assert finer(UTM, unknown=frozenset({"EPSG:32631"})) == 1.0
    assert finer(UTM, shift=nan) == 1.0  # PROJ finds no such place
