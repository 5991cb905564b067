"""What it takes to try rows of a cube again, and what such a plan keeps of the cube."""

from copy import replace
from typing import Any

import numpy as np
import pytest

from pixel_gather.core.errors import BudgetError
from pixel_gather.core.estimate.workload import FarBucket, WorkerPool
from pixel_gather.core.model.source import CubeRow, Source
from pixel_gather.core.plan.cube_plan import Append, CubePlan
from pixel_gather.core.plan.cube_template import CubeTemplate
from pixel_gather.core.plan.plan_again import Again, plan_again
from pixel_gather.core.plan.reduced_table import ReducedTable
from pixel_gather.core.ports import SourceTable
from pixel_gather.core.request.request import parse_request
from support.fakes import FakeReader, FakeTable, table_of
from support.plans import planned

A = np.zeros((2, 50, 40), "uint16")
WINDOW = {"pixels": [3, 10, 8, 12]}
HREFS = [f"s3://b/{n}" for n in range(40)]
FOUR = Append(version=2, first_row=40, again=(0, 1, 9, 38), n_tries=(1,) * 4, n_again=4)
SIZE = Again(n_sources=4, n_by_bucket={"b": 3}, mean_nbytes=1000.0, mean_open_nbytes=300.0)
FAR = WorkerPool(
    max_task_nbytes=2**26, region="eu-central-1", far_buckets={"b": FarBucket(region="us-west-2")}
)


def plan_of(table: SourceTable | None = None, **request: Any) -> CubePlan:
    """Plan a cube of 40 sources of two bands, in shards of four rows."""
    usual: dict[str, Any] = {
        "window": WINDOW,
        "output": {"layout": {"chunk": [2, 12, 8], "shard_rows": 4}},
    }
    return planned(FakeReader(dict.fromkeys(HREFS, A)), table or table_of(*HREFS), **usual | request)


def template_of(table: SourceTable | None = None, **request: Any) -> CubeTemplate:
    """Return what such a cube prescribes."""
    return CubeTemplate.of(plan_of(table, **request), is_aligned=True)


def again(
    template: CubeTemplate,
    *,
    append: Append = FOUR,
    size: Again = SIZE,
    workers: WorkerPool = FAR,
    **request: Any,
) -> CubePlan:
    """Plan to try rows again."""
    return plan_again(
        parse_request({"sources": "l.csv", "window": WINDOW} | request),
        template=template,
        append=append,
        digest="d",
        size=size,
        workers=workers,
        now=0.0,
    )


def test_rows_that_are_tried_again_cost_what_their_sources_do() -> None:
    """A try opens each source and reads the tiles of two lines. Rows of one shard are one task."""
    estimate = again(template_of()).estimate

    assert estimate.n_gets == 4 * (1 + 2)
    assert estimate.fetched_nbytes == 4 * 1300
    assert estimate.decoded_nbytes == 4 * 8 * 12 * 2 * 2
    assert estimate.n_children == 3
    assert estimate.transfer_nbytes == 3 * 1300
    more = again(template_of(), append=replace(FOUR, again=(0, 9, 20, 38))).estimate
    assert more.n_children == 4
    assert more.n_puts > estimate.n_puts


def test_rows_that_are_tried_again_beside_new_ones_cost_both() -> None:
    """So do sources that are read again beside them. Limits hold for all that is read."""
    template = template_of()

    def appended(n_pixels: int) -> CubePlan:
        return planned(
            FakeReader(dict.fromkeys(HREFS, A)),
            table_of(*HREFS[:4]),
            template=template,
            append=replace(FOUR, n_beside=2),
            window=WINDOW,
            limits={"pixels": n_pixels},
        )

    estimate = appended((4 + 4) * 8 * 12 * 2).estimate

    assert estimate.n_gets == (4 + 4 + 2) * (1 + 2)
    assert estimate.n_children == 1 + 3
    with pytest.raises(BudgetError, match=r"^limits\.pixels: the plan takes 1,536 pixels"):
        appended((4 + 4) * 8 * 12 * 2 - 1)


