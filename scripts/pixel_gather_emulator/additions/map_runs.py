"""Distributed Maps: limits taken from the input, failing early, stopping, and redrive of what failed.

AWS                                                      ministack
MaxConcurrencyPath and the two ToleratedFailure…Path     ignored
a Map Run over its tolerance ends at once and aborts     every child runs first
stopping the execution aborts the Map Run                it runs to its end
a redrive keeps the Map Run and what succeeded in it     there is none
a Map's joined output is held to 256 KiB                 any size
UpdateMapRun changes how many children may start         the Map Run goes on as before

Still different: fewer children of a Map Run run at the same time, as this machine allows. The others are
``pending``. ItemBatcher, ResultWriter and WriterConfig are ignored.
"""

# ruff: noqa: SLF001 # an addition reaches into ministack

import contextvars
import copy
import json
import time
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from typing import Any, Final

from ministack.core.responses import new_uuid, now_iso
from ministack.services import stepfunctions as sf

from pixel_gather_emulator.additions.endings import (
    FAILED,
    LOCK,
    RUNNING,
    SUCCEEDED,
    again,
    count,
    end_child,
    end_map_run,
)
from pixel_gather_emulator.additions.machine_role import require
from pixel_gather_emulator.additions.task_clock import uncounted
from pixel_gather_emulator.additions.tasks import check_size

_POLL_S: Final = 0.2
_TURN_S: Final = 0.02
"""How often a child looks whether it may start."""

_COUNTS: Final = (
    "pending",
    "running",
    "succeeded",
    "failed",
    "timedOut",
    "aborted",
    "total",
    "resultsWritten",
    "failuresNotRedrivable",
    "pendingRedrive",
)


def apply(*, max_workers: int) -> None:
    """Put the addition in place."""
    sf._run_distributed_map = partial(run_distributed_map, max_workers=max_workers)


def run_distributed_map(  # ministack calls it so
    state: dict[str, Any],
    raw_input: Any,
    effective: Any,
    iterator: dict[str, Any],
    execution: dict[str, Any],
    context: dict[str, Any],
    *,
    max_workers: int,
) -> tuple[Any, str | None]:
    """Run one child execution per item and return the state's output and the next state's name."""
    runs: dict[str, dict[str, Any]] = execution.setdefault("_map_runs", {})
    name = context["State"]["Name"]
    run = runs.get(name)
    require("states:StartExecution", execution["stateMachineArn"], error="States.Permissions")
    if run is None or run["_redrives_seen"] == execution.get("redriveCount", 0):
        run = runs[name] = _new_run(state, effective, execution, context)
        sf._add_event(
            execution, "MapRunStarted", {"mapRunStartedEventDetails": {"mapRunArn": run["mapRunArn"]}}
        )
    else:
        run = runs[name] = _redrive_run(run)
        sf._add_event(
            execution,
            "MapRunRedriven",
            {"mapRunRedrivenEventDetails": {k: run[k] for k in ("mapRunArn", "redriveCount")}},
        )
    _run_children(run, iterator, execution, context, max_workers=max_workers)
    if run["status"] != SUCCEEDED:
        sf._add_event(execution, "MapRunFailed", {"mapRunFailedEventDetails": {}})
        raise sf._ExecutionError(
            "States.ExceedToleratedFailureThreshold",
            "The specified tolerated failure threshold was exceeded",
        )
    sf._add_event(execution, "MapRunSucceeded")
    outputs = [
        json.loads(child["output"]) if child["status"] == SUCCEEDED else None for child in run["_children"]
    ]
    check_size(outputs, "The Map Run's output")
    result = sf._apply_result_selector(state, outputs)
    output = sf._apply_output_path(state, sf._apply_result_path(state, raw_input, result), context)
    return output, sf._next_or_end(state)


def _new_run(
    state: dict[str, Any], effective: Any, execution: dict[str, Any], context: dict[str, Any]
) -> dict[str, Any]:
    if state.get("ItemReader"):
        items = sf._read_map_items(state["ItemReader"], effective, context)
    else:
        items = sf._resolve_path_or_ctx(state.get("ItemsPath", "$"), effective, context)
    if not isinstance(items, list):
        raise sf._ExecutionError("States.ItemReaderFailed", "Attempting to map over a non-iterable node.")
    machine = f"{execution['stateMachineArn']}/{state.get('Label') or new_uuid()}"
    counts = dict.fromkeys(_COUNTS, 0) | {"total": len(items), "pending": len(items)}
    selector = state.get("ItemSelector") or state.get("Parameters")
    run = {
        "mapRunArn": f"{machine.replace(':stateMachine:', ':mapRun:', 1)}:{new_uuid()}",
        "executionArn": execution["executionArn"],
        "status": RUNNING,
        "startDate": now_iso(),
        "maxConcurrency": int(_limit(state, "MaxConcurrency", effective, context) or 0),
        "toleratedFailurePercentage": float(
            _limit(state, "ToleratedFailurePercentage", effective, context) or 0
        ),
        "toleratedFailureCount": int(_limit(state, "ToleratedFailureCount", effective, context) or 0),
        "itemCounts": dict(counts),
        "executionCounts": dict(counts),
        "redriveCount": 0,
        "_redrives_seen": execution.get("redriveCount", 0),
        "_stateMachineArn": machine,
        "_inputs": [
            _child_input(selector, item, index, effective, context) for index, item in enumerate(items)
        ],
        "_children": [None] * len(items),
    }
    sf._map_runs[run["mapRunArn"]] = run
    return run


