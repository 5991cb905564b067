"""The fall-back reader: GDAL, in child processes that may crash."""

import asyncio
import itertools
import json
import signal
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from copy import replace
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from msgspec import Struct

from pixel_gather.core.errors import NoOverviewError, SourceError
from pixel_gather.core.model.band_meaning import BandClass, BandMeaning
from pixel_gather.core.model.plurals import counted
from pixel_gather.core.model.source import Cost, Header
from pixel_gather.core.model.status import Status
from pixel_gather.core.model.tile_coding import TileRange
from pixel_gather.core.model.window import Transform, Window
from pixel_gather.io.child_channel import PAIR, PLACE, Kind
from pixel_gather.io.gdal.child_pool import Child, ChildDiedError, Children, ChildTimeoutError
from pixel_gather.io.gdal.choose_driver import choose_driver
from pixel_gather.io.gdal.pinned_object import PinnedObject
from pixel_gather.io.gdal.settings import GdalSettings
from pixel_gather.io.gdal.stored_ranges import Range, find_stored_ranges
from pixel_gather.io.store.fetched import Fetched, Ranges

_tokens = itertools.count(1)

_SMALL_NBYTES: Final = 2**20

_CRASHED: Final = ("GDAL crashed on it", Status.CORRUPT)
_OF_EXIT_CODES: Final[dict[int, tuple[str, Status]]] = {
    signal.SIGXCPU: ("GDAL used up its CPU time on it", Status.TIMED_OUT),
    signal.SIGKILL: ("GDAL's process was killed, as a system short of memory does", Status.UNSUPPORTED),
}


type _OnFrame = Callable[[Child, Kind, int], Awaitable[bool]]
"""Takes the payload of one frame, of so many bytes. Returns True at the last frame."""


class _Places(Struct, frozen=True, kw_only=True):
    """Held by sources whose tiles are in memory: one is fetched while another one is read.

    A small window is read in some milliseconds, and fetched in more. So many are fetched at one time.
    """

    small: asyncio.Semaphore
    large: asyncio.Semaphore

    def of(self, ranges: Sequence[Range]) -> asyncio.Semaphore:
        """Return which of the two a window with these tiles needs."""
        nbytes = sum(stop - start for start, stop in ranges)
        return self.small if nbytes <= _SMALL_NBYTES else self.large


