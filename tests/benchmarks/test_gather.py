"""Whole gathers in the benchmark: equal pixels, and tables of what was measured."""

from copy import replace

import pytest

from benchmarks.bench_gather import tables
from benchmarks.measure import Measurement, Setting, open_bench
from benchmarks.readers import CAREFUL, GATHER, GATHERS, KEPT, STAGED, Run
from benchmarks.stages import KERNEL, REST

SETTING = Setting(case="8 files", reader=GATHER, n_tiles=8, ttfb_ms=15)


def faked(reader: str, *, cpu_s: float, reading_s: float = 1.0, concurrency: int = 0) -> Measurement:
    """Return a measurement that nobody made."""
    run = Run(
        n_tiles=8,
        reading_s=reading_s,
        process_s=reading_s,
        reading_cpu_s=cpu_s,
        process_cpu_s=cpu_s,
        peak_rss_mib=100.0,
        digest="",
        stages={REST: 0.008, KERNEL: 0.004} if reader == STAGED else {},
    )
    setting = replace(SETTING, reader=reader, concurrency=concurrency)
    return Measurement(
        setting=setting, round_index=0, run=run, n_gets=16, n_heads=0, n_refused=0, server_cpu_s=0.008
    )


def test_tables_compare_with_the_script_and_with_the_limit() -> None:
    """Ratios are ours by theirs. The limit is the sum of its parts, on cores that also serve."""
    limits = [name for name in GATHERS if name.startswith("limit-")]
    measured = [
        faked(GATHER, cpu_s=0.032, reading_s=0.5),
        faked(CAREFUL, cpu_s=0.064, concurrency=16),
        faked(STAGED, cpu_s=0.032),
        *(faked(name, cpu_s=0.004) for name in limits),
    ]

    lines = list(tables(measured, cores=2))

    assert f"| 8 files, 15 ms | {GATHER} | found out | 16 | 4.00 | 0.04 | 2.00 | 100 |  |  |" in lines
    assert f"| 8 files, 15 ms | {CAREFUL} | 16 | 8 | 8.00 | 0.04 | 2.00 | 100 | 2.00 | 0.50 |" in lines
    assert len(limits) == 5
    # 5 parts of 0.5 ms, and the server's 5 ms
    assert "| 8 files, 15 ms | 0.50 | 0.50 | 0.50 | 0.50 | 0.50 | 2.50 | 267 | 0.06 | 1.60 |" in lines
    assert "| 8 files, 15 ms | 1.00 | 0.50 | 4.00 |" in lines


@pytest.mark.long
def test_gathers_hold_the_pixels_of_the_files() -> None:
    """The bench itself compares them."""
    with open_bench(n_files=16) as bench:
        settings = [
            replace(SETTING, reader=name, n_tiles=16, concurrency=0) for name in (GATHER, KEPT, STAGED)
        ]
        settings.append(replace(SETTING, reader=CAREFUL, n_tiles=16, concurrency=4))
        measured = bench.measure(settings)

    assert all(48 <= each.n_gets < 52 for each in measured[:2])  # the plan opens 16 of them before
    assert set(measured[2].run.stages) >= {REST, KERNEL, "decoding", "digest", "compressing"}
