"""The status of a gather, as the document that the API and the command line show. Pure.

It is built from Step Functions' descriptions of the execution and its Map Run, and from the summary that the
plan wrote. It does not need the request's model, so a small function need not import that.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlencode

from msgspec import Struct

from pixel_gather.core.errors import REFUSALS, HaltedError
from pixel_gather.core.estimate.fleet import child_sizes
from pixel_gather.io.aws.execution_json import json_object, said_by_function
from pixel_gather.io.aws.failed_children import describe_failure

STATES: Final = {
    "RUNNING": "running",
    "PENDING_REDRIVE": "running",
    "SUCCEEDED": "succeeded",
    "FAILED": "failed",
    "ABORTED": "stopped",
    "TIMED_OUT": "timed_out",
}
"""States of gathers, by Step Functions' status."""

SHARDS_MISSING: Final = "ShardsMissingError"
"""Error of a finish that found too few shards. The map ended well, so a redrive would not run it again."""

CANCELLED: Final = "GatherCancelledError"
"""Error of a gather that was cancelled. Its marker stays, so a redrive would do nothing."""

_ENDS: Final = {
    "States.ExceedToleratedFailureThreshold": (
        "more shards failed than limits.failed_shards allows; a redrive runs the missing shards again"
    ),
    "States.Timeout": (
        "it took longer than the deployment allows; a redrive goes on with the shards that are missing"
    ),
}

_WAITS: Final = "another append to this cube is at work; this one goes on by itself when that one is done"

_PARTS: Final = {"gather": "shards", "table": "scenes"}
"""What each kind of execution is made of."""

_CONSOLES: Final = {
    "aws": "console.aws.amazon.com",
    "aws-cn": "console.amazonaws.cn",
    "aws-us-gov": "console.amazonaws-us-gov.com",
}
_EMULATED_ACCOUNT: Final = "000000000000"


def summary_key(id_: str) -> str:
    """Return the key of the plan's summary in the control bucket."""
    return f"summaries/{id_}.json"


class SeenExecution(Struct, frozen=True, kw_only=True):
    """What is known of an execution."""

    found: Mapping[str, Any]
    """The answer of DescribeExecution."""

    counts: Mapping[str, int] | None = None
    """The counts of its last Map Run; None if none has begun, or after success."""

    failed: tuple[Mapping[str, Any], ...] = ()
    """The same answers for a few children that failed."""

    summary: Mapping[str, Any] | None = None
    """What the plan wrote, or of a table the round before."""


def status_document(seen: SeenExecution, *, now: datetime, links_from: str) -> dict[str, Any]:
    """Describe one gather."""
    found, summary = seen.found, seen.summary or {}
    result, state = _result_or_none(found), STATES[found["status"]]
    shards = _finished_shards(result) if result else _running_shards(seen.counts, summary, state)
    cube = (result or summary).get("cube")
    document = gather_line(found, now=now, links_from=links_from) | {
        "request": json_object(found.get("input")),
        "cube": cube,
        "shards": shards,
        "sources": _sources(shards, summary, result),
        "usd": _usd(shards, summary, result),
        "error": error_of(found),
        "failures": list(map(describe_failure, seen.failed)),
        "result": result,
        "warnings": [
            *(result or summary).get("warnings", _waits(found, summary)),
            *summary.get("worker_warnings", ()),
        ],
    }
    document["links"] |= _links(found, document["links"]["self"], cube, result)
    return document


def gather_line(
    found: Mapping[str, Any], *, now: datetime, links_from: str, kind: str = "gather"
) -> dict[str, Any]:
    """Describe one gather or table by its entry in Step Functions' list."""
    state, started = STATES[found["status"]], found["startDate"]
    ended = None if state == "running" else found.get("stopDate")  # it may tell the end before a redrive
    return {
        "id": found["name"],
        "state": state,
        "submitted_at": _isoformat(started),
        "ended_at": None if ended is None else _isoformat(ended),
        "seconds": round(max(((ended or now) - started).total_seconds(), 0.0), 1),
        "links": {"self": f"{links_from}/{kind}s/{found['name']}"},
    }


