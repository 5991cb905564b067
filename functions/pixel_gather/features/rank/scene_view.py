"""The area on one scene: its bands, and the levels that it may be read at."""

import math
from collections.abc import Callable, Mapping, Sequence
from copy import replace
from typing import Final

import numpy as np
from msgspec import Struct

from pixel_gather.core.model.window import Window
from pixel_gather.core.ports import LevelledSource
from pixel_gather.features.rank.area_on_images import ShapeOnImage
from pixel_gather.features.rank.area_share import Counted
from pixel_gather.features.rank.grid import LevelGrid, pixel_size
from pixel_gather.features.rank.ranking_request import RankingRequest
from pixel_gather.features.rank.read_on_finest import LevelledBand, edges_on, window_around
from pixel_gather.features.rank.sampling_error import Resampling, shows
from pixel_gather.features.rank.usable_levels import (
    Level,
    LevelBytes,
    LevelCost,
    resampling_of,
    stored_nbytes,
    usable_levels,
    worst_resampling,
)
from pixel_gather.tables.pixel_gate import PixelGate

STRIP_PIXELS: Final = 4_000_000
"""Limit of the pixels in a strip of full resolution, and in the level of a picture."""

type OnLevel = Callable[[int, int, int, float], None]
"""Called when a level is read, with the place of its tiles in the file.

Arguments: the first byte, the byte after the last, the level's bytes, and the bytes of full resolution.
"""


class SceneView(Struct, frozen=True, kw_only=True):
    """One scene as a ranking sees it: its open files, and where the area lies on them."""

    request: RankingRequest
    bands: Mapping[str, LevelledBand]
    mask: LevelledBand | None
    finest: LevelledBand
    """The band with the finest pixels. Other bands and the mask are laid over these."""

    shape: ShapeOnImage
    on_level: OnLevel
    gate: PixelGate

    def share(self, counted: Counted, n_area: float) -> Counted:
        """Return a number of pixels as a share of the area.

        Args:
            counted: Pixels of full resolution.
            n_area: Pixels of the area on the image, counted in the same way.
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
                factor=1.0 if each.level is None else math.sqrt(math.prod(self.grid(each.level).factors)),
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
        if self.request.by == "valid" and self.resampling != "nearest":
            return "overviews lose or gain pixels next to nodata"
        is_mean = self.request.statistic.kind == "mean"
        if not shows(self.resampling, is_mean=is_mean):
            return (
                "the file says that its overviews were made by a method that moves means"
                if is_mean
                else "the file does not say that its overviews are a sample of its pixels"
            )
        return None

    @property
    def resampling(self) -> Resampling:
        """How the overviews of all bands were made."""
        return worst_resampling(each.opened for each in (*self.bands.values(), *self._of_classes))

    @property
    def _of_classes(self) -> Sequence[LevelledBand]:
        """The mask, if the ranking needs no band. Then a share of its classes is all that is wanted."""
        return [] if self.bands or self.mask is None else [self.mask]

    async def _compare_levels(self, *, compares_all: bool) -> list[LevelBytes]:
        return await usable_levels(
            self.finest.opened,
            self.finest.overviews,
            self.shape.window,
            self.finest.of.number,
            compares_all=compares_all,
        )

    def grid(self, level: Level) -> LevelGrid:
        """Return where the area lies on a level of the finest band."""
        full = self.finest.opened.header
        header = full if level is None else self.finest.overviews[level].header
        return LevelGrid(window=self.shape.window, full=full, level=header)

    async def _all_nbytes(self, at: LevelBytes) -> float:
        """Return the bytes of all bands and of the mask where the finest band is read at a level."""
        grid, total = self.grid(at.level), at.nbytes
        size = pixel_size(grid.level)
        others = [(each, each.near(size)) for each in self.bands.values() if each is not self.finest]
        if self.mask is not None and self.mask is not self.finest:
            others.append((self.mask, self.level_of_mask(self.mask, size)))
        for band, level in others:
            part = window_around(*edges_on(level, at.part, of=grid))
            total += await stored_nbytes(band.opened, level, part, band.of.number)
        return total

    def level_of_mask(self, mask: LevelledBand, size: float) -> LevelledSource:
        """Return the level that the mask is read at.

        It is an overview only if those of bands and mask keep single pixels. Else it is full resolution.
        """
        is_sample = self.resampling == "nearest" and resampling_of(mask.opened) == "nearest"
        return mask.near(size) if is_sample else mask.opened

    def without_claims(self) -> "SceneView":
        """Return the same view without the offsets that a catalog claims."""
        bands = {
            name: replace(band, scaling=band.scaling.without_claim()) for name, band in self.bands.items()
        }
        finest = next((bands[name] for name, band in self.bands.items() if band is self.finest), self.finest)
        return replace(self, bands=bands, finest=finest)

    async def tell_place(self, opened: LevelledSource, part: Window) -> None:
        """Tell where the finest band's file has the tiles of a level, unless only GDAL knows."""
        full, number = self.finest.opened, self.finest.of.number
        if (span := await opened.stored_span(part, [number])) is not None:
            nbytes, first, stop = span
            full_nbytes = await stored_nbytes(full, full, self.shape.window, number)
            self.on_level(first, stop, nbytes, full_nbytes)
