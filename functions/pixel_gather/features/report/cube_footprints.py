"""Reads where all sources of a cube lie, from the header index beside it. The plan knows only samples."""

from collections import Counter
from collections.abc import Container, Iterable
from typing import Any, Final

import numpy as np
import obstore

from pixel_gather.core.errors import BusyError, RequestError
from pixel_gather.core.model.footprints import SourceFootprints
from pixel_gather.features.report.lonlat import Points, to_lonlat
from pixel_gather.io.header_index import HEADERS_KEY, Grid, stored_grids
from pixel_gather.io.store.object_store import Store

_MOST_INDEX_NBYTES: Final = 64 * 2**20
"""Headers of some 300,000 sources. A larger index is not read for a map."""

_MOST_RINGS: Final = 1_000
"""Drawn in one map, which has 80 KB then."""

_FINEST: Final = 1e-5
"""Degrees: about 1 m."""

_COARSE: Final = 1e-3
"""Degrees, of the first cells. Further ones are twice as large."""

_SLACK: Final = 1e-6
"""Degrees by which a corner may miss the edge of the Earth."""


def read_footprints(store: Store, *, without: Container[str] = ()) -> SourceFootprints | None:
    """Return where the sources of a cube lie; None without an index, and if none of them can be placed.

    Sources that were not read, or not by our own reader, have no header there. Those whose CRS is neither
    geographic nor UTM nor web Mercator are left out. ``without`` has the hrefs of sources that failed, which
    may lie anywhere.
    """
    try:
        answer = obstore.get(store, HEADERS_KEY)
        if answer.meta["size"] > _MOST_INDEX_NBYTES:
            return None
        return footprints_of_grids(stored_grids(bytes(answer.bytes()), without=without))
    except (
        FileNotFoundError,
        RequestError,
        BusyError,
    ):  # a map of the sampled sources is better than no report
        return None


def footprints_of_grids(grids: Iterable[Grid]) -> SourceFootprints | None:
    """Return the different footprints of images. If there are too many, neighbours of one size share one."""
    by_crs: dict[str, Counter[tuple[float, ...]]] = {}
    for width, height, crs, transform in grids:
        by_crs.setdefault(crs, Counter())[(width, height, *transform)] += 1
    corners, counts = [np.empty((0, 4, 2))], [np.empty(0, dtype="int64")]
    for crs, of_crs in by_crs.items():
        project = to_lonlat(crs)
        if project is not None:
            with np.errstate(all="ignore"):  # what becomes NaN is left out
                placed = _turn_rings(project(_corners(np.array(list(of_crs), dtype="float64"))))
            is_on_earth = _are_on_earth(placed)
            corners.append(placed[is_on_earth])
            counts.append(np.array(list(of_crs.values()))[is_on_earth])
    n_sources = int(np.concatenate(counts).sum())
    if not n_sources:
        return None
    rings, step = _round_rings(np.concatenate(corners), _FINEST), _FINEST
    n_different = len(rings)
    different = rings
    while len(rings) > _MOST_RINGS:
        step = max(2 * step, _COARSE)
        rings = _one_for_each_cell(different, step)
    return SourceFootprints(
        rings=tuple(tuple((x, y) for x, y in ring) for ring in rings.round(5).tolist()),
        n_sources=n_sources,
        n_different=n_different,
        cell_degrees=step if step > _FINEST else None,
    )


def _corners(grids: Points) -> Points:
    """Return the corners of grids, shape (grid, corner, 2), from width, height and the six coefficients."""
    width, height, a, b, c, d, e, f = grids.T[:, :, None]
    col, row = np.array([0, 0, 1, 1]) * width, np.array([0, 1, 1, 0]) * height
    return np.stack([a * col + b * row + c, d * col + e * row + f], axis=-1)


def _turn_rings(corners: Points) -> Points:
    """Return rings without those that begin west of -180: they are moved by a turn."""
    is_west = corners[..., 0].min(axis=1) < -180 - _SLACK
    turned: Points = corners + np.where(is_west, 360.0, 0.0)[:, None, None] * np.array([1.0, 0.0])
    return turned


def _are_on_earth(rings: Points) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return whether each ring has finite longitudes from -180 to 540, and latitudes, up to a rounding."""
    xs, ys = rings[..., 0], rings[..., 1]
    found: np.ndarray[Any, np.dtype[np.bool_]] = (
        np.isfinite(rings).all(axis=(1, 2))
        & (xs.min(axis=1) > -180 - _SLACK)
        & (xs.max(axis=1) < 540 + _SLACK)
        & (np.abs(ys).max(axis=1) < 90 + _SLACK)
    )
    return found


def _round_rings(rings: Points, step: float) -> Points:
    """Return the different rings with corners at multiples of a step, in degrees, and on the Earth."""
    in_steps = np.unique(np.round(rings / step).astype("int64").reshape(-1, 8), axis=0)
    return np.clip(in_steps.reshape(-1, 4, 2) * step, (-180.0, -90.0), (540.0, 90.0))


def _one_for_each_cell(rings: Points, cell_degrees: float) -> Points:
    """Return the first of all rings that have their middle in one cell and that are about as large."""
    middles, sizes = rings.mean(axis=1), np.ptp(rings, axis=1)
    with np.errstate(divide="ignore"):
        magnitudes = np.maximum(np.log2(sizes), -64)
    keys = np.concatenate([np.floor(middles / cell_degrees), np.round(magnitudes)], axis=1).astype("int64")
    _, first = np.unique(keys, axis=0, return_index=True)
    chosen: Points = rings[np.sort(first)]
    return chosen
