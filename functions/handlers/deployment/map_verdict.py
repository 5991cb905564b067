"""Verdicts on a table: that it is complete, or that a round runs whose manifest was written."""

import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from handlers.deployment.stores import Deployment
from pixel_gather.core.errors import HaltedError
from pixel_gather.core.plan.manifest import manifest_key
from pixel_gather.io.aws.gather_document import summary_key
from pixel_gather.tables.map_round import MapRound
from pixel_gather.tables.map_tasks import RoundState, missing_tasks, round_files

_LATE_S: Final = 840
"""Longest time of a second try."""


async def find_complete(deployment: Deployment, name: str) -> dict[str, Any] | None:
    """Return the verdict on a table that is complete, or None."""
    found = await deployment.find_result(name, type=dict[str, Any])
    return None if found is None else {"verdict": "complete", "result": found[0]}


async def run_round(
    deployment: Deployment,
    name: str,
    state: RoundState,
    planned: MapRound,
    *,
    execution: str,
    told: Mapping[str, float],
) -> dict[str, Any]:
    """Write what a round of the map reads, and return its verdict. Tasks that are committed are left out.

    What is told is for the summary: ``n_scenes`` of the table, ``n_wanted`` that the round reads, and
    ``usd``, the forecast until its end.

    Raises:
        HaltedError: The month's budget is spent. A table that has begun goes on with one worker.
    """
    halted = await deployment.why_halted()
    if halted is not None and state.number == state.first:
        raise HaltedError(halted)
    n_workers = planned.n_workers if halted is None else 1
    files = deployment.table_files(name)
    missing = await missing_tasks(state.tasks, round_files(files, state.number))
    key = manifest_key(f"{execution} {state.number}")
    await files.put(key, msgspec.json.encode([[task] for task in missing]))  # each is a child of the map
    summary = {
        "name": name,
        "round": state.number - state.first + 1,
        "n_tasks": len(missing),
        "seconds": planned.seconds,
        **told,
    }
    await deployment.summaries.put(summary_key(execution), json.dumps(summary).encode())
    return {
        "verdict": "planned",
        "gather": f"{name}/{state.number}",
        "execution": execution,
        "manifest": {"bucket": deployment.settings.control_bucket, "key": files.prefix + key},
        "workers": n_workers,
        "worker_size": 0,
        "shard_limit_s": planned.first_limit_s,
        "late_shard_s": _LATE_S,
        "failed_shards": 100,
        "tolerated_failure_percentage": 100,  # a scene whose worker is lost is read again, then listed
        "n_missing": len(missing),
    }
