"""Plan and finish of 1,000 to 1,000,000 sources: seconds and memory, each step in a fresh process.

``PYTHONPATH=tests uv run python -m benchmarks.bench_scale``; README.md beside this file says what came out.
The table, the cube, the control files and the steps are the real ones, on a local folder. Only the reader is
a fake, which knows one header, and the workers' sidecars are made up. No pixel is read.
"""

import asyncio
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Final, cast

import msgspec

from benchmarks.measure import ENVIRONMENT
from benchmarks.output import parser_of, put
from pixel_gather.core.estimate.workload import WorkerPool
from pixel_gather.core.model.outcome import BandStats, Outcome, ShardResult
from pixel_gather.core.model.source import Cost, Header
from pixel_gather.core.model.status import Status
from pixel_gather.core.model.window import Transform
from pixel_gather.core.plan.cube_plan import CubePlan
from pixel_gather.core.plan.cut_tasks import ShardTask
from pixel_gather.core.ports import OpenedSource
from pixel_gather.core.process_usage import peak_rss_mib
from pixel_gather.core.request.href_policy import HrefPolicy
from pixel_gather.core.request.request import GatherRequest, parse_request
from pixel_gather.engine.finish_gather import finish_gather
from pixel_gather.engine.header_cache import put_headers, take_headers
from pixel_gather.engine.plan_gather import plan_gather
from pixel_gather.engine.step_files import load_plan, load_tasks, read_rows, sidecar_key
from pixel_gather.io.crs import RasterioProjector
from pixel_gather.io.cube.control_files import ObjectControlStore
from pixel_gather.io.cube.zarr_cube import ZarrCube
from pixel_gather.io.lists.source_list import named_sources
from pixel_gather.io.lists.source_table import SqliteSourceTable
from pixel_gather.io.store.object_store import Objects, open_place
from pixel_gather.io.store.store_settings import StoreSettings
from pixel_gather_bench.child import run_in_child
from pixel_gather_bench.experiment import markdown
from support.fakes import access_to, context_of, stores_of

_LIST: Final = "list.csv"
_CUBE: Final = "cube.zarr"
_CONTROL: Final = "control/"
_MIB: Final = 2**20
_LINE: Final = "s3://bucket/landsat/c01/{0:07d}/B04.tif,20{1:02d}-{2:02d}-{3:02d}T10:{4:02d}:{5:02d}Z,{1}.5\n"
_TRANSFORM: Final = Transform(30.0, 0.0, 571_785.0, 0.0, -30.0, 3_713_385.0)