class GdalReader(AbstractAsyncContextManager["GdalReader"]):
    """Opens sources with GDAL. A ``SourceReader`` of one event loop, which has to be closed there."""

    def __init__(self, objects: Ranges, *, settings: GdalSettings) -> None:
        self._objects = objects
        self._settings = settings
        self._children = Children(settings)
        self._places = _Places(
            small=asyncio.Semaphore(16 * settings.max_children),
            large=asyncio.Semaphore(2 * settings.max_children),
        )

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End the child processes."""
        await self._children.aclose()

    async def open_(
        self,
        href: str,
        *,
        overview: int | None,
        cost: Cost,
        etag: str | None = None,
        head: Fetched | None = None,
    ) -> "GdalSource":
        """Read a source's header.

        Without an overview, it is at full resolution; without an ETag, of the current version. The cost is
        added to, here and in later reads.

        Raises:
            SourceError: It cannot be opened.
        """
        started, nbytes_before = time.perf_counter(), cost.nbytes
        read_s, decode_s = cost.read_s, cost.decode_s
        try:
            pinned = await PinnedObject.open_(
                self._objects, href, etag=etag, cost=cost, settings=self._settings, head=head
            )
            source = GdalSource(
                token=next(_tokens),
                pinned=pinned,
                driver=choose_driver(pinned.start, href=href),
                overview=overview,
                children=self._children,
                places=self._places,
            )
            await source.open_()
        finally:
            cost.open_s += time.perf_counter() - started
            cost.header_nbytes += cost.nbytes - nbytes_before
            cost.read_s, cost.decode_s = read_s, decode_s  # the seconds of its requests are in ``open_s``
        return source


@dataclass(slots=True, kw_only=True, eq=False)
class GdalSource:
    """One source that GDAL has opened. Each request about it goes to any free child.

    It is opened again if that child has opened another one since.
    """

    token: int
    pinned: PinnedObject
    driver: str
    overview: int | None
    children: Children
    places: _Places
    header: Header = field(init=False)
    """Of what is read, once it is open."""

    n_overviews: int = field(default=0, init=False)
    """Overviews of the whole file, once it is open at full resolution."""

    hides_pixels: bool = False
    """Whether a read came with a mask. It stays true, as other reads go on at the same time."""

    packed_header: bytes | None = field(default=None, init=False)
    """Always None: GDAL does not say which bytes the header came from."""

    from_packed_header: bool = field(default=False, init=False)
    resampling: str | None = field(default=None, init=False)
    """Always None: then every way is taken to be possible."""

    async def overviews(self) -> tuple["GdalSource", ...]:
        """Return each overview, largest first; of JPEG2000, its resolution levels.

        Raises:
            SourceError: An overview cannot be opened.
        """
        found = []
        for overview in range(self.n_overviews):
            found.append(replace(self, token=next(_tokens), overview=overview))
            await found[-1].open_()
        return tuple(found)

    def known_reads(self, window: Window, bands: Sequence[int]) -> None:
        """Return None: GDAL does not say where tiles are stored."""
        del window, bands

    async def stored_span(self, window: Window, bands: Sequence[int]) -> None:
        """Return None: GDAL chooses its reads itself."""
        del window, bands

    async def read_tiles(self, window: Window, bands: Sequence[int]) -> list[list[memoryview | None]]:
        """Refuse: GDAL returns pixels, never stored tiles."""
        del window, bands
        raise self._no_tiles()

    async def find_tiles(self, window: Window, bands: Sequence[int]) -> list[list[TileRange | None]]:
        """Refuse: GDAL does not say where tiles are stored."""
        del window, bands
        raise self._no_tiles()

    def _no_tiles(self) -> SourceError:
        return self._error(
            "only GDAL can read it, so its tiles cannot be kept as they are", Status.UNSUPPORTED
        )

    async def read_into(
        self,
        wanted: Sequence[tuple[np.ndarray[Any, Any], Window]],
        bands: Sequence[int],
        *,
        masked: bool,
        part_nbytes: int | None = None,
    ) -> None:
        """Fill arrays with the pixels of windows, one after the other, as ``ports.OpenedSource`` promises.

        GDAL chooses its reads itself, so ``part_nbytes`` is ignored.
        """
        del part_nbytes
        for out, window in wanted:
            await self._read_window(out, window, bands, masked=masked)

    async def _read_window(
        self, out: np.ndarray[Any, Any], window: Window, bands: Sequence[int], *, masked: bool
    ) -> None:
        if out.shape != (len(bands), window.height, window.width) or out.dtype != self.header.dtype:
            raise ValueError(f"{out.dtype}{out.shape} does not hold this window of {self.header.dtype}")
        if not all(1 <= band <= self.header.n_bands for band in bands):
            said = f"has {counted(self.header.n_bands, 'band')}, not band {max(bands)}"
            raise self._error(said, Status.UNLIKE)
        part = window.clipped(width=self.header.width, height=self.header.height)
        if part is None:
            return
        col, row = part.col_off - window.col_off, part.row_off - window.row_off
        await self._read_part(
            out[:, row : row + part.height, col : col + part.width], part, bands, masked=masked
        )

    async def open_(self) -> None:
        """Have a child open the source, and take its header."""
        answer: dict[str, Any] = {}

        async def on_frame(child: Child, _kind: Kind, nbytes: int) -> bool:
            answer.update(json.loads(await child.take(nbytes)))
            return True

        pinned = self.pinned.copy()
        await self._converse(pinned, {"op": "open"}, on_frame)
        self.pinned.hand_on(pinned)
        geo_transform, overviews = answer.pop("geo_transform"), answer.pop("overviews")
        self.n_overviews = answer.pop("n_overviews")
        answer["scales"], answer["offsets"] = tuple(answer["scales"]), tuple(answer["offsets"])
        meanings = answer.pop("meanings")
        self.header = Header(
            href=self.pinned.href,
            etag=self.pinned.etag,
            nbytes=self.pinned.nbytes,
            transform=None if geo_transform is None else Transform.from_gdal(geo_transform),
            overviews=tuple((width, height) for width, height in overviews),
            meanings=tuple(
                BandMeaning(
                    colour=colour,
                    classes=tuple(BandClass(value=value, colour=of) for value, of in palette),
                    unit=unit,
                )
                for colour, palette, unit in meanings
            ),
            **answer,
        )

    async def _read_part(
        self, out: np.ndarray[Any, Any], part: Window, bands: Sequence[int], *, masked: bool
    ) -> None:
        """Have a child read a part of the raster into an array of its shape."""
        masks: list[np.ndarray[Any, Any]] = []

        async def on_frame(child: Child, kind: Kind, nbytes: int) -> bool:
            if kind is Kind.DONE:
                return True
            start, stop = PAIR.unpack(await child.take(PAIR.size))
            target = out[:, start:stop]
            if kind is Kind.MASK:
                n_bands, height, width = target.shape
                self.hides_pixels = True
                n_masks = n_bands if nbytes - 16 == target.size else 1
                masks.append(np.empty((n_masks, height, width), np.uint8))
                _check(nbytes - 16, masks[-1].nbytes)
                await child.take_into(masks[-1])
            elif masks:
                pixels = np.empty(target.shape, target.dtype)
                await _take_array(child, pixels, nbytes - 16)
                np.copyto(target, pixels, where=masks.pop() != 0)
            else:
                await _take_array(child, target, nbytes - 16)
            return False

        window = (part.col_off, part.row_off, part.width, part.height)
        pinned = self.pinned.copy()
        with self._reading():
            size = self.header.width, self.header.height
            ranges = await find_stored_ranges(pinned, self.driver, part, bands, size=size, masked=masked)
            self.pinned.keep(pinned)
        async with self.places.of(ranges):
            with self._reading():
                await pinned.prefetch(ranges)
            request = {"op": "read", "window": window, "bands": list(bands), "masked": masked}
            await self._converse(pinned, request, on_frame)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Count the seconds as those of reading."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.pinned.cost.read_s += time.perf_counter() - started

    async def _converse(self, pinned: PinnedObject, request: dict[str, Any], on_frame: _OnFrame) -> None:
        """Send what is cached and one request, and serve the child's reads.

        Other frames are passed to ``on_frame``.
        """
        whole = {
            **request,
            "token": self.token,
            "driver": self.driver,
            "overview": self.overview,
            "nbytes": pinned.nbytes,
        }
        try:
            async with self.children.child(self.token) as child:
                child.holds = self.token
                for start, content in pinned.runs():
                    await child.send(Kind.AHEAD, PLACE.pack(start), content)
                await child.send(Kind.REQUEST, json.dumps(whole).encode())
                failure = await self._serve(child, pinned, on_frame)
                pinned.cost.decode_s += child.waited_s
                if failure is not None:
                    child.holds = None
        except ChildTimeoutError as error:
            limit = self.children.settings.timeout_s
            raise self._error(f"GDAL was still at work after {limit:g} s", Status.TIMED_OUT) from error
        except ChildDiedError as error:
            raise self._error(*_OF_EXIT_CODES.get(-error.exit_code, _CRASHED)) from error
        if failure is not None:
            raise failure

    async def _serve(self, child: Child, pinned: PinnedObject, on_frame: _OnFrame) -> SourceError | None:
        """Serve the child until its answer is complete. Return the failure of the source, if any."""
        failure: SourceError | None = None
        while True:
            kind, nbytes = await child.receive()
            if kind is Kind.NEED:
                start, stop = PAIR.unpack(await child.take(PAIR.size))
                if not start <= stop <= pinned.nbytes:
                    raise ChildDiedError("requested bytes beyond the object's end")
                try:
                    with self._reading():
                        content = await pinned.read(start, stop)
                except SourceError as error:
                    failure = failure or error
                    await child.send(Kind.NO_BYTES)
                else:
                    await child.send(Kind.BYTES, content)
            elif kind is Kind.FAILED:
                told = json.loads(await child.take(nbytes))
                kind_of_error = SourceError if told["has_level"] else NoOverviewError
                status = Status[told["status"]]
                return failure or kind_of_error(told["reason"], href=self.pinned.href, status=status)
            elif await on_frame(child, kind, nbytes):
                return failure

    def _error(self, reason: str, status: Status) -> SourceError:
        return SourceError(reason, href=self.pinned.href, status=status)


async def _take_array(child: Child, target: np.ndarray[Any, Any], nbytes: int) -> None:
    """Fill an array of shape (band, y, x). A contiguous band is filled without a copy."""
    _check(nbytes, target.nbytes)
    for band in target:
        if band.flags.c_contiguous:
            await child.take_into(band)
        else:
            rows = np.empty(band.shape, band.dtype)
            await child.take_into(rows)
            band[...] = rows


def _check(announced: int, expected: int) -> None:
    if announced != expected:
        raise ChildDiedError("sent another shape")
