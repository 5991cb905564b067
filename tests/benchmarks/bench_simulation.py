"""What the plan's model says of 1,278 to 1,000,000 files at 1 to 1,000 workers, and of the published run.

``PYTHONPATH=tests uv run python -m benchmarks.bench_simulation``; README.md beside this file says what it
rests on and what it does not show. It is arithmetic: nothing is read, and any machine prints the same.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import Final

from benchmarks.output import parser_of, put
from pixel_gather.core.estimate.compute_estimate import estimate_on_aws
from pixel_gather.core.estimate.estimate_result import Estimate
from pixel_gather.core.estimate.pricing import n_puts
from pixel_gather.core.estimate.worker import Share, Worker
from pixel_gather.core.estimate.workload import WorkerPool, Workload
from pixel_gather.core.plan.choose_layout import plan_layout
from pixel_gather_bench.experiment import markdown

REPORT_N_FILES: Final = 1278
REPORT_WALL_S: Final = {1: 92.65, 49: 3.39}
"""Of the published report, by threads."""

_REPORT_NBYTES: Final = 493_405_576
"""Of all its tiles, without headers."""

_HEADER_NBYTES: Final = 16_384
_TILE: Final = 512
_FILES: Final = (REPORT_N_FILES, 100_000, 1_000_000)
_WORKERS: Final = (1, 10, 100, 500, 1000, None)
"""None for as many as the plan takes if a request asks for no number."""

_HEAD: Final = (
    "files", "shards", "children", "most workers", "used", "MiB", "wall time, s", "dollars", "bound by",
    "enough workers",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One case of the table."""

    n_files: int
    max_workers: int | None
    is_indexed: bool
    n_prefixes: int
    n_tasks: int
    estimate: Estimate


def simulated(n_files: int, workers: int | None, *, is_indexed: bool = False, n_prefixes: int = 1) -> Row:
    """Return what the model says of one tile of the report's size from each file.

    Args:
        n_files: Sources.
        workers: At most; None for the plan's choice.
        is_indexed: Whether an index knows every header.
        n_prefixes: That the sources are spread over.
    """
    shape = (n_files, _TILE, _TILE)
    layout = plan_layout(shape, itemsize=2, n_measurements=1, wanted="balanced", max_task_nbytes=512 * 2**20)
    n_tasks = layout.n_shards(shape)[0]
    header_nbytes = 0 if is_indexed else _HEADER_NBYTES
    work = Workload(
        n_sources=n_files,
        n_indexed=n_files if is_indexed else 0,
        n_gets=n_files * (1 if is_indexed else 2),
        fetched_nbytes=round(n_files * (_REPORT_NBYTES / REPORT_N_FILES + header_nbytes)),
        decoded_nbytes=n_files * _TILE * _TILE * 2,
        n_tasks=n_tasks,
        n_puts=n_puts(n_tasks=n_tasks, n_arrays=1, n_rows=n_files, n_columns=0),
        n_prefixes=n_prefixes,
    )
    return Row(
        n_files=n_files,
        max_workers=workers,
        is_indexed=is_indexed,
        n_prefixes=n_prefixes,
        n_tasks=n_tasks,
        estimate=estimate_on_aws(
            work,
            WorkerPool(
                max_workers=1000, asked_workers=workers, is_deployed=True, may_be_inline=workers is None
            ),
        ),
    )


def modelled_s(threads: int) -> float:
    """Return what the model says of the report's run with so many threads.

    Its machine is an m5.xlarge: 4 vCPU; 1.25 Gbit/s in the long run (its baseline; 1.24 measured in April
    2018 by cloudonaut.io). Waiting is the report's at ONE thread, its total of 92.00 s shared by two requests
    a file; GDAL's CPU is 4.4 ms a tile, as bench_peers measured it for the report's settings. So the run of
    one thread tells little of the model, and that of 49 threads is a prediction.
    """
    share = Share(
        n_sources=REPORT_N_FILES,
        n_gets=2 * REPORT_N_FILES,
        n_puts=0,
        fetched_nbytes=_REPORT_NBYTES + REPORT_N_FILES * _HEADER_NBYTES,
        decoded_nbytes=REPORT_N_FILES * _TILE * _TILE * 2,
    )
    machine = Worker(
        vcpus=4,
        network_bytes_per_s=1.25e9 / 8,
        in_flight=threads,
        first_byte_s=92.00 / (2 * REPORT_N_FILES),
        cpu_s_per_get=0.0,
        cpu_s_per_source=4.4e-3,
        decoding_bytes_per_s=inf,
        tls_bytes_per_s=inf,
    )
    return machine.reading_s(share)


def tables(rows: Sequence[Row]) -> Iterator[str]:
    """Yield lines of Markdown: the cases, the seconds of each part, the report's runs."""
    yield from markdown([_HEAD, *map(_cells, rows)])
    yield ""
    chosen = {
        f"{row.n_files:,} files": row.estimate.seconds_by_part
        for row in rows
        if row.max_workers is None and not row.is_indexed and row.n_prefixes == 1
    }
    names = next(iter(chosen.values()))
    parts = [(part, *(f"{each[part]:,.1f}" for each in chosen.values())) for part in names]
    yield from markdown([("seconds of", *chosen), *parts])
    yield ""
    runs = [
        (
            f"{threads} threads",
            f"{wall_s}",
            f"{modelled_s(threads):.2f}",
            f"{modelled_s(threads) / wall_s - 1:+.1%}",
        )
        for threads, wall_s in REPORT_WALL_S.items()
    ]
    yield from markdown([("report of 2018", "wall time, s", "model, s", "error"), *runs])


def _cells(row: Row) -> tuple[str, ...]:
    found = row.estimate
    indexed = ", indexed" if row.is_indexed else ""
    prefixes = f", {row.n_prefixes} prefixes" if row.n_prefixes > 1 else ""
    return (
        f"{row.n_files:,}{indexed}{prefixes}",
        f"{row.n_tasks:,}",
        f"{found.n_children:,}",
        "the plan's choice" if row.max_workers is None else f"{row.max_workers:,}",
        f"{found.n_workers:,}",
        f"{found.worker_memory_mib:,}",
        f"{found.seconds:,.1f}",
        f"{found.usd:,.4f}",
        found.bound_by,
        f"{found.enough_workers:,}",
    )


def main() -> None:
    """Print the tables as Markdown."""
    options = parser_of(main).parse_args()
    rows = [simulated(n_files, workers) for n_files in _FILES for workers in _WORKERS]
    rows += [simulated(1_000_000, workers, n_prefixes=10) for workers in _WORKERS[2:]]
    rows += [simulated(1_000_000, workers, is_indexed=True) for workers in _WORKERS[2:]]
    put(tables(rows), rows, options.json)


if __name__ == "__main__":
    main()
