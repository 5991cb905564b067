"""The result of each source and of each shard. Workers write them; finish stores them in the cube."""

from collections.abc import Sequence
from copy import replace
from enum import IntEnum
from typing import Final

from msgspec import Struct, field

from pixel_gather.core.model.source import Cost, CubeRow
from pixel_gather.core.model.status import Status
from pixel_gather.core.model.window import Transform

REPLACED: Final = "replaced after a strip of its window had been read"
"""Why a source has the status changed, if its strips are of two versions."""

_BETWEEN_STRIPS: Final = " "


class BandStats(Struct, kw_only=True, gc=False):
    """Statistics of the valid pixels of one band of one window."""

    n_valid: int | None = 0
    """Pixels on the raster that are neither nodata nor NaN. None if no pixel was decoded."""

    min: float = float("nan")
    """NaN if no pixel is valid and for complex dtypes. So are ``max`` and ``mean``."""

    max: float = float("nan")
    mean: float = float("nan")
    digest: str = ""
    """XXH3-128 of the window's little-endian bytes in C order, as stored.

    If no pixel was decoded, of its compressed tiles' bytes. If the window was read in several strips, the
    strips' digests from top to bottom, with a space between; see `strip_digests`.
    """


class Lookup(IntEnum):
    """How a source's entry in the header index was used."""

    NONE = 0
    """The index has no entry for the source."""

    USED = 1
    """The entry was valid. No header was read."""

    UNFIT = 2
    """The entry was broken, for another overview, or not verifiable. The header was read."""

    STALE = 3
    """The object was replaced after the index was made. Header and pixels were read again."""


class Outcome(Struct, kw_only=True, gc=False):
    """Result of one source of one row. Times in seconds."""

    status: Status
    reason: str | None = None
    """Why it failed: one sentence."""

    etag: str | None = None
    object_nbytes: int = 0
    """Size of the source in bytes; 0 if its header is not known."""

    transform: Transform | None = None
    """Transform of the whole window on this source."""

    crs: str | None = None
    nodata: float | int | None = None
    extent: tuple[int, int, int, int] = (0, 0, 0, 0)
    """(x_start, y_start, x_stop, y_stop) of the pixels that lie on the raster.

    Counted from the upper left pixel of the task's part of the window. After `merged`, from that of the
    whole window.
    """

    inside: bytes | None = None
    """Where in the extent a source has valid pixels; None for everywhere.

    Only of sources without nodata that are warped, or masked and reduced: no number marks the other pixels.

    One bit for each pixel of the task's part of the window, each line from a new byte. Not in the sidecar.
    """

    scaling: tuple[tuple[float, float], ...] | None = None
    """(scale, offset) of each band that was read; None if they equal the cube's."""

    is_aligned: bool = False
    """Whether its pixels coincide with the cube's pixels."""

    start_s: float = 0.0
    """Start of the work on it, counted from the time of the plan."""

    end_s: float = 0.0
    """End of the work on it, counted from the time of the plan."""

    cost: Cost = field(default_factory=Cost)
    """Requests, bytes and seconds of opening and reading it."""

    lookup: Lookup = Lookup.NONE
    packed_header: bytes | None = None
    """Packed header: it opens this version again without a read. Not in the sidecar; see `ShardResult`."""

    bands: list[BandStats] = []

    n_masked: int | None = None
    """Of the source of the mask: how many of the window's pixels it hides. None for every other source."""

    offset_states: list[int] = []
    """Of each band that was harmonised or scaled: its `OffsetState`. Empty where nothing was."""

    offset_reasons: list[str] = []
    """Of each of these: why, and what became of its pixels."""

    members: list[list["Outcome"]] = []
    """In the first slot of a row that was reduced: the outcomes of each of its scenes, one per slot."""

    n_used: int | None = None
    """Of a row that was reduced: how many of its sources gave pixels, or would have. None for other rows."""

    n_failed: int | None = None
    """Of a row that was reduced: how many of its sources failed."""

    tries: int = 1
    """How often the source was tried: once, and again by each append that did so while it had failed."""

    @property
    def reading_s(self) -> float:
        """Time from the known header to the decoded pixels.

        Waiting and decoding overlap where a window touches several tiles. This is then less than their sum.
        """
        cost = self.cost
        by_clock = self.end_s - self.start_s - cost.open_s
        return min(cost.read_s + cost.decode_s, max(by_clock, cost.read_s))


