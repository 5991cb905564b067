"""The lines of one image: statistics of its pixels in the zones that lie on it."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, Final, cast, get_args

import numpy as np

from pixel_gather.core.errors import RequestError
from pixel_gather.core.model.source import Cost, CubeRow, Header
from pixel_gather.core.model.status import Status
from pixel_gather.core.plan.locate_window import Grid
from pixel_gather.features.zones.zone_statistics import (
    DEFAULT,
    ZoneStatistic,
    as_status,
    column_names,
    parse_statistics,
    zone_statistics,
)
from pixel_gather.tables.features import Features, Floats, Integers
from pixel_gather.tables.image_access import ImageAccess
from pixel_gather.tables.open_scene import (
    ImagePlan,
    OpenedScene,
    PixelsAt,
    SceneValues,
    lookup_pixels,
    open_scene,
    plan_scene,
    read_scene,
)
from pixel_gather.tables.parts import ImageRecord, Lines, LineStatus, line_dtype
from pixel_gather.tables.pixel_gate import PixelGate
from pixel_gather.tables.read_bands import Mask
from pixel_gather.tables.sample import Sampler, cut_runs
from pixel_gather.tables.values import Values
from pixel_gather.tables.zone_cells import Coverage, ZoneCells, ZonePlaces, check_zones

_MOST_CELLS: Final = 16_000_000
"""Cells of zones that are read at one time. Each takes some 4 bytes for every band."""

_TOO_LARGE: Final = "the zone has too many pixels on this image; read it by rank or gather"


@dataclass(frozen=True, slots=True)
class _CellPixels:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneTable:
    """Statistics of images in polygons: a `pixel_gather.tables.image_work.TableKind`."""

    statistics: tuple[ZoneStatistic, ...]
    coverage: Coverage

    @classmethod
    def of(cls, statistics: str | Sequence[str] = DEFAULT, coverage: str = "fraction") -> "ZoneTable":
        """Check them.

        Raises:
            RequestError: There is no such statistic or coverage.
        """
        known = get_args(Coverage.__value__)
        if coverage not in known:
            raise RequestError(f"it is {coverage!r}; write {', '.join(known)}", field="coverage")
        return cls(statistics=parse_statistics(statistics), coverage=cast("Coverage", coverage))

    @property
    def about(self) -> Mapping[str, Any]:
        """What decides the table; see `TableKind`."""
        names = [each.name for each in self.statistics]
        return {"kind": "zones", "coverage": self.coverage, "statistics": names}

    def checked(self, features: Features) -> Features:
        """Return polygons that are valid; see `TableKind`."""
        if features.geometries is None and not features.is_empty.all():
            raise RequestError("these are points: use pixel-gather points", field="features")
        return check_zones(features)

    @contextmanager
    def opened(self, features: Features, values: Values, access: ImageAccess) -> Iterator["ZoneWork"]:
        """Return what computes the lines of an image; see `TableKind`."""
        with closing(ZonePlaces(features, access.projector, coverage=self.coverage)) as places:
            yield ZoneWork(
                values=values,
                statistics=self.statistics,
                access=access,
                places=places,
                sampler=Sampler(limiter=access.limiter, timeout_s=access.timeout_s),
                gate=PixelGate(_MOST_CELLS),
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

    @property
    def columns(self) -> tuple[str, ...]:
        """The statistics of each value."""
        return column_names(self.values.columns, self.statistics)

    async def measure(
        self, row: CubeRow, members: Integers | None, *, cost: Cost
    ) -> tuple[ImageRecord, Lines]:
        """Return the lines of an image; see `pixel_gather.tables.image_work.ImageWork`."""
        scene = await self._open(row, cost)
        parts: list[Lines] = []
        reasons: list[str] = []
        found = self._cells(scene, members)
        while (cells := await asyncio.to_thread(next, found, None)) is not None:
            async with self.gate.hold(len(cells.cols)):
                lines, said = await self._lines(scene, cells, cost)
            lines["reason"] = np.where(lines["reason"] >= 0, lines["reason"] + len(reasons), -1)
            parts.append(lines)
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
            n_lines=len(lines),
            units=tuple(
                scene.unit_of(value) if statistic.keeps_unit else ""
                for value in self.values.values
                for statistic in self.statistics
            ),
        )
        return record, lines

    async def plan(self, row: CubeRow, members: Integers | None, *, cost: Cost) -> ImagePlan:
        """Return what an image would take; see `pixel_gather.tables.image_work.ImageWork`."""
        scene = await self._open(row, cost)
        plans = [ImagePlan(n_lines=0, n_tiles=0, n_requests=0, nbytes=0, decoded_nbytes=0)]
        found = self._cells(scene, members)
        while (cells := await asyncio.to_thread(next, found, None)) is not None:
            pixels = _CellPixels(cells, scene.finest)
            plans.append(await plan_scene(scene, pixels, n_lines=len(cells.zones), cost=cost))
        return ImagePlan(**{name: sum(getattr(each, name) for each in plans) for name in ImagePlan.__slots__})

    def _cells(self, scene: OpenedScene, members: Integers | None) -> Iterator[ZoneCells]:
        """Yield the cells of the wanted zones, some zones at a time."""
        for cells in self.places.on(scene.finest):
            yield cells if members is None else _only(cells, members, scene.finest)

    async def _open(self, row: CubeRow, cost: Cost) -> OpenedScene:
        return await open_scene(row, values=self.values, access=self.access, cost=cost)

    async def _lines(self, scene: OpenedScene, cells: ZoneCells, cost: Cost) -> tuple[Lines, Sequence[str]]:
        read = await read_scene(
            scene,
            _CellPixels(cells, scene.finest),
            len(cells.cols),
            values=self.values,
            sampler=self.sampler,
            cost=cost,
        )
        return await asyncio.to_thread(self._computed, cells, read)

    def _computed(self, cells: ZoneCells, read: SceneValues) -> tuple[Lines, Sequence[str]]:
        """Return the lines of some zones, and what their reasons are."""
        n = len(cells.zones)
        lines = np.zeros(n + len(cells.refused), line_dtype(self.columns))
        lines["feature"] = np.concatenate([cells.zones, cells.refused])
        lines["reason"] = -1
        valid = np.full(n, np.inf)
        has_data = np.zeros(n, np.bool_)
        for some, part in cells.blocks():
            starts, coverage = cells.starts[some] - part.start, cells.coverage[part].astype(np.float64)
            bands = read.bands(part)
            for number, value in enumerate(self.values.values):
                computed: Floats = value.expression.evaluate(bands).astype(np.float64, copy=False)
                counts: Mask = np.isfinite(computed)
                if read.is_kept is not None:
                    has_data[some] |= np.logical_or.reduceat(counts, starts)
                    counts &= read.is_kept[part]
                total, columns = zone_statistics(computed, counts, coverage, starts, self.statistics)
                valid[some] = np.minimum(valid[some], total / cells.whole[some])
                for index, column in enumerate(columns, number * len(columns)):
                    lines[f"v{index}"][some] = column
        failed = np.zeros(n, np.int64)
        if read.reasons:
            status = np.where(read.status == Status.OUTSIDE, 0, read.status)
            failed = as_status(status, cells.starts)
        found = np.where(valid > 0, LineStatus.OK, np.where(has_data, LineStatus.MASKED, LineStatus.NODATA))
        found = np.where(failed > 0, failed, found)
        codes = sorted({int(code) for code in failed[failed > 0]})
        reasons = [read.reasons[code] for code in codes]
        for index, code in enumerate(codes):
            lines["reason"][:n][failed == code] = index
        lines["status"] = np.concatenate([found, np.full(len(cells.refused), LineStatus.UNSUPPORTED)])
        if len(cells.refused):
            lines["reason"][n:] = len(reasons)
            reasons.append(_TOO_LARGE)
        lines["valid"][:n] = np.where(failed > 0, 0.0, np.minimum(valid, 1.0))
        for number in range(len(self.columns)):
            lines[f"v{number}"][:n][failed > 0] = np.nan
            lines[f"v{number}"][n:] = np.nan
        return lines, reasons


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
        refused=cells.refused[np.isin(cells.refused, members)],
        runs=tuple(cut_runs(cols, rows, header)) if len(cols) else (),
    )
