"""The manifest holds every task once, in order, in items of the children's sizes."""

import json
from copy import replace

import numpy as np

from pixel_gather.core.plan.cut_tasks import cut_tasks, row_ranges
from pixel_gather.core.plan.manifest import manifest, manifest_key
from support.fakes import FakeReader, table_of
from support.plans import planned

PLAN = planned(FakeReader({"a": np.zeros((1, 8, 8), "uint8")}), table_of("a"))


def test_manifest_has_every_task_once_and_in_order() -> None:
    """Seven tasks for two workers become items of at most three tasks."""
    layout = replace(PLAN.layout, shard=(1, *PLAN.layout.shard[1:]), chunk=(1, *PLAN.layout.chunk[1:]))
    plan = replace(PLAN, n_rows=7, layout=layout)
    tasks = cut_tasks(plan, [n + 1 for n, _ in enumerate(row_ranges(plan))])

    items = json.loads(manifest(tasks, tasks_per_child=3, n_workers=2))

    assert [task["index"] for item in items for task in item] == list(range(7))
    assert all(1 <= len(item) <= 3 for item in items)


def test_manifest_key_is_of_the_execution() -> None:
    """Each execution has its own, with letters that a key may have."""
    assert manifest_key("a b?") != manifest_key("a b!")
    assert manifest_key("a b?").isascii()
    assert " " not in manifest_key("a b?")
