"""One in-memory implementation of each port. They record their calls and can be made slow or to fail.

That of a cube is the real one, on a store in memory: see `support.appends`.
"""

import asyncio
import dataclasses
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from copy import replace
from dataclasses import dataclass, field
from typing import Any, Self

import msgspec
import numpy as np

from pixel_gather.core.errors import RequestError, SourceError, StaleHeaderError
from pixel_gather.core.model.band_meaning import BandMeaning
from pixel_gather.core.model.source import Cost, CubeRow, Header, ListColumn, SearchCost, Source
from pixel_gather.core.model.status import Status
from pixel_gather.core.model.tile_coding import TileCoding, TileRange
from pixel_gather.core.model.window import DescribedCrs, Transform, Window
from pixel_gather.core.ports import Projector, SourceAccess, SourceLimiter
from pixel_gather.core.read.shard_buffers import Pixels
from pixel_gather.core.stores import ControlStore, missing_file
from pixel_gather.engine.gather_context import GatherContext, GatherStores
from pixel_gather.io.geotiff.packed_header import PackedHeader

CODING = TileCoding(
    dtype="uint16",
    is_tiled=True,
    tile_width=16,
    tile_height=16,
    compression="none",
    predictor=1,
    byte_order="<",
    is_interleaved=False,
)
"""How an image stores its tiles: 16 x 16 pixels, not compressed."""

UTM = Transform(10.0, 0.0, 500_000.0, 0.0, -10.0, 4_600_000.0)


def header_of(pixels: Pixels, href: str, **changes: Any) -> Header:
    """Return a plausible header of an image of shape (band, y, x)."""
    n_bands, height, width = pixels.shape
    plain = Header(
        href=href,
        etag='"1"',
        nbytes=pixels.nbytes + 512,
        driver="GTiff",
        width=width,
        height=height,
        n_bands=n_bands,
        dtype=pixels.dtype.name,
        nodata=None,
        scales=(1.0,) * n_bands,
        offsets=(0.0,) * n_bands,
        transform=UTM,
        crs="EPSG:32631",
        tile_width=min(16, width),
        tile_height=min(16, height),
        is_tiled=True,
    )
    return replace(plain, **changes)


def packed_header_of(header: Header) -> bytes:
    """Return a packed header that any index takes. Its ETag also names the source; it knows no tile."""
    nowhere: Any = (4, 0)
    packed = PackedHeader(
        version=2,
        overview=None,
        etag=f"{header.href} {header.etag}",
        nbytes=header.nbytes,
        width=header.width,
        height=header.height,
        n_bands=header.n_bands,
        dtypes=f"<{header.dtype} {header.dtype}",
        compression=1,
        predictor=1,
        is_tiled=header.is_tiled,
        tile_width=header.tile_width,
        tile_height=header.tile_height,
        n_planes=1,
        has_alpha=False,
        is_masked=None,
        declares_nodata=header.nodata is not None,
        nodata=header.nodata,
        scaling=None,
        transform=header.transform,
        crs=header.crs,
        overviews=(),
        byte_order="<",
        is_big=False,
        first_ifd=8,
        next_ifd=0,
        offsets=nowhere,
        byte_counts=nowhere,
        runs=(),
        meanings=(),
        units=(),
        jpeg=None,
    )
    return msgspec.msgpack.encode(packed)


@dataclass(kw_only=True)
class FakeImage:
    """One source: its pixels, changes to its header, and its failures."""

    pixels: Pixels
    """Shape (band, y, x)."""

    header: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the header that differ from those of `header_of`."""

    hidden: np.ndarray[Any, np.dtype[np.bool_]] | None = None
    """Shape (y, x): the pixels that the source's own mask hides."""

    open_error: BaseException | None = None
    read_error: BaseException | None = None
    delay_s: float = 0.0
    etags: list[str] = field(default_factory=list)
    """One ETag for each open. The last one repeats."""

    _known: Header | None = None

    def header_at(self, href: str) -> Header:
        """Return the image's header as an object of this address."""
        if self._known is None or self._known.href != href:
            self._known = header_of(self.pixels, href, **self.header)
        return self._known


