"""The marker that halts a deployment, and the one that cancels a gather. Pure.

The first one is set when the deployment's budget of the month is spent, or when somebody halts the
deployment. While it holds, no new gather and no new table of points, zones or a ranking begins. It is one
small object beside the register of `pixel_gather.core.share_workers`. It holds until the month is over, or
until somebody resumes the deployment. This module imports no JSON library but Python's own, so that it can be
in the package of every Lambda function.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

HALTED_KEY: Final = "pace/halted.json"
"""Key in the control bucket."""


def cancelled_key(id_: str) -> str:
    """Return the key of the marker of a cancelled gather in the control bucket. Workers look for it."""
    return f"cancelled/{id_}"


def halt_content(now: datetime, limited: Mapping[str, int], *, by_hand: bool = False) -> bytes:
    """Return the marker that holds from now until the next month begins, in UTC.

    Args:
        now: The time.
        limited: How many workers each gather or table had before the halt lowered the number, by its name.
        by_hand: Whether somebody has halted the deployment. If not, its budget is spent.
    """
    months = now.year * 12 + now.month  # those before the next one
    until = datetime(months // 12, months % 12 + 1, 1, tzinfo=UTC)
    said = {"since": now.isoformat(timespec="seconds"), "until": until.isoformat(timespec="seconds")}
    return json.dumps({**said, "by_hand": by_hand, "limited": dict(limited)}).encode()


def workers_before(marker: bytes | None) -> dict[str, int]:
    """Return how many workers each gather or table had before the halt, by its name.

    Nothing if there is no marker that can be read.
    """
    try:
        return {} if marker is None else dict(json.loads(marker)["limited"])
    except (ValueError, KeyError, TypeError):
        return {}


def why_halted(marker: bytes | None, *, now: datetime) -> str | None:
    """Return why nothing begins now, as a sentence for whoever asks; None if there is no reason.

    A marker that cannot be read counts: it can only have been put to save money.
    """
    if marker is None:
        return None
    try:
        said = json.loads(marker)
        until = datetime.fromisoformat(said["until"])
    except (ValueError, KeyError, TypeError):
        return f"this deployment is halted: {_HOW}"
    if now >= until:
        return None
    is_by_hand = said.get("by_hand", False)
    why = "was halted by hand" if is_by_hand else "has spent its budget of the month (max_usd_per_month)"
    return f"this deployment {why}, so nothing begins before {until.date().isoformat()}: wait, or {_HOW}"


_HOW: Final = "ask whoever has deployed it for scripts/deploy budget --resume"
