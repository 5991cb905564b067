"""Encode the manifest: the tasks that are not committed yet, as items of the state machine's map. Pure.

Each item is for one child of the map. It has a few tasks, which one worker does in their order.
"""

from collections.abc import Sequence
from itertools import islice

import msgspec
import xxhash

from pixel_gather.core.estimate.fleet import child_sizes
from pixel_gather.core.plan.cut_tasks import ShardTask


def manifest_key(execution: str) -> str:
    """Return the key of an execution's manifest, below the gather's claim. Each execution has its own.

    The name is hashed, as names from the console may have characters that a key cannot have.
    """
    return f"manifests/{xxhash.xxh3_64_hexdigest(execution.encode())}.json"


def manifest(tasks: Sequence[ShardTask], *, tasks_per_child: int, n_workers: int) -> bytes:
    """Return the manifest's content: a JSON array of arrays of tasks.

    Args:
        tasks: The tasks that are not committed.
        tasks_per_child: The largest number of tasks in one item.
        n_workers: How many workers run at the same time.
    """
    sizes = child_sizes(len(tasks), tasks_per_child=tasks_per_child, n_workers=n_workers)
    in_order = iter(tasks)
    return msgspec.json.encode([list(islice(in_order, size)) for size in sizes])
