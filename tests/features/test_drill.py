"""Drills, indexes and catalogs report to the limiter which sources were read, and wait as long as is said."""

import asyncio
import math
from typing import Any

import numpy as np
import pytest

from pixel_gather import drill as drill_list
from pixel_gather.core.errors import RequestError, SourceError
from pixel_gather.core.model.source import Cost, Header, Source
from pixel_gather.core.model.status import Status
from pixel_gather.core.model.window import WindowRule
from pixel_gather.core.ports import SourceAccess
from pixel_gather.features.catalog.catalog import open_headers
from pixel_gather.features.drill.read_pixels import DrilledPixel, drill
from pixel_gather.features.index.read_headers import index_sources
from support.fakes import FakeImage, FakeLimiter, FakeProjector, FakeReader
from support.in_loop import in_loop

A = np.arange(50 * 40, dtype="uint16").reshape(1, 50, 40)
SOURCES = (Source(href="a"), Source(href="missing"), Source(href="b"))
MISSING = SourceError("no such object", href="missing", status=Status.MISSING)


class _HeaderPacker:
    """Packs headers. Each source takes three requests: a needed one, a retry and a hedge."""

    async def packed_header_of(self, href: str, *, overview: int | None, cost: Cost) -> bytes | None:
        """Count the requests and return a packed header, unless the source is missing."""
        del overview
        cost.requests += 3
        cost.retries, cost.hedges = 1, 1
        if href == "missing":
            raise MISSING
        return b"known"


@in_loop
async def test_drill_says_which_sources_were_read() -> None:
    """Only sources that were read are reported. The time of others is no measure."""
    limiter = FakeLimiter()
    reader = FakeReader({"a": A, "missing": FakeImage(pixels=A, open_error=MISSING), "b": A})

    pixels = drill(
        SOURCES,
        WindowRule(pixels=(3, 4, 1, 1)),
        bands=None,
        band_numbers={},
        access=SourceAccess(
            reader=reader,
            projector=FakeProjector(),
            limiter=limiter,
            timeout_s=60,
        ),
        most_ahead=8,
    )
    assert [pixel.status async for pixel in pixels] == [Status.OK, Status.MISSING, Status.OK]
    assert sorted(limiter.read) == [("a", 2), ("b", 2)]


@in_loop
async def test_index_sources_says_which_sources_were_opened() -> None:
    """Only opened sources are reported. A request that was hedged counts once."""
    limiter = FakeLimiter()

    indexed = index_sources(
        SOURCES, overview=None, reader=_HeaderPacker(), limiter=limiter, most_ahead=8, source_timeout_s=5
    )
    assert [each.status async for each in indexed] == [Status.OK, Status.MISSING, Status.OK]
    assert sorted(limiter.read) == [("a", 1), ("b", 1)]


@pytest.mark.parametrize(
    ("value", "nodata", "is_nodata"),
    [
        (0, 0, True),
        (1, 0, False),
        (math.nan, None, True),
        (math.nan, 0, True),
        (0, None, False),
        (0, math.nan, False),
    ],
)
def test_nan_and_the_sources_nodata_are_no_pixel(
    value: float, nodata: float | None, *, is_nodata: bool
) -> None:
    """Other values are, though the source declares NaN."""
    pixel = DrilledPixel(source=Source(href="a"), status=Status.OK, nodata=nodata)

    assert pixel.is_nodata(value) is is_nodata


@in_loop
async def test_a_source_that_opens_too_late_is_told_apart() -> None:
    """The others are indexed. The reason says how long was waited."""

    class Slow(_HeaderPacker):
        async def packed_header_of(self, href: str, *, overview: int | None, cost: Cost) -> bytes | None:
            if href == "b":
                await asyncio.sleep(60)
            return await super().packed_header_of(href, overview=overview, cost=cost)

    indexed = index_sources(
        SOURCES, overview=None, reader=Slow(), limiter=FakeLimiter(), most_ahead=8, source_timeout_s=0.05
    )
    assert [(each.status, each.reason, each.packed_header) async for each in indexed] == [
        (Status.OK, None, b"known"),
        (Status.MISSING, "no such object", None),
        (Status.TIMED_OUT, "not opened within 0.05 s", None),
    ]


