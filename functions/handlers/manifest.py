"""The manifest: the tasks of a gather that are not committed yet, as items of the state machine's map.

Each item is a `ShardTask` with the mark of the plan that it was cut from, so that a worker knows the plan
it has in memory, and a task of an earlier plan of the same name.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
import xxhash

from pixel_gather.cube import CubePlan
from pixel_gather.shards import ShardTask

MANIFEST_KEY: Final = "manifest.json"
_MARK: Final = "plan"


def plan_mark(plan: CubePlan) -> str:
    """Return what tells a plan from every other: 16 hexadecimal digits of its shards, and its time."""
    return f"{xxhash.xxh3_64_hexdigest(f'{plan.digest} {plan.layout}'.encode())}@{plan.planned_at!r}"


def has_same_shards(mark: str, other: str) -> bool:
    """Tell whether tasks of the one plan are tasks of the other: the same request may be planned twice."""
    return mark.partition("@")[0] == other.partition("@")[0]


def manifest(tasks: Iterable[ShardTask], plan: CubePlan) -> bytes:
    """Return the manifest's content."""
    mark = {_MARK: plan_mark(plan)}
    return json.dumps([msgspec.to_builtins(task) | mark for task in tasks]).encode()


def task_of(item: Mapping[str, Any]) -> tuple[ShardTask, str | None]:
    """Return an item's task and its plan's mark; items made by hand need none."""
    return msgspec.convert(item, ShardTask), item.get(_MARK)
