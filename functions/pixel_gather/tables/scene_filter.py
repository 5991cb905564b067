"""Tells by the box of a scene whether a feature lies on it, so that other scenes are never opened."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from pixel_gather.io.crs import RasterioProjector
from pixel_gather.tables.features import LONLAT, Features, Floats

_MARGIN = 0.001
"""Degrees around a feature, some 100 m: catalogs round their boxes."""

_SHARE = 0.05
"""Of the box of a feature in another CRS, on each side: its edges are curved in degrees."""


class SceneFilter:
    """Looks which scenes meet a feature. Scenes of one place share the answer."""

    def __init__(self, features: Features, projector: RasterioProjector) -> None:
        """Compute nothing yet: a list that no search has found is not filtered.

        Features without coordinates meet no scene.
        """
        self._features, self._projector = features, projector
        self._kept: dict[tuple[float, ...], bool] = {}

    def meets(self, box: Sequence[float]) -> bool:
        """Return whether a feature lies in a box.

        West > east is across 180 degrees.
        """
        key = tuple(map(float, box))
        if key not in self._kept:
            self._kept[key] = self._is_near_box(*key)
        return self._kept[key]

    @cached_property
    def _boxes(self) -> tuple[Floats, Floats, Floats, Floats]:
        return _boxes(self._features, self._projector)

    def _is_near_box(self, west: float, south: float, east: float, north: float) -> bool:
        wests, souths, easts, norths = self._boxes
        with np.errstate(invalid="ignore"):
            is_near = (souths <= north) & (norths >= south)
            if west > east:
                return bool((is_near & ((easts >= west) | (wests <= east))).any())
            turned = [(wests + turn <= east) & (easts + turn >= west) for turn in (-360, 0, 360)]
        return bool((is_near & np.logical_or.reduce(turned)).any())


def _boxes(features: Features, projector: RasterioProjector) -> tuple[Floats, Floats, Floats, Floats]:
    """Return west, south, east and north of each feature; NaN where it has none or PROJ finds no place."""
    if features.geometries is None:
        west, south, east, north = features.xs, features.ys, features.xs, features.ys
    else:
        west, south, east, north = features.geometries.bounds.T
    if features.crs != LONLAT:
        poles = projector.point_arrays(
            np.zeros(2), np.array([-90.0, 90]), source_crs=LONLAT, target_crs=features.crs
        )
        # The places of a box that are nearest to the poles, and its corners, hold its extremes.
        nearest = [(np.clip(x, west, east), np.clip(y, south, north)) for x, y in zip(*poles, strict=True)]
        corners = [(xs, ys) for xs in (west, east) for ys in (south, north)]
        found = [
            projector.point_arrays(xs, ys, source_crs=features.crs, target_crs=LONLAT)
            for xs, ys in (*corners, *nearest)
        ]
        has_pole = np.logical_or.reduce(
            [(xs == x) & (ys == y) for (xs, ys), x, y in zip(nearest, *poles, strict=True)]
        )
        xs, ys = np.stack([x for x, _ in found]), np.stack([y for _, y in found])
        west, east = np.where(has_pole, -180, xs.min(axis=0)), np.where(has_pole, 180, xs.max(axis=0))
        south, north = ys.min(axis=0), ys.max(axis=0)
        with np.errstate(invalid="ignore"):  # where PROJ finds no place
            across, up = _SHARE * (east - west), _SHARE * (north - south)
        west, south, east, north = west - across, south - up, east + across, north + up
    return west - _MARGIN, south - _MARGIN, east + _MARGIN, north + _MARGIN