@in_loop
async def test_a_source_that_is_read_too_late_is_told_apart() -> None:
    """Its pixel is missing, and the others are read. A slow server would hold up all of them."""

    class Slow(FakeReader):
        async def open_(self, href: str, **options: Any) -> Any:
            if href == "b":
                await asyncio.sleep(60)
            return await super().open_(href, **options)

    pixels = drill(
        (Source(href="a"), Source(href="b")),
        WindowRule(pixels=(3, 4, 1, 1)),
        bands=None,
        band_numbers={},
        access=SourceAccess(
            reader=Slow({"a": A, "b": A}),
            projector=FakeProjector(),
            limiter=FakeLimiter(),
            timeout_s=0.05,
        ),
        most_ahead=8,
    )
    assert [(each.status, each.reason, each.values) async for each in pixels] == [
        (Status.OK, None, (A[0, 4, 3],)),
        (Status.TIMED_OUT, "not read within 0.05 s", ()),
    ]


@in_loop
async def test_headers_of_a_catalog_are_opened_as_those_of_an_index() -> None:
    """The limiter learns of each that was opened. One that opens too late is left out with a reason."""

    class Slow(FakeReader):
        async def open_(self, href: str, **options: Any) -> Any:
            if href == "b":
                await asyncio.sleep(60)
            return await super().open_(href, **options)

    limiter = FakeLimiter()
    access = SourceAccess(
        reader=Slow({"a": A, "missing": FakeImage(pixels=A, open_error=MISSING), "b": A}),
        projector=FakeProjector(),
        limiter=limiter,
        timeout_s=0.05,
    )

    (_, one), *others = [each async for each in open_headers(SOURCES, access=access, most_ahead=8)]

    assert isinstance(one, Header)
    assert (one.width, one.height) == (40, 50)
    assert [reason for _, reason in others] == ["no such object", "not opened within 0.05 s"]
    assert [href for href, _ in limiter.read] == ["a"]


def test_a_drilled_pixel_has_the_wanted_bands() -> None:
    """All bands if none are wanted. A source without one of them is told apart."""
    two = np.stack([A[0], A[0] + 1])

    async def run(bands: tuple[int, ...] | None) -> list[DrilledPixel]:
        pixels = drill(
            (Source(href="a"), Source(href="two")),
            WindowRule(pixels=(3, 4, 1, 1)),
            bands=bands,
            band_numbers={},
            access=SourceAccess(
                reader=FakeReader({"a": A, "two": two}),
                projector=FakeProjector(),
                limiter=FakeLimiter(),
                timeout_s=60,
            ),
            most_ahead=8,
        )
        return [pixel async for pixel in pixels]

    one, other = asyncio.run(run(None))
    assert (one.values, one.bands, one.col, one.row) == ((A[0, 4, 3],), (1,), 3, 4)
    assert (other.values, other.bands) == ((A[0, 4, 3], A[0, 4, 3] + 1), (1, 2))
    one, other = asyncio.run(run((2, 1)))
    assert (one.status, one.reason, one.values) == (Status.UNLIKE, "it has 1 band, not 2", ())
    assert other.values == (A[0, 4, 3] + 1, A[0, 4, 3])


@in_loop
async def test_a_point_without_a_way_to_the_sources_crs_is_told() -> None:
    """The other sources are read."""
    pixels = drill(
        (Source(href="a"),),
        WindowRule(point=(11.0, 46.0), size=(1, 1), crs="EPSG:4326"),
        bands=None,
        band_numbers={},
        access=SourceAccess(
            reader=FakeReader({"a": FakeImage(pixels=A, header={"crs": "EPSG:3857"})}),
            projector=FakeProjector(unknown=frozenset({"EPSG:3857"})),
            limiter=FakeLimiter(),
            timeout_s=60,
        ),
        most_ahead=8,
    )
    (pixel,) = [pixel async for pixel in pixels]

    assert pixel.status is Status.UNSUPPORTED
    assert pixel.reason == "crs: no way to EPSG:3857"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"point": "1,2"}, "point: write two numbers: longitude, latitude"),
        ({"xy": 7}, "xy: write two numbers: x, y"),
        ({"pixel": (1,)}, "pixel: write two numbers: column, row"),
        ({"pixel": (1, 2.5)}, "pixel: it is 1, 2.5; write whole numbers: column, row"),
        ({"point": (1, 2), "bands": "1"}, r"bands: it is '1'; write a list of numbers, such as \[1, 2\]"),
        ({"point": (1, 2), "bands": 1}, r"bands: it is 1; write a list"),
    ],
)
def test_what_is_no_list_of_numbers_is_refused(given: dict[str, Any], said: str) -> None:
    """Before anything is read."""
    with pytest.raises(RequestError, match=f"^{said}"):
        drill_list(["a.tif"], **given)
