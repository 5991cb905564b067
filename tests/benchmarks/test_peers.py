"""Every peer reads the right pixels with as few requests as the tables say; the group `peers` has them."""

import json
from collections.abc import Iterator
from dataclasses import asdict

import pytest

from benchmarks.engines import ENGINES, PEERS
from benchmarks.measure import OURS, Bench, Measurement, Setting, from_json, open_bench
from benchmarks.peer_tables import tables

N_TILES = 16
GETS = {"rasteret": 1.0, "stackstac": 3.0}
"""Of those that do not take two; rasteret has read the headers beforehand."""


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    """A warm server of a few of the benchmark's files, by TLS too."""
    with open_bench(n_files=N_TILES, tls=True) as opened:
        yield opened


def measure(bench: Bench, *engines: str, tls: bool = False) -> list[Measurement]:
    """Run each once; `Bench.rounds` compares digests."""
    settings = [
        Setting(
            case="check",
            engine=engine,
            concurrency=2,
            n_tiles=N_TILES,
            ttfb_ms=0.0,
            counts_start=False,
            tls=tls,
        )
        for engine in engines
    ]
    return bench.rounds(settings, repeats=1, on_run=lambda _: None)


@pytest.mark.slow
@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("engine", [name for name in PEERS if ENGINES[name].needs])
def test_peer_returns_the_files_pixels(bench: Bench, engine: str, tls: bool) -> None:  # noqa: FBT001 # a parameter
    """A table of wrong pixels would be worth nothing."""
    if not ENGINES[engine].is_installed:
        pytest.skip("the dependency group peers is not installed")

    measured = measure(bench, engine, tls=tls)

    assert measured[0].n_gets / N_TILES == pytest.approx(GETS.get(engine, 2.0), abs=0.1)
    assert measured[0].n_heads == 0


def test_reader_and_rasterio_read_by_tls(bench: Bench) -> None:
    """Each trusts the server's authority as its users would tell it to, and sends no other requests."""
    measured = measure(bench, OURS, "rasterio-published", "rasterio-modern", tls=True)

    assert [(each.n_gets / N_TILES, each.n_heads / N_TILES) for each in measured] == [(2, 0), (2, 1), (2, 0)]


def test_tables_are_the_same_from_what_was_kept(bench: Bench) -> None:
    """Pieces measured apart are put together from their files."""
    measured = measure(bench, OURS, "limit-fetch", "limit-decode")

    kept = from_json(json.dumps({"measurements": [asdict(each) for each in measured]}).encode())
    printed = list(tables([kept], cores=2))

    assert kept == measured
    assert printed == list(tables([measured], cores=2))
    assert any(line.startswith("| pixel-gather | 2 | 16 |") for line in printed)
    assert any("Limit for pixel-gather" in line for line in printed)
