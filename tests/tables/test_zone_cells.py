"""The cells of polygons on a grid: which ones, how many at a time, and what is kept for the next image."""

from collections.abc import Callable, Sequence
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import shapely

from pixel_gather.core.errors import RequestError, SourceError
from pixel_gather.core.model.source import Header
from pixel_gather.core.model.status import Status
from pixel_gather.core.model.window import Transform
from pixel_gather.io.crs import RasterioProjector
from pixel_gather.tables import shapes as shapes_module
from pixel_gather.tables import zone_cells
from pixel_gather.tables.features import LONLAT, Features
from pixel_gather.tables.part_folder import LineStatus
from pixel_gather.tables.shapes import Shapes
from pixel_gather.tables.zone_cells import Coverage, ZoneCells, ZonePlaces, check_zones
from support.fakes import header_of

CRS = "EPSG:32631"
IN_PIXELS = Transform(10, 0, 0, 0, -10, 0)


def zones_of(*shapes: Any, crs: str = CRS) -> Features:
    """Return polygons that were checked."""
    at = shapely.centroid(np.array(shapes, object))
    return check_zones(
        Features(
            ids=np.arange(len(shapes)),
            xs=shapely.get_x(at),
            ys=shapely.get_y(at),
            crs=crs,
            geometries=Shapes.of_array(np.array(shapes, object)),
        )
    )


def pixels(west: float, north: float, east: float, south: float) -> Any:
    """Return a box by columns and rows."""
    return shapely.box(west * 10, -south * 10, east * 10, -north * 10)


def image(n_cols: int = 20, **changes: Any) -> Header:
    """Return the header of an image with pixels of 10 m and 12 rows. Its first corner is the origin."""
    given = {"transform": IN_PIXELS, "crs": CRS, **changes}
    return header_of(np.zeros((1, 12, n_cols), "uint8"), "s3://b/a.tif", **given)


class Projector:
    """Moves points by a function."""

    def __init__(self, move: Callable[[Any, Any], Any]) -> None:
        self.move = move

    def point_arrays(self, xs: Any, ys: Any, *, source_crs: str, target_crs: str) -> Any:
        """Return where points are in the other CRS."""
        assert source_crs != target_crs
        return self.move(xs, ys)


def places_of(
    *shapes: Any, coverage: Coverage = "fraction", move: Callable[[Any, Any], Any] | None = None
) -> ZonePlaces:
    """Return the places of zones; in degrees, if they are to be moved."""
    zones = zones_of(*shapes, crs=CRS if move is None else LONLAT)
    projector: Any = None if move is None else Projector(move)
    return ZonePlaces(zones, projector, coverage=coverage)


def cells_of(places: ZonePlaces, header: Header) -> list[tuple[int, int, int, float]]:
    """Return zone, column, row and share of each cell."""
    found: list[tuple[int, int, int, float]] = []
    for cells in places.on(header):
        assert len(cells.zones)
        n = np.diff(np.append(cells.starts, len(cells.cols)))
        columns = np.repeat(cells.zones, n), cells.cols, cells.rows, cells.coverage
        found += zip(*(each.tolist() for each in columns), strict=True)
    places.close()
    return found


def squares(n: int) -> Sequence[Any]:
    """Return zones of one pixel each, in a row."""
    return [pixels(col, 1, col + 1, 2) for col in range(n)]


def test_a_collection_becomes_all_of_its_polygons() -> None:
    """Lines among them are dropped. What is too thin has no area."""
    line = shapely.LineString([(0, 0), (9, 9)])
    both = shapely.GeometryCollection([shapely.box(0, 0, 1, 1), line, shapely.box(3, 0, 4, 1)])

    zones = zones_of(both, shapely.box(0, 0, 1e-200, 1e-200), line, None)

    assert zones.geometries is not None
    found = zones.geometries[:]
    assert found[0].equals(shapely.MultiPolygon([shapely.box(0, 0, 1, 1), shapely.box(3, 0, 4, 1)]))
    assert found[0].geom_type == "MultiPolygon"
    assert found[1:].tolist() == [None] * 3
    assert zones.problems is not None
    assert zones.problems.tolist() == [0, LineStatus.NO_AREA, LineStatus.NO_AREA, LineStatus.EMPTY]


def test_a_polygon_past_180_degrees_is_cut() -> None:
    """Longitude 190 is -170."""
    zones = zones_of(shapely.box(170, 0, 190, 3), crs=LONLAT)

    assert zones.geometries is not None
    wanted = shapely.MultiPolygon([shapely.box(170, 0, 180, 3), shapely.box(-180, 0, -170, 3)])
    assert zones.geometries[0:1][0].equals(wanted)


