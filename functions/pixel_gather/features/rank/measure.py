"""Measure one scene at one level: its statistic, the error of that, and how much of the area it shows."""

import asyncio
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import replace
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import msgspec
import numpy as np
from msgspec import Struct

from pixel_gather.core.errors import SourceError
from pixel_gather.core.model.scaling import Grid, OffsetAppliedError, Scaling
from pixel_gather.core.model.source import Cost
from pixel_gather.core.model.status import Status
from pixel_gather.core.model.window import Window
from pixel_gather.core.ports import LevelledSource, LevelReader
from pixel_gather.features.rank.area_mask import ShapeOnImage, Shapes
from pixel_gather.features.rank.area_share import SHARE, Counted, counted_on, indicator
from pixel_gather.features.rank.grid import LevelGrid, lookup, mean_by_cell, nearest, pixel_size
from pixel_gather.features.rank.ranking_request import RankingRequest
from pixel_gather.features.rank.sampling_error import ErrorEstimate, LevelSample, Resampling, estimate, shows
from pixel_gather.features.rank.scenes import RankScene
from pixel_gather.features.rank.usable_levels import (
    Level,
    LevelBytes,
    LevelCost,
    resampling_of,
    stored_nbytes,
    usable_levels,
    worst_resampling,
)
from pixel_gather.tables.find_bands import BandOf
from pixel_gather.tables.indexes import NORMALISED
from pixel_gather.tables.pixel_gate import PixelGate
from pixel_gather.tables.read_bands import Mask, check_band, read_stored

_STRIP_PIXELS: Final = 4_000_000
_MOST_EXACT: Final = 200_000_000
"""Pixels of one scene whose values are kept for a percentile."""

_KEEPS_MEANS: Final = "the overviews keep means"
_OFFSET_APPLIED: Final = "the catalog's offset is not applied: the pixels have it already"
_IGNORES_SCALING: Final = "a scale or offset that is no number is ignored"
_IMPOSSIBLE: Final = "a normalised difference lies between -1 and 1: check scale and offset"
_IN_PATCHES: Final = "pixels without data lie together"

type OnLevel = Callable[[int, int, int, float], None]


class MeasuredScene(Struct, frozen=True, kw_only=True):
    """What one scene showed at one level."""

    value: float
    """NaN if no pixel counts."""

    error: float
    """Standard error: 0 at full resolution, infinite if the level cannot tell."""

    level: Level
    n_pixels: int
    """Pixels that count."""

    valid: float
    """Share of the area with data, 0 to 1."""

    clear: float
    """Share of the area with data that the mask keeps; ``valid`` without a mask."""

    valid_range: tuple[float, float]
    """95 % interval of ``valid``."""

    clear_range: tuple[float, float]

    remarks: str | None
    """What the error relies on that the file does not say, and what was ignored of its metadata."""

    etags: tuple[str | None, ...]
    """Versions of the scene's files, in the order of `RankScene.hrefs`."""

    levels: tuple[Level, ...]
    """The levels that the scene may be read at, coarsest first."""

    level_nbytes: tuple[float, ...]
    """Bytes of each of them, with all bands and the mask."""

    factor: float = 1.0
    """Pixels of full resolution along one side of a pixel that was read."""


class _Band(Struct, frozen=True):
    """A band whose file is open."""

    of: BandOf
    opened: LevelledSource
    overviews: Sequence[LevelledSource]
    scaling: Scaling

    @property
    def ignores_scaling(self) -> bool:
        """Whether the file declares a scale or offset that is no number."""
        return self.opened.header.ignores_scaling

    @property
    def may_lack_data(self) -> bool:
        """Whether the file can say that a pixel has no data."""
        header = self.opened.header
        has_nodata = header.nodata is not None or self.scaling.nodata is not None
        return has_nodata or self.opened.hides_pixels or np.dtype(header.dtype).kind == "f"

    def near(self, size: float) -> LevelledSource:
        """Return the level whose pixels are closest to a size on the map."""
        levels = [self.opened, *self.overviews]
        return min(levels, key=lambda level: abs(math.log(pixel_size(level.header) / size)))


