"""Puts load on the emulated stack, and plans and finishes a gather of 10,000 shards in this process."""

import argparse
import asyncio
import resource
import sys
import tempfile
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
from obstore.store import LocalStore

from e2e.api import call, wait_for
from pixel_gather.core.estimate.workload import WorkerPool
from pixel_gather.core.plan.cube_plan import CubePlan
from pixel_gather.core.plan.cut_tasks import ShardTask
from pixel_gather.core.plan.manifest import manifest
from pixel_gather.core.read.shard_buffers import ShardBuffers
from pixel_gather.core.request.request import parse_request
from pixel_gather.engine.finish_gather import finish_gather
from pixel_gather.engine.gather_context import GatherContext
from pixel_gather.engine.gather_shard import gather_shard
from pixel_gather.engine.plan_gather import plan_gather
from pixel_gather.io.cube.control_files import ObjectControlStore
from pixel_gather.io.cube.zarr_cube import ZarrCube
from pixel_gather_emulator.deploy import DeployedStack, deployed
from support.fakes import FakeImage, FakeReader, access_to, context_of, table_of

_SIDE: Final = 4
_SAMPLES: Final = "series/files/stactools-nclimgrid"


def load_stack(
    deployment: DeployedStack,
    *,
    n_submissions: int,
    n_readers: int,
    draws_reports: bool = True,
    name: str = "load",
) -> dict[str, Any]:
    """Submit gathers at once, let readers ask for one of them at once, and wait until all have ended.

    Args:
        deployment: Where to.
        n_submissions: How many gathers.
        n_readers: How many ask at once.
        draws_reports: Whether each gather draws its report.
        name: How the names of the gathers begin. Another one makes other gathers.

    Returns:
        Milliseconds of the submissions and of the readers, and what came of each gather.

    Raises:
        AssertionError: A submission was lost or doubled, a reader got no answer, or a gather failed.
    """
    bucket, names = deployment.samples.bucket, sorted(_names(deployment))[:2]
    requests = [
        {
            "sources": [f"s3://{bucket}/{name}" for name in names],
            "window": {"bbox": [-109, 37, -102, 41]},
            "output": {"name": f"{name}-{n}", "report": draws_reports},
        }
        for n in range(n_submissions)
    ]
    submitted, submit_ms = _at_once(lambda each: call(deployment, "POST", "/gathers", each), requests)
    ids = [each.body["id"] for each in submitted if each.status == 202]
    told = Counter((each.status, str(each.body)[:200]) for each in submitted)
    assert len(set(ids)) == n_submissions, told
    readers = [ids[0]] * n_readers
    answers, read_ms = _at_once(lambda id_: call(deployment, "GET", f"/gathers/{id_}"), readers)
    assert {each.status for each in answers} == {200}
    ended = [wait_for(deployment, id_, longest_s=1800) for id_ in ids]
    assert {each["state"] for each in ended} == {"succeeded"}, Counter(each["state"] for each in ended)
    assert len({each["result"]["digest"] for each in ended}) == 1
    return {"submit_ms": submit_ms, "read_ms": read_ms, "ended": ended}


def _names(deployment: DeployedStack) -> list[str]:
    pages = deployment.client("s3").list_objects_v2(Bucket=deployment.samples.bucket, Prefix=_SAMPLES)
    return [each["Key"] for each in pages["Contents"] if each["Key"].endswith(".tif")]


def _at_once[T, R](act: Callable[[T], R], many: Sequence[T]) -> tuple[list[R], list[float]]:
    def timed(each: T) -> tuple[R, float]:
        began_s = time.perf_counter()
        return act(each), (time.perf_counter() - began_s) * 1000

    with ThreadPoolExecutor(len(many)) as pool:
        done = list(pool.map(timed, many))
    return [answer for answer, _ in done], [ms for _, ms in done]


class _OneImage(dict[str, FakeImage]):
    """The same pixels for every source."""

    def __contains__(self, href: object) -> bool:
        return True

    def __missing__(self, href: str) -> FakeImage:
        return FakeImage(pixels=np.full((1, _SIDE, _SIDE), 1 + hash(href) % 60_000, "uint16"))


