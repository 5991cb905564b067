"""Which pixels polygons cover, and how much of each: once for each grid and polygon.

Polygons are taken some at a time, so that memory does not grow with their number. What was computed of a grid
is kept on disk, because other images have the same grid.
"""

import tempfile
import threading
from collections import OrderedDict
from collections.abc import Iterator
from copy import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
from msgspec import Struct

from pixel_gather.core.area import sides_of_shape, unwrapped_shape
from pixel_gather.core.errors import RequestError, SourceError
from pixel_gather.core.model.plurals import counted
from pixel_gather.core.model.source import Header
from pixel_gather.core.model.status import Status
from pixel_gather.core.model.window import Transform
from pixel_gather.core.plan.locate_window import Grid
from pixel_gather.core.plan.longitudes import HALF_TURN
from pixel_gather.io.crs import RasterioProjector
from pixel_gather.tables.covered_shares import Fractions, covered_shares
from pixel_gather.tables.features import LONLAT, Features, Floats, Integers
from pixel_gather.tables.part_folder import LineStatus
from pixel_gather.tables.read_bands import Mask
from pixel_gather.tables.sample_at_pixels import Indexes, TileRun, cut_runs
from pixel_gather.tables.shapes import Objects, Shapes, rasterise, union_of
from pixel_gather.tables.turned_shapes import cut_at_ends, turn_shapes, width_of_earth

if TYPE_CHECKING:
    from shapely.geometry.base import BaseGeometry

type Coverage = Literal["fraction", "centre", "touched"]

_MOST_CELLS: Final = 8_000_000
"""Of the boxes of polygons that are taken together."""

_MOST_OF_ONE: Final = 64_000_000
"""Of the box of one polygon. A larger one is told as unsupported."""

_MOST_OF_BLOCK: Final = 32_768
"""Cells whose statistics are computed together, unless one zone has more."""

_MOST_KEPT_CELLS: Final = 12_000_000
"""Cells that are in memory for the next image. Each takes 20 bytes."""

_CHORD: Final = 0.1
"""Pixels by which an edge may be off, where it is straight in another CRS."""

_MOST_POINTS: Final = 1 << 18
"""On the edges of a shape. Two kinds of shapes would take more: those that reach where a CRS goes to
infinity, as beside the other pole, and those that cross an end of the map."""

_LEAST_ACROSS: Final = 8
"""Pieces of an edge that goes more than half around the Earth. The ends of each tell which way it goes."""

_POLYGONS: Final = (3, 6)
"""shapely's type ids of polygons and multipolygons."""


class ZoneCells(Struct, frozen=True, kw_only=True):
    """The cells of some zones on one grid, zone by zone."""

    zones: Integers
    """Which features they are, tile by tile. Each has a cell."""

    starts: Integers
    """The first cell of each zone."""

    cols: Indexes
    rows: Indexes
    coverage: Fractions
    """Of each cell, above 0, up to 1."""

    whole: Floats
    """Of each zone, its size in cells, also beyond the image."""

    is_cut: Mask
    """Whether each zone reaches the edge of the image."""

    refused: Integers
    """Features that have too many cells."""

    runs: tuple[TileRun, ...]
    """The tiles that hold them, on the image that they were computed for."""

    def blocks(self) -> Iterator[tuple[slice, slice]]:
        """Yield some zones and their cells at a time, so few that all that is computed stays in the cache."""
        stops = np.append(self.starts[1:], len(self.cols))
        first = 0
        while first < len(self.zones):
            start = int(self.starts[first])
            last = max(first, int(np.searchsorted(stops, start + _MOST_OF_BLOCK, side="right")) - 1)
            yield slice(first, last + 1), slice(start, int(stops[last]))
            first = last + 1


