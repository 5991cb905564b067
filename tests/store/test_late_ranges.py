"""Ranges that are late or stall, read from local servers."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import replace
from pathlib import Path

import pytest

from benchmarks.loopback_server import Behaviour, Fault, LoopbackServer, run_server
from pixel_gather.core.errors import SourceError
from pixel_gather.core.model.source import Cost
from pixel_gather.core.model.status import Status
from pixel_gather.io.store.fetched import Fetched
from pixel_gather.io.store.hedge_policy import HedgeSettings
from pixel_gather.io.store.object_store import Objects
from pixel_gather.io.store.store_settings import StoreSettings
from support.fakes import FakePace
from support.local_server import Answer, Asked, LocalServer, ranged, serving

CONTENT = bytes(range(256)) * 400
HANGS = Answer(delay_s=30)
SETTINGS = StoreSettings(first_backoff_s=0.001, max_retries=2, hedging=HedgeSettings(least_late_s=0.05))
BOTH_CLIENTS = pytest.mark.parametrize("stays_on_host", [False, True], ids=["obstore", "fixed host"])


def good(asked: Asked) -> Answer:
    """Answer as an honest server."""
    return ranged(CONTENT, asked)


@contextmanager
def late_server(*answers: Answer | Callable[[Asked], Answer]) -> Iterator[LocalServer]:
    """Serve ``/late`` with these answers in sequence, and all other paths at once."""
    left = iter(answers)

    def script(asked: Asked) -> Answer:
        answer = next(left, good) if asked.path == "/late" else good
        return answer if isinstance(answer, Answer) else answer(asked)

    with serving(script) as server:
        yield server


async def get_late(
    objects: Objects, root: str, cost: Cost, *, etag: str | None = '"1"', n_before: int = 40
) -> Fetched:
    """Read a late range once the server is known to answer at once."""
    for index in range(n_before):
        await objects.get_range(f"{root}/{index}", 0, 10, etag=None, cost=Cost())
    return await objects.get_range(f"{root}/late", 10, 20, etag=etag, cost=cost)


def test_late_range_of_a_shared_host_is_waited_for() -> None:
    """A second request would not be within what all workers together may send."""
    cost = Cost()
    with late_server(Answer(status=503, delay_s=0.5)) as server:
        objects = Objects(SETTINGS, pace=FakePace(shared={server.root}))
        fetched = asyncio.run(get_late(objects, server.root, cost))

    assert bytes(fetched.content) == CONTENT[10:20]
    assert (cost.requests, cost.hedges, cost.retries) == (2, 0, 1)


@BOTH_CLIENTS
def test_late_range_is_asked_for_on_another_connection(stays_on_host: bool) -> None:  # noqa: FBT001 # a parameter of the test
    """The hedge uses another connection, because the first one hangs. It requests the same version."""
    cost = Cost()
    with late_server(HANGS) as server:
        objects = Objects(replace(SETTINGS, stays_on_host=stays_on_host))
        fetched = asyncio.run(get_late(objects, server.root, cost))

    assert bytes(fetched.content) == CONTENT[10:20]
    assert [asked.if_match for asked in server.asked if asked.path == "/late"] == ['"1"', '"1"']
    assert (cost.requests, cost.hedges, cost.retries) == (2, 1, 0)


def test_connections_are_used_again_after_a_hedge_has_won() -> None:
    """The connection of the first request is closed, and later requests are not blocked."""
    objects = Objects(SETTINGS)

    async def run(root: str) -> Fetched:
        await get_late(objects, root, Cost())
        return await get_late(objects, root, Cost())

    with late_server(HANGS) as server:
        assert bytes(asyncio.run(run(server.root)).content) == CONTENT[10:20]


@pytest.mark.parametrize(
    ("hedge", "expected"),
    [
        (Answer(status=412), Status.CHANGED),
        (Answer(status=404), Status.MISSING),
        (lambda asked: ranged(CONTENT, asked, etag='"2"', ignores_if_match=True), Status.CHANGED),
    ],
    ids=["412", "404", "another version"],
)
def test_refusal_of_the_hedge_is_the_answer(hedge: Answer, expected: Status) -> None:
    """If the hedge learns that the version is gone, the source fails."""
    with late_server(HANGS, hedge) as server, pytest.raises(SourceError) as caught:
        asyncio.run(get_late(Objects(SETTINGS), server.root, Cost()))

    assert caught.value.status is expected


def test_hedge_that_is_throttled_leaves_the_first_alone_and_slows_the_pace() -> None:
    """The first request is answered. The store gets no hedges for a while."""
    pace, cost = FakePace(), Cost()
    slow = lambda asked: replace(good(asked), delay_s=0.5)  # noqa: E731 # a row of answers
    with late_server(slow, Answer(status=503), slow) as server:

        async def run() -> None:
            objects = Objects(SETTINGS, pace=pace)
            await get_late(objects, server.root, cost)
            await get_late(objects, server.root, cost)

        asyncio.run(run())

    assert (cost.requests, cost.hedges, cost.retries) == (3, 1, 0)
    assert pace.calls.count(("throttled", server.root)) == 1


def test_pace_hears_of_the_answer_that_was_taken() -> None:
    """The reported time counts from the start of the hedge whose answer was taken."""
    pace = FakePace()
    settings = replace(SETTINGS, hedging=HedgeSettings(least_late_s=0.3))
    with late_server(HANGS) as server:

        async def run() -> float:
            began_s = time.monotonic()
            await get_late(Objects(settings, pace=pace), server.root, Cost())
            return time.monotonic() - began_s

        took_s = asyncio.run(run())

    assert len(pace.answers) == 41
    assert sum(pace.answers) <= took_s - 0.3


def test_no_hedge_without_settings() -> None:
    """Hedging can be switched off."""
    cost = Cost()
    with late_server(lambda asked: replace(good(asked), delay_s=0.5)) as server:
        asyncio.run(get_late(Objects(replace(SETTINGS, hedging=None)), server.root, cost))

    assert (cost.requests, cost.hedges) == (1, 0)


def test_first_byte_has_its_own_time_out() -> None:
    """A store that never answers costs the time-out and a retry."""
    settings = replace(SETTINGS, hedging=None, first_byte_timeout_s=0.2, request_timeout_s=600)
    cost = Cost()
    with late_server(HANGS) as server:
        fetched = asyncio.run(get_late(Objects(settings), server.root, cost, n_before=0))

    assert bytes(fetched.content) == CONTENT[10:20]
    assert (cost.requests, cost.retries) == (2, 1)


@pytest.fixture
def stalling(tmp_path: Path) -> Iterator[LoopbackServer]:
    """Serve a file whose first answer stops in the middle of its body."""
    (tmp_path / "a").write_bytes(CONTENT)
    with run_server(tmp_path) as server:
        server.behave(Behaviour(faults={"/x/a": Fault(stop_at=50_000, stall_s=30.0)}))
        yield server


@pytest.mark.long
@BOTH_CLIENTS
def test_body_that_stops_arriving_is_asked_for_again(stalling: LoopbackServer, stays_on_host: bool) -> None:  # noqa: FBT001 # a parameter of the test
    """A body that stops arriving is requested again long before the whole request times out."""
    settings = replace(SETTINGS, stall_timeout_s=0.3, request_timeout_s=600, stays_on_host=stays_on_host)
    cost = Cost()

    fetched = asyncio.run(
        Objects(settings).get_range(f"{stalling.url}/x/a", 0, len(CONTENT), etag=None, cost=cost)
    )

    assert bytes(fetched.content) == CONTENT
    assert (cost.requests, cost.retries) == (2, 1)