def test_invalid_polygons_of_all_blocks_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shapes are checked some at a time."""
    monkeypatch.setattr(shapes_module, "TOGETHER", 2)
    bow = shapely.Polygon([(0, 0), (9, 9), (9, 0), (0, 9)])

    assert zones_of(bow, bow, bow).notes == ("3 invalid polygons made valid",)


def test_blocks_have_few_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless one zone has more."""
    monkeypatch.setattr(zone_cells, "_MOST_OF_BLOCK", 4)
    sizes = np.array([3, 1, 2, 6, 1])
    at, none = np.zeros(sizes.sum(), np.int32), np.zeros(0)
    cells = ZoneCells(
        zones=np.arange(len(sizes)),
        starts=np.cumsum(sizes) - sizes,
        cols=at,
        rows=at,
        coverage=at.astype(np.float32),
        whole=none,
        is_cut=none.astype(bool),
        refused=none.astype(int),
        runs=(),
    )

    found = [(zones.start, zones.stop, of.start, of.stop) for zones, of in cells.blocks()]
    assert found == [(0, 2, 0, 4), (2, 3, 4, 6), (3, 4, 6, 12), (4, 5, 12, 13)]


@pytest.mark.parametrize("transform", [IN_PIXELS, Transform(10, 0, 0, 0, 10, -120)])
def test_cells_have_their_share(transform: Transform) -> None:
    """Also where the first row is the southernmost one."""
    found = cells_of(places_of(pixels(1.5, 3, 3.25, 4)), image(transform=transform))

    row = 3 if transform.e < 0 else 8
    assert found == [(0, 1, row, 0.5), (0, 2, row, 1.0), (0, 3, row, 0.25)]


@pytest.mark.parametrize(
    ("coverage", "cells"), [("centre", [(2, 2)]), ("touched", [(1, 1), (2, 1), (1, 2), (2, 2)])]
)
def test_a_cell_counts_by_its_centre_or_if_it_is_touched(
    coverage: Coverage, cells: list[tuple[int, int]]
) -> None:
    """Then all of it counts."""
    found = cells_of(places_of(pixels(1.6, 1.6, 2.9, 2.9), coverage=coverage), image())

    assert found == [(0, col, row, 1.0) for col, row in cells]


def test_a_zone_that_an_image_cuts_is_larger_than_its_cells() -> None:
    """At any of four edges. Its size inside an image is that of its cells."""
    cut = [pixels(-3, 4, 1, 5), pixels(19, 4, 23, 5), pixels(4, -3, 5, 1), pixels(4, 11, 5, 15)]
    places = places_of(pixels(1.2, 1.2, 2.9, 2.9), *cut, coverage="centre")

    (cells,) = places.on(image())
    places.close()

    of_zone = dict(
        zip(cells.zones.tolist(), zip(cells.whole.tolist(), cells.is_cut.tolist(), strict=True), strict=True)
    )
    assert of_zone == {0: (4, False)} | dict.fromkeys(range(1, 5), (4, True))


def test_a_zone_with_too_many_cells_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """One with as many as are allowed is not."""
    monkeypatch.setattr(zone_cells, "_MOST_OF_ONE", 4)
    places = places_of(pixels(1, 1, 3, 3), pixels(1, 1, 4, 3))

    (cells,) = places.on(image())
    places.close()

    assert (cells.zones.tolist(), cells.refused.tolist()) == ([0], [1])


def no_way(*_: Any) -> Any:
    """Move no points."""
    raise RequestError("PROJ finds no way", field="crs")


@pytest.mark.parametrize(
    ("changes", "move", "says"),
    [
        ({"crs": None}, None, "it has no CRS"),
        ({"transform": None}, None, "no geotransform"),
        ({"transform": Transform(0, 0, 0, 0, 0, 0)}, None, "no geotransform"),
        ({}, no_way, "PROJ finds no way"),
    ],
)
def test_an_image_that_lies_nowhere_has_no_cells(changes: dict[str, Any], move: Any, says: str) -> None:
    """It is told as unsupported, as is one whose CRS PROJ does not know. It costs this image alone."""
    places = places_of(pixels(1, 1, 2, 2), move=move)
    with pytest.raises(SourceError, match=says) as caught:
        list(places.on(image(**changes)))
    places.close()

    assert caught.value.status is Status.UNSUPPORTED


