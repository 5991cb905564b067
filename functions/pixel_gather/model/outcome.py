"""What became of each source: the evidence that travels from a worker to the cube."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum

import xxhash

from pixel_gather.model.source import Cost, CubeRow
from pixel_gather.model.status import Status
from pixel_gather.model.window import Transform


@dataclass(slots=True, kw_only=True)
class BandStats:
    """What one band of one window holds; of its valid pixels only."""

    n_valid: int = 0
    """Pixels on the raster that are neither nodata nor NaN."""

    min: float = float("nan")
    """NaN, as are ``max`` and ``mean``, where no pixel is valid and for complex dtypes."""

    max: float = float("nan")
    mean: float = float("nan")
    digest: str = ""
    """XXH3-128 of the window's little-endian bytes in C order, as stored; of its strips' digests where the
    window was read in several."""


class Lookup(IntEnum):
    """What became of what a header index said of a source."""

    NONE = 0
    """It said nothing."""

    USED = 1
    """It held, and no header was read."""

    UNFIT = 2
    """It was broken, or of another overview, or could not be verified; the header was read."""

    STALE = 3
    """The object has been replaced since, and was read anew, header and all."""


@dataclass(slots=True, kw_only=True)
class Outcome:
    """One source of one row: what it was, what it held, what it cost. Times in seconds."""

    status: Status
    reason: str | None = None
    """Why it failed, in a sentence."""

    etag: str | None = None
    transform: Transform | None = None
    """Of the whole window on this source."""

    crs: str | None = None
    nodata: float | int | None = None
    extent: tuple[int, int, int, int] = (0, 0, 0, 0)
    """(x_start, y_start, x_stop, y_stop) of the task's part of the window that lies on the raster.

    Of the whole window once its strips are `merged`.
    """

    scaling: tuple[tuple[float, float], ...] | None = None
    """(scale, offset) of each band that was read; None where they are the template's."""

    is_aligned: bool = False
    """Whether its pixels coincide with the template's."""

    start_s: float = 0.0
    """When work on it began, since the gather was planned."""

    end_s: float = 0.0
    """When it ended, since the gather was planned."""

    cost: Cost = field(default_factory=Cost)
    """What opening and reading it took."""

    lookup: Lookup = Lookup.NONE
    known: bytes | None = None
    """What opens this version again without reading its header; apart from the sidecar, see `ShardResult`."""

    bands: list[BandStats] = field(default_factory=list)

    @property
    def reading_s(self) -> float:
        """Time from the known header to the decoded pixels.

        Waiting and decoding overlap where a window touches several tiles. This is then less than their sum.
        """
        cost = self.cost
        by_clock = self.end_s - self.start_s - cost.open_s
        return min(cost.read_s + cost.decode_s, max(by_clock, cost.read_s))


@dataclass(slots=True, kw_only=True)
class ShardResult:
    """One task's evidence, which also commits its objects: without it they do not count.

    Of the outcomes, ``known`` is left out: those bytes lie beside it, for they are many and few readers want
    them.
    """

    index: int
    rows: list[list[Outcome]]
    """For each row of the shard, one outcome per source slot."""

    read_s: float
    """Wall time of reading all of the shard's windows."""

    write_s: float
    """Wall time of compressing and storing the shard's objects."""

    stored_nbytes: int
    peak_rss_mib: float
    """Most memory that the worker's process has held so far."""

    measure_s: float = 0.0
    """Wall time between the two: statistics, digests, small pictures, and the last look whether another
    worker was faster."""

    machine: str = ""
    """What the worker ran on, in words."""

    pictures: list[dict[int, bytes]] = field(default_factory=list)
    """Of each measurement, by row of the cube, the task's part of its picture where it has one; empty where
    windows are no pictures; see `read.quicklook`."""

    @property
    def worker_s(self) -> float:
        """Wall time of all of it."""
        return self.read_s + self.measure_s + self.write_s


def lost(row: CubeRow, *, n_bands: Sequence[int], task_index: int) -> list[Outcome]:
    """Return what is to be said of a row whose task left no evidence.

    Args:
        row: The sources of the row.
        n_bands: How many bands are read of the source in each slot.
        task_index: Of the task that was lost.
    """
    return [
        Outcome(
            status=Status.ABSENT if source is None else Status.LOST,
            reason=None if source is None else f"shard {task_index} was lost to a worker that failed",
            bands=[BandStats() for _ in range(n)],
        )
        for source, n in zip(row.sources, n_bands, strict=True)
    ]


def merged(parts: Sequence[Outcome], *, y_starts: Sequence[int]) -> Outcome:
    """Return one outcome for a source whose window was read in several strips.

    The first strip that failed decides; strips of two versions of an object do not make one window.
    Either way the strips that were read stay in the cube, but nothing in them counts as valid.

    Args:
        parts: Of each strip, from the upper one to the lowest.
        y_starts: The first line of each strip in the whole window.
    """
    if len(parts) == 1:
        return parts[0]
    failed = next((part for part in parts if part.status is not Status.OK), None)
    if failed is None and len({part.etag for part in parts}) > 1:
        reason = "replaced between two strips of its window"
        failed = replace(parts[0], status=Status.CHANGED, reason=reason)
    first = failed or parts[0]
    return replace(
        first,
        extent=_merged_extent([part.extent for part in parts], y_starts),
        start_s=min(part.start_s for part in parts),
        end_s=max(part.end_s for part in parts),
        cost=Cost.of_parts(part.cost for part in parts),
        lookup=max(part.lookup for part in parts),
        bands=[
            _merged_stats(strips, is_ok=failed is None)
            for strips in zip(*(part.bands for part in parts), strict=True)
        ],
    )


def _merged_extent(
    extents: Sequence[tuple[int, int, int, int]], y_starts: Sequence[int]
) -> tuple[int, int, int, int]:
    """Return which part of the whole window lies on the raster."""
    there = [
        (x_start, top + y_start, x_stop, top + y_stop)
        for (x_start, y_start, x_stop, y_stop), top in zip(extents, y_starts, strict=True)
        if x_start < x_stop and y_start < y_stop
    ]
    if not there:
        return (0, 0, 0, 0)
    x_starts, tops, x_stops, bottoms = zip(*there, strict=True)
    return min(x_starts), min(tops), max(x_stops), max(bottoms)


def _merged_stats(strips: Sequence[BandStats], *, is_ok: bool) -> BandStats:
    filled = [strip for strip in strips if is_ok and strip.n_valid]
    n_valid = sum(strip.n_valid for strip in filled)
    digest = xxhash.xxh3_128_hexdigest("".join(strip.digest for strip in strips).encode())
    if not filled:
        return BandStats(digest=digest)
    return BandStats(
        n_valid=n_valid,
        min=min(strip.min for strip in filled),
        max=max(strip.max for strip in filled),
        mean=sum(strip.mean * strip.n_valid for strip in filled) / n_valid,
        digest=digest,
    )