def links_to_go_on(found: Mapping[str, Any], itself: str) -> dict[str, str]:
    """Return the links that stop or redrive a gather or a table, where that can be done."""
    links = {
        "stop": itself if STATES[found["status"]] == "running" else None,
        "redrive": f"{itself}/redrive" if why_not_redrivable(found) is None else None,
    }
    return {name: link for name, link in links.items() if link}


def why_not_redrivable(found: Mapping[str, Any], *, kind: str = "gather") -> str | None:
    """Return why a gather or table cannot be redriven and what to do instead; None where it can be."""
    name, state = found["name"], STATES[found["status"]]
    if state == "running":
        return f"the {kind} {name} is still running: wait for it, or cancel it first"
    if state == "succeeded":
        return f"the {kind} {name} has succeeded: there is nothing left to run again"
    if (said := _said_of_error(name, str(found.get("error")), kind)) is not None:
        return said
    if found.get("redriveStatus") == "NOT_REDRIVABLE":
        reason = str(found.get("redriveStatusReason") or "Step Functions does not say why").rstrip(".")
        if "period" in reason:
            reason = "it began or ended too long ago; Step Functions redrives for 14 days"
        return (
            f"the {kind} {name} cannot be redriven ({reason}): submit its request again, which goes on with "
            f"the {_PARTS[kind]} that are missing"
        )
    return None


def _said_of_error(name: str, error: str, kind: str) -> str | None:
    """Return why an execution that ended in an error cannot be redriven; None if it can be."""
    if error == HaltedError.__name__:
        return (
            f"{name} was refused, as the deployment was halted: submit its request again, unchanged, when "
            "scripts/deploy budget says that it goes on. Whoever has deployed it resumes it"
        )
    if error in REFUSALS:
        return f"the request of {name} was refused: do what its error says, and submit it again"
    if error == CANCELLED:
        return f"{name} was cancelled: submit its request again, which goes on with the missing shards"
    if error == SHARDS_MISSING:
        return (
            f"{name} has filled all other {_PARTS[kind]}: submit its request again, which goes on with the "
            f"{_PARTS[kind]} that are missing, or with limits.failed_shards so high that they may be lost"
        )
    return None


