"""The strips of a scene at full resolution, added up to its statistic. Pure."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from pixel_gather.core.errors import SourceError
from pixel_gather.core.model.scaling import Grid
from pixel_gather.core.model.status import Status
from pixel_gather.features.rank.area_share import SHARE, Counted, counted_on, pixels_counted_by
from pixel_gather.features.rank.measured_scene import MeasuredLevel
from pixel_gather.features.rank.ranking_request import RankingRequest
from pixel_gather.features.rank.sampling_error import ErrorEstimate, LevelSample, estimate
from pixel_gather.tables.read_bands import Mask

_MOST_EXACT: Final = 200_000_000
"""Pixels of one scene whose values are kept for a percentile."""


@dataclass(slots=True)
class StripTotals:
    """The strips of full resolution, added up."""

    request: RankingRequest
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

    def add(self, bands: Mapping[str, Grid], known: Mask, kept: Mask, area: Mask) -> None:
        """Add one strip."""
        is_valid = known.copy()
        for band in bands.values():
            is_valid &= np.isfinite(band)
        counted = kept & is_valid
        self.n_area += int(area.sum())
        self.n_valid += int(is_valid.sum())
        self.n_kept += int(counted.sum())
        if self.request.precision.kind == "every":
            self.masks.append((is_valid, counted, area))
            grids, weights = dict(bands), counted
            if self.request.expression is None:
                share, weights = pixels_counted_by(self.request.by, area, is_valid, counted)
                grids = {"share": share.astype(np.float64)}
            self.grids.append((grids, weights.astype(np.float64)))
        elif self.request.expression is not None:
            values = self.request.expression.evaluate(bands)[counted]
            self._add_values(values[np.isfinite(values)])

    def _add_values(self, values: Grid) -> None:
        statistic = self.request.statistic
        self.n_values += values.size
        if statistic.kind == "mean":
            self.total += float(values.sum())
        elif statistic.kind == "share":
            self.total += float(np.count_nonzero(values > statistic.at))
        elif self.n_values <= _MOST_EXACT:
            self.values.append(values)
        else:
            raise SourceError(
                f"percentiles are computed of at most {_MOST_EXACT:,} pixels: ask for the mean, a "
                "smaller area or another precision",
                href="",
                status=Status.UNSUPPORTED,
            )

    def measure(self) -> MeasuredLevel:
        """Return the statistic of all strips."""
        request, every = self.request, self.request.precision.step
        if request.precision.kind == "every":
            return MeasuredLevel(
                self._estimate(), *self._count_pixels(every), float(self.n_whole), float(every)
            )
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
        return MeasuredLevel(found, *counts, float(self.n_area))

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

    def _estimate(self) -> ErrorEstimate:
        if not self.grids:
            return ErrorEstimate(math.nan, math.inf, 0)
        names = self.grids[0][0]
        sample = LevelSample(
            bands={name: np.concatenate([bands[name] for bands, _ in self.grids]) for name in names},
            weights=np.concatenate([weights for _, weights in self.grids]),
            resampling="nearest",
            factor=float(self.request.precision.step),
            is_indicator=self.request.expression is None,
        )
        return estimate(sample, self.request.expression or SHARE, self.request.statistic)