def check_zones(features: Features) -> Features:
    """Return polygons that are valid, and do not cross the antimeridian as one piece.

    There is none where a feature has no area: its problem is EMPTY or NO_AREA. The notes tell how many were
    made valid.
    """
    import shapely  # noqa: PLC0415 # zones alone need it

    given = features.geometries
    if given is None:
        given = Shapes.of_array(np.full(len(features), None, object))
    problems, n = np.zeros(len(features), np.uint8), 0
    counts_degrees = RasterioProjector().counts_degrees(features.crs)

    def check(shapes: Objects, part: slice) -> Objects:
        """Return some shapes as polygons, and set their problems."""
        nonlocal n
        # Which ones are no polygons, or nothing at all?
        kinds, wrong = shapely.get_type_id(shapes), problems[part]
        has_none = shapely.is_missing(shapes) | shapely.is_empty(shapes)
        is_area = np.isin(kinds, _POLYGONS) | (kinds == 7)  # noqa: PLR2004 # a collection
        wrong[features.is_empty[part]] = LineStatus.EMPTY
        wrong[~has_none & ~is_area] = LineStatus.NO_AREA
        shapes[wrong != 0] = None
        # Those that cross 180 degrees in one piece may cross themselves on the map alone: lay them out first.
        if counts_degrees:
            for index in np.flatnonzero(_are_wide(shapes)):
                shapes[index] = unwrapped_shape(shapes[index])
        # Make polygons of invalid ones and of collections.
        is_invalid = ~shapely.is_valid(shapes) & (wrong == 0)
        n += int(is_invalid.sum())
        shapes[is_invalid] = shapely.make_valid(shapes[is_invalid])
        for index in np.flatnonzero((wrong == 0) & (is_invalid | (kinds == 7))):  # noqa: PLR2004 # as above
            shapes[index] = union_of([shapes[index]])
        # Cut those that lie across 180 degrees, or beyond it.
        if counts_degrees:
            for index in np.flatnonzero(_are_wide(shapes)):
                shapes[index] = union_of(sides_of_shape(unwrapped_shape(shapes[index])))
        # What is left of some may have no area.
        lost = (wrong == 0) & (shapely.is_empty(shapes) | (shapely.area(shapes) == 0))
        wrong[lost], shapes[lost] = LineStatus.NO_AREA, None
        return shapes

    checked = given.map_blocks(check)
    n_not = int((problems == LineStatus.NO_AREA).sum())
    notes = [
        *([f"{counted(n, 'invalid polygon')} made valid"] if n else []),
        *([f"{counted(n_not, 'feature')} without an area: the table says no_area"] if n_not else []),
    ]
    return replace(features, geometries=checked, problems=problems, notes=(*features.notes, *notes))


def _are_wide(shapes: Objects) -> Mask:
    """Return which shapes in degrees may cross 180 degrees: wider than half a turn, or beyond it."""
    import shapely  # noqa: PLC0415 # zones alone need it

    west, _, east, _ = shapely.bounds(shapes).T
    with np.errstate(invalid="ignore"):
        found: Mask = (east - west > HALF_TURN) | (east > HALF_TURN) | (west < -HALF_TURN)
    return found