def _waits(found: Mapping[str, Any], summary: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what a gather without a plan waits for. One that has ended may have waited before."""
    is_waiting = summary.get("is_waiting", False) and STATES[found["status"]] == "running"
    return (_WAITS,) if is_waiting else ()


def _result_or_none(found: Mapping[str, Any]) -> dict[str, Any] | None:
    output = json_object(found.get("output"))
    return output if output and "n_sources" in output else None


def _running_shards(
    counts: Mapping[str, int] | None, summary: Mapping[str, Any], state: str
) -> dict[str, int] | None:
    """Count shards. The Map Run counts items, each of which has several shards.

    A small gather has a worker for each shard and no Map Run, unless a worker fails. So if it failed without
    one, its finish did.

    A running item fills one shard at a time. Shards of an earlier attempt belong to no item. The total is the
    plan's, because the total of a Map Run grows while it reads its manifest.
    """
    is_inline = counts is None and summary.get("is_inline", False)
    counts = counts or {}
    total = summary.get("n_shards", counts.get("total"))
    if total is None:
        return None
    if is_inline and state in ("running", "failed"):
        return _shards(total=total, **{"running" if state == "running" else "succeeded": total})
    earlier = total - summary.get("n_missing", total)
    succeeded, running = counts.get("succeeded", 0), counts.get("running", 0)
    failed = counts.get("failed", 0) + counts.get("timedOut", 0)
    sizes = _items(summary)
    if sizes is not None:  # items come in order, so those that have ended are mostly the first
        ended = sum(sizes[: succeeded + failed])
        failed = round(ended * failed / max(succeeded + failed, 1))
        succeeded = ended - failed
    return _shards(total=total, running=running, succeeded=earlier + succeeded, failed=failed)


def _items(summary: Mapping[str, Any]) -> list[int] | None:
    """Return how many shards each item of the Map Run has, or None without a plan."""
    if not summary:
        return None
    return child_sizes(
        summary["n_missing"], tasks_per_child=summary["tasks_per_child"], n_workers=summary["n_workers"]
    )


def _finished_shards(result: Mapping[str, Any]) -> dict[str, int] | None:
    total, lost = result.get("n_shards"), result.get("n_lost_shards", 0)
    return None if total is None else _shards(total=total, succeeded=total - lost, failed=lost)


def _shards(*, total: int, running: int = 0, succeeded: int = 0, failed: int = 0) -> dict[str, int]:
    return {
        "total": total,
        "pending": max(total - running - succeeded - failed, 0),
        "running": running,
        "succeeded": succeeded,
        "failed": failed,
    }


def _share_done(shards: Mapping[str, int] | None) -> float:
    return shards["succeeded"] / shards["total"] if shards and shards["total"] else 0.0


def _sources(
    shards: Mapping[str, int] | None, summary: Mapping[str, Any], result: Mapping[str, Any] | None
) -> dict[str, int | None] | None:
    if result:
        return {"total": result["n_sources"], "done": result["n_sources"], "failed": result["n_failed"]}
    if "n_sources" not in summary:
        return None
    total = summary["n_sources"]
    return {"total": total, "done": round(total * _share_done(shards)), "failed": None}


def _usd(
    shards: Mapping[str, int] | None, summary: Mapping[str, Any], result: Mapping[str, Any] | None
) -> dict[str, Any]:
    planned = summary.get("usd")
    if result:
        n_appended = result.get("n_appended")
        counted = "what the report counts" + (
            "" if n_appended is None else " of the whole cube, with all of its appends"
        )
        is_earlier = n_appended == 0 and not result.get("n_retried")
        so_far = None if is_earlier else result.get("usd")
        return {"planned": planned, "so_far": so_far, "basis": f"{counted}, at list prices; not a bill"}
    if planned is None:
        return {"planned": None, "so_far": None, "basis": "no plan, no price"}
    basis = "the plan's estimate, times the share of shards that are done; not a bill"
    return {"planned": planned, "so_far": planned * _share_done(shards), "basis": basis}


def error_of(found: Mapping[str, Any]) -> dict[str, str] | None:
    """Return why an execution has ended without success; None if it runs or has succeeded."""
    state = STATES[found["status"]]
    if state in ("running", "succeeded"):
        return None
    error = found.get("error") or ("States.Timeout" if state == "timed_out" else "Stopped")
    said = said_by_function(found.get("cause") or "")
    return {"type": error, "detail": _ENDS.get(error) or said or f"the gather is {state}"}


def _links(
    found: Mapping[str, Any], itself: str, cube: str | None, result: Mapping[str, Any] | None
) -> dict[str, str]:
    page = (result or {}).get("report_page")
    links = {
        "cube": cube,
        "report": (result or {}).get("report"),
        "report_page": page,
        "report_in_console": _in_console(page, found.get("executionArn", "")) if page else None,
    }
    return links_to_go_on(found, itself) | {name: link for name, link in links.items() if link}


def _in_console(href: str, execution_arn: str) -> str | None:
    """Return the address of an object in the AWS console, or None in the emulation."""
    _, partition, _, region, account, *_ = *execution_arn.split(":"), *[""] * 5
    if partition not in _CONSOLES or account == _EMULATED_ACCOUNT:
        return None
    bucket, _, key = href.removeprefix("s3://").partition("/")
    query = urlencode({"region": region, "prefix": key})
    return f"https://{region}.{_CONSOLES[partition]}/s3/object/{bucket}?{query}"


def _isoformat(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
