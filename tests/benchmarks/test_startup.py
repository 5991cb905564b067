"""The start of a cold process: the benchmark works, and a worker has its first tile well before rasterio."""

import platform
import statistics
import sys
from pathlib import Path
from typing import Final

import pytest

from benchmarks.bench_startup import Figures, Package, _run, measure_first_tile
from infra.bundle.bundle import bundle

FUNCTIONS: Final = str(Path(__file__).parents[2] / "functions")


def test_run_tells_what_an_import_took() -> None:
    """In milliseconds, with the memory that it left behind."""
    told = _run("import", FUNCTIONS, {"modules": ["handlers.gather_shard"]}, python=[sys.executable, "-B"])

    assert told["took_ms"] > 0
    assert told["took_cpu_ms"] > 0
    assert 20 < told["rss_mib"] < 200
    assert told["n_modules"] > 100


def test_figures_are_tables_of_medians() -> None:
    """One table a kind of case, seconds as milliseconds."""
    figures = Figures()
    for took_s in (0.3, 0.1, 0.2):
        figures.add("import", "numpy", {"took_s": took_s, "n_modules": 7})

    assert list(figures.lines()) == [
        "\n### import\n",
        "| case | took, ms | n modules |",
        "| --- | --- | --- |",
        "| numpy | 200 [100..300] | 7 [7..7] |",
    ]


@pytest.mark.slow
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