_AS_ON_AWS: Final = ENVIRONMENT | {"MALLOC_ARENA_MAX": "1"}
_SIZES: Final = (1_000, 10_000, 100_000, 1_000_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleJob:
    """One step of one size."""

    step: str
    n_sources: int
    folder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleRun:
    """What one step of one size took, imports not counted in its seconds."""

    step: str
    n_sources: int
    n_tasks: int
    seconds: float
    peak_rss_mib: float


class OneHeader:
    """A ``SourceReader`` to which all sources look alike; it cannot read pixels."""

    async def open_(
        self, href: str, *, overview: int | None, cost: Cost, packed_header: bytes | None = None
    ) -> OpenedSource:
        """Return the header of a Landsat 8 band, as the published report's."""
        del overview, packed_header
        cost.requests += 1
        cost.nbytes += 16_384
        header = Header(
            href=href,
            etag='"5f2c0a7c"',
            nbytes=60_000_000,
            driver="GTiff",
            width=7591,
            height=7671,
            n_bands=1,
            dtype="uint16",
            nodata=None,
            scales=(1.0,),
            offsets=(0.0,),
            transform=_TRANSFORM,
            crs="EPSG:32655",
            tile_width=512,
            tile_height=512,
            is_tiled=True,
        )
        return cast("OpenedSource", SimpleNamespace(header=header, known_reads=lambda *_: None))


def write_list(folder: Path, n_sources: int) -> None:
    """Write a list of so many lines with a time and a column, the times in no order."""
    with (folder / _LIST).open("w") as file:
        file.write("href,time,cloud\n")
        for i in range(n_sources):
            j = i * 7919 % n_sources
            file.write(_LINE.format(i, j % 24, j % 12 + 1, j % 28 + 1, j % 60, j // 60 % 60))


def plan(folder: Path) -> int:
    """Read the list and plan its gather; return the number of tasks."""
    request = parse_request({"sources": {"list": str(folder / _LIST)}, "window": "centre"})
    return asyncio.run(_plan(folder, request))


async def _plan(folder: Path, request: GatherRequest) -> int:
    policy = HrefPolicy(schemes=frozenset({"s3", "file"}), base=str(folder))
    named = named_sources(
        request.sources, objects=Objects(StoreSettings()), policy=policy, list_policy=policy
    )
    with SqliteSourceTable(named) as table:
        sources = access_to(OneHeader(), projector=RasterioProjector())
        planned = await plan_gather(
            request,
            table=table,
            context=context_of(_cube(folder), _controls(folder), sources),
            workers=WorkerPool(max_task_nbytes=512 * _MIB),
        )
    assert planned is not None
    return len(planned[1])


def commit(folder: Path) -> int:
    """Write every shard's sidecar, as workers would that had read all sources."""

    async def write() -> int:
        control = await _claimed(folder)
        cube_plan, tasks = await load_plan(control), await load_tasks(control)
        packed_header = await _known_header()
        for task in tasks:
            result = _result(task, cube_plan)
            for row in result.rows:
                row[0].packed_header = packed_header
            await put_headers(task, take_headers(await read_rows(task, control), result.rows), control)
            etags = [_cube(folder).store.put(key, b"")["e_tag"] or "" for key in task.object_keys(cube_plan)]
            await control.put(sidecar_key(task.index, etags[0]), msgspec.msgpack.encode(result))
        return len(tasks)

    return asyncio.run(write())


def finish(folder: Path) -> int:
    """Finish the gather; return the number of tasks."""

    async def run() -> int:
        control = await _claimed(folder)
        cube_plan, tasks = await load_plan(control), await load_tasks(control)
        report = await finish_gather(plan=cube_plan, tasks=tasks, stores=stores_of(_cube(folder), control))
        assert report.status_counts == {"ok": cube_plan.n_sources}
        return len(tasks)

    return asyncio.run(run())


def do(job: ScaleJob) -> ScaleRun:
    """Do one step and say what it took."""
    began_s = time.perf_counter()
    n_tasks = STEPS[job.step](Path(job.folder))
    return ScaleRun(
        step=job.step,
        n_sources=job.n_sources,
        n_tasks=n_tasks,
        seconds=time.perf_counter() - began_s,
        peak_rss_mib=peak_rss_mib(),
    )


STEPS: Final[dict[str, Callable[[Path], int]]] = {"plan": plan, "commit": commit, "finish": finish}


async def _known_header() -> bytes | None:
    """Return what opens a file of the benchmarks again: 225 tiles, as the published report's."""
    from benchmarks.workload import default_folder, make_workload  # noqa: PLC0415 # not in what is measured
    from pixel_gather.io.gdal.settings import GdalSettings  # noqa: PLC0415 # as above
    from pixel_gather.io.geotiff.geotiff_settings import GeoTiffSettings  # noqa: PLC0415 # as above
    from pixel_gather.io.reader import CogReader  # noqa: PLC0415 # as above

    folder = default_folder()
    make_workload(folder, n_files=1)
    objects = Objects(StoreSettings())
    async with CogReader.over(objects, fast=GeoTiffSettings(), fall_back=GdalSettings()) as reader:
        first = min(folder.glob("*.tif"))
        return (await reader.open_(first.as_uri(), overview=None, cost=Cost())).packed_header


def _cube(folder: Path) -> ZarrCube:
    return ZarrCube(open_place((folder / _CUBE).as_uri(), StoreSettings()), _CUBE)


def _controls(folder: Path) -> ObjectControlStore:
    return ObjectControlStore(open_place(folder.as_uri(), StoreSettings()), _CONTROL)


async def _claimed(folder: Path) -> ObjectControlStore:
    found = await _cube(folder).found()
    assert found is not None
    return _controls(folder).below(found.claim)


def _result(task: ShardTask, cube_plan: CubePlan) -> ShardResult:
    return ShardResult(
        index=task.index,
        rows=[[each] for each in _outcomes(task, cube_plan)],
        read_s=0.4,
        write_s=0.3,
        stored_nbytes=24_000_000,
        peak_rss_mib=180.0,
    )


def _outcomes(task: ShardTask, cube_plan: CubePlan) -> Iterator[Outcome]:
    for row in range(task.row_start, task.row_stop):
        noise = row * 2_654_435_761 % 2**32 / 2**32
        yield Outcome(
            status=Status.OK,
            etag=f'"{row * 2_654_435_761 % 2**64:032x}"',
            transform=_TRANSFORM,
            crs="EPSG:32655",
            extent=(0, 0, cube_plan.width, cube_plan.height),
            is_aligned=True,
            start_s=row / 1000,
            end_s=row / 1000 + 0.07 + noise / 10,
            cost=Cost(
                open_s=0.03 + noise / 20,
                read_s=0.02 + noise / 20,
                decode_s=0.0013,
                nbytes=406_000 + round(noise * 100_000),
                requests=2,
            ),
            bands=[
                BandStats(
                    n_valid=262_144, min=7000.0, max=21_000 + noise, mean=9000 + noise, digest=f"{row:032x}"
                )
            ],
        )


def run_size(n_sources: int, folder: Path) -> Iterator[ScaleRun]:
    """Yield what plan and finish of one size took; the folder is left full."""
    write_list(folder, n_sources)
    for step in STEPS:
        job = ScaleJob(step=step, n_sources=n_sources, folder=str(folder.resolve()))
        ran = run_in_child("benchmarks.bench_scale:do", job, ScaleRun, name=step, environment=_AS_ON_AWS)
        if step != "commit":
            yield ran


def table(runs: Iterable[ScaleRun]) -> Iterator[str]:
    """Yield lines of Markdown."""
    rows = [
        (
            run.step,
            f"{run.n_sources:,}",
            f"{run.n_tasks:,}",
            f"{run.seconds:.1f}",
            f"{run.seconds / run.n_sources * 1_000_000:,.0f}",
            f"{run.peak_rss_mib:,.0f}",
        )
        for run in runs
    ]
    return markdown([("step", "sources", "shards", "seconds", "seconds per million", "peak MiB"), *rows])


def main() -> None:
    """Measure, and print a table as Markdown to standard output."""
    parser = parser_of(main)
    parser.add_argument("--sources", type=int, nargs="+", default=_SIZES)
    options = parser.parse_args()
    runs = []
    for n_sources in options.sources:
        with tempfile.TemporaryDirectory(prefix="bench-scale-") as folder:
            for run in run_size(n_sources, Path(folder)):
                runs.append(run)
                sys.stderr.write(f"{run}\n")
    put(table(sorted(runs, key=lambda each: each.step)), runs, options.json)


if __name__ == "__main__":
    main()
