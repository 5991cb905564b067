"""The lines of one image: statistics of its pixels in the zones that lie on it."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, cast, get_args

import numpy as np
from msgspec import Struct

from pixel_gather.core.errors import RequestError
from pixel_gather.core.model.source import Cost, CubeRow, Header
from pixel_gather.core.model.status import Status
from pixel_gather.core.plan.locate_window import Grid
from pixel_gather.core.plan.longitudes import TURN, first_longitude
from pixel_gather.features.zones.zone_statistics import (
    DEFAULT,
    ZoneStatistic,
    as_status,
    column_names,
    parse_statistics,
    zone_statistics,
)
from pixel_gather.tables.acquisitions import WHOLE_SHIFT, find_acquisition
from pixel_gather.tables.features import Features, Floats, Integers
from pixel_gather.tables.merge_zone_lines import Combine
from pixel_gather.tables.open_scene import (
    ImageAccess,
    ImagePlan,
    OpenedScene,
    PixelsAt,
    SceneValues,
    lookup_pixels,
    open_scene,
    plan_scene,
    read_scene,
)
from pixel_gather.tables.part_folder import ImageRecord, Lines, LineStatus, Measured, line_dtype, piece_dtype
from pixel_gather.tables.pixel_gate import PixelGate
from pixel_gather.tables.read_bands import Mask
from pixel_gather.tables.sample_at_pixels import Sampler, cut_runs
from pixel_gather.tables.table_values import Values
from pixel_gather.tables.zone_cells import Coverage, ZoneCells, ZonePlaces, check_zones

_MOST_CELLS: Final = 16_000_000
"""Cells of zones that are read at one time. Each takes some 4 bytes for every band."""

_MOST_PIECES: Final = 1_000_000
"""Cells of a zone that are kept to be merged. The lines of a larger one are not merged."""

_TOO_LARGE: Final = "the zone has too many pixels on this image; read it by rank or gather"


class _CellPixels(Struct, frozen=True):
    """The cells of zones, on any image of a scene: a `pixel_gather.tables.open_scene.Positions`."""

    cells: ZoneCells
    finest: Header

    def on(self, header: Header) -> PixelsAt:
        """Return the pixels of an image."""
        cells = self.cells
        if Grid.of(header) == Grid.of(self.finest):
            return PixelsAt(None, cells.runs)
        cols, rows = lookup_pixels(
            cells.cols.astype(np.int64), cells.rows.astype(np.int64), of=self.finest, on=header
        )
        inside = (cols >= 0) & (cols < header.width) & (rows >= 0) & (rows < header.height)
        which = np.flatnonzero(inside)
        return PixelsAt(which, cut_runs(cols[which], rows[which], header))


class ZoneTable(Struct, frozen=True, kw_only=True):
    """Statistics of images in polygons: a `pixel_gather.tables.image_work.TableKind`."""

    statistics: tuple[ZoneStatistic, ...]
    coverage: Coverage
    merge: bool = True
    """Whether images of one acquisition that share a zone make one line."""

    @classmethod
    def of(
        cls,
        statistics: str | Sequence[str] = DEFAULT,
        coverage: str = "fraction",
        merge: bool = True,  # noqa: FBT001, FBT002 # as the field of a request
    ) -> "ZoneTable":
        """Check them.

        Raises:
            RequestError: There is no such statistic or coverage.
        """
        known = get_args(Coverage.__value__)
        if coverage not in known:
            raise RequestError(f"it is {coverage!r}; write {', '.join(known)}", field="coverage")
        if not isinstance(merge, bool):
            raise RequestError(f"it is {merge!r}; write true or false", field="merge")
        return cls(statistics=parse_statistics(statistics), coverage=cast("Coverage", coverage), merge=merge)

    @property
    def about(self) -> Mapping[str, Any]:
        """What decides the table; see `TableKind`."""
        names = [each.name for each in self.statistics]
        return {"kind": "zones", "coverage": self.coverage, "statistics": names, "merge": self.merge}

    @property
    def combine(self) -> Combine | None:
        """What computes a line of several images; see `TableKind`."""
        return partial(zone_statistics, statistics=self.statistics) if self.merge else None

    def check(self, features: Features) -> Features:
        """Return polygons that are valid; see `TableKind`."""
        if features.geometries is None and not features.is_empty.all():
            raise RequestError("these are points: use pixel-gather points", field="features")
        return check_zones(features)

    @contextmanager
    def open_work(self, features: Features, values: Values, access: ImageAccess) -> Iterator["ZoneWork"]:
        """Return what computes the lines of an image; see `TableKind`."""
        with closing(ZonePlaces(features, access.projector, coverage=self.coverage)) as places:
            yield ZoneWork(
                values=values,
                statistics=self.statistics,
                access=access,
                places=places,
                sampler=Sampler(limiter=access.limiter, timeout_s=access.timeout_s),
                gate=PixelGate(_MOST_CELLS),
                merge=self.merge,
            )


@dataclass(slots=True, kw_only=True)
class ZoneWork:
    """What is computed of each image: a `pixel_gather.tables.image_work.ImageWork`."""

    values: Values
    statistics: tuple[ZoneStatistic, ...]
    access: ImageAccess
    places: ZonePlaces
    sampler: Sampler
    gate: PixelGate
    merge: bool

    @property
    def columns(self) -> tuple[str, ...]:
        """The statistics of each value."""
        return column_names(self.values.columns, self.statistics)

    async def measure(self, row: CubeRow, members: Integers | None, *, cost: Cost) -> Measured:
        """Return the lines of an image; see `pixel_gather.tables.image_work.ImageWork`."""
        scene = await self._open(row, cost)
        acquisition, place = find_acquisition(row, scene.finest) if self.merge else ("", ())
        corner = (*place[:2], self._columns_around(scene.finest)) if place else ()
        parts: list[Lines] = []
        pieces = [np.zeros(0, piece_dtype(len(self.values.values)))]
        reasons: list[str] = []
        found = self._cells(scene, members)
        while (cells := await asyncio.to_thread(next, found, None)) is not None:
            async with self.gate.hold(len(cells.cols)):
                lines, said, kept = await self._lines(scene, cells, cost, corner)
            lines["reason"] = np.where(lines["reason"] >= 0, lines["reason"] + len(reasons), -1)
            parts.append(lines)
            pieces += kept
            reasons += said
        lines = np.concatenate([*parts, np.zeros(0, line_dtype(self.columns))])
        lines = lines[np.argsort(lines["feature"], kind="stable")]
        record = ImageRecord(
            number=0,
            scene=scene.id,
            time_us=row.time_us,
            hrefs=tuple(dict.fromkeys(each.of.source.href for each in scene.bands.values())),
            etags=scene.etags,
            reasons=tuple(reasons),
            acquisition=acquisition,
            place=place,
            n_lines=len(lines),
            units=tuple(
                scene.unit_of(value) if statistic.keeps_unit else ""
                for value in self.values.values
                for statistic in self.statistics
            ),
            n_pieces=sum(map(len, pieces)),
        )
        whole = np.concatenate(pieces)
        return Measured(record, lines, whole[np.argsort(whole["feature"], kind="stable")])

    async def plan(self, row: CubeRow, members: Integers | None, *, cost: Cost) -> ImagePlan:
        """Return what an image would take; see `pixel_gather.tables.image_work.ImageWork`."""
        scene = await self._open(row, cost)
        plans = [ImagePlan(n_lines=0, n_tiles=0, n_requests=0, nbytes=0, decoded_nbytes=0)]
        found = self._cells(scene, members)
        while (cells := await asyncio.to_thread(next, found, None)) is not None:
            pixels = _CellPixels(cells, scene.finest)
            plans.append(await plan_scene(scene, pixels, n_lines=len(cells.zones), cost=cost))
        names = ImagePlan.__struct_fields__
        return ImagePlan(**{name: sum(getattr(each, name) for each in plans) for name in names})

    def _cells(self, scene: OpenedScene, members: Integers | None) -> Iterator[ZoneCells]:
        """Yield the cells of the wanted zones, some zones at a time."""
        for cells in self.places.on(scene.finest):
            yield cells if members is None else _only(cells, members, scene.finest)

    def _columns_around(self, header: Header) -> int:
        """Return how many columns go around the Earth; 0 if their number is not whole, or if none do."""
        assert header.transform is not None  # noqa: S101 # it has a place
        around = TURN / header.transform.a
        is_whole = abs(around - round(around)) < WHOLE_SHIFT
        has_longitudes = is_whole and first_longitude(Grid.of(header), self.access.projector) is not None
        return round(around) if has_longitudes else 0

    async def _open(self, row: CubeRow, cost: Cost) -> OpenedScene:
        return await open_scene(row, values=self.values, access=self.access, cost=cost)

    async def _lines(
        self, scene: OpenedScene, cells: ZoneCells, cost: Cost, corner: tuple[int, ...]
    ) -> tuple[Lines, Sequence[str], list[Lines]]:
        read = await read_scene(
            scene,
            _CellPixels(cells, scene.finest),
            len(cells.cols),
            values=self.values,
            sampler=self.sampler,
            cost=cost,
        )
        return await asyncio.to_thread(self._compute_lines, cells, read, corner)

    def _compute_lines(
        self, cells: ZoneCells, read: SceneValues, corner: tuple[int, ...]
    ) -> tuple[Lines, Sequence[str], list[Lines]]:
        """Return the lines of some zones, what their reasons are, and pieces that may be merged.

        Args:
            cells: Of the zones.
            read: Their values.
            corner: As of `_pieces`; empty if no pieces are wanted.
        """
        # One line for each zone, then one for each that is too large to be measured.
        n = len(cells.zones)
        pieces: list[Lines] = []
        lines = np.zeros(n + len(cells.refused), line_dtype(self.columns))
        lines["feature"] = np.concatenate([cells.zones, cells.refused])
        lines["reason"] = -1
        valid = np.full(n, np.inf)
        has_data, has_value = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
        # Some zones at a time: the statistics of each value, and how much of a zone has all of them.
        for some, part in cells.blocks():
            starts, coverage = cells.starts[some] - part.start, cells.coverage[part].astype(np.float64)
            bands = read.bands(part)
            of_values: list[Floats] = []
            for number, value in enumerate(self.values.values):
                computed: Floats = value.expression.evaluate(bands).astype(np.float64, copy=False)
                of_values.append(computed)
                counts: Mask = np.isfinite(computed)
                if read.is_kept is not None:
                    has_data[some] |= np.logical_or.reduceat(counts, starts)
                    counts &= read.is_kept[part]
                total, columns = zone_statistics(computed, counts, coverage, starts, self.statistics)
                valid[some] = np.minimum(valid[some], total / cells.whole[some])
                has_value[some] |= total > 0
                for index, column in enumerate(columns, number * len(columns)):
                    lines[f"v{index}"][some] = column
            if corner:
                kept = None if read.is_kept is None else read.is_kept[part]
                pieces.append(_pieces(cells, some, part, of_values, kept, corner))
        # A status for each zone. What could not be read counts for more than what has no data.
        failed = np.zeros(n, np.int64)
        if read.reasons:
            status = np.where(read.status == Status.OUTSIDE, 0, read.status)
            failed = as_status(status, cells.starts)
        found = np.where(has_value, LineStatus.OK, np.where(has_data, LineStatus.MASKED, LineStatus.NODATA))
        found = np.where(failed > 0, failed, found)
        codes = sorted({int(code) for code in failed[failed > 0]})
        reasons = [read.reasons[code] for code in codes]
        for index, code in enumerate(codes):
            lines["reason"][:n][failed == code] = index
        lines["status"] = np.concatenate([found, np.full(len(cells.refused), LineStatus.UNSUPPORTED)])
        # The reason of the zones that are too large comes after those of the image.
        if len(cells.refused):
            lines["reason"][n:] = len(reasons)
            reasons.append(_TOO_LARGE)
        # A zone that was not read as a whole, or that is too large, has neither values nor pieces.
        lines["valid"][:n] = np.where(failed > 0, 0.0, np.minimum(valid, 1.0))
        for number in range(len(self.columns)):
            lines[f"v{number}"][:n][failed > 0] = np.nan
            lines[f"v{number}"][n:] = np.nan
        unread = cells.zones[failed > 0]
        return lines, reasons, [each[~np.isin(each["feature"], unread)] for each in pieces]


def _pieces(  # what a block of zones is cut from
    cells: ZoneCells,
    some: slice,
    part: slice,
    values: Sequence[Floats],
    is_kept: Mask | None,
    corner: tuple[int, ...],
) -> Lines:
    """Return the cells of zones of which an image shows a part, or lacks pixels, but shows some.

    Args:
        cells: Of all zones.
        some: Which zones.
        part: Their cells.
        values: Each value of these cells; not finite where there is no data.
        is_kept: Whether the mask keeps them; None without a mask.
        corner: The first column and row of the image, counted from the origin of the CRS, and the number of
            columns around the Earth. Tiles on both sides of 180 degrees may count them apart by this number;
            0 if they do not go around.
    """
    starts = cells.starts[some] - part.start
    sizes = np.diff(np.append(starts, part.stop - part.start))
    is_known = np.isfinite(values)
    is_partial = cells.is_cut[some]
    if not is_known.all():
        is_partial = is_partial | ~np.logical_and.reduceat(is_known.all(axis=0), starts)
        is_partial &= np.logical_or.reduceat(is_known.any(axis=0), starts)
    is_large = sizes > _MOST_PIECES
    which = np.flatnonzero(np.repeat(is_partial & ~is_large, sizes)) + part.start
    large = np.flatnonzero(is_partial & is_large)
    found = np.zeros(len(which) + len(large), piece_dtype(len(values)))
    at = slice(0, len(which))
    zone = np.repeat(np.arange(some.start, some.stop), sizes)[which - part.start]
    found["feature"][at], found["whole"][at] = cells.zones[zone], cells.whole[zone]
    first, top, around = corner
    cols = cells.cols[which].astype(np.int64) + first
    found["col"][at] = (cols + around // 2) % around - around // 2 if around else cols
    found["row"][at] = cells.rows[which] + top
    found["coverage"][at] = cells.coverage[which]
    found["is_kept"][at] = True if is_kept is None else is_kept[which - part.start]
    for number, each in enumerate(values):
        found[f"v{number}"][at] = each[which - part.start]
    found["feature"][len(which) :], found["whole"][len(which) :] = cells.zones[some][large], -1.0
    return found


def _only(cells: ZoneCells, members: Integers, header: Header) -> ZoneCells:
    """Return the cells of some of the zones."""
    wanted = np.isin(cells.zones, members, assume_unique=True)
    sizes = np.diff(np.append(cells.starts, len(cells.cols)))
    which = np.repeat(wanted, sizes)
    cols, rows = cells.cols[which], cells.rows[which]
    return ZoneCells(
        zones=cells.zones[wanted],
        starts=np.append(0, np.cumsum(sizes[wanted])[:-1])[: int(wanted.sum())].astype(np.int64),
        cols=cols,
        rows=rows,
        coverage=cells.coverage[which],
        whole=cells.whole[wanted],
        is_cut=cells.is_cut[wanted],
        refused=cells.refused[np.isin(cells.refused, members)],
        runs=tuple(cut_runs(cols, rows, header)) if len(cols) else (),
    )
