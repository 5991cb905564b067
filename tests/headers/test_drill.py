"""Drills and indexes report to the limiter which sources were read."""

import asyncio
import math

import numpy as np
import pytest

from pixel_gather.errors import SourceError
from pixel_gather.headers.drill import DrilledPixel, drill
from pixel_gather.headers.indexing import index_sources
from pixel_gather.model.source import Cost, Source
from pixel_gather.model.status import Status
from pixel_gather.model.window import WindowRule
from support.fakes import FakeImage, FakeLimiter, FakeProjector, FakeReader

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


def test_drill_says_which_sources_were_read() -> None:
    """Only sources that were read are reported. The time of others is no measure."""
    limiter = FakeLimiter()
    reader = FakeReader({"a": A, "missing": FakeImage(pixels=A, open_error=MISSING), "b": A})

    async def run() -> list[Status]:
        pixels = drill(
            SOURCES,
            WindowRule(pixels=(3, 4, 1, 1)),
            bands=None,
            reader=reader,
            projector=FakeProjector(),
            limiter=limiter,
            most_ahead=8,
        )
        return [pixel.status async for pixel in pixels]

    assert asyncio.run(run()) == [Status.OK, Status.MISSING, Status.OK]
    assert sorted(limiter.read) == [("a", 2), ("b", 2)]


def test_index_sources_says_which_sources_were_opened() -> None:
    """Only opened sources are reported. A request that was hedged counts once."""
    limiter = FakeLimiter()

    async def run() -> list[Status]:
        indexed = index_sources(
            SOURCES, overview=None, reader=_HeaderPacker(), limiter=limiter, most_ahead=8, source_timeout_s=5
        )
        return [each.status async for each in indexed]

    assert asyncio.run(run()) == [Status.OK, Status.MISSING, Status.OK]
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
