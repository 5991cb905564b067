"""Compute the statistics and digests of the pixels that a shard stores."""

from typing import Final

import numpy as np
import xxhash

from pixel_gather.core.model.outcome import BandStats, Outcome
from pixel_gather.core.model.status import Status
from pixel_gather.core.read.shard_buffers import Pixels
from pixel_gather.core.read.valid_pixels import valid_pixels

_EXACT_SUMS: Final = {"u1": np.uint32, "u2": np.uint32, "i1": np.int32, "i2": np.int32}
"""Dtypes whose pixels are summed as integers, and the dtype of the sum of one line."""

_LONGEST_LINE: Final = 1 << 16
"""Most pixels whose sum these hold."""


def measure_row(pixels: Pixels, outcome: Outcome) -> list[BandStats]:
    """Return the statistics of each band of one row.

    Args:
        pixels: Shape (band, y, x), as stored.
        outcome: Result of the source. Its nodata and extent determine which pixels are valid.
    """
    if outcome.status is not Status.OK:
        return [BandStats(digest=digest_of(band)) for band in pixels]
    x_start, y_start, x_stop, y_stop = outcome.extent
    found = []
    for band in pixels:
        stats = _stats_of(band[y_start:y_stop, x_start:x_stop], outcome.nodata)
        stats.digest = digest_of(band)
        found.append(stats)
    return found


def _stats_of(part: Pixels, nodata: float | None) -> BandStats:
    valid = valid_pixels(part, nodata)
    n_valid = part.size if valid is None else int(np.count_nonzero(valid))
    if n_valid == 0 or part.dtype.kind == "c":
        return BandStats(n_valid=n_valid)
    if valid is not None and n_valid < part.size:
        part = part[valid]
    return BandStats(n_valid=n_valid, min=float(part.min()), max=float(part.max()), mean=_mean_of(part))


def _mean_of(part: Pixels) -> float:
    """Return the mean in float64.

    Small integers are summed as integers, line by line, in half the time. Both sums are exact, so both means
    are equal.
    """
    narrow = _EXACT_SUMS.get(part.dtype.str[1:])
    if narrow is not None and part.ndim > 1 and part.shape[-1] <= _LONGEST_LINE:
        return int(part.sum(axis=-1, dtype=narrow).sum(dtype=np.int64)) / part.size
    with np.errstate(invalid="ignore", over="ignore"):  # the mean of infinities of both signs is NaN
        return float(part.mean(dtype=np.float64))


def digest_of(pixels: Pixels) -> str:
    """Return XXH3-128 of the pixels' little-endian bytes in C order, in hexadecimal digits."""
    little = np.ascontiguousarray(pixels, dtype=pixels.dtype.newbyteorder("<"))
    return xxhash.xxh3_128_hexdigest(little.data.cast("B"))
