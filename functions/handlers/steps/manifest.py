"""The manifest: the tasks of a gather that are not committed yet, as items of the state machine's map.

An item is one child's: a few tasks that one worker fills, one after another.
"""

from collections.abc import Sequence
from itertools import islice

import msgspec
import xxhash

from pixel_gather.estimate.fleet import child_sizes
from pixel_gather.plan.shards import ShardTask


def manifest_key(execution: str) -> str:
    """Return where an execution's manifest lies below the gather's claim: attempts have one each.

    Names given in the console may hold characters that no key of a store can.
    """
    return f"manifests/{xxhash.xxh3_64_hexdigest(execution.encode())}.json"


def manifest(tasks: Sequence[ShardTask], *, tasks_per_child: int, n_workers: int) -> bytes:
    """Return the manifest's content: a JSON array of arrays of tasks.

    Args:
        tasks: Those that are missing.
        tasks_per_child: Most of them in one item.
        n_workers: That work at one time.
    """
    sizes = child_sizes(len(tasks), tasks_per_child=tasks_per_child, n_workers=n_workers)
    in_order = iter(tasks)
    return msgspec.json.encode([list(islice(in_order, size)) for size in sizes])
