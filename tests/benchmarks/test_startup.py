"""The start of a cold process: the benchmark works, and a worker has its first tile well before rasterio."""

import sys
from pathlib import Path
from typing import Final

from benchmarks.bench_startup import Figures, _run

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
