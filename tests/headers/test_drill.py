"""A pixel of every source, and an index of them: what each tells of how many are read at a time."""

import asyncio

import numpy as np

from pixel_gather.errors import SourceError
from pixel_gather.headers.drill import drill
from pixel_gather.headers.indexing import index_sources
from pixel_gather.model.source import Cost, Source
from pixel_gather.model.status import Status
from pixel_gather.model.window import WindowRule
from support.fakes import FakeImage, FakeLimiter, FakeProjector, FakeReader

A = np.arange(50 * 40, dtype="uint16").reshape(1, 50, 40)
SOURCES = (Source(href="a"), Source(href="missing"), Source(href="b"))
MISSING = SourceError("no such object", href="missing", status=Status.MISSING)


class _Teller:
    """A ``HeaderTeller`` that needs one request for each source, and another where the first was late."""

    async def packed_header_of(self, href: str, *, overview: int | None, cost: Cost) -> bytes | None:
        """Tell of all but one."""
        del overview
        cost.requests += 3
        cost.retries, cost.hedges = 1, 1
        if href == "missing":
            raise MISSING
        return b"known"


def test_drill_says_which_sources_were_read() -> None:
    """How long the others took is no measure of how many to read at a time."""
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
    """As a gather does; what was sent twice counts once."""
    limiter = FakeLimiter()

    async def run() -> list[Status]:
        indexed = index_sources(
            SOURCES, overview=None, reader=_Teller(), limiter=limiter, most_ahead=8, source_timeout_s=5
        )
        return [each.status async for each in indexed]

    assert asyncio.run(run()) == [Status.OK, Status.MISSING, Status.OK]
    assert sorted(limiter.read) == [("a", 1), ("b", 1)]