@dataclass
class FakeReader:
    """A ``SourceReader`` of images in memory."""

    images: Mapping[str, Pixels | FakeImage]
    most_in_flight: int = 0
    opened: list[str] = field(default_factory=list)
    windows: list[tuple[str, Window, tuple[int, ...]]] = field(default_factory=list)
    part_nbytes: list[int | None] = field(default_factory=list)
    """For each window, the size of the parts in which it was to be read."""

    entries: dict[bytes, dict[str, Any]] = field(default_factory=dict)
    """What is opened, by the packed headers that `FakeOpened.packed_header` has returned."""

    _in_flight: int = 0

    async def open_(
        self, href: str, *, overview: int | None, cost: Cost, packed_header: bytes | None = None
    ) -> "FakeOpened":
        """Open an image, or raise its configured error."""
        assert overview is None
        if packed_header is not None and packed_header in self.entries:
            return FakeOpened(**self.entries[packed_header], reader=self, cost=cost, from_packed_header=True)
        self.opened.append(href)
        cost.requests += 1
        with self._at_work():
            await asyncio.sleep(0)
            if href not in self.images:
                raise SourceError("no such object", href=href, status=Status.MISSING)
            given = self.images[href]
            image = given if isinstance(given, FakeImage) else FakeImage(pixels=given)
            if image.open_error is not None:
                raise image.open_error
            header = image.header_at(href)
            if image.etags:
                header = replace(header, etag=image.etags.pop(0) if image.etags[1:] else image.etags[0])
            cost.open_s += 0.25
            cost.nbytes += 512
            cost.header_nbytes += 512
            return FakeOpened(header=header, image=image, reader=self, cost=cost)

    def etag_of(self, href: str) -> str | None:
        """Return the image's current version."""
        image = self.images[href]
        changes = image.header if isinstance(image, FakeImage) else {}
        etag: str | None = changes.get("etag", '"1"')
        return etag

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        self._in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self._in_flight)
        try:
            yield
        finally:
            self._in_flight -= 1


@dataclass(kw_only=True)
class FakeOpened:
    """An ``OpenedSource`` of an image in memory."""

    header: Header
    image: FakeImage
    reader: FakeReader
    cost: Cost
    from_packed_header: bool = False
    resampling: str | None = None

    async def overviews(self) -> Sequence["FakeOpened"]:
        """Return none."""
        return ()

    def known_reads(self, window: Window, bands: Sequence[int]) -> tuple[int, int] | None:
        """Return None: it has no tiles."""
        del window, bands
        return None

    @property
    def packed_header(self) -> bytes | None:
        """Return a packed header by which the reader remembers this version."""
        if self.header.etag is None:
            return None
        packed = packed_header_of(self.header)
        self.reader.entries[packed] = {"header": self.header, "image": self.image}
        return packed

    async def read_into(
        self,
        wanted: Sequence[tuple[Pixels, Window]],
        bands: Sequence[int],
        *,
        masked: bool,
        part_nbytes: int | None = None,
    ) -> None:
        """Copy the pixels of windows, one after the other."""
        for out, window in wanted:
            self.reader.part_nbytes.append(part_nbytes)
            await self._read_window(out, window, bands, masked=masked)

    async def _read_window(self, out: Pixels, window: Window, bands: Sequence[int], *, masked: bool) -> None:
        """Copy the pixels on the image after the configured delay."""
        self.reader.windows.append((self.header.href, window, tuple(bands)))
        with self.reader._at_work():
            await asyncio.sleep(self.image.delay_s)
            if self.from_packed_header and self.header.etag != self.reader.etag_of(self.header.href):
                self.cost.requests += 1
                raise StaleHeaderError("replaced", href=self.header.href, status=Status.CHANGED)
            if self.image.read_error is not None:
                raise self.image.read_error
            part = window.clipped(width=self.header.width, height=self.header.height)
            if part is None:
                assert self.from_packed_header
                return
            assert out.shape == (len(bands), window.height, window.width)
            rows, cols = slice(part.row_off, part.row_stop), slice(part.col_off, part.col_stop)
            hidden = self.image.hidden if masked else None
            shown = ... if hidden is None else ~hidden[rows, cols]
            y, x = part.row_off - window.row_off, part.col_off - window.col_off
            for index, band in enumerate(bands):
                target = out[index, y : y + part.height, x : x + part.width]
                target[shown] = self.image.pixels[band - 1, rows, cols][shown]
            self.cost.requests += 1
            self.cost.nbytes += part.height * part.width * out.itemsize * len(bands)
            self.cost.read_s += 0.5
            self.cost.decode_s += 0.125

    async def read_tiles(self, window: Window, bands: Sequence[int]) -> list[list[memoryview | None]]:
        """Return the window's pixels as one uncompressed tile of each band."""
        rows, cols = slice(window.row_off, window.row_stop), slice(window.col_off, window.col_stop)
        return [[memoryview(self.image.pixels[band - 1, rows, cols].tobytes())] for band in bands]

    async def find_tiles(self, window: Window, bands: Sequence[int]) -> list[list[TileRange | None]]:
        """Return one range of each band: as if the image held the window's pixels alone."""
        nbytes = window.n_pixels * self.image.pixels.itemsize
        return [[TileRange((band - 1) * nbytes, nbytes)] for band in bands]


