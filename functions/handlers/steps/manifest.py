"""The manifest: the tasks of a gather that are not committed yet, as items of the state machine's map."""

from collections.abc import Sequence

import msgspec
import xxhash

from pixel_gather.plan.shards import ShardTask


def manifest_key(execution: str) -> str:
    """Return where an execution's manifest lies below the gather's claim: attempts have one each.

    Names given in the console may hold characters that no key of a store can.
    """
    return f"manifests/{xxhash.xxh3_64_hexdigest(execution.encode())}.json"


def manifest(tasks: Sequence[ShardTask]) -> bytes:
    """Return the manifest's content: a JSON array of tasks."""
    return msgspec.json.encode(tasks)