class SceneReader(Struct, frozen=True, kw_only=True):
    """Measures scenes of one ranking. Holds nothing between two calls."""

    request: RankingRequest
    reader: LevelReader
    shapes: Shapes
    on_level: "OnLevel" = lambda _first, _stop, _nbytes, _full_nbytes: None
    """Called when a level is read, with the place of its tiles in the file.

    Arguments: the first byte, the byte after the last, the number of bytes, and that of full resolution.
    """

    gate: PixelGate = msgspec.field(default_factory=PixelGate)
    """Bounds the pixels of all scenes that are in memory."""

    async def measure(self, scene: RankScene, *, step: int | None, cost: Cost) -> MeasuredScene:
        """Measure a scene.

        Step 0 is the coarsest level, None is full resolution. The scene has all bands. Adds to the cost.

        Raises:
            SourceError: A file cannot be read, or does not fit the others.
        """
        view, etags = await self._view(scene, step=step, cost=cost)
        said = [_IGNORES_SCALING] if any(band.ignores_scaling for band in view.bands.values()) else []
        level_nbytes = await view.level_nbytes()
        levels = tuple(level_nbytes)
        level = None if step is None else levels[min(step, len(levels) - 1)]
        try:
            measured = await view.measure(level)
        except OffsetAppliedError:
            view, said = view.without_claims(), [*said, _OFFSET_APPLIED]
            measured = await view.measure(level)
        if measured.remarks:
            said.append(measured.remarks)
        if self.request.by in NORMALISED and abs(measured.estimate.value) > 1:
            said.append(_IMPOSSIBLE)
        valid, clear = (view.share(each, measured.n_area) for each in (measured.valid, measured.clear))
        return MeasuredScene(
            value=measured.estimate.value,
            error=measured.estimate.error,
            level=level,
            n_pixels=measured.estimate.n_pixels,
            valid=valid.n,
            clear=clear.n,
            valid_range=valid[1:],
            clear_range=clear[1:],
            remarks="; ".join(said) or None,
            etags=etags,
            levels=levels,
            level_nbytes=tuple(level_nbytes.values()),
            factor=measured.factor,
        )

    async def _view(
        self, scene: RankScene, *, step: int | None, cost: Cost
    ) -> tuple["_SceneView", tuple[str | None, ...]]:
        """Open a scene's files, and lay the area on them. Return the files' versions, too."""
        opened = {href: await self.reader.open_(href, overview=None, cost=cost) for href in scene.hrefs}
        overviews = {href: () if step is None else await each.overviews() for href, each in opened.items()}
        bands = {
            name: _Band(
                band, opened[band.source.href], overviews[band.source.href], self._scaling(band, opened)
            )
            for name, band in ({} if self._is_of_mask else scene.bands).items()
        }
        mask = None
        if scene.mask is not None and self.request.mask is not None:
            href = scene.mask.source.href
            check_band(opened[href].header, scene.mask.number)
            mask = _Band(scene.mask, opened[href], overviews[href], Scaling())
        finest = min(
            [*bands.values(), *([mask] if mask else [])], key=lambda each: pixel_size(each.opened.header)
        )
        view = _SceneView(
            request=self.request,
            bands=bands,
            mask=mask,
            finest=finest,
            shape=self.shapes.on(finest.opened.header),
            on_level=self.on_level,
            gate=self.gate,
        )
        return view, tuple(each.header.etag for each in opened.values())

    async def level_costs(self, scene: RankScene, *, cost: Cost) -> list[LevelCost]:
        """Return what each level of a scene takes, coarsest first. Reads headers and no pixel.

        The scene has all bands. Adds to the cost.

        Raises:
            SourceError: A file cannot be read, or does not fit the others.
        """
        view, _ = await self._view(scene, step=0, cost=cost)
        return await view.level_costs()

    async def picture(self, scene: RankScene, *, side: int, cost: Cost) -> dict[str, Grid]:
        """Return the bands of a scene in the area, by name, at a level of about so many pixels along a side.

        NaN where there is no data or outside of the area. No mask is applied. Bands whose file has no such
        overview are read at full resolution and thinned out. The longer side has at most twice as many. The
        scene has all bands. Adds to the cost.

        Raises:
            SourceError: A file cannot be read.
        """
        view, _ = await self._view(scene, step=0, cost=cost)
        try:
            return await view.picture(side)
        except OffsetAppliedError:
            return await view.without_claims().picture(side)

    @property
    def _is_of_mask(self) -> bool:
        return self.request.by in ("clear", "cloud")

    def _scaling(self, band: BandOf, opened: Mapping[str, LevelledSource]) -> Scaling:
        header = opened[band.source.href].header
        check_band(header, band.number)
        return Scaling.of(header, band.number, band.source, raw=self.request.raw)