class FakePermit:
    """A ``ReadPermit`` that tells its limiter which sources were read."""

    def __init__(self, href: str, read: list[tuple[str, int]]) -> None:
        self._href = href
        self._read = read

    def record_read(self, *, n_requests: int) -> None:
        """Record it."""
        self._read.append((self._href, n_requests))


class FakeLimiter:
    """A ``SourceLimiter`` that also counts the most permits held at one time."""

    def __init__(self, n: int = 8) -> None:
        self._semaphore = asyncio.Semaphore(n)
        self._held = 0
        self.most_held = 0
        self.asked: list[tuple[str, int]] = []
        """(href, weight)"""

        self.read: list[tuple[str, int]] = []
        """(href, requests) of the sources that were read."""

    @asynccontextmanager
    async def permit(self, href: str, *, weight: int) -> AsyncIterator[FakePermit]:
        """Wait for a free permit and hold it."""
        self.asked.append((href, weight))
        async with self._semaphore:
            self._held += 1
            self.most_held = max(self.most_held, self._held)
            yield FakePermit(href, self.read)
            self._held -= 1


@dataclass(frozen=True)
class FakeProjector:
    """A ``Projector`` that shifts x by ``shift`` between any two CRSs. Some CRSs are unknown."""

    shift: float = 0.0
    unknown: frozenset[str] = frozenset()

    def points(
        self, xs: Sequence[float], ys: Sequence[float], *, source_crs: str, target_crs: str
    ) -> tuple[list[float], list[float]]:
        """Move points to the east."""
        self._check(source_crs, target_crs)
        return [x + self.shift for x in xs], list(ys)

    def point_arrays(
        self, xs: Pixels, ys: Pixels, *, source_crs: str, target_crs: str
    ) -> tuple[Pixels, Pixels]:
        """Move many points to the east."""
        self._check(source_crs, target_crs)
        return xs + self.shift, ys

    def bounds(
        self, bounds: tuple[float, float, float, float], *, source_crs: str, target_crs: str
    ) -> tuple[float, float, float, float]:
        """Move a box to the east."""
        self._check(source_crs, target_crs)
        west, south, east, north = bounds
        return west + self.shift, south, east + self.shift, north

    def describe(self, crs: str) -> DescribedCrs | None:
        """Describe a CRS by its name."""
        if crs in self.unknown:
            return None
        return DescribedCrs(wkt2=f"WKT of {crs}", code=crs, is_geographic=crs == "EPSG:4326")

    def check(self, crs: str, *, field: str) -> None:
        """Refuse the unknown CRSs."""
        if crs in self.unknown:
            raise RequestError(f"{crs} is not known", field=field)

    def _check(self, *names: str) -> None:
        for crs in names:
            if crs in self.unknown:
                raise RequestError(f"no way to {crs}", field="crs")


def access_to(
    reader: Any,
    *,
    projector: Projector | None = None,
    limiter: SourceLimiter | None = None,
    timeout_s: float = 300.0,
) -> SourceAccess:
    """Return how sources are read by a reader."""
    return SourceAccess(
        reader=reader,
        projector=projector or FakeProjector(),
        limiter=limiter or FakeLimiter(),
        timeout_s=timeout_s,
    )


def stores_of(cube: Any, control: ControlStore) -> GatherStores:
    """Return where a gather writes. The cube may have only what a test needs."""
    return GatherStores(cube=cube, control=control)


def context_of(cube: Any, control: ControlStore, sources: SourceAccess) -> GatherContext:
    """Return where a gather writes, and how it reads."""
    return GatherContext(cube=cube, control=control, sources=sources)


