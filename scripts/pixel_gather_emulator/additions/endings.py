"""Ends executions, their Map Runs and children. Each ends once, and its first status stays.

On AWS a stopped execution stays ABORTED. In ministack a task that fails later sets it to FAILED, and its Map
Run continues. All statuses are set in this module, under one lock.
"""

# ruff: noqa: SLF001 # an addition reaches into ministack

import threading
from typing import Any, Final

from ministack.core.responses import now_iso
from ministack.services import stepfunctions as sf

RUNNING: Final = "RUNNING"
SUCCEEDED: Final = "SUCCEEDED"
FAILED: Final = "FAILED"
ABORTED: Final = "ABORTED"
TIMED_OUT: Final = "TIMED_OUT"

LOCK: Final = threading.RLock()

_EVENTS: Final = {
    SUCCEEDED: ("ExecutionSucceeded", "executionSucceededEventDetails"),
    FAILED: ("ExecutionFailed", "executionFailedEventDetails"),
    ABORTED: ("ExecutionAborted", "executionAbortedEventDetails"),
    TIMED_OUT: ("ExecutionTimedOut", "executionTimedOutEventDetails"),
}


def end_execution(
    execution: dict[str, Any],
    status: str,
    *,
    output: str | None = None,
    error: str | None = None,
    cause: str | None = None,
) -> bool:
    """End an execution or a child. Return False where it has ended already."""
    with LOCK:
        if execution["status"] != RUNNING:
            return False
        execution.update(status=status, stopDate=now_iso(), output=output, error=error, cause=cause)
        for run in list(execution.get("_map_runs", {}).values()):
            end_map_run(run, ABORTED)
    details = {"output": output} if status == SUCCEEDED else {"error": error or "", "cause": cause or ""}
    event, key = _EVENTS[status]
    sf._add_event(execution, event, {key: details})
    if "mapRunArn" not in execution:
        sf._emit_execution_status_event(execution)
    return True


def end_map_run(run: dict[str, Any], status: str) -> None:
    """End a Map Run and its running children, unless it has ended already."""
    with LOCK:
        if run["status"] != RUNNING:
            return
        run.update(status=status, stopDate=now_iso())
        for child in run["_children"]:
            if child is not None and child["status"] == RUNNING:
                end_child(run, child, ABORTED)


def end_child(run: dict[str, Any], child: dict[str, Any], status: str, **what: str | None) -> None:
    """End a child and count it, unless it has ended already."""
    with LOCK:
        if end_execution(child, status, **what):
            count(run, running=-1, **{_COUNTS[status]: 1})


def again(ended: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of an execution, a child or a Map Run that runs again.

    As it is a copy, a thread that still waits for a function of the earlier try does not change it.
    """
    begun = {**ended, "status": RUNNING, "redriveDate": now_iso()}
    begun["redriveCount"] = ended.get("redriveCount", 0) + 1
    begun.update({name: None for name in ("stopDate", "output", "error", "cause") if name in ended})
    return begun


def count(run: dict[str, Any], **changes: int) -> None:
    """Change a Map Run's counts of items and of executions. They are equal: every item has its own child."""
    with LOCK:
        for counts in (run["itemCounts"], run["executionCounts"]):
            for name, change in changes.items():
                counts[name] += change


_COUNTS: Final = {SUCCEEDED: "succeeded", FAILED: "failed", ABORTED: "aborted", TIMED_OUT: "timedOut"}
