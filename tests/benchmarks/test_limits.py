"""The limits are measured on the same requests and the same pixels as the readers."""

from collections.abc import Iterator

import pytest

from benchmarks.engines import LIMITS
from benchmarks.measure import Bench, Measurement, Setting, open_bench
from benchmarks.peer_tables import Limit, limit_of

N_TILES = 16


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    """A warm server of a few of the benchmark's files."""
    with open_bench(n_files=N_TILES) as opened:
        yield opened


@pytest.fixture(scope="module")
def measured(bench: Bench) -> dict[str, Measurement]:
    """One quick run of each limit; `Bench.rounds` compares the pixels that are decoded."""
    settings = [
        Setting(case="check", engine=engine, concurrency=2, n_tiles=N_TILES, ttfb_ms=0.0, counts_start=False)
        for engine in LIMITS
    ]
    return {each.setting.engine: each for each in bench.rounds(settings, repeats=1, on_run=lambda _: None)}


def test_limits_send_the_fewest_requests(measured: dict[str, Measurement]) -> None:
    """Two GETs of an unknown file, one of an indexed one, none from memory."""
    n_gets = {engine: each.n_gets / N_TILES for engine, each in measured.items()}

    assert n_gets == {"limit-fetch": 2, "limit-fetch-indexed": 1, "limit-decode": 0}


def test_limit_fetch_asks_for_the_header_and_the_tile(bench: Bench) -> None:
    """The bytes fetched are those that a reader needs: 16 KiB, then what tifffile says of the centre tile."""
    setting = Setting(
        case="check", engine="limit-fetch", concurrency=1, n_tiles=2, ttfb_ms=0.0, counts_start=False
    )
    bench.rounds([setting], repeats=1, on_run=lambda _: None)

    ranges = [row.range for row in bench.server.log().requests]
    starts, stops = zip(*((int(n) for n in str(each)[6:].split("-")) for each in ranges), strict=True)

    assert ranges[::2] == ["bytes=0-16383"] * 2
    assert all(start > 3000 for start in starts[1::2])
    assert all(
        200_000 < stop - start < 500_000 for start, stop in zip(starts[1::2], stops[1::2], strict=True)
    )


def test_limit_joins_fetching_and_decoding(measured: dict[str, Measurement]) -> None:
    """It is the cores' time divided by the CPU time of both parts, and waiting and serving only lower it."""
    limit = limit_of(measured["limit-fetch"], measured["limit-decode"], cores=2, n_tiles=N_TILES)

    assert limit.fetch_s > 0
    assert limit.decode_s > 0
    assert limit.tiles_per_s == pytest.approx(2 / (limit.fetch_s + limit.decode_s))
    assert limit.reachable_tiles_per_s < limit.tiles_per_s


def test_limit_counts_one_wait_for_each_request_of_a_tile() -> None:
    """Ten tiles of 1 s of work in all on one core, after a wait of 1 s: five a second."""
    limit = Limit(fetch_s=0.02, decode_s=0.07, server_s=0.01, cores=1, n_tiles=10, waiting_s=1.0)

    assert limit.reachable_tiles_per_s == pytest.approx(5.0)
