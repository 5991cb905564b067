"""Locating the window on each source."""

from copy import replace
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from pixel_gather.core.errors import RequestError, SourceError
from pixel_gather.core.model.source import Header
from pixel_gather.core.model.status import Status
from pixel_gather.core.model.window import TileIndex, Transform, Window, WindowRule
from pixel_gather.core.plan.locate_window import Grid, Placement, locate_like, locate_window
from support.fakes import UTM, FakeProjector, header_of
from support.strategies import headers, transforms, windows_touching

HEADER = header_of(np.zeros((1, 50, 40), "uint8"), "s3://bucket/a.tif")
PROJECTOR = FakeProjector()


def place(rule: WindowRule, header: Header = HEADER) -> Window:
    """Locate a window with a projector that changes nothing."""
    return locate_window(rule, header, projector=PROJECTOR)


def like_typical(rule: WindowRule, other: Header, of_typical: Window) -> Window:
    """Locate what has the window's pixels on the typical source, which is `HEADER`."""
    return locate_like(rule, other, grid=Grid.of(HEADER), window=of_typical, projector=PROJECTOR)


def window(col_off: int, row_off: int, width: int, height: int) -> Window:
    """Return a window, in the order of a request."""
    return Window(col_off=col_off, row_off=row_off, width=width, height=height)


@dataclass(frozen=True)
class Case:
    """A rule, and the window on 40 x 50 pixels of 10 m in tiles of 16 x 16."""

    id: str
    rule: WindowRule
    expected: Window