@dataclass
class FakeTable:
    """A ``SourceTable`` of rows in memory."""

    all_rows: Sequence[CubeRow]
    bands: tuple[str, ...] = ()
    has_time: bool = False
    n_timeless: int = 0
    columns: tuple[ListColumn, ...] = ()
    digest: str = "0123456789abcdef" * 4
    index: Mapping[str, bytes] = field(default_factory=dict)
    """Packed headers by href, as from a header index."""

    notes: tuple[str, ...] = ()
    found: bytes | None = None
    """What a search found."""

    band_numbers: Mapping[str, int] = field(default_factory=dict)
    band_meanings: Mapping[str, BandMeaning] = field(default_factory=dict)
    search_cost: SearchCost | None = None

    @property
    def n_known(self) -> int:
        """Number of sources with a packed header."""
        return sum(each is not None for row in self.packed_headers(0, self.n_rows) for each in row)

    def packed_headers(self, start: int, stop: int) -> Iterator[tuple[bytes | None, ...]]:
        """Yield the packed headers of rows [start, stop)."""
        for row in self.all_rows[start:stop]:
            yield tuple(None if each is None else self.index.get(each.href) for each in row.sources)

    @property
    def n_sources(self) -> int:
        """Number of sources."""
        return sum(source is not None for row in self.all_rows for source in row.sources)

    def found_list(self) -> bytes | None:
        """Return what a search found."""
        return self.found

    @property
    def n_repeated(self) -> int:
        """Number of sources whose href another source has, too."""
        hrefs = [each.href for row in self.all_rows for each in row.sources if each is not None]
        return len(hrefs) - len(set(hrefs))

    @property
    def n_by_bucket(self) -> Mapping[str, int]:
        """Number of sources in each S3 bucket."""
        hrefs = [each.href for row in self.all_rows for each in row.sources if each is not None]
        return Counter(href.split("/")[2] for href in hrefs if href.startswith("s3://"))

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.all_rows)

    def rows(self, start: int, stop: int) -> Iterator[CubeRow]:
        """Yield rows [start, stop)."""
        yield from self.all_rows[start:stop]

    def spread(self, n: int, *, band: str | None) -> tuple[Source, ...]:
        """Return up to ``n`` sources, first and last among them."""
        there = [each for row in self.all_rows for each in row.sources if each is not None]
        there = [each for each in there if band is None or each.band == band]
        wanted = min(n, len(there))
        return tuple(there[i * (len(there) - 1) // max(wanted - 1, 1)] for i in range(wanted))


def table_of(*hrefs: str, **changes: Any) -> FakeTable:
    """Return a table in which each source is a row."""
    rows = tuple(CubeRow(time_us=None, sources=(Source(href=href),)) for href in hrefs)
    return replace(FakeTable(rows), **changes)


@dataclass
class FakeControl:
    """A ``ControlStore`` in memory. ``keys_put`` has the order of the puts."""

    files: dict[str, bytes] = field(default_factory=dict)
    keys_put: list[str] = field(default_factory=list)
    failing: list[str] = field(default_factory=list)
    """Writing a key that begins like one of these fails once."""

    folder: str = ""

    async def put(self, key: str, content: bytes) -> None:
        """Keep a file."""
        for begin in self.failing:
            if key.startswith(begin):
                self.failing.remove(begin)
                raise OSError("the machine was switched off")
        self.keys_put.append(key)
        self.files[self.folder + key] = content

    async def put_new(self, key: str, content: bytes) -> bool:
        """Keep a file if there is none."""
        if self.folder + key in self.files:
            return False
        await self.put(key, content)
        return True

    async def put_stream(self, key: str, parts: Iterator[bytes]) -> None:
        """Keep a file."""
        await self.put(key, b"".join(parts))

    async def get(self, key: str) -> bytes | None:
        """Return a file."""
        return self.files.get(self.folder + key)

    async def get_range(self, key: str, start: int, stop: int) -> bytes:
        """Return a part of a file."""
        content = self.files.get(self.folder + key)
        if content is None:
            raise missing_file(key)
        return content[start:stop]

    async def list_(self, prefix: str, *, skip_empty: bool = False) -> set[str]:
        """Return the keys below a prefix."""
        whole = self.folder + prefix
        return {
            key.removeprefix(self.folder)
            for key, content in self.files.items()
            if key.startswith(whole) and (content or not skip_empty)
        }

    async def clear(self) -> None:
        """Forget everything."""
        for key in [key for key in self.files if key.startswith(self.folder)]:
            del self.files[key]

    def below(self, folder: str) -> Self:
        """Return the store of one folder, on the same files."""
        return dataclasses.replace(self, folder=f"{self.folder}{folder}/")


@dataclass
class FakePace:
    """A ``Pace`` that never waits. It records its calls in order."""

    calls: list[tuple[str, str]] = field(default_factory=list)
    """(method, root)"""

    answers: list[float] = field(default_factory=list)
    """Seconds to the first byte of each."""

    shared: set[str] = field(default_factory=set)
    """Back ends that all workers share."""

    async def turn(self, root: str) -> None:
        """Record the call and do not wait."""
        self.calls.append(("turn", root))

    def governs(self, root: str) -> bool:
        """Whether all workers share what it may be asked."""
        return root in self.shared

    def record_answer(self, root: str, *, first_byte_s: float) -> None:
        """Record an answer."""
        self.calls.append(("answered", root))
        self.answers.append(first_byte_s)

    def record_throttle(self, root: str) -> None:
        """Record a 503."""
        self.calls.append(("throttled", root))