async def many_shards(folder: Path, n_shards: int, tell: Callable[[str], None]) -> CubePlan:
    """Plan, fill and finish a cube of so many shards, of one row each, on the local disk."""
    began_s = time.process_time()

    def told(step: str) -> None:
        nonlocal began_s
        now_s = time.process_time()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        traced = tracemalloc.get_traced_memory()[1] / 2**20
        tell(f"{step}: {now_s - began_s:.1f} s of CPU, {traced:.0f} MiB of Python's, peak {peak:.0f} MiB")
        tracemalloc.reset_peak()
        began_s = now_s

    (folder / "cube").mkdir()
    (folder / "control").mkdir()
    cube = ZarrCube(LocalStore(folder / "cube"), str(folder / "cube"))
    control = ObjectControlStore(LocalStore(folder / "control"), "")
    reader: Any = FakeReader(_OneImage())
    request = parse_request(
        {
            "sources": "list",
            "window": {"pixels": [0, 0, _SIDE, _SIDE]},
            "output": {"layout": {"chunk": [1, _SIDE, _SIDE], "shard_rows": 1}},
        }
    )
    context = context_of(cube, control, access_to(reader, timeout_s=60.0))
    planned = await plan_gather(
        request,
        table=table_of(*(f"s3://b/{n:06d}.tif" for n in range(n_shards))),
        context=context,
        workers=WorkerPool(max_task_nbytes=2**20),
    )
    assert planned is not None
    plan, tasks = planned
    assert len(tasks) == n_shards
    told(f"plan of {len(tasks):,} shards")
    content = manifest(tasks, tasks_per_child=8, n_workers=1000)
    n_items = len(msgspec.json.decode(content))
    told(f"manifest of {n_items:,} items in {len(content) / 1e6:.1f} MB")
    await _fill(plan, tasks, context.of_plan(plan.claim))
    told("shards")
    report = await finish_gather(plan=plan, tasks=tasks, stores=context.of_plan(plan.claim))
    told("finish")
    assert report.status_counts == {"ok": n_shards}
    n_files = Counter(path.parent.name for path in (folder / "control").rglob("*") if path.is_file())
    tell(f"control files: {dict(n_files)}")
    return plan


async def _fill(plan: CubePlan, tasks: Sequence[ShardTask], context: GatherContext) -> None:
    buffers = ShardBuffers(plan)
    for task in tasks:
        await gather_shard(task, plan=plan, context=context, buffers=buffers)


def _quantiles(ms: Sequence[float]) -> str:
    low, middle, high = np.percentile(ms, [5, 50, 95])
    return f"{low:,.0f} to {high:,.0f} ms, half within {middle:,.0f} ms, longest {max(ms):,.0f} ms"


def _say_load(deployment: DeployedStack, given: argparse.Namespace, *, name: str) -> None:
    began_s = time.perf_counter()
    done = load_stack(deployment, n_submissions=given.submissions, n_readers=given.readers, name=name)
    _say(f"submissions: {_quantiles(done['submit_ms'])}")
    _say(f"readers: {_quantiles(done['read_ms'])}")
    _say(f"all {len(done['ended'])} have succeeded after {time.perf_counter() - began_s:.0f} s")


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def main() -> int:
    """Do what is asked for, and tell what was measured."""
    parser = argparse.ArgumentParser(prog="scripts/load", description=__doc__)
    parser.add_argument("--submissions", type=int, default=50, help="0 leaves out the emulated stack")
    parser.add_argument("--readers", type=int, default=100)
    parser.add_argument("--times", type=int, default=1, help="of the emulated stack, one after another")
    parser.add_argument("--shards", type=int, default=10_000, help="0 leaves them out")
    given = parser.parse_args()
    if given.shards:
        tracemalloc.start()
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(many_shards(Path(folder), given.shards, _say))
        tracemalloc.stop()
    if given.submissions:
        with deployed(wait_scale=0.2) as deployment:
            for n in range(given.times):
                _say_load(deployment, given, name=f"load{n}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
