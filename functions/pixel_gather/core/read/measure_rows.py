"""Compute the statistics and digests of the pixels that a shard stores."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

import numpy as np
import xxhash

from pixel_gather.core.model.outcome import BandStats, Outcome
from pixel_gather.core.model.status import Status
from pixel_gather.core.pixel_mask import Mask
from pixel_gather.core.read.shard_buffers import Pixels
from pixel_gather.core.read.valid_pixels import valid_pixels

_EXACT_SUMS: Final = {"u1": np.uint32, "u2": np.uint32, "i1": np.int32, "i2": np.int32}
"""Dtypes whose pixels are summed as integers, and the dtype of the sum of one line."""

_LONGEST_LINE: Final = 1 << 16
"""Most pixels whose sum these hold."""


_MEASURED_TOGETHER: Final = 1 << 18
"""Most pixels of rows that are measured in one go. They fit the cache of a core."""


def measure_rows(pixels: Pixels, outcomes: Sequence[Outcome]) -> list[list[BandStats]]:
    """Return the statistics of each row and band.

    Small rows are measured together, because threads that call NumPy once per row wait for each other.

    Args:
        pixels: Shape (band, row, y, x), as stored.
        outcomes: Results of the rows' sources. Nodata and extent determine which pixels are valid.
    """
    found: list[list[BandStats]] = [[] for _ in outcomes]
    for rows in _alike(outcomes, most=max(_MEASURED_TOGETHER // pixels[0, 0].size, 1)):
        outcome = outcomes[rows.start]
        x_start, y_start, x_stop, y_stop = outcome.extent
        for band in pixels:
            part = band[rows, y_start:y_stop, x_start:x_stop]
            is_read = outcome.status is Status.OK
            measured = _stats_of(part, outcome.nodata) if is_read else [BandStats() for _ in part]
            for of_row, stored, stats in zip(found[rows], band[rows], measured, strict=True):
                stats.digest = digest_of(stored)
                of_row.append(stats)
    return found


def _alike(outcomes: Sequence[Outcome], *, most: int) -> Iterator[slice]:
    """Yield slices of neighbouring rows with the same status, extent and nodata, each of at most ``most``."""

    def what_counts(row: int) -> tuple[object, ...]:
        each = outcomes[row]
        return each.status, each.extent, each.nodata, row // most

    for _, alike in groupby(range(len(outcomes)), key=what_counts):
        rows = list(alike)
        yield slice(rows[0], rows[-1] + 1)


def _stats_of(rows: Pixels, nodata: float | None) -> list[BandStats]:
    """Return the statistics of rows of the same nodata: shape (row, y, x) of what their sources have."""
    valid = valid_pixels(rows, nodata)
    narrow = _EXACT_SUMS.get(rows.dtype.str[1:])
    is_whole = valid is None or bool(valid.all())
    if not is_whole or narrow is None or rows.shape[-1] > _LONGEST_LINE or rows.size == 0:
        return [_stats_of_one(row, None if valid is None else valid[at]) for at, row in enumerate(rows)]
    # Lines of small integers are summed as integers, in half the time. Both sums are exact.
    sums = rows.sum(axis=-1, dtype=narrow).sum(axis=-1, dtype=np.int64).tolist()
    lows, highs = (values.tolist() for values in (rows.min(axis=(1, 2)), rows.max(axis=(1, 2))))
    n_valid = rows[0].size
    return [
        BandStats(n_valid=n_valid, min=float(low), max=float(high), mean=total / n_valid)
        for low, high, total in zip(lows, highs, sums, strict=True)
    ]


def _stats_of_one(row: Pixels, valid: Mask | None) -> BandStats:
    n_valid = row.size if valid is None else int(np.count_nonzero(valid))
    if n_valid == 0 or row.dtype.kind == "c":
        return BandStats(n_valid=n_valid)
    values = row if n_valid == row.size else row[valid]
    with np.errstate(invalid="ignore", over="ignore"):  # the mean of infinities of both signs is NaN
        mean = float(values.mean(dtype=np.float64))
    return BandStats(n_valid=n_valid, min=float(values.min()), max=float(values.max()), mean=mean)


def digest_of(pixels: Pixels) -> str:
    """Return XXH3-128 of the pixels' little-endian bytes in C order, in hexadecimal digits."""
    little = np.ascontiguousarray(pixels, dtype=pixels.dtype.newbyteorder("<"))
    return xxhash.xxh3_128_hexdigest(little.data.cast("B"))
