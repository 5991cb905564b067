"""How long a cold process takes on one core until it has its first tile, a first shard of 64, and a cube.

``PYTHONPATH=tests uv run python -m benchmarks.bench_startup``; README.md beside this file says what came out.
"""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from msgspec import to_builtins

from benchmarks.loopback_server import Behaviour, LoopbackServer, run_server
from benchmarks.measure import Spread
from benchmarks.output import parser_of, put
from benchmarks.workload import default_folder, make_workload
from infra.bundle.bundle import bundle
from pixel_gather.core.estimate.workload import WorkerPool
from pixel_gather.core.request.request import parse_request
from pixel_gather.engine.gather_context import GatherContext
from pixel_gather.engine.plan_gather import plan_gather
from pixel_gather.in_process.job import opened_job
from pixel_gather.in_process.settings import Settings
from pixel_gather.io.cube.control_files import ObjectControlStore
from pixel_gather.io.cube.zarr_cube import ZarrCube
from pixel_gather.io.event_loop import run
from pixel_gather.io.store.object_store import open_place
from pixel_gather.io.store.store_settings import StoreSettings
from pixel_gather_bench.experiment import markdown, rounds
from support.lambda_functions import ENVIRONMENT

_CHILD: Final = Path(__file__).with_name("startup_child.py")
_REPOSITORY: Final = Path(__file__).resolve().parents[2]
_FUNCTIONS: Final = str(_REPOSITORY / "functions")
_BARE: Final = (str(Path(sys.executable).resolve()), "-I", "-S", "-B")
"""Has none of our packages, so that a process imports from the folders that it is given."""

_N_TILES: Final = 64
_READERS: Final = {
    "our reader alone": ("benchmarks.ours:read_tiles", 64),
    "rasterio, modern": ("benchmarks.peers.rasterio_threads:read_modern", 16),
}

_GATHER: Final = f"gather in process, {_N_TILES} files"

CASES: Final = ("worker", _GATHER, *(f"{name}, {n} tiles" for name in _READERS for n in (1, _N_TILES)))

type Answers = dict[str, list[dict[str, float]]]
"""By case, what each round told: seconds since the start of the process."""


def measure(*, ttfb_ms: float, times: int, cases: Sequence[str] = CASES) -> Answers:
    """Fill a first shard by the worker from its package, and read the same tiles by the peers."""
    with _server() as (folder, server):
        names = list(make_workload(default_folder(), n_files=_N_TILES))
        plan = _planned([f"s3://sources/{name}" for name in names], folder, server.url)
        server.behave(Behaviour(ttfb_s=ttfb_ms / 1000))
        package = str(bundle("shard", machine=platform.machine(), is_emulated=False))
        answers: Answers = {}
        for number, case in rounds(cases, times, warm_ups=1):
            if case == "worker":
                answer = _run("worker", package, plan, python=_BARE, endpoint=server.url)
            elif case == _GATHER:
                given = {"hrefs": [f"{server.url}/0/{name}" for name in names]}
                answer = _run("gather", _FUNCTIONS, given, python=[sys.executable])
            else:
                answer = _run("tiles", *_given(case, server.url, names), python=[sys.executable])
            if number >= 0:
                answers.setdefault(case, []).append(answer)
                sys.stderr.write(f"{number}  {case}: {answer}\n")
        return answers


def _given(case: str, url: str, names: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """Return the folders of modules, and what a reader is told."""
    name, _, n_tiles = case.removesuffix(" tiles").rpartition(", ")
    function, concurrency = _READERS[name]
    hrefs = [f"{url}/0/{name}" for name in names[: int(n_tiles)]]
    given = {"reader": function, "concurrency": min(concurrency, int(n_tiles)), "hrefs": hrefs}
    return ":".join((_FUNCTIONS, str(_REPOSITORY / "scripts"), str(_REPOSITORY / "tests"))), given


@contextmanager
def _server() -> Iterator[tuple[Path, LoopbackServer]]:
    """Serve the benchmark's files, and control files beside them, from the other cores."""
    cores = os.sched_getaffinity(0)
    make_workload(default_folder(), n_files=_N_TILES)
    with tempfile.TemporaryDirectory() as name:
        for path in default_folder().glob("*.tif"):
            Path(name, path.name).symlink_to(path)
        os.sched_setaffinity(0, sorted(cores)[1:] or cores)
        try:
            with run_server(Path(name)) as server:
                os.sched_setaffinity(0, sorted(cores)[:1])
                yield Path(name), server
        finally:
            os.sched_setaffinity(0, cores)


def _planned(hrefs: Sequence[str], folder: Path, endpoint: str) -> dict[str, Any]:
    """Plan a gather of one shard, and put what a worker needs of it flat into the folder that is served."""
    with tempfile.TemporaryDirectory() as scratch:
        planned = run(_plan(hrefs, scratch, endpoint))
        root = Path(scratch, "cube", "zarr.json")  # where a worker looks whose place it is
        for path in (root, *Path(scratch, "control").rglob("*")):
            if path.is_file():
                shutil.copy(path, folder / path.name)
    return planned


async def _plan(hrefs: Sequence[str], scratch: str, endpoint: str) -> dict[str, Any]:
    request = parse_request({"sources": list(hrefs), "window": "centre"})
    stores = StoreSettings(endpoint=endpoint, region=ENVIRONMENT["AWS_REGION"], unsigned=True)
    async with opened_job(request.sources, Settings(stores=stores)) as job:
        planned = await plan_gather(
            request,
            table=job.table,
            context=GatherContext(
                cube=ZarrCube(open_place(f"file://{scratch}/cube", stores), "cube"),
                control=ObjectControlStore(open_place(f"file://{scratch}/control", stores), ""),
                sources=job.sources,
            ),
            workers=WorkerPool(max_task_nbytes=2**29),
        )
    assert planned is not None
    made, [task] = planned
    return {"gather": f"start/{made.claim}", "task": to_builtins(task)}


def _run(
    mode: str, folders: str, given: Mapping[str, Any], *, python: Sequence[str], endpoint: str | None = None
) -> dict[str, Any]:
    """Run `startup_child` in a fresh process and return what it tells.

    The processes of `pixel_gather_bench.child` import more than a worker's start may.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment |= dict(ENVIRONMENT) | ({"AWS_ENDPOINT_URL": endpoint} if endpoint else {})
    words = [*python, str(_CHILD), mode, str(time.monotonic()), folders, json.dumps(given)]
    done = subprocess.run(words, env=environment, stdout=subprocess.PIPE, check=True)  # noqa: S603 # our own
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def table(answers: Answers) -> Iterator[str]:
    """Yield lines of Markdown: milliseconds since the start of the process."""
    names = ("imported_s", "asked_s", "first_tile_s", "last_tile_s", "complete_s", "cpu_s")
    rows = [("case", *(f"{name.removesuffix('_s').replace('_', ' ')}, ms" for name in names))]
    for case, told in answers.items():
        cells = (
            Spread.of(1000 * each[name] for each in told).text() if name in told[0] else "" for name in names
        )
        rows.append((case, *cells))
    return markdown(rows)


def main() -> None:
    """Measure, print a table as Markdown to standard output and progress to standard error."""
    parser: argparse.ArgumentParser = parser_of(main)
    parser.add_argument("--repeats", type=int, default=7, help="rounds, 7 if not given")
    parser.add_argument("--ttfb", type=float, default=15, metavar="MS", help="delay to the first byte")
    options = parser.parse_args()
    answers = measure(ttfb_ms=options.ttfb, times=options.repeats)
    put(table(answers), [answers], options.json)


if __name__ == "__main__":
    main()
