"""Plan and finish of 1,000 to 1,000,000 sources: seconds and memory, each step in a fresh process.

``PYTHONPATH=tests uv run python -m benchmarks.bench_scale``; README.md beside this file says what is measured
and what came out. No pixel is read: see `benchmarks.scale_run`.
"""

import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from benchmarks.child import run_module
from benchmarks.output import parser_of, put
from benchmarks.scale_run import ScaleRun, write_list

_SIZES: Final = (1_000, 10_000, 100_000, 1_000_000)


def run_size(n_sources: int, folder: Path) -> Iterator[ScaleRun]:
    """Yield what plan and finish of one size took; the folder is left full."""
    write_list(folder, n_sources)
    for step in ("plan", "commit", "finish"):
        ran = run_module("scale_run", step, str(n_sources), str(folder))
        if step != "commit":
            yield ScaleRun(**ran)


def tables(runs: Iterable[ScaleRun]) -> Iterator[str]:
    """Yield lines of Markdown."""
    yield "| step | sources | shards | seconds | seconds per million | peak MiB |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for run in runs:
        per_million = run.seconds / run.n_sources * 1_000_000
        yield (
            f"| {run.step} | {run.n_sources:,} | {run.n_tasks:,} | {run.seconds:.1f} | {per_million:,.0f} | "
            f"{run.peak_rss_mib:,.0f} |"
        )


def main() -> None:
    """Measure, and print a table as Markdown to standard output."""
    parser = parser_of(main, repeats=None)
    parser.add_argument("--sources", type=int, nargs="+", default=_SIZES)
    options = parser.parse_args()
    runs = []
    for n_sources in options.sources:
        with tempfile.TemporaryDirectory(prefix="bench-scale-") as folder:
            for run in run_size(n_sources, Path(folder)):
                runs.append(run)
                sys.stderr.write(f"{run}\n")
    put(tables(sorted(runs, key=lambda each: each.step)), runs, options.json)


if __name__ == "__main__":
    main()