CASES = [
    Case("tile", WindowRule(tile=TileIndex(column=0, row=1)), window(0, 16, 16, 16)),
    Case("tile at the edge is clipped", WindowRule(tile=TileIndex(column=2, row=3)), window(32, 48, 8, 2)),
    Case("centre", WindowRule(is_centre=True), window(16, 16, 16, 16)),
    Case("pixels", WindowRule(pixels=(-3, 5, 7, 9)), window(-3, 5, 7, 9)),
    Case(
        "box on pixels' edges",
        WindowRule(bounds=(500_010, 4_599_970, 500_030, 4_599_990)),
        window(1, 1, 2, 2),
    ),
    Case("box that touches", WindowRule(bounds=(500_009, 4_599_969, 500_031, 4_599_991)), window(0, 0, 4, 4)),
    Case("box in one pixel", WindowRule(bounds=(500_011, 4_599_981, 500_012, 4_599_982)), window(1, 1, 1, 1)),
    Case(
        "box off by rounding",
        WindowRule(bounds=(500_010 - 1e-6, 4_599_990, 500_020, 4_600_000)),
        window(1, 0, 1, 1),
    ),
    Case("point", WindowRule(point=(500_015, 4_599_985)), window(1, 1, 1, 1)),
    Case("point on a corner", WindowRule(point=(500_010, 4_599_990)), window(1, 1, 1, 1)),
    Case("point, odd size", WindowRule(point=(500_015, 4_599_985), size=(3, 1)), window(0, 1, 3, 1)),
    Case("point, even size", WindowRule(point=(500_015, 4_599_985), size=(4, 2)), window(-1, 0, 4, 2)),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_place_window_finds_the_pixels(case: Case) -> None:
    """Each kind of window has one meaning."""
    assert place(case.rule) == case.expected


def test_place_window_projects_from_the_requests_crs() -> None:
    """Coordinates are moved to the source's CRS before pixels are counted."""
    moved = FakeProjector(shift=10.0)
    point = WindowRule(point=(500_005, 4_599_985), crs="EPSG:4326")
    box = WindowRule(bounds=(500_000, 4_599_980, 500_010, 4_599_990), crs="EPSG:4326")

    assert locate_window(point, HEADER, projector=moved) == window(1, 1, 1, 1)
    assert locate_window(box, HEADER, projector=moved) == window(1, 1, 1, 1)
    assert locate_window(replace(box, crs=HEADER.crs), HEADER, projector=moved) == window(0, 1, 1, 1)


def test_place_window_takes_the_crs_of_the_source_where_none_is_given() -> None:
    """Its own coordinates are not moved, even if it has no CRS, or the request names the same."""
    moved, rule = FakeProjector(shift=1000.0), WindowRule(point=(500_015, 4_599_985))

    assert locate_window(rule, replace(HEADER, crs=None), projector=moved) == window(1, 1, 1, 1)
    assert locate_window(replace(rule, crs=HEADER.crs), HEADER, projector=moved) == window(1, 1, 1, 1)


@pytest.mark.parametrize(
    ("rule", "header", "status", "says"),
    [
        (
            WindowRule(tile=TileIndex(column=0, row=4)),
            HEADER,
            Status.OUTSIDE,
            (
                "the tile in column 0, row 4 lies outside its 40 x 50 pixels: the image has tiles in "
                "columns 0 to 2 and rows 0 to 3, of 16 x 16 pixels"
            ),
        ),
        (WindowRule(point=(0, 0)), HEADER, Status.OUTSIDE, "outside"),
        (WindowRule(point=(float("inf"), 0)), HEADER, Status.OUTSIDE, "do not exist in its CRS"),
        (WindowRule(point=(0, float("inf"))), HEADER, Status.OUTSIDE, "do not exist in its CRS"),
        (WindowRule(point=(float("nan"), 0)), HEADER, Status.OUTSIDE, "do not exist in its CRS"),
        (WindowRule(bounds=(0, 0, float("inf"), 1)), HEADER, Status.OUTSIDE, "do not exist in its CRS"),
        (WindowRule(bounds=(0, 0, 1e300, 1)), HEADER, Status.OUTSIDE, "outside"),
        (
            WindowRule(point=(0, 0)),
            replace(HEADER, transform=None),
            Status.UNSUPPORTED,
            "no geotransform; ground control points and RPCs are not used: ask",
        ),
        (
            WindowRule(point=(0, 0)),
            replace(HEADER, transform=Transform(0, 0, 0, 0, 0, 0)),
            Status.UNSUPPORTED,
            "no geotransform; ground control points and RPCs are not used: ask",
        ),
        (
            WindowRule(point=(0, 0), crs="EPSG:4326"),
            replace(HEADER, crs=None),
            Status.UNSUPPORTED,
            "no CRS to find EPSG:4326",
        ),
    ],
)
def test_place_window_tells_why_there_is_none(
    rule: WindowRule, header: Header, status: Status, says: str
) -> None:
    """A window that cannot be located has a status and a reason."""
    with pytest.raises(SourceError, match=says) as caught:
        place(rule, header)

    assert caught.value.status is status
    assert caught.value.href == header.href


def test_place_window_passes_on_that_there_is_no_way_between_crss() -> None:
    """The error has the projector's message."""
    projector = FakeProjector(unknown=frozenset({"EPSG:1"}))

    with pytest.raises(RequestError, match="no way to EPSG:1"):
        locate_window(WindowRule(point=(0, 0), crs="EPSG:1"), HEADER, projector=projector)


@given(header=headers())
def test_centre_tile_holds_the_centre_pixel(header: Header) -> None:
    """This holds for any size and tiling."""
    found = place(WindowRule(is_centre=True), header)

    assert found.col_off <= header.width // 2 < found.col_stop
    assert found.row_off <= header.height // 2 < found.row_stop
    assert found.clipped(width=header.width, height=header.height) == found


@given(transform=transforms(), asked=windows_touching(40, 50))
def test_box_around_a_window_is_that_window(transform: Transform, asked: Window) -> None:
    """A window named by its corners on the map is the window named by its pixels."""
    transform = transform._replace(b=0.0, d=0.0, c=transform.c % 1000 * transform.a, f=3 * transform.e)
    xs, ys = zip(
        transform.xy(asked.col_off, asked.row_off), transform.xy(asked.col_stop, asked.row_stop), strict=True
    )
    rule = WindowRule(bounds=(min(xs), min(ys), max(xs), max(ys)))

    assert place(rule, replace(HEADER, transform=transform)) == asked


def test_place_like_reads_the_same_pixels_of_the_same_grid() -> None:
    """Other tiles on the same grid change nothing."""
    other = replace(HEADER, tile_width=8, tile_height=8)
    found = like_typical(WindowRule(tile=TileIndex(column=1, row=1)), other, window(16, 16, 16, 16))

    assert found == window(16, 16, 16, 16)


def test_place_like_reads_a_tile_of_another_grid_at_the_typical_size() -> None:
    """A tile that is clipped on the typical source is no larger anywhere else."""
    other = header_of(np.zeros((1, 90, 90), "uint8"), "s3://bucket/b.tif", transform=UTM.shifted(3, 3))
    found = like_typical(WindowRule(tile=TileIndex(column=2, row=3)), other, window(32, 48, 8, 2))

    assert found == window(32, 48, 8, 2)


def test_place_like_follows_a_point_to_another_grid() -> None:
    """The window has the typical window's size and covers the same area at other pixels."""
    other = replace(HEADER, transform=UTM.shifted(-5, -7))
    rule = WindowRule(point=(500_015, 4_599_985), size=(3, 3))
    found = like_typical(rule, other, window(0, 0, 3, 3))

    assert found == window(5, 7, 3, 3)
    assert Placement.on(Grid.of(other), found).covers_same_pixels_as(
        Placement.on(Grid.of(HEADER), window(0, 0, 3, 3))
    )


@pytest.mark.parametrize(
    ("change", "aligned"),
    [
        ({}, True),
        ({"crs": "EPSG:32632"}, False),
        ({"transform": UTM.shifted(1, 0)}, False),
        ({"transform": UTM._replace(c=UTM.c + 0.001)}, True),
        ({"transform": UTM._replace(c=UTM.c + 5)}, False),
        ({"transform": None}, False),
    ],
    ids=str,
)
def test_placement_aligns_only_on_the_same_pixels(change: dict[str, Any], *, aligned: bool) -> None:
    """Half a pixel, another zone and no georeference are other grids."""
    place_ = window(1, 2, 3, 4)
    one, other = Grid.of(HEADER), Grid.of(replace(HEADER, **change))

    assert Placement.on(one, place_).covers_same_pixels_as(Placement.on(other, place_)) is aligned


def test_placement_without_a_map_aligns_on_the_same_pixels_of_the_raster() -> None:
    """Photographs share a grid where the window is the same."""
    grid = Grid.of(replace(HEADER, transform=None, crs=None))

    assert Placement.on(grid, window(1, 2, 3, 4)).covers_same_pixels_as(
        Placement.on(grid, window(1, 2, 3, 4))
    )
    assert not Placement.on(grid, window(1, 2, 3, 4)).covers_same_pixels_as(
        Placement.on(grid, window(0, 2, 3, 4))
    )


@pytest.mark.parametrize(
    ("change", "is_same"),
    [
        ({}, True),
        ({"tile_width": 8, "nodata": 5}, True),
        ({"transform": UTM._replace(c=UTM.c + 0.001)}, True),
        ({"width": 41}, False),
        ({"height": 51}, False),
        ({"crs": None}, False),
        ({"transform": UTM.shifted(1, 0)}, False),
        ({"transform": None}, False),
    ],
    ids=str,
)
def test_grid_is_the_same_where_every_pixel_has_its_place(change: dict[str, Any], *, is_same: bool) -> None:
    """How it is tiled does not matter."""
    one, other = Grid.of(HEADER), Grid.of(replace(HEADER, **change))

    assert one.is_same_grid_as(other) is is_same
    assert other.is_same_grid_as(one) is is_same


def test_grids_without_a_map_are_the_same_if_their_sizes_are() -> None:
    """There is nothing else to compare."""
    one = Grid.of(replace(HEADER, transform=None, crs=None))

    assert one.is_same_grid_as(replace(one, tile_width=8))
    assert not one.is_same_grid_as(replace(one, width=41))


def test_window_without_a_map_is_not_one_on_a_map() -> None:
    """Even at the same pixels."""
    grid = Grid.of(replace(HEADER, crs=None))
    one = Placement.on(grid, window(1, 2, 3, 4))
    other = Placement.on(replace(grid, transform=None), window(1, 2, 3, 4))

    assert not one.covers_same_pixels_as(other)
    assert not other.covers_same_pixels_as(one)


def test_edge_of_a_box_counts_from_a_millionth_of_a_pixel() -> None:
    """On each of its sides. Less than that is rounding."""
    west, south, east, north = 500_010, 4_599_970, 500_030, 4_599_990

    def located(by: float) -> Window:
        bounds = (west - by, south - by, east + by, north + by)
        return place(WindowRule(bounds=bounds))

    assert located(5e-6) == window(1, 1, 2, 2)
    assert located(5e-5) == window(0, 0, 4, 4)


def test_point_on_an_edge_belongs_to_the_pixel_on_its_right_and_below() -> None:
    """On every edge of a grid of tenths of degrees, whose numbers are rounded."""
    header = replace(HEADER, width=100, height=100, transform=Transform(0.1, 0, 175, 0, -0.1, 10), crs=None)
    found = [
        place(WindowRule(point=(round(175 + n / 10, 1), round(10 - n / 10, 1))), header) for n in range(100)
    ]

    assert found == [window(n, n, 1, 1) for n in range(100)]


def test_window_is_outside_only_if_no_pixel_is_inside() -> None:
    """On each of the four sides. The message says which columns and rows it has."""
    for col, row in ((-4, 0), (39, 0), (0, -4), (0, 49), (0, 0)):
        assert place(WindowRule(pixels=(col, row, 5, 5))) == window(col, row, 5, 5)
    for col, row in ((-5, 0), (40, 0), (0, -5), (0, 50)):
        with pytest.raises(
            SourceError,
            match=rf"columns {col} to {col + 5}, rows {row} to {row + 5}\) lies outside its 40 x 50 pixels",
        ):
            place(WindowRule(pixels=(col, row, 5, 5)))


def test_tiles_of_another_shape_are_unlike_for_tiles_alone() -> None:
    """A window in pixels does not depend on them. On the same grid, nothing does."""
    for change in ({"tile_width": 8}, {"tile_height": 8}):
        other = replace(HEADER, width=41, **change)  # type: ignore[arg-type] # numbers
        size = f"{other.tile_width} x {other.tile_height}"

        assert like_typical(WindowRule(pixels=(0, 0, 5, 5)), other, window(0, 0, 5, 5)) == window(0, 0, 5, 5)
        for rule in (WindowRule(is_centre=True), WindowRule(tile=TileIndex(column=0, row=0))):
            with pytest.raises(SourceError, match=f"its tiles are {size}.* on another grid") as caught:
                like_typical(rule, other, window(0, 0, 5, 5))
            assert caught.value.status is Status.UNLIKE


def test_box_of_a_source_without_a_crs_is_in_its_coordinates() -> None:
    """Unless the request names a CRS."""
    box = WindowRule(bounds=(500_010, 4_599_970, 500_030, 4_599_990))
    plain = replace(HEADER, crs=None)

    assert place(box, plain) == window(1, 1, 2, 2)
    with pytest.raises(SourceError, match="no CRS to find EPSG:32631"):
        place(replace(box, crs="EPSG:32631"), plain)
