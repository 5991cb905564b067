"""What the benchmarks have to come out at; `scripts/benchmark` runs these on a quiet machine.

They are no tests of `scripts/test`, as any other load on the machine fails them. Only ratios of runs made
moments apart are asserted, never times, with room for noise.
"""

import statistics
import sys
from collections.abc import Iterator, Sequence
from copy import replace
from pathlib import Path
from typing import Final

import pytest

from benchmarks.bench_peers import with_late
from benchmarks.bench_scale import run_size
from benchmarks.bench_startup import measure as measure_start
from benchmarks.loopback_server import Behaviour
from benchmarks.measure import (
    Bench,
    Measurement,
    Setting,
    best_of,
    by_setting,
    cpu_s_per_1000,
    n_requests,
    open_bench,
    ratio,
    tiles_per_s,
)
from benchmarks.readers import CAREFUL, GATHER, INDEXED, KEPT, OURS, UNHEDGED
from benchmarks.tables import reading_s
from pixel_gather.io.store.store_settings import StoreSettings
from pixel_gather_bench.blocks.pixels import make_field
from pixel_gather_bench.blocks.sweep import MB, Sweep, list_settings
from pixel_gather_bench.blocks.trial import Trials
from pixel_gather_bench.threads.threads import ThreadsRequest, bench_threads

pytestmark = [pytest.mark.perf, pytest.mark.slow, pytest.mark.timeout(1800)]

TIMES: Final = 5
MANY: Final = Setting(n_tiles=128, ttfb_ms=15.0)


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    """A warm server of the benchmark's files."""
    with open_bench(n_files=256) as opened:
        yield opened


def test_reader_beats_rasterio(bench: Bench) -> None:
    """It is faster, and takes less CPU, than rasterio at its best thread count.

    Small runs on two busy cores gave 2.0 to 2.7 times the tiles/s and 0.40 to 0.6 of the CPU time.
    """
    settings = [replace(MANY, concurrency=64)] + [
        replace(MANY, reader=reader, concurrency=threads)
        for reader in ("rasterio-published", "rasterio-modern")
        for threads in (16, 32)
    ]

    ours, *theirs = by_setting_of(settings, bench)

    assert ratio(tiles_per_s, ours, best_of(theirs, tiles_per_s)).median >= 1.5
    thriftiest = best_of(theirs, lambda each: -cpu_s_per_1000(each))
    assert ratio(cpu_s_per_1000, ours, thriftiest).median <= 0.75


@pytest.mark.parametrize("ttfb_ms", [0, 30])
def test_limiter_comes_near_the_best_fixed_number(bench: Bench, ttfb_ms: int, tmp_path: Path) -> None:
    """At 0 and 30 ms to the first byte, which want different ones; by ``pixel-gather bench threads``."""
    bench.server.behave(Behaviour(ttfb_s=ttfb_ms / 1000))
    request = ThreadsRequest(
        hrefs=bench.hrefs(512),
        concurrencies=(8, 32, 64, 128, None),
        times=TIMES,
        tile=None,
        band=1,
        stores=StoreSettings(),
    )

    [curve] = bench_threads(request, tmp_path, on_step=lambda *_: None).curves

    assert curve.share_of_best is not None
    assert curve.share_of_best >= 0.88


def test_limiter_wastes_little_on_a_server_that_throttles(bench: Bench) -> None:
    """No source fails, which the reader would raise, and less than 3 % of the requests are refused."""
    [run] = bench.measure([replace(MANY, n_tiles=1278, max_rate=200)])

    assert 0 < run.n_refused < 0.03 * run.n_gets


def test_an_index_makes_a_gather_faster(bench: Bench) -> None:
    """A shard at 30 ms to the first byte waits once instead of twice."""
    settings = [Setting(reader=reader, n_tiles=64, ttfb_ms=30) for reader in (INDEXED, OURS)]

    indexed, plain = by_setting_of(settings, bench)

    assert ratio(tiles_per_s, indexed, plain).median > 1.03  # 1.18 on a quiet machine


