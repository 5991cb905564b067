"""Plan and finish of 1,000 to 1,000,000 sources: seconds and memory, each step in a fresh process.

``PYTHONPATH=tests uv run python -m benchmarks.bench_scale``; README.md beside this file says what is measured
and what came out. No pixel is read: see `benchmarks.scale_run`.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Final

from benchmarks.scale_run import ScaleRun, write_list

_SIZES: Final = (1_000, 10_000, 100_000, 1_000_000)


def run_size(n_sources: int, folder: Path) -> Iterator[ScaleRun]:
    """Yield what plan and finish of one size took; the folder is left full."""
    write_list(folder, n_sources)
    for step in ("plan", "commit", "finish"):
        ran = _run_step(step, n_sources, folder)
        if step != "commit":
            yield ran


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
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--sources", type=int, nargs="+", default=_SIZES)
    parser.add_argument("--json", type=Path, help="keep every record here")
    options = parser.parse_args()
    runs = []
    for n_sources in options.sources:
        with tempfile.TemporaryDirectory(prefix="bench-scale-") as folder:
            for run in run_size(n_sources, Path(folder)):
                runs.append(run)
                sys.stderr.write(f"{run}\n")
    if options.json:
        options.json.write_text(json.dumps([asdict(each) for each in runs], indent=1))
    sys.stdout.write("\n".join((*tables(sorted(runs, key=lambda each: each.step)), "")))


def _run_step(step: str, n_sources: int, folder: Path) -> ScaleRun:
    command = [sys.executable, "-m", "benchmarks.scale_run", step, str(n_sources), str(folder)]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)  # noqa: S603 # our own
    return ScaleRun(**json.loads(done.stdout))


if __name__ == "__main__":
    main()
