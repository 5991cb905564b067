"""Whole gathers of the same files by the addresses of three clouds, from one server.

``PYTHONPATH=tests uv run python -m benchmarks.bench_clouds``; README.md beside this file says what came out.
Each round gathers once by each scheme. Files come from another process, cubes are written to a folder.
"""

import os
import random
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, get_args

from benchmarks.loopback_server import Behaviour, LoopbackServer, run_server
from benchmarks.output import parser_of, put
from benchmarks.workload import default_folder, make_workload
from faults.chaos import Cloud, variables
from pixel_gather import Settings, gather
from pixel_gather.core.process_usage import cpu_s
from pixel_gather_bench.experiment import markdown, rounds

_CLOUDS: Final[tuple[Cloud, ...]] = get_args(Cloud.__value__)
_FILES_ON_DISK: Final = 256
_DRAWS: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What one gather took."""

    cloud: Cloud
    round: int
    tiles_per_s: float
    cpu_s: float


def measured(names: Sequence[str], server: LoopbackServer, *, times: int, ttfb_s: float) -> Iterator[Taken]:
    """Gather files, as ``bucket/key``, by each cloud in each round."""
    for number, cloud in rounds(_CLOUDS, times, warm_ups=1):
        os.environ |= variables(cloud, server.url)
        hrefs = [f"{cloud}://{name}" for name in names]
        server.behave(Behaviour(ttfb_s=ttfb_s))
        with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:  # noqa: S108 # memory
            started, cpu_before = time.perf_counter(), cpu_s()
            gathered = gather(
                {"sources": hrefs, "window": "centre"},
                to=Path(folder) / "cube",
                settings=Settings(draws_report=False),
            )
            taken = time.perf_counter() - started, cpu_s() - cpu_before
        assert gathered.report.n_failed == 0, gathered.report
        if number >= 0:
            yield Taken(cloud=cloud, round=number, tiles_per_s=len(names) / taken[0], cpu_s=taken[1])


def interval(ratios: Sequence[float]) -> tuple[float, float]:
    """Return where 95 % of the medians lie of as many ratios, drawn from these with replacement."""
    chance = random.Random(1)  # noqa: S311 # no secret
    medians = sorted(statistics.median(chance.choices(ratios, k=len(ratios))) for _ in range(_DRAWS))
    return medians[_DRAWS // 40], medians[-_DRAWS // 40]


def main() -> None:
    """Measure in rounds, and print medians and the ratios to S3 within each round."""
    parser = parser_of(main)
    parser.add_argument("--files", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--ttfb", type=float, default=30.0, help="milliseconds to the first byte")
    options = parser.parse_args()
    on_disk = list(make_workload(default_folder(), n_files=_FILES_ON_DISK))
    names = [f"archive-{at // len(on_disk)}/{on_disk[at % len(on_disk)]}" for at in range(options.files)]
    with run_server(default_folder()) as server:
        found = list(measured(names, server, times=options.rounds, ttfb_s=options.ttfb / 1e3))
    of_cloud = {cloud: [each for each in found if each.cloud == cloud] for cloud in _CLOUDS}
    head = ("cloud", "tiles/s", "CPU s", "tiles/s by S3's", "95 % of medians", "CPU by S3's")
    rows = [_row(runs, of_cloud["s3"]) for runs in of_cloud.values()]
    put(markdown([head, *rows]), [asdict(each) for each in found], options.json)


def _row(runs: Sequence[Taken], of_s3: Sequence[Taken]) -> tuple[str, ...]:
    own, s3 = (sorted(each, key=lambda run: run.round) for each in (runs, of_s3))
    speeds = [one.tiles_per_s / other.tiles_per_s for one, other in zip(own, s3, strict=True)]
    cpus = [one.cpu_s / other.cpu_s for one, other in zip(own, s3, strict=True)]
    low, high = interval(speeds)
    return (
        runs[0].cloud,
        f"{statistics.median(each.tiles_per_s for each in runs):.0f}",
        f"{statistics.median(each.cpu_s for each in runs):.2f}",
        f"{statistics.median(speeds):.3f}",
        f"{low:.3f} to {high:.3f}",
        f"{statistics.median(cpus):.3f}",
    )


if __name__ == "__main__":
    main()