def test_late_answers_cost_next_to_nothing(bench: Bench) -> None:
    """With 1 % of them late by a second: at most 1.5 times as long, for at most 5 % more requests."""
    settings = [replace(MANY, reader=reader, concurrency=64, n_tiles=512) for reader in (OURS, UNHEDGED)]

    ours, late, unhedged, unhedged_late = by_setting_of(with_late(settings, (0.01, 1.0)), bench)

    assert ratio(reading_s, late, ours).median <= 1.5
    assert ratio(reading_s, unhedged_late, unhedged).median > ratio(reading_s, late, ours).median
    assert ratio(n_requests, late, ours).highest <= 1.05


def test_storing_costs_less_cpu_than_decoding(bench: Bench, tmp_path: Path) -> None:
    """With the default codec and layout, as ``pixel-gather bench blocks`` writes."""
    pixels = make_field(tmp_path / "pixels.npy", dtype="uint16", total_mb=128 * 512 * 512 * 2 / MB)
    [default] = list_settings(WRITTEN, {"blosc-lz4": (pixels.shape, pixels.dtype)})
    trials = Trials(place=f"file://{tmp_path}/cubes", stores=StoreSettings(), pixels_of=lambda _: pixels)
    gb_per_1000 = 1000 * 512 * 512 * 2 / 1e9

    shares = [
        trials.measure(default).write_cpu_s_per_gb * gb_per_1000 / cpu_s_per_1000(decoded)
        for _ in range(TIMES)
        for decoded in bench.measure([Setting(reader="limit-decode", concurrency=2, n_tiles=128)])
    ]

    assert statistics.median(shares) < 0.95, shares


WRITTEN: Final = Sweep(
    codecs=("blosc-lz4",), sweeps=(), sizes_mb=(), in_flight=(), workers=(), zfp_tolerance=0.0
)


def test_a_gather_takes_less_than_a_careful_script(bench: Bench) -> None:
    """List to complete cube: faster, and with less CPU. Without decoding, with much less."""
    settings = [Setting(reader=reader, n_tiles=512, ttfb_ms=15) for reader in (GATHER, KEPT)]
    settings.append(Setting(reader=CAREFUL, concurrency=32, n_tiles=512, ttfb_ms=15))

    ours, kept, careful = by_setting_of(settings, bench)

    assert ratio(tiles_per_s, ours, careful).median >= 1.4  # 1.57 on a quiet machine
    assert ratio(cpu_s_per_1000, ours, careful).median <= 0.72  # 0.65
    assert ratio(cpu_s_per_1000, kept, ours).median <= 0.5


def test_ten_times_the_sources_take_ten_times_as_long(tmp_path: Path) -> None:
    """From 10,000 to 100,000: at most 1.5 times the seconds a source, and 1.5 times the peak of memory.

    What a step takes for 1,000 sources is taken off the seconds first: it is imports and small files.
    """
    runs = {
        n: {run.step: run for run in run_size(n, folder_in(tmp_path, n))} for n in (1_000, 10_000, 100_000)
    }

    for step in ("plan", "finish"):
        small, medium, large = (runs[n][step] for n in runs)
        per_source = [
            (each.seconds - small.seconds) / (each.n_sources - small.n_sources) for each in (medium, large)
        ]
        assert per_source[1] < 1.5 * per_source[0] + 1e-5
        assert large.peak_rss_mib < 1.5 * medium.peak_rss_mib


@pytest.mark.skipif(sys.platform != "linux", reason="the packages run on Linux only")
def test_cold_worker_has_its_first_tile_before_rasterio() -> None:
    """From its real package, control files and all, where rasterio alone is imported and reads one tile."""
    cases = "worker", "rasterio, modern, 1 tiles"
    answers = measure_start(ttfb_ms=15, times=9, cases=cases)

    pairs = zip(*(answers[case] for case in cases), strict=True)
    ratios = [ours["first_tile_s"] / theirs["last_tile_s"] for ours, theirs in pairs]
    assert statistics.median(ratios) < 1, answers


def by_setting_of(settings: Sequence[Setting], bench: Bench) -> list[list[Measurement]]:
    """Return the runs of each setting, in the settings' order."""
    groups = by_setting(bench.measure(settings, times=TIMES))
    return [groups[each] for each in settings]


def folder_in(folder: Path, n_sources: int) -> Path:
    """Make a folder for the files of one size."""
    made = folder / str(n_sources)
    made.mkdir()
    return made