def test_places_that_are_closed_compute_and_yield_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a further part, nor those of another image."""
    monkeypatch.setattr(zone_cells, "_MOST_CELLS", 0)  # each zone has more
    places = places_of(*squares(3))
    parts = places.on(image())
    assert next(parts).zones.tolist() == [0]
    places.close()
    assert list(parts) == []
    assert cells_of(places, image(21)) == []
    assert places.n_computed == 3

    places = places_of(*squares(3))
    cells = places._cells

    def close(*arguments: Any) -> Any:
        places._is_closed = True
        return cells(*arguments)

    closing = Mock(wraps=close)
    monkeypatch.setattr(places, "_cells", closing)
    assert cells_of(places, image()) == []
    assert closing.call_count == 1


def test_so_many_cells_stay_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first parts of the grid that was asked for last. The others are loaded again."""
    monkeypatch.setattr(zone_cells, "_MOST_CELLS", 0)  # each zone has more
    monkeypatch.setattr(zone_cells, "_MOST_KEPT_CELLS", 2)
    places, load = places_of(*squares(3)), Mock(wraps=np.load)
    monkeypatch.setattr(np, "load", load)
    found = []
    for n_cols in (20, 20, 21, 21, 20):
        assert [cells.zones.tolist() for cells in places.on(image(n_cols))] == [[0], [1], [2]]
        found.append(load.call_count)
    places.close()

    assert found == [3, 4, 7, 8, 11]
    assert places.n_computed == 6


def test_zones_are_moved_once_for_the_last_two_crss(monkeypatch: pytest.MonkeyPatch) -> None:
    """Images of neighbouring UTM zones come in any order."""
    crss = [CRS, "EPSG:32632", CRS, "EPSG:32633", CRS, "EPSG:32632"]
    places = places_of(pixels(1, 1, 2, 2), move=lambda xs, ys: (xs, ys))
    project = Mock(wraps=places._project_shapes)
    monkeypatch.setattr(places, "_project_shapes", project)
    found = []
    for n, crs in enumerate(crss):
        assert len(list(places.on(image(20 + n, crs=crs)))) == 1
        found.append(project.call_count)
    places.close()

    assert found == [1, 2, 2, 3, 3, 4]


def test_a_zone_that_another_crs_does_not_have_or_breaks_is_mended_or_left_out() -> None:
    """Here one is twisted, and one is beyond the CRS. None of it brings a warning."""

    def twist(xs: Any, ys: Any) -> Any:
        return np.where(xs > 100, np.inf, xs), (ys + 20) * (50 - xs) / 50 - 20

    places = places_of(shapely.box(0, -40, 100, 0), shapely.box(90, -20, 110, -10), move=twist)
    shapes = places._in_crs_of(image())[:]
    places.close()

    assert shapes[1] is None
    assert (shapes[0].geom_type, shapes[0].is_valid, shapes[0].area) == ("MultiPolygon", True, 2000)


def test_edges_are_cut_where_they_would_be_off_by_a_tenth_of_a_pixel() -> None:
    """The middle of the edge is off by 16 m, and pixels have 10 m: four pieces. Others stay as they are."""

    def bend(xs: Any, ys: Any) -> Any:
        return xs, ys + np.where(xs < 0, 36 - 16 * ((xs + 100) / 80) ** 2, 0)

    bent, straight = shapely.box(-180, -40, -20, -20), shapely.box(20, -2, 170, -1)
    places = places_of(bent, straight, straight, move=bend)
    shapes = places._in_crs_of(image())[:]
    places.close()

    ring = [(x, bend(x, y)[1]) for x, y in shapely.segmentize(bent, 40).exterior.coords]
    assert shapely.get_num_coordinates(shapes).tolist() == [11, 5, 5]
    assert shapely.equals_exact(shapes[0], shapely.Polygon(ring), normalize=True)


@pytest.mark.parametrize("crs", ["EPSG:3413", "EPSG:5041"])
def test_a_polygon_at_the_other_pole_is_not_cut_into_endless_pieces(crs: str) -> None:
    """A CRS of the Arctic has Antarctica 1e23 m away. Other polygons have their cells."""
    arctic, antarctic = shapely.box(0, 89, 40, 90), shapely.box(0, -90, 10, -80)
    places = ZonePlaces(zones_of(arctic, antarctic, crs=LONLAT), RasterioProjector(), coverage="fraction")
    west, south = places._in_crs_of(image(crs=crs))[0:1][0].bounds[:2]
    at = Transform(1e4, 0, west, 0, -1e4, south + 12e4)

    found = cells_of(places, image(crs=crs, transform=at))

    assert {zone for zone, *_ in found} == {0}
    assert sum(share for *_, share in found) * 1e8 == pytest.approx(1.2e10 * 40 / 360 * np.pi, rel=0.1)
