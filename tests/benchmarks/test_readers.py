"""The readers that are compared read the right pixels, in as few requests as the tables say."""

from collections.abc import Iterator
from copy import replace
from pathlib import Path

import msgspec
import pytest

from benchmarks.bench_peers import Kept, best_settings, with_late
from benchmarks.measure import Bench, Measurement, Setting, open_bench, ratio, tiles_per_s
from benchmarks.readers import INDEXED, LIMITS, OURS, PEERS, READERS, UNHEDGED, Run
from benchmarks.tables import Limit, limit_of, tables

N_TILES = 16
REQUESTS = {
    OURS: (2, 0),
    INDEXED: (1, 0),
    "rasterio-published": (2, 1),
    "rasterio-modern": (2, 0),
    "limit-fetch": (2, 0),
    "limit-fetch-indexed": (1, 0),
    "limit-decode": (0, 0),
}
"""GETs and HEADs of a tile."""

PEERS_GETS = {"rasteret": 1.0, "stackstac": 3.0}
"""Of the other peers that do not take two; rasteret has read the headers beforehand."""


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    """A warm server of a few of the benchmark's files, by TLS too."""
    with open_bench(n_files=N_TILES, tls=True) as opened:
        yield opened


@pytest.fixture(scope="module")
def measured(bench: Bench) -> dict[str, Measurement]:
    """One quick run of each reader that needs no other library. `Bench.measure` compares the pixels."""
    settings = [setting_of(reader, tls=reader.startswith(("pixel", "raster"))) for reader in REQUESTS]
    return {each.setting.reader: each for each in bench.measure(settings)}


def setting_of(reader: str, *, tls: bool = False) -> Setting:
    """Return a small run."""
    return Setting(case="check", reader=reader, concurrency=2, n_tiles=N_TILES, tls=tls)


def faked(
    setting: Setting, *, reading_s: float = 1.0, cpu_s: float = 1.0, n_gets: int = 32, round_index: int = 0
) -> Measurement:
    """Return a measurement that nobody made."""
    run = Run(
        n_tiles=setting.n_tiles,
        reading_s=reading_s,
        process_s=reading_s + 1,
        reading_cpu_s=cpu_s,
        process_cpu_s=cpu_s + 1,
        peak_rss_mib=100.0,
        digest="",
    )
    return Measurement(
        setting=setting,
        round_index=round_index,
        run=run,
        n_gets=n_gets,
        n_heads=0,
        n_refused=0,
        server_cpu_s=0.1,
    )


@pytest.mark.long
def test_readers_send_the_fewest_requests(measured: dict[str, Measurement]) -> None:
    """Two GETs of an unknown file, one of an indexed one, none from memory; a hedge may add one."""
    for reader, (gets, heads) in REQUESTS.items():
        found = measured[reader]
        assert gets <= found.n_gets / N_TILES < gets + 0.2, reader
        assert found.n_heads / N_TILES == heads, reader


@pytest.mark.long
@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("reader", [name for name in PEERS if READERS[name].needs])
def test_peer_returns_the_files_pixels(bench: Bench, reader: str, tls: bool) -> None:  # noqa: FBT001 # a parameter
    """A table of wrong pixels would be worth nothing."""
    if not READERS[reader].is_installed:
        pytest.skip("the dependency group peers is not installed")

    [found] = bench.measure([setting_of(reader, tls=tls)])

    assert found.n_gets / N_TILES == pytest.approx(PEERS_GETS.get(reader, 2.0), abs=0.1)
    assert found.n_heads == 0


@pytest.mark.long
def test_limit_fetch_asks_for_the_header_and_the_tile(bench: Bench) -> None:
    """The bytes fetched are those that a reader needs: 16 KiB, then the centre tile."""
    bench.measure([replace(setting_of("limit-fetch"), concurrency=1, n_tiles=2)])

    ranges = [str(row.range) for row in bench.server.log().requests]
    starts, stops = zip(*((int(n) for n in each[6:].split("-")) for each in ranges), strict=True)

    assert ranges[::2] == ["bytes=0-16383"] * 2
    assert all(start > 3000 for start in starts[1::2])
    assert all(
        200_000 < stop - start < 500_000 for start, stop in zip(starts[1::2], stops[1::2], strict=True)
    )