class _Measure(Struct, frozen=True):
    estimate: ErrorEstimate
    valid: Counted
    """Pixels of full resolution with data in the area."""

    clear: Counted
    n_area: float
    """Those of the area on the image."""

    factor: float = 1.0
    remarks: str | None = None


@dataclass(slots=True)
class _Totals:
    """The strips of full resolution, added up."""

    n_whole: int = 0
    """Pixels of the area on the image."""

    n_area: int = 0
    """Those of them that are looked at."""

    n_valid: int = 0
    n_kept: int = 0
    total: float = 0.0
    n_values: int = 0
    values: list[Grid] = field(default_factory=list)
    grids: list[tuple[dict[str, Grid], Grid]] = field(default_factory=list)
    masks: list[tuple[Mask, Mask, Mask]] = field(default_factory=list)
    """Of every n-th pixel: those with data, those of them that count, and the area."""

    def add(
        self, request: RankingRequest, bands: Mapping[str, Grid], known: Mask, kept: Mask, area: Mask
    ) -> None:
        """Add one strip."""
        is_valid = known.copy()
        for band in bands.values():
            is_valid &= np.isfinite(band)
        counted = kept & is_valid
        self.n_area += int(area.sum())
        self.n_valid += int(is_valid.sum())
        self.n_kept += int(counted.sum())
        if request.precision.kind == "every":
            self.masks.append((is_valid, counted, area))
        if request.expression is None:
            if request.precision.kind == "every":
                share, of = _share_of(request.by, area, is_valid, counted)
                self.grids.append(({"share": share.astype(np.float64)}, of.astype(np.float64)))
            return
        if request.precision.kind == "every":
            self.grids.append((dict(bands), counted.astype(np.float64)))
            return
        values = request.expression.evaluate(bands)[counted]
        values = values[np.isfinite(values)]
        self.n_values += values.size
        if request.statistic.kind == "quantile":
            if self.n_values > _MOST_EXACT:
                raise SourceError(
                    f"percentiles are computed of at most {_MOST_EXACT:,} pixels: ask for the mean, a "
                    "smaller area or another precision",
                    href="",
                    status=Status.UNSUPPORTED,
                )
            self.values.append(values)
        elif request.statistic.kind == "share":
            self.total += float(np.count_nonzero(values > request.statistic.at))
        else:
            self.total += float(values.sum())

    def measure(self, request: RankingRequest, every: int) -> _Measure:
        """Return the statistic of all strips."""
        if request.precision.kind == "every":
            counts = self._count_pixels(every)
            return _Measure(self._estimate(request, every), *counts, float(self.n_whole), float(every))
        if request.expression is None:
            n, of = {
                "valid": (self.n_valid, self.n_area),
                "clear": (self.n_kept, self.n_area),
                "cloud": (self.n_valid - self.n_kept, self.n_valid),
            }[request.by]
            found = ErrorEstimate(n / of if of else math.nan, 0.0, of)
        elif request.statistic.kind == "quantile":
            values = np.concatenate(self.values) if self.values else np.zeros(0)
            found = ErrorEstimate(request.statistic.of(values), 0.0, self.n_values)
        else:
            found = ErrorEstimate(
                self.total / self.n_values if self.n_values else math.nan, 0.0, self.n_values
            )
        counts = Counted.exactly(self.n_valid), Counted.exactly(self.n_kept)
        return _Measure(found, *counts, float(self.n_area))

    def _count_pixels(self, every: int) -> tuple[Counted, Counted]:
        """Return how many pixels have data and count, by every n-th pixel."""
        if not self.n_area:
            return Counted.exactly(0), Counted.exactly(0)
        valid, kept, area = (np.concatenate(each) for each in zip(*self.masks, strict=True))
        cell = self.n_whole / self.n_area
        found = [
            counted_on(each, area.astype(np.float64), resampling="nearest", factor=float(every))
            for each in (valid, kept)
        ]
        return tuple(Counted(*(n / every**2 * cell for n in each)) for each in found)  # type: ignore[return-value] # two

    def _estimate(self, request: RankingRequest, every: int) -> ErrorEstimate:
        if not self.grids:
            return ErrorEstimate(math.nan, math.inf, 0)
        names = self.grids[0][0]
        sample = LevelSample(
            bands={name: np.concatenate([bands[name] for bands, _ in self.grids]) for name in names},
            weights=np.concatenate([weights for _, weights in self.grids]),
            resampling="nearest",
            factor=float(every),
            is_indicator=request.expression is None,
        )
        return estimate(sample, request.expression or SHARE, request.statistic)


