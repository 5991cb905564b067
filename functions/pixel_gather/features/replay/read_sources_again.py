"""Ways to look at the sources of a cube again: by their pixels, by their versions, in a new cube."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Final, Protocol

import numpy as np
from msgspec import Struct

from pixel_gather.core.errors import SourceError
from pixel_gather.core.in_order import in_order
from pixel_gather.core.model.outcome import Outcome
from pixel_gather.core.model.source import Cost, CubeRow, Source
from pixel_gather.core.model.status import Status
from pixel_gather.core.plan.cube_plan import CubePlan
from pixel_gather.core.plan.cut_tasks import ShardTask
from pixel_gather.core.read.fill_rows import ShardFilling, scenes_of
from pixel_gather.core.read.hide_pixels import merge_strips
from pixel_gather.core.read.read_shard import ignore, read_shard
from pixel_gather.core.read.shard_buffers import Pixels, ShardBuffers
from pixel_gather.core.results.find_drift import Version
from pixel_gather.core.task_group import all_of
from pixel_gather.in_process.job import Job
from pixel_gather.io.cube.stored_cube import StoredCube
from pixel_gather.io.store.fetched import Ranges

_N_AHEAD: Final = 2
"""Ranges of rows that are looked at at one time: one is read while another is compared."""

_ROWS_OF_VERSIONS: Final = 1024
"""Rows whose versions are looked up at one time."""


class Seen(Struct, frozen=True, kw_only=True):
    """Rows of a cube as they are found now."""

    rows: Sequence[CubeRow]
    versions: Sequence[Sequence[Version]]
    """One for each row and slot."""

    are_same: Sequence[Sequence[bool]] | None
    """Whether the pixels of each source, or of the row that it is reduced to, are those of the cube. None if
    they were not read."""

    @classmethod
    def joined(cls, parts: "Sequence[Seen]") -> "Seen":
        """Return consecutive rows as one. Either the pixels of all of them were read, or of none."""
        same = [each.are_same for each in parts]
        return cls(
            rows=[row for each in parts for row in each.rows],
            versions=[of_row for each in parts for of_row in each.versions],
            are_same=None if None in same else [of_row for each in same for of_row in each or ()],
        )


class SecondLook(Protocol):
    """Looks at rows of a cube again."""

    @property
    def n_rows(self) -> int:
        """How many rows are looked at together."""

    async def at(self, start: int, stop: int) -> Seen:
        """Look at rows [start, stop)."""


def looked_at(cube: StoredCube, look: SecondLook) -> AsyncGenerator[tuple[int, Seen]]:
    """Yield all rows of a cube in order, with the number of the first one of each part."""
    n = cube.receipt.shape[0]

    async def look_from(start: int) -> tuple[int, Seen]:
        return start, await look.at(start, min(start + look.n_rows, n))

    return in_order(range(0, n, look.n_rows), look_from, most_ahead=_N_AHEAD)


def tolerance_of(cube: StoredCube) -> float | None:
    """Return the largest error of the cube's pixels; None if they were stored without loss."""
    return None if cube.receipt.is_lossless else cube.template.zfp_tolerance


class PixelLook:
    """Reads the window of every source again, and compares it with the cube's pixels."""

    def __init__(self, cube: StoredCube, plan: CubePlan, job: Job) -> None:
        """Take the cube, and a plan by its template whose shards are as high as the cube's."""
        self._cube, self._plan, self._job = cube, plan, job
        self._buffers = ShardBuffers(plan)
        self.n_rows = cube.receipt.shard[0]

    async def at(self, start: int, stop: int) -> Seen:
        """Read rows [start, stop), strip by strip if their windows are stored in strips."""
        rows = await asyncio.to_thread(lambda: list(self._cube.rows(start, stop)))
        height, strip = self._plan.height, self._plan.layout.shard[1]
        y_starts = range(0, height, strip)
        scenes = scenes_of(self._plan, rows)
        strips: list[list[list[Outcome]]] = []
        same = np.ones((len(rows), len(self._cube.measurements)), dtype=bool)
        for y_start in y_starts:
            task = ShardTask(
                index=0,
                row_start=start,
                row_stop=stop,
                y_start=y_start,
                y_stop=min(y_start + strip, height),
                list_start=0,
                list_stop=0,
            )
            outcomes, is_same = await self._read_strip(rows, scenes, task)
            strips.append(outcomes)
            same &= is_same
        of_scenes = iter(
            [
                _version(each)
                for each in merge_strips(self._plan.of_scenes, of_scene, scene, y_starts=y_starts)
            ]
            for scene, *of_scene in zip(scenes, *strips, strict=True)
        )
        versions = [
            [each for _ in range(max(len(row.members), 1)) for each in next(of_scenes)] for row in rows
        ]
        return Seen(rows=rows, versions=versions, are_same=_per_source(rows, same))

    async def _read_strip(
        self, rows: Sequence[CubeRow], scenes: Sequence[CubeRow], task: ShardTask
    ) -> tuple[list[list[Outcome]], Pixels]:
        """Return how the scenes of a strip were read, and which rows of which measurements are the same."""
        job, names, plan = self._job, self._cube.measurements, self._plan
        where = slice(task.row_start, task.row_stop), slice(task.y_start, task.y_stop)
        buffers = self._buffers
        with (
            buffers.borrow(task, len(scenes)) as arrays,
            buffers.borrowed_values(task, arrays) as values,
            buffers.borrowed_rows(task, values) as of_cube,
        ):
            reading = read_shard(
                scenes,
                arrays,
                plan=plan.of_scenes,
                task=task,
                sources=job.sources,
                on_source=ignore,
            )
            stored = asyncio.to_thread(lambda: [self._cube.pixels(name, *where) for name in names])
            outcomes, then = await asyncio.gather(reading, stored)
            await ShardFilling(plan, rows, scenes, (arrays, values, of_cube), step=len(rows)).fill(
                0, outcomes
            )
            now = [band for slot in of_cube for band in slot if isinstance(band, np.ndarray)]
            same = await asyncio.to_thread(_compare_rows, then, now, tolerance_of(self._cube))
        return outcomes, same