def test_windows_in_strips_are_tasks_each() -> None:
    """So all strips of a shard are tried again."""
    strips = template_of(
        max_task_nbytes=4 * 8 * 6 * 2 * 2, output={"layout": {"chunk": [2, 6, 8], "shard_rows": 4}}
    )

    assert strips.n_strips == 2
    assert again(strips).estimate.n_children == 6


def test_an_axis_of_bands_is_one_object_a_shard() -> None:
    """Each object is a PUT."""
    output = {"layout": {"chunk": [2, 12, 8], "shard_rows": 4}}
    arrays, axis = (
        again(template_of(output=output | {"bands": bands})).estimate.n_puts for bands in ("arrays", "axis")
    )

    assert arrays - axis == 3


def test_rows_of_scenes_cost_all_of_their_scenes() -> None:
    """Those that were read before are read again beside the others. All scenes of a shard are held."""
    scenes = tuple(
        CubeRow(time_us=n // 4 * 86_400_000_000, sources=(Source(href=href),)) for n, href in enumerate(HREFS)
    )
    table = ReducedTable(table=FakeTable(scenes, has_time=True), by="day", order=None, mask=None)
    template = template_of(table, reduce={"by": "day", "statistic": "mean"})
    two = Append(
        version=2, first_row=10, again=(1, 7), n_tries=(1, 1), n_again=2, n_beside=6, scenes_again=(4, 4)
    )

    plan = again(template, append=two, size=replace(SIZE, n_sources=8))

    assert plan.estimate.n_gets == 8 * (1 + 2)
    assert plan.estimate.decoded_nbytes == 8 * 8 * 12 * 2 * 2  # scenes are uint16, and their mean is float32
    assert plan.reduction is not None
    assert (plan.reduction.n_scenes, plan.reduction.most_scenes) == (8, 4)
    with pytest.raises(BudgetError, match="workers with more memory"):
        again(template, append=two, workers=WorkerPool(max_task_nbytes=2**12))


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"pixels": 4 * 8 * 12 * 2 - 1}, "^limits.pixels: the plan takes 768 pixels, the limit is 767"),
        ({"fetched_bytes": 4 * 1300 - 1}, "^limits.fetched_bytes: the plan takes 5,200 bytes"),
        ({"usd": 0}, "^limits.usd: "),
        ({"transfer_usd": 0}, "^limits.transfer_usd: "),
    ],
)
def test_a_try_keeps_to_the_limits(limits: dict[str, Any], said: str) -> None:
    """Of what it reads, not of the whole cube."""
    exact = {"pixels": 4 * 8 * 12 * 2, "fetched_bytes": 4 * 1300, "files": 1}

    assert again(template_of(), limits=exact).n_sources == 0
    with pytest.raises(BudgetError, match=said):
        again(template_of(), limits=limits)


def test_a_try_that_workers_cannot_hold_is_refused() -> None:
    """The cube may come from a machine with more memory."""
    nbytes = 4 * 8 * 12 * 2 * 2
    within = again(template_of(), workers=WorkerPool(max_task_nbytes=nbytes))

    assert within.layout.shard == (4, 12, 8)
    with pytest.raises(BudgetError, match="workers with more memory"):
        again(template_of(), workers=WorkerPool(max_task_nbytes=nbytes - 1))


@pytest.mark.parametrize(
    "request_",
    [
        {},
        {"grid": "same", "nodata": 7, "values": "scaled"},
        {"grid": {"resolution": 10}, "window": {"tile": [0, 1]}},
        {"mask": {"band": "band_2", "drop": [3]}, "nodata": 7},
        {"output": {"bands": "axis"}},
    ],
)
def test_a_try_reads_what_the_cube_prescribes(request_: dict[str, Any]) -> None:
    """The cube has no new row, and is cut, masked and stored as before."""
    first = plan_of(**request_)
    template = CubeTemplate.of(first, is_aligned=True)

    plan = again(template, **request_)

    assert CubeTemplate.of(plan, is_aligned=True) == template
    assert (plan.n_rows, plan.first_row, plan.append) == (40, 40, FOUR)
    assert (plan.shape, plan.rule, plan.wants_same_grid) == (first.shape, first.rule, True)
