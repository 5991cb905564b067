"""The plan decides whether long ranges are fetched in parts, by the machine and by the concurrent sources."""

import asyncio
from copy import replace

import msgspec
import numpy as np
import pytest
from msgspec import to_builtins

from pixel_gather.core.estimate.workload import WorkerPool
from pixel_gather.core.plan.cube_plan import CubePlan
from pixel_gather.core.plan.plan import plan_cube
from pixel_gather.core.request.request import parse_request
from support.fakes import FakeImage, FakeReader, access_to, table_of

MIB = 2**20
A = np.arange(50 * 40, dtype="uint16").reshape(1, 50, 40)
WHOLE = {"pixels": [0, 0, 40, 50]}


def planned_over(n: int, *, nbytes: int, workers: WorkerPool | None = None) -> CubePlan:
    """Plan to read this many whole files of one size."""
    hrefs = [f"s3://b/{index}" for index in range(n)]
    reader = FakeReader(
        {
            href: FakeImage(pixels=A, header={"nbytes": nbytes, "tile_height": 50, "tile_width": 40})
            for href in hrefs
        }
    )
    return asyncio.run(
        plan_cube(
            parse_request({"sources": "list.csv", "window": WHOLE}),
            table=table_of(*hrefs),
            sources=access_to(reader),
            workers=replace(workers or WorkerPool(), max_task_nbytes=64 * MIB),
            now=1_700_000_000.0,
        )
    )


def parts_in_estimate(plan: CubePlan) -> str:
    """Return the estimate's sentence about parts."""
    [how_much] = [each.how_much for each in plan.estimate.figures if each.what == "parts"]
    return how_much


def test_one_large_source_in_process_is_fetched_in_parts() -> None:
    """It is fetched in eight parts. The estimate says that a worker on AWS would use one."""
    plan = planned_over(1, nbytes=64 * MIB)

    assert plan.part_nbytes == 8 * MIB
    assert plan.to_json()["part_bytes"] == 8 * MIB
    assert parts_in_estimate(plan) == "single (8 of 8.4 MB in process)"


@pytest.mark.parametrize(("n", "nbytes"), [(64, 64 * MIB), (1, 400_000), (64, 400_000)])
def test_many_or_small_sources_stay_with_single_ranges(n: int, nbytes: int) -> None:
    """Many sources, or small ones, are fetched in single ranges."""
    plan = planned_over(n, nbytes=nbytes)

    assert plan.part_nbytes is None
    assert parts_in_estimate(plan) == "single"


def test_a_worker_on_lambda_stays_with_single_ranges() -> None:
    """One connection uses the whole network of a worker."""
    plan = planned_over(1, nbytes=64 * MIB, workers=WorkerPool(is_deployed=True))

    assert plan.part_nbytes is None


def test_fewer_sources_in_flight_leave_more_for_each() -> None:
    """The number of concurrent sources counts, not the length of the list."""
    plan = planned_over(64, nbytes=64 * MIB, workers=WorkerPool(in_flight=2))

    assert plan.part_nbytes is not None


def test_plans_of_earlier_versions_have_single_ranges() -> None:
    """A plan without the field has single ranges."""
    old = to_builtins(planned_over(1, nbytes=64 * MIB))
    del old["part_nbytes"]

    assert msgspec.convert(old, CubePlan).part_nbytes is None
