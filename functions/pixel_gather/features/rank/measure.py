"""Measure one scene at one level: open its files, lay the area on them, and read what the level shows."""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Struct

from pixel_gather.core.model.scaling import Grid, OffsetAppliedError, Scaling
from pixel_gather.core.model.source import Cost
from pixel_gather.core.ports import LevelledSource, LevelReader
from pixel_gather.features.rank.area_on_images import AreaShapes
from pixel_gather.features.rank.grid import pixel_size
from pixel_gather.features.rank.measure_full import measure_full
from pixel_gather.features.rank.measure_overview import measure_overview
from pixel_gather.features.rank.measured_scene import MeasuredLevel, MeasuredScene
from pixel_gather.features.rank.ranking_request import RankingRequest
from pixel_gather.features.rank.read_on_finest import LevelledBand
from pixel_gather.features.rank.read_picture import read_picture
from pixel_gather.features.rank.scene_view import OnLevel, SceneView
from pixel_gather.features.rank.scenes import RankScene
from pixel_gather.features.rank.usable_levels import Level, LevelCost
from pixel_gather.tables.find_bands import BandOf
from pixel_gather.tables.pixel_gate import PixelGate
from pixel_gather.tables.read_bands import check_band
from pixel_gather.tables.spectral_indexes import NORMALISED

_OFFSET_APPLIED: Final = "the catalog's offset is not applied: the pixels have it already"
_IGNORES_SCALING: Final = "a scale or offset that is no number is ignored"
_IMPOSSIBLE: Final = "a normalised difference lies between -1 and 1: check scale and offset"


class SceneReader(Struct, frozen=True, kw_only=True):
    """Measures scenes of one ranking. Holds nothing between two calls."""

    request: RankingRequest
    reader: LevelReader
    shapes: AreaShapes
    on_level: OnLevel = lambda _first, _stop, _nbytes, _full_nbytes: None
    gate: PixelGate = msgspec.field(default_factory=PixelGate)
    """Bounds the pixels of all scenes that are in memory."""

    async def measure(self, scene: RankScene, *, step: int | None, cost: Cost) -> MeasuredScene:
        """Measure a scene.

        Step 0 is the coarsest level, None is full resolution. The scene has all bands. Adds to the cost.

        Raises:
            SourceError: A file cannot be read, or does not fit the others.
        """
        view, etags = await self._view(scene, step=step, cost=cost)
        said = (
            [_IGNORES_SCALING]
            if any(band.opened.header.ignores_scaling for band in view.bands.values())
            else []
        )
        level_nbytes = await view.level_nbytes()
        levels = tuple(level_nbytes)
        level = None if step is None else levels[min(step, len(levels) - 1)]
        try:
            measured = await _measure_at(view, level)
        except OffsetAppliedError:
            view, said = view.without_claims(), [*said, _OFFSET_APPLIED]
            measured = await _measure_at(view, level)
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
    ) -> tuple[SceneView, tuple[str | None, ...]]:
        """Open a scene's files, and lay the area on them. Return the files' versions, too."""
        opened = {href: await self.reader.open_(href, overview=None, cost=cost) for href in scene.hrefs}
        overviews = {href: () if step is None else await each.overviews() for href, each in opened.items()}
        bands = {
            name: LevelledBand(
                band, opened[band.source.href], overviews[band.source.href], self._scaling(band, opened)
            )
            for name, band in ({} if self._is_of_mask else scene.bands).items()
        }
        mask = None
        if scene.mask is not None and self.request.mask is not None:
            href = scene.mask.source.href
            check_band(opened[href].header, scene.mask.number)
            mask = LevelledBand(scene.mask, opened[href], overviews[href], Scaling())
        finest = min(
            [*bands.values(), *([mask] if mask else [])], key=lambda each: pixel_size(each.opened.header)
        )
        view = SceneView(
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
            return await read_picture(view, side)
        except OffsetAppliedError:
            return await read_picture(view.without_claims(), side)

    @property
    def _is_of_mask(self) -> bool:
        return self.request.by in ("clear", "cloud")

    def _scaling(self, band: BandOf, opened: Mapping[str, LevelledSource]) -> Scaling:
        header = opened[band.source.href].header
        check_band(header, band.number)
        return Scaling.of(header, band.number, band.source, raw=self.request.raw)


async def _measure_at(view: SceneView, level: Level) -> MeasuredLevel:
    return await (measure_full(view) if level is None else measure_overview(view, level))