class LookByRequest:
    """Looks at each row as the request does that has added it."""

    def __init__(self, looks: Sequence[tuple[range, SecondLook]]) -> None:
        """Take the rows of each look, in order. All looks are of one kind."""
        self._looks = looks
        self.n_rows = looks[0][1].n_rows

    async def at(self, start: int, stop: int) -> Seen:
        """Look at rows [start, stop), at those of one request after the other."""
        cut = [(max(rows.start, start), min(rows.stop, stop), look) for rows, look in self._looks]
        return Seen.joined([await look.at(first, end) for first, end, look in cut if first < end])


class VersionLook:
    """Asks for one byte of every source: whether it is there, and its ETag."""

    n_rows: int = _ROWS_OF_VERSIONS

    def __init__(self, cube: StoredCube, job: Job, objects: Ranges) -> None:
        """Take what reads the sources."""
        self._cube, self._job, self._objects = cube, job, objects

    async def at(self, start: int, stop: int) -> Seen:
        """Look up the versions of rows [start, stop)."""
        rows = await asyncio.to_thread(lambda: list(self._cube.rows(start, stop)))
        found = iter(await all_of(self._version(source) for row in rows for source in row.sources))
        versions = [[next(found) for _ in row.sources] for row in rows]
        return Seen(rows=rows, versions=versions, are_same=None)

    async def _version(self, source: Source | None) -> Version:
        if source is None:
            return Version(status=Status.ABSENT)
        longest_s = self._job.settings.source_timeout_s
        try:
            async with self._job.limiter.permit(source.href, weight=1), asyncio.timeout(longest_s):
                found = await self._objects.get_range(source.href, 0, 1, etag=None, cost=Cost())
        except SourceError as error:
            return Version(status=error.status, reason=error.reason)
        except TimeoutError:
            return Version(status=Status.TIMED_OUT, reason=f"no answer within {longest_s:g} s")
        return Version(status=Status.OK, etag=found.etag)


class CubeLook:
    """Compares with another cube of the same rows."""

    def __init__(self, cube: StoredCube, other: StoredCube) -> None:
        """Take both cubes."""
        self._cube, self._other = cube, other
        self.n_rows = cube.receipt.shard[0]

    async def at(self, start: int, stop: int) -> Seen:
        """Read rows [start, stop) of both cubes."""
        return await asyncio.to_thread(self._at, start, stop)

    def _at(self, start: int, stop: int) -> Seen:
        names = self._cube.measurements
        height, strip = self._cube.receipt.shape[1], self._cube.receipt.shard[1]
        same = np.ones((stop - start, len(names)), dtype=bool)
        for y_start in range(0, height, strip):
            where = slice(start, stop), slice(y_start, min(y_start + strip, height))
            then = [self._cube.pixels(name, *where) for name in names]
            now = [self._other.pixels(name, *where) for name in names]
            tolerance = tolerance_of(self._cube)
            same &= _compare_rows(then, now, None if tolerance is None else 2 * tolerance)  # both have errors
        rows = list(self._cube.rows(start, stop))
        return Seen(
            rows=rows,
            versions=self._other.versions(start, stop),
            are_same=_per_source(rows, same),
        )


def _version(outcome: Outcome) -> Version:
    return Version(status=outcome.status, etag=outcome.etag, reason=outcome.reason)


def _per_source(rows: Sequence[CubeRow], same: Pixels) -> list[list[bool]]:
    """Return whether pixels are the same, for each source of each row.

    Args:
        rows: A row has one source for all measurements, one for each, or those of the scenes that it is
            reduced to.
        same: Of each row and measurement.
    """
    return [
        of_row.tolist()
        if len(row.sources) == len(of_row) and not row.members
        else [bool(of_row.all())] * len(row.sources)
        for row, of_row in zip(rows, same, strict=True)
    ]


def _compare_rows(then: Sequence[Pixels], now: Sequence[Pixels], tolerance: float | None) -> Pixels:
    """Return whether each row is the same in each measurement: shape (row, measurement)."""
    pairs = zip(then, now, strict=True)
    return np.array([rows_are_same(one, other, tolerance=tolerance) for one, other in pairs]).T


def rows_are_same(then: Pixels, now: Pixels, *, tolerance: float | None) -> list[bool]:
    """Return for each row whether its pixels are the same.

    Args:
        then: Shape (row, y, x).
        now: As ``then``. No row is the same if the shapes or the dtypes differ.
        tolerance: Largest difference of pixels that were stored with loss. None if every bit has to be the
            same, those of NaN included.
    """
    if then.shape != now.shape or then.dtype != now.dtype:
        return [False] * len(then)
    if tolerance is not None:
        return [
            bool(np.allclose(one.astype("float64"), other, rtol=0, atol=tolerance, equal_nan=True))
            for one, other in zip(then, now, strict=True)
        ]
    return [bool(np.array_equal(_bits(one), _bits(other))) for one, other in zip(then, now, strict=True)]


def _bits(pixels: Pixels) -> Pixels:
    if pixels.dtype.kind == "c":
        pixels = np.ascontiguousarray(pixels).view(f"f{pixels.itemsize // 2}")
    return pixels.view(f"u{pixels.itemsize}") if pixels.dtype.kind == "f" else pixels
