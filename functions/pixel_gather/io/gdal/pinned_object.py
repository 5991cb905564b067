"""Read one version of an object block by block, in few requests."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, groupby, pairwise
from operator import itemgetter
from typing import Final

from pixel_gather.core.errors import SourceError
from pixel_gather.core.model.source import Cost
from pixel_gather.core.model.status import Status
from pixel_gather.core.task_group import all_of
from pixel_gather.io.gdal.settings import GdalSettings
from pixel_gather.io.store.fetched import Fetched, Ranges

_MOST_KEPT: Final = 160
"""Most blocks that are kept between reads. The tile-parts of a Sentinel-2 band begin in 121."""


@dataclass(slots=True, kw_only=True)
class PinnedObject:
    """Serves any range of one version of an object.

    Each read, and each opening, works on a copy. So several may go on at one time, and what a copy fetches
    beside the header is freed with it.
    """

    objects: Ranges
    href: str
    etag: str | None
    nbytes: int
    cost: Cost
    settings: GdalSettings
    blocks: dict[int, memoryview] = field(default_factory=dict)
    """What is in memory, by the number of the block."""

    _kept: frozenset[int] = frozenset()
    _after_last_fetch: int = -1
    _ahead_nbytes: int = 0
    _coming: list[tuple[int, int]] = field(default_factory=list)
    """Ranges that will be read soon, in the order of the file."""

    @classmethod
    async def open_(
        cls,
        objects: Ranges,
        href: str,
        *,
        etag: str | None,
        cost: Cost,
        settings: GdalSettings,
        head: Fetched | None = None,
    ) -> "PinnedObject":
        """Read the first bytes of the object, unless they are there, and pin its version."""
        if head is None or head.content.nbytes < min(settings.block_nbytes, head.object_nbytes):
            fetched = await objects.get_range(href, 0, settings.first_read_nbytes, etag=etag, cost=cost)
        else:
            fetched = head
        pinned = cls(
            objects=objects,
            href=href,
            etag=etag or fetched.etag,
            nbytes=fetched.object_nbytes,
            cost=cost,
            settings=settings,
        )
        pinned._store(0, fetched.content)
        pinned._after_last_fetch = len(pinned.blocks)
        return pinned

    @property
    def start(self) -> memoryview:
        """The object's first bytes."""
        return self.blocks[0] if self.blocks else memoryview(b"")

    def copy(self) -> "PinnedObject":
        """Return a copy for one read or opening, with the blocks that are here. Only kept ones stay here."""
        copied = replace(self, blocks=dict(self.blocks))
        self.blocks = {index: block for index, block in self.blocks.items() if index in self._kept}
        return copied

    def keep(self, read: "PinnedObject") -> None:
        """Keep all blocks that a copy has read so far, unless they are many: they hold the header."""
        blocks = self.blocks | read.blocks
        if len(blocks) <= _MOST_KEPT:
            self.blocks, self._kept = blocks, frozenset(blocks)

    def hand_on(self, opening: "PinnedObject") -> None:
        """Keep all blocks that an opening has read; if they are many, only until the next copy takes them."""
        self.blocks |= opening.blocks
        self.keep(opening)

    def runs(self) -> Iterator[tuple[int, bytes]]:
        """Yield where runs of cached blocks begin, and their bytes, in the order of the file.

        It ends before there are more bytes than one request may fetch.
        """
        left = self.settings.max_request_nbytes // self.settings.block_nbytes
        places = enumerate(sorted(self.blocks)[:left])
        for _, run in groupby(places, key=lambda place: place[1] - place[0]):
            indices = [index for _, index in run]
            yield (
                indices[0] * self.settings.block_nbytes,
                b"".join(self.blocks[index] for index in indices),
            )

    async def read(self, start: int, stop: int) -> bytes:
        """Return the range [start, stop), which lies in the object.

        Raises:
            SourceError: The bytes cannot be read, or are too many for the child.
        """
        if stop - start > self._largest_answer:
            raise SourceError(
                f"GDAL reads more than {self._largest_answer >> 20} MiB of it at once",
                href=self.href,
                status=Status.UNSUPPORTED,
            )
        if any(index not in self.blocks for index in self._indices(start, stop)):
            await self._ensure([(start, stop), *self._next_ranges(start)])
        size = self.settings.block_nbytes
        parts = []
        for index in self._indices(start, stop):
            block = self.blocks[index]
            parts.append(block[max(start - index * size, 0) : stop - index * size])
        return b"".join(parts)

    async def prefetch(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Fetch ranges that will be read soon, concurrently: as many as half of the cache holds.

        The next ones are fetched when the first of them is read.

        Raises:
            SourceError: The bytes cannot be read.
        """
        self._coming = sorted(ranges)
        await self._ensure(self._next_ranges(0))

    def _next_ranges(self, start: int) -> list[tuple[int, int]]:
        """Return the ranges that end after ``start`` and will be read next."""
        first = bisect_right(self._coming, start, key=itemgetter(1))
        sizes = accumulate(stop - start for start, stop in self._coming[first:])
        most = self.settings.max_cached_nbytes // 2
        return [each for each, nbytes in zip(self._coming[first:], sizes, strict=True) if nbytes <= most]

    async def _ensure(self, ranges: Sequence[tuple[int, int]]) -> None:
        wanted = sorted({index for start, stop in ranges for index in self._indices(start, stop)})
        missing = [index for index in wanted if index not in self.blocks]
        if missing:
            self._make_room(len(missing), keep=frozenset(wanted))
            await self._fetch(self._runs(missing))

    @property
    def _largest_answer(self) -> int:
        return self.settings.child_memory_mib * 2**20 // 2

    def _indices(self, start: int, stop: int) -> range:
        size = self.settings.block_nbytes
        return range(start // size, -(-stop // size)) if stop > start else range(0)

    def _runs(self, missing: Sequence[int]) -> list[tuple[int, int]]:
        """Join missing blocks into byte ranges to fetch.

        Read ahead where GDAL reads sequentially, and nothing is known of what it will read.
        """
        size = self.settings.block_nbytes
        borders = [missing[0]]
        for before, after in pairwise(missing):
            if (after - before - 1) * size > self.settings.max_gap_nbytes:
                borders += [before + 1, after]
        borders.append(missing[-1] + 1)
        runs = [(first * size, stop * size) for first, stop in zip(borders[::2], borders[1::2], strict=True)]
        if missing[0] == self._after_last_fetch and not self._coming:
            self._ahead_nbytes = min(max(2 * self._ahead_nbytes, size), self.settings.max_read_ahead_nbytes)
            runs[-1] = (runs[-1][0], runs[-1][1] + self._ahead_nbytes // size * size)
        else:
            self._ahead_nbytes = 0
        self._after_last_fetch = runs[-1][1] // size
        return [(start, min(stop, self.nbytes)) for start, stop in runs]

    async def _fetch(self, runs: Iterable[tuple[int, int]]) -> None:
        async def fetch_one(start: int, stop: int) -> None:
            fetched = await self.objects.get_range(self.href, start, stop, etag=self.etag, cost=self.cost)
            if fetched.content.nbytes < stop - start:
                raise SourceError("ended before its own size", href=self.href, status=Status.CHANGED)
            self._store(start, fetched.content)

        longest = self.settings.max_request_nbytes
        parts = (
            fetch_one(start, min(start + longest, run_stop))
            for run_start, run_stop in runs
            for start in range(run_start, run_stop, longest)
        )
        await all_of(parts, at_once=self.settings.max_requests_in_flight)

    def _store(self, start: int, content: memoryview) -> None:
        size = self.settings.block_nbytes
        for position in range(0, content.nbytes, size):
            block = content[position : position + size]
            if block.nbytes == size or start + position + block.nbytes >= self.nbytes:
                self.blocks[(start + position) // size] = block

    def _make_room(self, n_new: int, *, keep: frozenset[int]) -> None:
        """Drop the oldest blocks that neither the header nor this read needs."""
        size = self.settings.block_nbytes
        n_over = len(self.blocks) + n_new - self.settings.max_cached_nbytes // size
        if n_over > 0:
            old = [index for index in self.blocks if index not in self._kept | keep]
            for index in old[:n_over]:
                del self.blocks[index]