@dataclass(slots=True, kw_only=True)
class _SceneView:
    """The area on one scene."""

    request: RankingRequest
    bands: Mapping[str, _Band]
    mask: _Band | None
    finest: _Band
    """The band whose pixels the others are laid over."""

    shape: ShapeOnImage
    on_level: "OnLevel"
    gate: PixelGate
    _totals: _Totals = field(init=False, default_factory=_Totals)

    def share(self, counted: Counted, n_area: float) -> Counted:
        """Return a number of pixels as a share of the area.

        Args:
            counted: Pixels of full resolution.
            n_area: Those of the area on the image, counted in the same way.
        """
        header = self.finest.opened.header
        on_image = self.shape.share_on(width=header.width, height=header.height)
        return counted.share_of(n_area / on_image) if n_area and on_image else Counted.exactly(0)

    async def level_nbytes(self) -> dict[Level, float]:
        """Return the levels that this scene may be read at, coarsest first, and the bytes of each."""
        compared = await self._compare_levels(compares_all=False)
        read = [each for each in compared if each.level is None or (each.why_not or self._only_full) is None]
        return {each.level: await self._all_nbytes(each) for each in read}

    async def level_costs(self) -> list[LevelCost]:
        """Return what each level takes, coarsest first, and whether a ranking reads it."""
        return [
            LevelCost(
                level=each.level,
                factor=1.0 if each.level is None else math.sqrt(math.prod(self._grid(each.level).factors)),
                n_pixels=each.part.n_pixels,
                nbytes=round(await self._all_nbytes(each)),
                decoded_nbytes=each.part.n_pixels * self._itemsize,
                why_not=each.why_not if each.level is None else self._only_full or each.why_not,
            )
            for each in await self._compare_levels(compares_all=True)
        ]

    @property
    def _itemsize(self) -> int:
        bands = [*self.bands.values(), *([] if self.mask is None else [self.mask])]
        return sum(np.dtype(each.opened.header.dtype).itemsize for each in bands)

    @property
    def _only_full(self) -> str | None:
        """Say why this scene is read at full resolution alone; None if it is not."""
        if not self.bands and resampling_of(self.finest.opened) != "nearest":
            return "the file does not say that its overviews are a sample of its classes"
        if self.request.by == "valid" and self._resampling != "nearest":
            return "overviews lose or gain pixels next to nodata"
        is_mean = self.request.statistic.kind == "mean"
        if not shows(self._resampling, is_mean=is_mean):
            return (
                "the file says that its overviews were made by a method that moves means"
                if is_mean
                else "the file does not say that its overviews are a sample of its pixels"
            )
        return None

    @property
    def _resampling(self) -> Resampling:
        """How the overviews of all bands were made."""
        return worst_resampling(each.opened for each in (*self.bands.values(), *self._of_classes))

    @property
    def _of_classes(self) -> Sequence[_Band]:
        """The mask, if a share of its classes is all that is wanted."""
        return [] if self.bands or self.mask is None else [self.mask]

    async def _compare_levels(self, *, compares_all: bool) -> list[LevelBytes]:
        return await usable_levels(
            self.finest.opened,
            self.finest.overviews,
            self.shape.window,
            self.finest.of.number,
            compares_all=compares_all,
        )

    def _grid(self, level: Level) -> LevelGrid:
        full = self.finest.opened.header
        header = full if level is None else self.finest.overviews[level].header
        return LevelGrid(window=self.shape.window, full=full, level=header)

    async def _all_nbytes(self, at: LevelBytes) -> float:
        """Return the bytes of all bands and of the mask where the finest band is read at a level."""
        grid, total = self._grid(at.level), at.nbytes
        size = pixel_size(grid.level)
        others = [(each, each.near(size)) for each in self.bands.values() if each is not self.finest]
        if self.mask is not None and self.mask is not self.finest:
            others.append((self.mask, self._level_of_mask(self.mask, size)))
        for band, level in others:
            part = _window_around(*_edges_on(level, at.part, of=grid))
            total += await stored_nbytes(band.opened, level, part, band.of.number)
        return total

    def _level_of_mask(self, mask: _Band, size: float) -> LevelledSource:
        """Return the level that the mask is read at: a sample only for a sample of pixels."""
        is_sample = self._resampling == "nearest" and resampling_of(mask.opened) == "nearest"
        return mask.near(size) if is_sample else mask.opened

    async def measure(self, level: Level) -> _Measure:
        """Measure at a level."""
        return await (self.exact() if level is None else self.at(level))

    def without_claims(self) -> "_SceneView":
        """Return the same view without the offsets that a catalog claims."""
        bands = {
            name: replace(band, scaling=band.scaling.without_claim()) for name, band in self.bands.items()
        }
        finest = next((bands[name] for name, band in self.bands.items() if band is self.finest), self.finest)
        return replace(self, bands=bands, finest=finest)

    async def at(self, level: int) -> _Measure:
        """Measure at an overview."""
        opened, grid = self.finest.overviews[level], self._grid(level)
        part = grid.part
        assert part is not None  # noqa: S101 # a level without a part is not chosen
        of_mask = 0 if self.mask is None else min(self.shape.window.n_pixels, _STRIP_PIXELS)
        async with self.gate.hold(max(part.n_pixels, of_mask)):
            return await self._at_part(opened, grid, part)

    async def _at_part(self, opened: LevelledSource, grid: LevelGrid, part: Window) -> _Measure:
        await self._tell_place(opened, part)
        area = await asyncio.to_thread(self.shape.shares, *grid.edges(part))
        bands = {name: await self._band_at(band, grid, part) for name, band in self.bands.items()}
        across, down = grid.factors
        if not bands:  # a share of classes, of a file whose overviews hold classes
            assert self.mask is not None and self.request.mask is not None  # noqa: S101, PT018 # as above
            stored, is_valid = await read_stored(opened, part, self.mask.of.number)
            clear = is_valid & ~self.request.mask.drops(stored)
            return await asyncio.to_thread(
                self._of_shares, area, is_valid, clear, resampling_of(self.mask.opened), across * down
            )
        kept = None if self.mask is None else await self._kept_shares(self.mask, grid, part)
        return await asyncio.to_thread(self._of_level, bands, area, kept, across, down)

    async def _tell_place(self, opened: LevelledSource, part: Window) -> None:
        """Tell where the finest band's file has the tiles of a level, unless only GDAL knows."""
        full, number = self.finest.opened, self.finest.of.number
        if (span := await opened.stored_span(part, [number])) is not None:
            nbytes, first, stop = span
            full_nbytes = await stored_nbytes(full, full, self.shape.window, number)
            self.on_level(first, stop, nbytes, full_nbytes)

    def _of_level(
        self, bands: Mapping[str, Grid], area: Grid, kept: Grid | None, across: float, down: float
    ) -> _Measure:
        is_valid = np.logical_and.reduce([np.isfinite(band) for band in bands.values()])
        factor = math.sqrt(across * down)
        count = partial(counted_on, resampling=self._resampling, factor=factor)
        n_area = _all_of(area, factor)
        valid = count(is_valid, area)
        clear = valid if kept is None else count(is_valid, area * kept)
        if self.request.expression is None:
            sample = indicator(is_valid, area, self._resampling, factor)
            return _Measure(estimate(sample, SHARE, self.request.statistic), valid, clear, n_area, factor)
        sample = LevelSample(
            bands=dict(bands),
            weights=area,
            kept=kept,
            resampling=self._resampling,
            factor=factor,
            quantum=self._quantum,
        )
        found = estimate(sample, self.request.expression, self.request.statistic)
        return _Measure(found, valid, clear, n_area, factor, self._remarks)

    @property
    def _remarks(self) -> str | None:
        """Say what the error of an overview relies on."""
        said = [_KEEPS_MEANS] if self._resampling == "unknown" else []
        if self._resampling != "nearest" and any(band.may_lack_data for band in self.bands.values()):
            said.append(_IN_PATCHES)
        return "; ".join(said) or None

    def _of_shares(
        self, area: Grid, is_valid: Mask, kept: Mask, resampling: Resampling, cell: float
    ) -> _Measure:
        counted, of = _share_of(self.request.by, area, is_valid, kept)
        factor = math.sqrt(cell)
        found = estimate(indicator(counted, of, resampling, factor), SHARE, self.request.statistic)
        valid, clear = (
            counted_on(each, area, resampling=resampling, factor=factor) for each in (is_valid, kept)
        )
        return _Measure(found, valid, clear, _all_of(area, factor), factor)

    @property
    def _quantum(self) -> float:
        """The smallest step of a value that is one band of integers."""
        expression = self.request.expression
        if expression is None or not expression.is_linear:
            return 0.0
        (band,) = self.bands.values()
        return abs(band.scaling.scale) if np.dtype(band.opened.header.dtype).kind in "iu" else 0.0

    async def _band_at(self, band: _Band, grid: LevelGrid, part: Window) -> Grid:
        """Return a band's values on the pixels of a level of the finest band."""
        level = band.near(pixel_size(grid.level))
        cols, rows = _centres(part)
        return await _lay_on_finest(band, level, cols, rows, of=grid)

    async def _kept_shares(self, mask: _Band, grid: LevelGrid, part: Window) -> Grid:
        """Return which share of each of a level's pixels the mask keeps. It is read in strips."""
        assert self.request.mask is not None  # noqa: S101 # of the caller
        wanted = self._level_of_mask(mask, pixel_size(grid.level))
        shares: list[Grid] = []
        n_rows = max(1, int(_STRIP_PIXELS / max(part.width * grid.factors[0] * grid.factors[1], 1)))
        for start in range(0, part.height, n_rows):
            strip = part.rows(start, min(start + n_rows, part.height))
            cols, rows = _edges_on(wanted, strip, of=grid)
            window = _window_around(cols, rows).clipped(
                width=wanted.header.width, height=wanted.header.height
            )
            if window is None:
                shares.append(np.zeros((strip.height, strip.width)))
                continue
            stored, is_valid = await read_stored(wanted, window, mask.of.number)
            kept = is_valid & ~self.request.mask.drops(stored)
            cols, rows = cols - window.col_off, rows - window.row_off
            shares.append(await asyncio.to_thread(partial(mean_by_cell, kept, cols, rows)))
        return np.asarray(np.clip(np.concatenate(shares), 0.0, 1.0))

    async def picture(self, side: int) -> dict[str, Grid]:
        """Return the area's bands at a level of about so many pixels along the longer side."""
        window, full = self.shape.window, self.finest.opened.header
        levels = [self.finest.opened, *self.finest.overviews]
        longer = max(window.width, window.height)
        enough = [each for each in levels if longer * each.header.width / full.width >= side]
        level = enough[-1] if enough else self.finest.opened
        grid = LevelGrid(window=window, full=full, level=level.header)
        part = grid.part
        if part is None or part.n_pixels > _STRIP_PIXELS:
            return {}
        step = max(max(part.width, part.height) // side, 1)
        area = await asyncio.to_thread(self.shape.shares, *grid.edges(part))
        shown = self.bands or ({} if self.mask is None else {self.mask.of.source.band or "mask": self.mask})
        found = {name: await self._band_at(band, grid, part) for name, band in shown.items()}
        return {
            name: np.where(area > 0, band, np.nan)[step // 2 :: step, step // 2 :: step]
            for name, band in found.items()
        }

    async def exact(self) -> _Measure:
        """Measure at full resolution, in strips; with every n-th pixel where the request says so."""
        header = self.finest.opened.header
        inside = self.shape.window.clipped(width=header.width, height=header.height)
        if inside is None:
            return _Measure(ErrorEstimate(math.nan, 0.0, 0), Counted.exactly(0), Counted.exactly(0), 1.0)
        await self._tell_place(self.finest.opened, inside)
        for strip in _strips(inside, header.tile_height):
            async with self.gate.hold(strip.n_pixels):
                await self._add_strip(strip, first=(inside.col_off, inside.row_off))
        return self._totals.measure(self.request, self.request.precision.step)

    async def _add_strip(self, strip: Window, *, first: tuple[int, int]) -> None:
        """Add one strip to the totals.

        Args:
            strip: Lies on the finest band's image.
            first: Column and row of the area's first pixel, which every n-th pixel is counted from.
        """
        header, every = self.finest.opened.header, self.request.precision.step
        cols, rows = (
            np.arange(start, stop)[(np.arange(start, stop) - origin - every // 2) % every == 0]
            for start, stop, origin in (
                (strip.col_off, strip.col_stop, first[0]),
                (strip.row_off, strip.row_stop, first[1]),
            )
        )
        in_shape = await asyncio.to_thread(self.shape.mask, strip)
        self._totals.n_whole += int(in_shape.sum())
        area = in_shape[np.ix_(rows - strip.row_off, cols - strip.col_off)]
        if not area.any():
            return
        grid = LevelGrid(window=strip, full=header, level=header)
        centres = cols + 0.5, rows + 0.5
        bands = {
            name: await _lay_on_finest(band, band.opened, *centres, of=grid)
            for name, band in self.bands.items()
        }
        kept, known = area.copy(), area.copy()
        if self.mask is not None and self.request.mask is not None:
            stored, is_valid = await _laid_stored(self.mask, self.mask.opened, *centres, of=grid)
            kept &= is_valid & ~self.request.mask.drops(stored)
            if not bands:
                known &= is_valid
        await asyncio.to_thread(self._totals.add, self.request, bands, known, kept, area)


def _all_of(area: Grid, factor: float) -> float:
    """Return the area's pixels, summed as `counted_on` sums those that count: the share of all is 1."""
    return float(area.ravel().sum()) * factor**2


def _share_of(
    by: str, area: np.ndarray[Any, Any], is_valid: Mask, kept: Mask
) -> tuple[Mask, np.ndarray[Any, Any]]:
    """Return the pixels that clear, cloud or valid counts, and the area that they are a share of."""
    match by:
        case "clear":
            return kept, area
        case "cloud":
            return is_valid & ~kept, area * is_valid
        case _:
            return is_valid, area


def _centres(part: Window) -> tuple[Grid, Grid]:
    return (
        np.arange(part.col_off, part.col_stop) + 0.5,
        np.arange(part.row_off, part.row_stop) + 0.5,
    )


def _window_around(cols: Grid, rows: Grid) -> Window:
    """Return the whole pixels around positions."""
    left, top = math.floor(cols.min()), math.floor(rows.min())
    return Window(
        col_off=left,
        row_off=top,
        width=max(math.ceil(cols.max()) - left, 1),
        height=max(math.ceil(rows.max()) - top, 1),
    )


def _edges_on(other: LevelledSource, part: Window, *, of: LevelGrid) -> tuple[Grid, Grid]:
    """Return the edges of a level's pixels in the pixels of another image."""
    edges = (
        np.arange(part.col_off, part.col_stop + 1).astype(np.float64),
        np.arange(part.row_off, part.row_stop + 1).astype(np.float64),
    )
    return lookup(*edges, of=of.level, on=other.header)


async def _lay_on_finest(
    band: _Band, level: LevelledSource, cols: Grid, rows: Grid, *, of: LevelGrid
) -> Grid:
    """Return a band's scaled values at positions on the finest band's level; NaN outside."""
    stored, is_valid = await _laid_stored(band, level, cols, rows, of=of)
    band.scaling.check(stored, is_valid)
    return await asyncio.to_thread(band.scaling.apply, stored, is_valid)


async def _laid_stored(
    band: _Band, level: LevelledSource, cols: Grid, rows: Grid, *, of: LevelGrid
) -> tuple[np.ndarray[Any, Any], Mask]:
    """Return a band's stored values at positions on the finest band's level; not valid outside."""
    x, y = lookup(cols, rows, of=of.level, on=level.header)
    at_x, used_x = nearest(x, level.header.width)
    at_y, used_y = nearest(y, level.header.height)
    found = np.zeros((rows.size, cols.size), level.header.dtype)
    is_valid = np.zeros(found.shape, np.bool_)
    if used_x.stop == used_x.start or used_y.stop == used_y.start:
        return found, is_valid
    window = _window(used_x, used_y)
    stored, known = await read_stored(level, window, band.of.number, nodata=band.scaling.nodata)
    inside_x, inside_y = at_x >= 0, at_y >= 0
    at = np.ix_(at_y[inside_y] - used_y.start, at_x[inside_x] - used_x.start)
    inside = np.ix_(inside_y, inside_x)
    found[inside], is_valid[inside] = stored[at], known[at]
    return found, is_valid


def _window(cols: slice, rows: slice) -> Window:
    return Window(
        col_off=cols.start, row_off=rows.start, width=cols.stop - cols.start, height=rows.stop - rows.start
    )


def _strips(window: Window, tile_height: int) -> Iterator[Window]:
    """Cut a window into runs of rows that end where tiles do."""
    n_rows = max(_STRIP_PIXELS // window.width // tile_height * tile_height, tile_height)
    start = window.row_off
    while start < window.row_stop:
        stop = min((start // n_rows + 1) * n_rows, window.row_stop)
        yield window.rows(start - window.row_off, stop - window.row_off)
        start = stop
