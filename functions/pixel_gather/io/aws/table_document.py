"""The status of a table or a large ranking, as the document that the API and the command line show. Pure."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from pixel_gather.io.aws.execution_json import json_object
from pixel_gather.io.aws.gather_document import SeenExecution, error_of, gather_line, links_to_go_on

_PLACES: Final = ("table", "parquet", "features_table", "images_table")
"""Fields of a result that are addresses."""


def table_document(seen: SeenExecution, *, now: datetime, links_from: str) -> dict[str, Any]:
    """Describe one table, or a large ranking."""
    found, summary = seen.found, seen.summary or {}
    output = json_object(found.get("output"))
    result = output if output and "kind" in output else None
    document = gather_line(found, now=now, links_from=links_from, kind="table") | {
        "request": json_object(found.get("input")),
        "round": summary.get("round"),
        "scenes": _scenes(seen.counts or {}, summary, result),
        "usd": result["usd"] if result else summary.get("usd"),
        "error": _error(found),
        "result": result,
    }
    document["links"] |= links_to_go_on(found, document["links"]["self"])
    for name in _PLACES:
        if result and name in result:
            document["links"][name] = result[name]
    return document


def _error(found: Mapping[str, Any]) -> dict[str, str] | None:
    error = error_of(found)
    if error is not None and error["type"] == "States.Timeout":
        said = "it took longer than the deployment allows; a redrive goes on with what was read"
        return error | {"detail": said}
    return error


def _scenes(
    counts: Mapping[str, int], summary: Mapping[str, Any], result: Mapping[str, Any] | None
) -> dict[str, int | None] | None:
    """Count scenes: all, those that the last round reads, and about how many of them it has read."""
    if result:
        return {"total": result["scenes"], "wanted": 0, "read": 0, "failed": result["failed"]}
    if "n_scenes" not in summary:
        return None
    ended = counts.get("succeeded", 0) + counts.get("failed", 0) + counts.get("timedOut", 0)
    share = min(ended / max(summary["n_tasks"], 1), 1.0)
    wanted = summary["n_wanted"]
    return {"total": summary["n_scenes"], "wanted": wanted, "read": round(wanted * share), "failed": None}