class ShardResult(Struct, kw_only=True, gc=False):
    """Result of one task: its sidecar file. It commits the task's objects, which do not count without it.

    The outcomes' packed headers are in another file, because they are large and few readers need them.
    """

    index: int
    rows: list[list[Outcome]]
    """For each row of the shard, one outcome per source slot. Empty if a finish has given the shard up."""

    read_s: float
    """Wall time of reading all of the shard's windows. Most of the statistics, digests and compression
    is done meanwhile."""

    write_s: float
    """Wall time of storing the shard's objects."""

    stored_nbytes: int
    peak_rss_mib: float
    """Peak memory of the worker's process so far."""

    measure_s: float = 0.0
    """Wall time between reading and writing: statistics, digests and compression of the last rows, and
    quicklooks."""

    machine: str = ""
    """Description of the worker's machine, in words."""

    pictures: list[dict[int, bytes]] = []
    """Quicklooks: for each measurement, the task's part of each picture by row of the cube.

    Empty if windows are too small for pictures. See `read.quicklook`.
    """

    reads_on: bool = False
    """Whether the worker read its next shard while it stored this one."""

    @property
    def worker_s(self) -> float:
        """Wall time of the task, until the worker read its next shard. So the sum of all is what was paid."""
        return self.read_s + self.measure_s + (0.0 if self.reads_on else self.write_s)


def lost(row: CubeRow, *, n_bands: Sequence[int], task_index: int) -> list[Outcome]:
    """Return the outcomes of a row whose task was given up.

    Args:
        row: The sources of the row.
        n_bands: Number of bands read from the source in each slot.
        task_index: Index of the lost task.
    """
    found = [
        Outcome(
            status=Status.ABSENT if source is None else Status.LOST,
            reason=None if source is None else f"shard {task_index} was lost to a worker that failed",
            bands=[BandStats() for _ in range(n)],
        )
        for source, n in zip(row.sources, n_bands, strict=True)
    ]
    if row.members:
        found[0].members = [
            lost(scene, n_bands=[1] * len(scene.sources), task_index=task_index) for scene in row.members
        ]
    return found


def merge_outcomes(parts: Sequence[Outcome], *, y_starts: Sequence[int]) -> Outcome:
    """Return one outcome for a source whose window was read in several strips.

    The window fails if one strip failed, with the status of the first that did. It also fails if the strips
    are of two versions of the object. The cube keeps the pixels of strips that were read, but none of them
    counts as valid.

    Args:
        parts: The outcome of each strip, from top to bottom.
        y_starts: First line of each strip in the whole window.
    """
    if len(parts) == 1:
        return parts[0]
    failed = next((part for part in parts if part.status is not Status.OK), None)
    if is_replaced(parts):
        failed = replace(parts[0], status=Status.CHANGED, reason=REPLACED)
    first = failed or parts[0]
    return replace(
        first,
        extent=_merged_extent([part.extent for part in parts], y_starts),
        start_s=min(part.start_s for part in parts),
        end_s=max(part.end_s for part in parts),
        cost=Cost.of_parts(part.cost for part in parts),
        lookup=max(part.lookup for part in parts),
        n_masked=_sum([part.n_masked for part in parts]),
        members=[
            [merge_outcomes(of_slot, y_starts=y_starts) for of_slot in zip(*of_member, strict=True)]
            for of_member in zip(*(part.members for part in parts), strict=True)
        ],
        n_used=None if parts[0].n_used is None else min(part.n_used or 0 for part in parts),
        n_failed=None if parts[0].n_failed is None else max(part.n_failed or 0 for part in parts),
        bands=[
            _merged_stats(strips, is_ok=failed is None)
            for strips in zip(*(part.bands for part in parts), strict=True)
        ],
    )


def is_replaced(parts: Sequence[Outcome]) -> bool:
    """Return whether all strips of a source's window were read, and not all of one version of its object."""
    return all(part.status is Status.OK for part in parts) and len({part.etag for part in parts}) > 1


def strip_digests(digest: str) -> list[str]:
    """Return the digest of each strip of a window from the window's. That of a lost strip is empty."""
    return digest.split(_BETWEEN_STRIPS)


def _sum(numbers: Sequence[int | None]) -> int | None:
    there = [each for each in numbers if each is not None]
    return sum(there) if len(there) == len(numbers) else None


def _merged_extent(
    extents: Sequence[tuple[int, int, int, int]], y_starts: Sequence[int]
) -> tuple[int, int, int, int]:
    """Return the part of the whole window that lies on the raster."""
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
    filled = [(strip, strip.n_valid) for strip in strips if is_ok and strip.n_valid]
    n_valid = sum(n for _, n in filled)
    digest = _BETWEEN_STRIPS.join(strip.digest for strip in strips)
    if not filled:
        is_known = not is_ok or all(strip.n_valid is not None for strip in strips)
        return BandStats(n_valid=0 if is_known else None, digest=digest)
    return BandStats(
        n_valid=n_valid,
        min=min(strip.min for strip, _ in filled),
        max=max(strip.max for strip, _ in filled),
        mean=sum(strip.mean * n for strip, n in filled) / n_valid,
        digest=digest,
    )
