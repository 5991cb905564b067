"""What a virtual cube takes, beside a header index and gathers of the same tiles.

``PYTHONPATH=tests uv run python -m benchmarks.bench_virtual``; docs/virtual.md says what came out. Files come
by S3's protocol from another process. The cubes are written to a folder.
"""

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from msgspec import to_builtins

from benchmarks.loopback_server import Behaviour, LoopbackServer, run_server
from benchmarks.output import parser_of, put
from benchmarks.workload import default_folder, make_workload
from pixel_gather import Settings, StoreSettings, gather, index, make_virtual
from pixel_gather.core.process_usage import cpu_s
from pixel_gather_bench.experiment import markdown

_FILES_ON_DISK: Final = 256
_WARM: Final = 8
"""Files of a first round that is not counted: it imports every module."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What one call took."""

    call: str
    seconds: float
    cpu_s: float
    gets: int
    """Requests for the files, those of the plan's sample included."""

    fetched_mb: float


def hrefs_of(names: list[str], n: int) -> list[str]:
    """Return addresses of ``n`` files. Each file on disk has several."""
    return [f"s3://archive/{at // len(names)}/{names[at % len(names)]}" for at in range(n)]


def calls(hrefs: list[str], folder: Path, settings: Settings) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield what is measured, by name."""
    request: dict[str, Any] = {"sources": hrefs, "window": "centre"}
    indexed = request | {"index": str(folder / "headers.parquet")}
    kept = {"output": {"codec": "source"}}
    yield "index", lambda: index(hrefs, to=folder / "headers.parquet", settings=settings)
    yield "virtual, with the index", lambda: make_virtual(indexed, to=folder / "a", settings=settings)
    yield "virtual", lambda: make_virtual(request, to=folder / "b", settings=settings)
    yield (
        "gather of compressed tiles, with the index",
        lambda: gather(indexed | kept, to=folder / "c", settings=settings),
    )
    yield "gather, with the index", lambda: gather(indexed, to=folder / "d", settings=settings)


def measured(hrefs: list[str], server: LoopbackServer, *, ttfb_s: float) -> Iterator[Taken]:
    """Measure every call once."""
    settings = Settings(stores=StoreSettings(endpoint=server.url, region="us-east-1"), draws_report=False)
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:  # noqa: S108 # memory
        for name, call in calls(hrefs, Path(folder), settings):
            server.behave(Behaviour(ttfb_s=ttfb_s))
            started, cpu_before = time.perf_counter(), cpu_s()
            call()
            taken = time.perf_counter() - started, cpu_s() - cpu_before
            nbytes = [each.range_nbytes for each in server.log().requests if each.range is not None]
            yield Taken(
                call=name,
                seconds=taken[0],
                cpu_s=taken[1],
                gets=len(nbytes),
                fetched_mb=sum(nbytes) / 1e6,
            )


def main() -> None:
    """Measure in rounds and print the medians."""
    parser = parser_of(main)
    parser.add_argument("--files", type=int, default=1278)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ttfb", type=float, default=15.0, help="milliseconds to the first byte")
    options = parser.parse_args()
    os.environ |= {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y"}
    names = list(make_workload(default_folder(), n_files=_FILES_ON_DISK))
    found: dict[str, list[Taken]] = {}
    with run_server(default_folder()) as server:
        for _ in measured(hrefs_of(names, _WARM), server, ttfb_s=0.0):
            pass
        for _ in range(options.rounds):
            for taken in measured(hrefs_of(names, options.files), server, ttfb_s=options.ttfb / 1e3):
                found.setdefault(taken.call, []).append(taken)
    rows = [_row(runs) for runs in found.values()]
    records = [to_builtins(each) for runs in found.values() for each in runs]
    put(markdown([("call", "seconds", "CPU s", "GETs of files", "MB"), *rows]), records, options.json)


def _row(runs: Sequence[Taken]) -> tuple[str, ...]:
    return (
        runs[0].call,
        f"{statistics.median(each.seconds for each in runs):.2f}",
        f"{statistics.median(each.cpu_s for each in runs):.2f}",
        f"{statistics.median(each.gets for each in runs):,.0f}",
        f"{statistics.median(each.fetched_mb for each in runs):,.1f}",
    )


if __name__ == "__main__":
    main()
