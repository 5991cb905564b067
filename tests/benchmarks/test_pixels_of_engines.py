"""The benchmark's engines read the published report's workload, in as many requests as the tables say."""

from collections.abc import Iterator

import pytest

from benchmarks.measure import OURS, Bench, Setting, open_bench

N_FILES = 16


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    """A warm server of the benchmark's files."""
    with open_bench(n_files=N_FILES) as opened:
        yield opened


def test_pixels_are_those_written(bench: Bench) -> None:
    """One quick run of each engine returns the generator's own pixels; `Bench.rounds` compares digests."""
    settings = [
        Setting(case="check", engine=engine, concurrency=8, n_tiles=N_FILES, ttfb_ms=0.0, counts_start=False)
        for engine in (OURS, "rasterio-published", "rasterio-modern")
    ]

    runs = bench.rounds(settings, repeats=1, on_run=lambda _: None)

    assert len({each.run.digest for each in runs}) == 1
    assert {each.setting.engine: (each.n_gets / N_FILES, each.n_heads / N_FILES) for each in runs} == {
        OURS: (2, 0),
        "rasterio-published": (2, 1),
        "rasterio-modern": (2, 0),
    }