def _limit(state: dict[str, Any], field: str, effective: Any, context: dict[str, Any]) -> Any:
    path = state.get(f"{field}Path")
    if path is None:
        return state.get(field)
    found = sf._resolve_path_or_ctx(path, effective, context)
    if isinstance(found, bool) or not isinstance(found, int | float) or found < 0:
        raise sf._ExecutionError(
            "States.Runtime", f"The value of {field}Path must be a number of 0 or more: {json.dumps(found)}"
        )
    return found


def _child_input(selector: Any, item: Any, index: int, effective: Any, context: dict[str, Any]) -> Any:
    if not selector:
        return item
    return sf._resolve_params_obj(
        selector, effective, {**context, "Map": {"Item": {"Index": index, "Value": item}}}
    )


def _redrive_run(ended: dict[str, Any]) -> dict[str, Any]:
    """Return a run that is ready to run again the children that did not succeed."""
    with LOCK:
        run = sf._map_runs[ended["mapRunArn"]] = again(ended)
        lost = {name: -run["itemCounts"][name] for name in ("failed", "timedOut", "aborted")}
        count(run, pendingRedrive=-sum(lost.values()), **lost)
        run["_redrives_seen"] += 1
        return run


def _run_children(
    run: dict[str, Any],
    iterator: dict[str, Any],
    execution: dict[str, Any],
    context: dict[str, Any],
    *,
    max_workers: int,
) -> None:
    """Run the children that have not succeeded, until all are done, too many failed or the run was ended."""
    waiting = [
        index for index, child in enumerate(run["_children"]) if child is None or child["status"] != SUCCEEDED
    ]
    pool = ThreadPoolExecutor(max_workers=min(max_workers, max(len(waiting), 1)))
    futures = [
        pool.submit(contextvars.copy_context().run, _run_child, run, index, iterator, execution, context)
        for index in waiting
    ]
    for future in futures:
        while run["status"] == RUNNING and not future.done():
            wait([future], timeout=_POLL_S)
    pool.shutdown(wait=False, cancel_futures=True)
    end_map_run(run, SUCCEEDED)


def _is_over_tolerance(run: dict[str, Any]) -> bool:
    counts = run["itemCounts"]
    failed = counts["failed"] + counts["timedOut"]
    if not failed:
        return False
    percentage, most = run["toleratedFailurePercentage"], run["toleratedFailureCount"]
    if not percentage and not most:
        return True
    return bool((percentage and failed * 100 > percentage * counts["total"]) or (most and failed > most))


def _run_child(
    run: dict[str, Any],
    index: int,
    iterator: dict[str, Any],
    execution: dict[str, Any],
    context: dict[str, Any],
) -> None:
    child = None
    while child is None:
        with LOCK:
            if run["status"] != RUNNING:
                return
            if run["itemCounts"]["running"] < (run["maxConcurrency"] or len(run["_inputs"])):
                child = _begin_child(run, index, execution)
        if child is None:
            with uncounted():
                time.sleep(_TURN_S)
    given = run["_inputs"][index]
    child_context = copy.deepcopy({k: v for k, v in context.items() if k != "Execution"})
    child_context["Execution"] = {
        "Id": child["executionArn"],
        "Input": given,
        "Name": child["name"],
        "StartTime": child["startDate"],
        "RedriveCount": child.get("redriveCount", 0),
    }
    try:
        output = sf._run_sub_machine(
            iterator.get("States", {}), iterator.get("StartAt"), given, child, child_context
        )
        end_child(run, child, SUCCEEDED, output=json.dumps(output))
    except sf._ExecutionError as failure:
        end_child(run, child, FAILED, error=failure.error, cause=failure.cause)
    except Exception as failure:  # noqa: BLE001 # whatever it is, the execution has to end
        sf.logger.exception("Unexpected error in child %s", child["executionArn"])
        end_child(run, child, FAILED, error="States.Runtime", cause=str(failure))
    if _is_over_tolerance(run):
        end_map_run(run, FAILED)


def _begin_child(run: dict[str, Any], index: int, execution: dict[str, Any]) -> dict[str, Any]:
    child: dict[str, Any] | None = run["_children"][index]
    if child is not None:
        count(run, pendingRedrive=-1, running=1)
        run["_children"][index] = sf._executions[child["executionArn"]] = again(child)
        return run["_children"][index]  # type: ignore[no-any-return] # of a dict of anything
    machine, name = run["_stateMachineArn"], new_uuid()
    child = {
        "executionArn": f"{machine.replace(':stateMachine:', ':execution:', 1)}:{name}",
        "stateMachineArn": machine,
        "name": name,
        "status": RUNNING,
        "startDate": now_iso(),
        "stopDate": None,
        "input": json.dumps(run["_inputs"][index]),
        "inputDetails": {"included": True},
        "output": None,
        "outputDetails": {"included": True},
        "mapRunArn": run["mapRunArn"],
        "events": [],
        "testCase": execution.get("testCase"),
        "mockAttempts": {},
    }
    run["_children"][index] = sf._executions[child["executionArn"]] = child
    count(run, pending=-1, running=1)
    return child