class ZonePlaces:
    """Finds the cells of zones on images, and keeps what it has found."""

    def __init__(self, zones: Features, projector: RasterioProjector, *, coverage: Coverage) -> None:
        """Compute nothing yet."""
        self.zones = zones
        self.coverage: Coverage = coverage
        self._projector = projector
        self._folder = tempfile.TemporaryDirectory(prefix="pixel-gather-")
        self._lock = threading.Lock()
        self._is_closed = False
        self._grids: dict[Grid, int] = {}
        self._shapes: OrderedDict[str, Shapes] = OrderedDict()
        self._kept: OrderedDict[tuple[int, int], ZoneCells] = OrderedDict()
        self._n_parts: dict[int, int] = {}
        self.n_computed = 0
        """Pairs of grid and polygon whose cells were computed."""

    def close(self) -> None:
        """Remove what was kept on disk, when the thread has ended that computes more of it.

        A caller that is cancelled does not wait for its thread.
        """
        self._is_closed = True
        with self._lock:
            self._folder.cleanup()

    def on(self, header: Header) -> Iterator[ZoneCells]:
        """Yield the cells of the zones on an image, some zones at a time. May take long.

        Raises:
            SourceError: The image has no georeference, or PROJ finds no way to its CRS.
        """
        transform = header.transform
        if transform is None or not transform.is_usable or header.crs is None:
            what = "CRS" if header.crs is None else "geotransform"
            raise SourceError(f"it has no {what}", href=header.href, status=Status.UNSUPPORTED)
        with self._lock:
            grid = self._grids.setdefault(Grid.of(header), len(self._grids))
            if self._is_closed:
                return
            if grid not in self._n_parts:
                self._n_parts[grid] = self._compute(grid, header, transform)
        for part in range(self._n_parts[grid]):
            with self._lock:
                if self._is_closed:
                    return
                cells = self._part(grid, part, header)
            yield cells

    def _part(self, grid: int, part: int, header: Header) -> ZoneCells:
        found = self._kept.pop((grid, part), None)
        if found is None:
            with np.load(self._path(grid, part)) as arrays:
                loaded = {name: arrays[name] for name in arrays.files}
            runs = tuple(cut_runs(loaded["cols"], loaded["rows"], header)) if len(loaded["cols"]) else ()
            found = ZoneCells(**loaded, runs=runs)
        self._kept[(grid, part)] = found
        for other in [key for key in self._kept if key[0] != grid]:
            if self._n_kept() > _MOST_KEPT_CELLS:
                del self._kept[other]
        if self._n_kept() > _MOST_KEPT_CELLS:  # the first parts stay: an image takes all of them in order
            del self._kept[(grid, part)]
        return found

    def _n_kept(self) -> int:
        return sum(len(each.cols) for each in self._kept.values())

    def _path(self, grid: int, part: int) -> Path:
        return Path(self._folder.name, f"{grid}-{part}.npz")

    def _compute(self, grid: int, header: Header, transform: Transform) -> int:
        """Compute all parts of a grid, and keep them on disk. Return their number."""
        import shapely  # noqa: PLC0415 # as above

        shapes = turn_shapes(self._in_crs_of(header), Grid.of(header), self._projector)
        on_map = transform.is_rectilinear and transform.e < 0 < transform.a
        if not on_map:  # turned: the grid is straight in its own pixels alone
            to_pixels = partial(_to_pixels, transform=transform)
            shapes = shapes.map_blocks(lambda some, _: shapely.transform(some, to_pixels))
            transform = Transform(1, 0, 0, 0, -1, 0)
        west, south, east, north = shapes.bounds.T
        with np.errstate(invalid="ignore"):
            first_col = np.clip(np.floor((west - transform.c) / transform.a), 0, header.width)
            stop_col = np.clip(np.ceil((east - transform.c) / transform.a), 0, header.width)
            first_row = np.clip(np.floor((north - transform.f) / transform.e), 0, header.height)
            stop_row = np.clip(np.ceil((south - transform.f) / transform.e), 0, header.height)
        boxes = np.stack([first_col, first_row, stop_col, stop_row], axis=1)
        sizes = (stop_col - first_col) * (stop_row - first_row)
        members = np.flatnonzero(np.nan_to_num(sizes) > 0)
        tile = np.floor(first_row / header.tile_height), np.floor(first_col / header.tile_width)
        members = members[np.lexsort((tile[1][members], tile[0][members]))]  # so parts share few tiles
        self.n_computed += len(members)
        part, first, total = 0, 0, 0.0
        for at in range(len(members) + 1):
            size = sizes[members[at]] if at < len(members) else np.inf
            if self._is_closed:
                break
            if total + size > _MOST_CELLS and at > first:
                some = members[first:at]
                arrays = self._cells(some, shapes[some], boxes[some].astype(np.int64), transform, header)
                np.savez(self._path(grid, part), **arrays)  # type: ignore[arg-type] # all are arrays
                part, first, total = part + 1, at, 0.0
            total += size
        return part

    def _cells(
        self, members: Integers, shapes: Objects, boxes: Integers, transform: Transform, header: Header
    ) -> dict[str, np.ndarray[Any, Any]]:
        """Return the cells of some zones."""
        import shapely  # noqa: PLC0415 # as above

        wkbs, areas = shapely.to_wkb(shapes), shapely.area(shapes) / abs(transform.a * transform.e)
        zones, refused, whole, cut, counts = [], [], [], [], []
        cols, rows, covered = [], [], []
        for member, shape, wkb, area, box in zip(members, shapes, wkbs, areas, boxes.tolist(), strict=True):
            first_col, first_row, stop_col, stop_row = box
            if (stop_col - first_col) * (stop_row - first_row) > _MOST_OF_ONE:
                refused.append(member)
                continue
            found = self._measure_cover(shape, wkb, box, transform)
            at = np.flatnonzero(found)
            if not len(at):
                continue
            share = found.reshape(-1)[at].astype(np.float32)
            down, across = np.divmod(at.astype(np.int32), np.int32(stop_col - first_col))
            zones.append(member)
            counts.append(len(at))
            beyond = first_col == 0 or first_row == 0 or stop_col == header.width or stop_row == header.height
            total = share.sum(dtype=np.float64)
            whole.append(max(area, total) if beyond else total)
            cut.append(beyond)
            cols.append(across + np.int32(first_col))
            rows.append(down + np.int32(first_row))
            covered.append(share)
        return {
            "zones": np.array(zones, np.int64),
            "starts": np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.int64)[: len(zones)],
            "cols": np.concatenate([*cols, np.zeros(0, np.int32)]),
            "rows": np.concatenate([*rows, np.zeros(0, np.int32)]),
            "coverage": np.concatenate([*covered, np.zeros(0, np.float32)]),
            "whole": np.array(whole, np.float64),
            "is_cut": np.array(cut, np.bool_),
            "refused": np.array(refused, np.int64),
        }

    def _measure_cover(
        self, shape: "BaseGeometry", wkb: bytes, box: list[int], transform: Transform
    ) -> np.ndarray[Any, Any]:
        """Return how much of each cell of a box a zone covers, (y, x)."""
        first_col, first_row, stop_col, stop_row = box
        width, height = stop_col - first_col, stop_row - first_row
        west, north = transform.c + first_col * transform.a, transform.f + first_row * transform.e
        east, south = west + width * transform.a, north + height * transform.e  # as exactextract rounds
        if self.coverage == "fraction":
            box_on_map = (west, south, east, north)
            return covered_shares(shape, wkb=wkb, box=box_on_map, width=width, height=height)
        placed = Transform(a=transform.a, b=0, c=west, d=0, e=transform.e, f=north)
        return rasterise(shape, (height, width), placed, all_touched=self.coverage == "touched")

    def _in_crs_of(self, header: Header) -> Shapes:
        """Return all zones in the CRS of an image, their edges as straight as they were."""
        crs = header.crs or ""
        found = self._shapes.pop(crs, None)
        if found is None:
            try:
                found = self._project_shapes(header, crs)
            except RequestError as error:
                raise SourceError(str(error), href=header.href, status=Status.UNSUPPORTED) from error
        self._shapes[crs] = found
        if len(self._shapes) > 2:  # noqa: PLR2004 # neighbouring zones of UTM
            self._shapes.popitem(last=False)
        return found

    def _project_shapes(self, header: Header, crs: str) -> Shapes:
        import shapely  # noqa: PLC0415 # as above

        shapes, own = self.zones.geometries, self.zones.crs
        assert shapes is not None  # noqa: S101 # they are checked
        if crs == own:
            return shapes

        def project(at: Floats) -> Floats:
            xs, ys = self._projector.point_arrays(at[:, 0], at[:, 1], source_crs=own, target_crs=crs)
            return np.stack([xs, ys], axis=1)

        transform = header.transform
        assert transform is not None  # noqa: S101 # of the caller
        size = abs(transform.a * transform.e - transform.b * transform.d) ** 0.5
        earth = 0.0 if own == LONLAT else width_of_earth(crs, self._projector)  # in degrees they are cut
        _, poles = self._projector.point_arrays(
            np.zeros(2), np.array([-90.0, 90]), source_crs=LONLAT, target_crs=crs
        )

        def move(some: Objects, _: slice) -> Objects:
            """Return some shapes in the CRS of the image."""
            is_torn = _bend_edges(some, project, size, earth)
            moved: Objects = shapely.transform(some, project)
            if earth:
                cut_at_ends(moved, earth, poles)
            with np.errstate(invalid="ignore"):
                beyond = ~np.isfinite(shapely.bounds(moved)).all(axis=1)
            moved[beyond | is_torn] = None  # the CRS does not have all of it in one piece
            broken = ~shapely.is_valid(moved) & ~shapely.is_missing(moved)
            for index in np.flatnonzero(broken):
                moved[index] = union_of([shapely.make_valid(moved[index])])
            return moved

        return shapes.map_blocks(move)


