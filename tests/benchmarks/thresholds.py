"""What the benchmarks have to come out at; `scripts/benchmark` runs these on a quiet machine.

They are no tests, as any other load on the machine fails them. Only ratios of runs made moments apart are
asserted, never times, with room for noise.
"""

import platform
import statistics
import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from benchmarks.bench_assemble import measure as measure_storing
from benchmarks.bench_concurrency import THROTTLED, against_best, settings_of, tiles_per_s
from benchmarks.bench_index import INDEXED
from benchmarks.bench_index import settings_of as index_settings_of
from benchmarks.bench_scale import run_size
from benchmarks.bench_startup import Figures, Package, measure_first_tile
from benchmarks.bench_tail import UNHEDGED, n_requests, ratio, reading_s, tail_settings, with_tail
from benchmarks.measure import OURS, Bench, Setting, Spread, compare, open_bench
from infra.bundle.bundle import bundle

pytestmark = [pytest.mark.perf, pytest.mark.slow, pytest.mark.timeout(1800)]

FUNCTIONS: Final = str(Path(__file__).parents[2] / "functions")
SHARD_ROWS: Final = 64
N_FILES: Final = 256


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    """A warm server of the benchmark's files."""
    with open_bench(n_files=N_FILES) as opened:
        yield opened


def setting_of(engine: str, *, concurrency: int, n_tiles: int) -> Setting:
    """Return one way of reading many tiles at 15 ms to the first byte."""
    return Setting(
        case="long",
        engine=engine,
        concurrency=concurrency,
        n_tiles=n_tiles,
        ttfb_ms=15.0,
        counts_start=False,
    )


def test_reader_beats_rasterio(bench: Bench) -> None:
    """It is faster, and takes less CPU, than rasterio at its best thread count.

    Small runs on two busy cores gave 2.0 to 2.7 times the tiles/s and 0.40 to 0.6 of the CPU time.
    """
    contenders = [(OURS, 64)] + [
        (engine, threads) for engine in ("rasterio-published", "rasterio-modern") for threads in (16, 32)
    ]
    settings = [
        setting_of(engine, concurrency=concurrency, n_tiles=128) for engine, concurrency in contenders
    ]

    speed, cpu = compare(bench.rounds(settings, repeats=5, on_run=lambda _: None))

    assert speed.median >= 1.5, speed
    assert cpu.median <= 0.75, cpu


@pytest.mark.parametrize("ttfb_ms", [0, 30])
def test_limiter_comes_near_the_best_fixed_number(bench: Bench, ttfb_ms: int) -> None:
    """At 0 and 30 ms to the first byte, which want different ones."""
    given = Namespace(
        ttfb=[ttfb_ms],
        cases=["long"],
        concurrency=[8, 32, 64, 128],
        files=512,
        slow_share=0.0,
        slow_s=0.0,
    )

    measured = bench.rounds(list(settings_of(given)), repeats=5, on_run=lambda _: None)

    assert against_best(measured, tiles_per_s)[1].median >= 0.88


def test_limiter_wastes_little_on_a_server_that_throttles(bench: Bench) -> None:
    """No source fails, which `read_tiles` would raise, and less than 3 % of the requests are refused."""
    given = Namespace(ttfb=[15], cases=[THROTTLED], rates=[200], files=1278, slow_share=0.0, slow_s=0.0)

    (run,) = bench.rounds(list(settings_of(given)), repeats=1, on_run=lambda _: None)

    assert 0 < run.n_refused < 0.03 * run.n_gets


def test_an_index_makes_a_gather_faster(bench: Bench) -> None:
    """A shard at 30 ms to the first byte waits once instead of twice."""
    settings = list(index_settings_of(ttfb_ms=[30], cases=["shard"], n_files=SHARD_ROWS))

    measured = bench.rounds(settings, repeats=5, on_run=lambda _: None)

    cold, warm = (
        [each.tiles_per_s for each in measured if each.setting.engine == engine] for engine in (OURS, INDEXED)
    )
    assert Spread.of(b / a for a, b in zip(cold, warm, strict=True)).median > 1.03  # 1.18 on a quiet machine


def test_late_answers_cost_next_to_nothing(bench: Bench) -> None:
    """With 1 % of them late by a second: at most 1.5 times as long, for at most 5 % more requests."""
    settings = [setting_of(engine, concurrency=64, n_tiles=512) for engine in (OURS, UNHEDGED)]

    measured = bench.rounds(
        tail_settings(settings, slow_share=0.01, slow_s=1.0), repeats=5, on_run=lambda _: None
    )

    (without, late), (unhedged, unhedged_late) = with_tail(measured)
    assert ratio(without, late, reading_s).median <= 1.5
    assert ratio(unhedged, unhedged_late, reading_s).median > ratio(without, late, reading_s).median
    assert ratio(without, late, n_requests).highest <= 1.05


def test_storing_costs_less_cpu_than_decoding() -> None:
    """With the default codec and layout; two quiet cores gave 0.7."""
    measured = measure_storing(n_tiles=2 * SHARD_ROWS, repeats=5, codecs=("blosc-lz4",))

    assert statistics.median(each.share for each in measured) < 0.95, measured


def test_ten_times_the_sources_take_ten_times_as_long(tmp_path: Path) -> None:
    """From 10,000 to 100,000: at most 1.5 times the seconds a source.

    What a step takes for 1,000 sources is taken off first: it is imports and small files.
    """
    seconds = {
        n: {run.step: run.seconds for run in run_size(n, folder_in(tmp_path, n))}
        for n in (1_000, 10_000, 100_000)
    }

    for step in ("plan", "finish"):
        medium, large = ((seconds[n][step] - seconds[1_000][step]) / (n - 1_000) for n in (10_000, 100_000))
        assert large < 1.5 * medium + 1e-5


def folder_in(folder: Path, n_sources: int) -> Path:
    """Make a folder for the files of one size."""
    made = folder / str(n_sources)
    made.mkdir()
    return made


@pytest.mark.skipif(sys.platform != "linux", reason="the packages run on Linux only")
def test_cold_worker_has_its_first_tile_before_rasterio() -> None:
    """From its real package, control files and all, where rasterio alone is imported and reads one tile."""
    folder = str(bundle("shard", machine=platform.machine(), is_emulated=False))
    figures = Figures()

    measure_first_tile(
        [Package(name="now", folder=folder, functions=FUNCTIONS)], ttfb_ms=15, repeats=3, figures=figures
    )

    ours = figures.answers["worker", "worker, now"]
    theirs = figures.answers["peer", "rasterio, modern, 1 tiles"]
    ratios = [a["first_tile_s"] / b["last_tile_s"] for a, b in zip(ours, theirs, strict=True)]
    assert statistics.median(ratios) < 1, (ours, theirs)