@pytest.mark.long
def test_late_answers_are_asked_for_again_by_our_reader_alone(bench: Bench) -> None:
    """What is late is fetched twice, and the pixels are right."""
    settings = [replace(setting_of(reader), concurrency=64, n_tiles=64) for reader in (OURS, UNHEDGED)]

    ours, unhedged = bench.measure([replace(each, slow_share=0.04, slow_s=0.5) for each in settings])

    assert ours.n_gets > unhedged.n_gets == 128


def test_limit_joins_fetching_and_decoding() -> None:
    """It is the cores' time divided by the CPU time of both parts."""
    fetched = faked(replace(setting_of("limit-fetch"), ttfb_ms=15), cpu_s=1.6)
    decoded = faked(setting_of("limit-decode"), cpu_s=3.2)

    limit = limit_of(fetched, decoded, cores=2, n_tiles=N_TILES)

    assert limit.tiles_per_s == pytest.approx(2 / (0.1 + 0.2))
    assert limit.waiting_s == pytest.approx(0.03)


def test_limit_counts_one_wait_for_each_request_of_a_tile() -> None:
    """Ten tiles of 1 s of work in all on one core, after a wait of 1 s: five a second."""
    limit = Limit(fetch_s=0.02, decode_s=0.07, server_s=0.01, cores=1, n_tiles=10, waiting_s=1.0)

    assert limit.reachable_tiles_per_s == pytest.approx(5.0)


def test_ratios_are_formed_within_each_round() -> None:
    """A machine that becomes slower becomes so for both."""
    ours, theirs = setting_of(OURS), setting_of("rasterio-modern")
    pairs = [(faked(ours, reading_s=s), faked(theirs, reading_s=2 * s)) for s in (1.0, 3.0, 9.0)]

    found = ratio(tiles_per_s, *zip(*pairs, strict=True))

    assert found.text(2) == "2.00"


def test_best_settings_are_the_fastest_of_each_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings without a rival are not tried."""
    tried = [replace(setting_of("rasterio-modern"), concurrency=n) for n in (8, 16, 32)]
    pace = {8: 3.0, 16: 1.0, 32: 2.0}

    def measure(_: Bench, settings: list[Setting]) -> list[Measurement]:
        return [faked(each, reading_s=pace[each.concurrency]) for each in settings]

    monkeypatch.setattr(Bench, "measure", measure)
    bench = Bench(server=None, digests={}, folder=Path())  # type: ignore[arg-type] # nothing is served

    assert best_settings(bench, [*tried, setting_of(OURS)]) == [tried[1], setting_of(OURS)]


@pytest.mark.long
def test_tables_are_the_same_from_what_was_kept() -> None:
    """Readers, late answers and limits each have their lines, also from a file."""
    settings = with_late([setting_of(name) for name in (OURS, "rasterio-modern")], (0.01, 1.0))
    settings += [setting_of(name) for name in LIMITS]
    measured = [faked(each, reading_s=2.0 if each.slow_share else 1.0) for each in settings]

    kept = msgspec.json.decode(msgspec.json.encode({"measurements": measured, "about": {}}), type=Kept)
    printed = list(tables([kept.measurements], cores=2))

    assert kept.measurements == measured
    assert printed == list(tables([measured], cores=2))
    assert "| pixel-gather, late | 2 | 16 | 8 | 62.50 | 2.00 | 0.00 % | 100 |  |  |  |  |" in printed
    assert any(
        line.startswith("| rasterio-modern | 2 | 16 |") and "| 1.00 | 1.00 |" in line for line in printed
    )
    assert "| pixel-gather | 1.00 | 2.00 | 2.00 | 0.0 % |" in printed
    assert any(line.startswith("| pixel-gather | 16 | 1.00 |") for line in printed)
