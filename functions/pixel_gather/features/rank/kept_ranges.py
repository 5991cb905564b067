"""Fetches once what a ranking reads more than once. The first read of a file is as long as pays."""

from collections import OrderedDict, deque
from copy import replace
from dataclasses import dataclass, field
from typing import Final

from pixel_gather.core.model.source import Cost
from pixel_gather.io.store.fetched import Fetched, Ranges

_LONGEST_KEPT: Final = 64 << 10
"""Headers are shorter. What begins at a file's first byte is kept at any length."""

_MOST_NBYTES: Final = 256 << 20
_LONGEST_FIRST: Final = 4 << 20
_REQUEST_COST_NBYTES: Final = 256 << 10
"""One more request takes about as long as this many bytes."""

_MOST_OF_FULL: Final = 1 / 3
"""Largest share of full resolution's bytes that is read before a file is known.

Its tiles may be so much smaller than those of the files before that only full resolution pays.
"""

_N_REMEMBERED: Final = 64
_QUANTILE: Final = 0.9
_MARGIN: Final = 1.125
"""Files of one kind compress a little better or worse than those before."""

_STEP: Final = 16 << 10


@dataclass(slots=True)
class KeptRanges:
    """Answers ranges that it has, and asks for the others.

    A COG has its coarsest overview behind the header. Once a few files have shown where that ends, the first
    read of the next file is so long that it holds both.
    """

    objects: Ranges
    _kept: OrderedDict[str, list[tuple[int, Fetched]]] = field(default_factory=OrderedDict)
    """By href, where each range begins, and its bytes."""

    _nbytes: int = 0
    _stops: deque[int] = field(default_factory=lambda: deque(maxlen=_N_REMEMBERED))

    async def get_range(self, href: str, start: int, stop: int, *, etag: str | None, cost: Cost) -> Fetched:
        """Read bytes [start, stop) of one version of an object, as ``object_store.Objects.get_range``."""
        for first, fetched in self._kept.get(href, ()):
            if etag is not None and etag != fetched.etag:
                continue
            end = first + fetched.content.nbytes
            if first <= start and min(stop, fetched.object_nbytes) <= end and start < end:
                return replace(fetched, content=fetched.content[start - first : stop - first])
        if start == 0:
            stop = max(stop, self.first_nbytes)
        fetched = await self.objects.get_range(href, start, stop, etag=etag, cost=cost)
        if start == 0 or fetched.content.nbytes <= _LONGEST_KEPT:
            self._keep(href, start, fetched)
        return fetched

    @property
    def first_nbytes(self) -> int:
        """How long the first read of a file is at least."""
        if not self._stops:
            return 0
        in_order = sorted(self._stops)
        usual = in_order[int(_QUANTILE * (len(in_order) - 1))]
        return -(-int(usual * _MARGIN) // _STEP) * _STEP

    def learn(self, *, first_tile: int, stop: int, nbytes: int, full_nbytes: float) -> None:
        """Note where in a file the level lies that was read.

        Its tiles take ``nbytes`` of the bytes [first_tile, stop), and those of full resolution
        ``full_nbytes``.
        """
        saves = stop <= _MOST_OF_FULL * full_nbytes
        is_near = saves and stop - nbytes - _LONGEST_KEPT <= _REQUEST_COST_NBYTES
        if first_tile > 0 and stop <= _LONGEST_FIRST and is_near:
            self._stops.append(stop)
        elif self._stops:
            self._stops.popleft()

    def forget(self, href: str) -> None:
        """Drop what is kept of a file, as it has been replaced or is no longer needed."""
        for _, fetched in self._kept.pop(href, ()):
            self._nbytes -= fetched.content.nbytes

    def _keep(self, href: str, start: int, fetched: Fetched) -> None:
        self._kept.setdefault(href, []).append((start, fetched))
        self._kept.move_to_end(href)
        self._nbytes += fetched.content.nbytes
        while self._nbytes > _MOST_NBYTES and len(self._kept) > 1:
            self.forget(next(iter(self._kept)))