def _bend_edges(shapes: Objects, project: Any, pixel: float, earth: float) -> Mask:
    """Add points on long edges, in place, so that each edge stays straight in its own CRS.

    Args:
        shapes: In their own CRS.
        project: Takes points of the shape (point, 2) to the CRS of the image.
        pixel: Size of the image's pixels, in the unit of its CRS.
        earth: Width of the Earth in this CRS, as from `width_of_earth`; 0 if edges cross no end of the map.

    Returns:
        Which shapes have an edge that begins at one end of the map and stops at another.
    """
    import shapely  # noqa: PLC0415 # as above

    which, least = np.arange(len(shapes)), shapely.length(shapes) / _MOST_POINTS
    is_torn = np.zeros(len(shapes), np.bool_)
    while len(which):
        lengths, longest, jumps = _edge_lengths(shapes[which], project, pixel, earth)
        is_bent = np.isfinite(lengths)
        is_long = is_bent & (longest > least)
        is_torn[which[is_bent & jumps & ~is_long]] = True
        which, least = which[is_long], least[is_long]
        shapes[which] = shapely.segmentize(shapes[which], np.maximum(lengths[is_long], least))
    return is_torn


def _edge_lengths(shapes: Objects, project: Any, pixel: float, earth: float) -> tuple[Floats, Floats, Mask]:
    """Return the longest edge that each shape may have, the longest that it has, and whether one jumps.

    All have the shape (n,), the lengths in the unit of the shapes' own CRS. The first is infinite where all
    edges are short enough. If ``earth`` is not 0, an edge that crosses an end of the map goes on at the other
    end. Then no edge may go more than half around the Earth. Arguments as of `_bend_edges`.
    """
    import shapely  # noqa: PLC0415 # as above

    lengths, longest = np.full(len(shapes), np.inf), np.zeros(len(shapes))
    parts, of_part = shapely.get_parts(shapes, return_index=True)
    rings, of_ring = shapely.get_rings(parts, return_index=True)
    at, index = shapely.get_coordinates(rings, return_index=True)
    if not len(at):
        return lengths, longest, longest > 0
    same = index[1:] == index[:-1]
    of = of_part[of_ring[index[1:][same]]]
    ends = project(at)
    middles = project(((at[1:] + at[:-1]) / 2)[same])
    with np.errstate(invalid="ignore"):  # both may be infinite
        halves = np.stack([middles - ends[:-1][same], ends[1:][same] - middles])
        if earth:
            halves[:, :, 0] -= np.round(halves[:, :, 0] / earth) * earth  # the short way round
        across, up = halves.sum(axis=0).T
        is_wide = np.abs(across) > earth / 2
        off = np.hypot(*((halves[1] - halves[0]) / 2).T)
        # The middle of an edge that jumps is near one of its ends.
        is_jump = (earth == 0) & np.isfinite(off) & (off > np.hypot(across, up) / 4)
        is_jump &= np.abs(across) > _CHORD * pixel  # not along a meridian to a pole, as in Mercator
    worst, jumps = np.zeros(len(shapes)), np.zeros(len(shapes), np.bool_)
    jumps[of[is_jump]] = True
    np.maximum.at(worst, of, np.where(np.isfinite(off), off, 0))
    np.maximum.at(longest, of, np.hypot(*(at[1:] - at[:-1])[same].T))
    pieces = np.ceil(np.sqrt(worst / (_CHORD * pixel)))
    if earth:
        np.maximum.at(pieces, of[is_wide], _LEAST_ACROSS)
    return np.where(pieces > 1, longest / np.maximum(pieces, 1), np.inf), longest, jumps


def _to_pixels(at: Floats, transform: Transform) -> Floats:
    """Return positions in pixels, rows counted down from 0."""
    cols, rows = transform.colrow(at[:, 0], at[:, 1])  # type: ignore[arg-type] # takes arrays, too
    return np.stack([np.asarray(cols), -np.asarray(rows)], axis=1)
