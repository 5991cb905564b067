"""The plan decides whether long ranges are fetched in parts, by the machine and by the concurrent sources."""

from typing import Any

import msgspec
import numpy as np
import pytest
from msgspec import to_builtins

from pixel_gather.core.estimate.workload import WorkerPool
from pixel_gather.core.plan.cube_plan import CubePlan
from support.fakes import FakeImage, FakeReader, table_of
from support.plans import MIB, planned

A = np.arange(50 * 40, dtype="uint16").reshape(1, 50, 40)
WHOLE = {"pixels": [0, 0, 40, 50]}


def planned_over(n: int, *, nbytes: int, **workers: Any) -> CubePlan:
    """Plan to read this many whole files of one size."""
    hrefs = [f"s3://b/{index}" for index in range(n)]
    image = FakeImage(pixels=A, header={"nbytes": nbytes, "tile_height": 50, "tile_width": 40})
    reader = FakeReader(dict.fromkeys(hrefs, image))
    return planned(reader, table_of(*hrefs), workers=WorkerPool(**workers), window=WHOLE)


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
    """So does a worker on Lambda: one connection uses its whole network. Sources in flight count, not all."""
    plan = planned_over(n, nbytes=nbytes)

    assert plan.part_nbytes is None
    assert parts_in_estimate(plan) == "single"
    assert planned_over(1, nbytes=64 * MIB, is_deployed=True).part_nbytes is None
    assert planned_over(64, nbytes=64 * MIB, in_flight=2).part_nbytes is not None


def test_plans_of_earlier_versions_have_single_ranges() -> None:
    """A plan without the field has single ranges."""
    old = to_builtins(planned_over(1, nbytes=64 * MIB))
    del old["part_nbytes"]

    assert msgspec.convert(old, CubePlan).part_nbytes is None
