"""Executions: redrive, time-outs, the same start twice, names, and what DescribeExecution tells.

AWS                                                     ministack
RedriveExecution goes on at the state that failed       there is none
TimeoutSeconds of a machine ends it as TIMED_OUT        it runs on
StartExecution is idempotent while running              ExecutionAlreadyExists
names are checked                                       any will do
redriveCount, redriveStatus are described               they are not
no output where an execution failed                     one made of error and cause

Still different: a redriven execution starts again with the full time-out; nothing is forgotten after
14 or 90 days.
"""

# ruff: noqa: SLF001 # an addition reaches into ministack

import contextvars
import json
import re
import threading
from collections.abc import Awaitable, Callable
from typing import Any, Final

from ministack.core.responses import error_response_json, json_response, now_iso
from ministack.services import stepfunctions as sf

from pixel_gather_emulator.additions.endings import (
    ABORTED,
    FAILED,
    LOCK,
    RUNNING,
    SUCCEEDED,
    TIMED_OUT,
    again,
    end_execution,
)
from pixel_gather_emulator.additions.machine_role import ROLE

type Response = Any
"""Status, headers and body; ministack ships no types."""

_NAME: Final = re.compile(r"[^\s<>{}\[\]?*\"#%\\^|~`$&,;:/\x00-\x1f\x7f-\x9f]{1,80}")
_REDRIVABLE: Final = (FAILED, ABORTED, TIMED_OUT)
_MOST_INPUT: Final = 256 * 1024

_start_execution: Callable[[dict[str, Any]], Response] = sf._start_execution
_describe_execution: Callable[[dict[str, Any]], Response] = sf._describe_execution
_handle_request: Callable[..., Awaitable[Response]] = sf.handle_request


def apply() -> None:
    """Put the additions in place."""
    sf._run_execution = run_execution
    sf._fail_execution = fail_execution
    sf._start_execution = start_execution
    sf._stop_execution = stop_execution
    sf._describe_execution = describe_execution
    sf.handle_request = handle_request


async def handle_request(
    method: str, path: str, headers: dict[str, str], body: bytes, query: dict[str, Any]
) -> Response:
    """Answer RedriveExecution here, and all else in ministack."""
    if headers.get("x-amz-target", "").endswith(".RedriveExecution"):
        return sf._finalize_response(redrive_execution(json.loads(body)))
    return await _handle_request(method, path, headers, body, query)


def start_execution(data: dict[str, Any]) -> Response:
    """Start an execution, or return the running one of the same name and input."""
    name, given = data.get("name"), data.get("input", "{}")
    if name is not None and not _NAME.fullmatch(name):
        return error_response_json("InvalidName", f"Invalid Name: '{name}'", 400)
    if not _is_json(given) or len(given.encode()) > _MOST_INPUT:
        return error_response_json("InvalidExecutionInput", "Invalid State Machine Execution Input", 400)
    with LOCK:
        machine = sf._state_machines.get(sf._resolve_state_machine_arn(data.get("stateMachineArn", "")))
        if machine is not None and name is not None:
            arn = machine["stateMachineArn"].replace(":stateMachine:", ":execution:", 1) + f":{name}"
            found = sf._executions.get(arn)
            if found is not None and found["status"] == RUNNING and found["input"] == given:
                return json_response({"executionArn": arn, "startDate": found["startDate"]})
        return _start_execution(data)


def stop_execution(data: dict[str, Any]) -> Response:
    """Stop an execution, its Map Runs and their children; Lambda invocations under way finish, as on AWS."""
    execution = sf._executions.get(data.get("executionArn"))
    if execution is None:
        return _no_such(data)
    end_execution(execution, ABORTED, error=data.get("error"), cause=data.get("cause"))
    return json_response({"stopDate": execution["stopDate"]})


def redrive_execution(data: dict[str, Any]) -> Response:
    """Go on at the state that failed, was stopped or timed out, with the input that it had."""
    execution = sf._executions.get(data.get("executionArn"))
    if execution is None:
        return _no_such(data)
    with LOCK:
        if execution["status"] not in _REDRIVABLE:
            return error_response_json(
                "ExecutionNotRedrivable", f"Execution is {execution['status']} and cannot be redriven", 400
            )
        count, now = execution.get("redriveCount", 0) + 1, now_iso()
        execution = sf._executions[execution["executionArn"]] = again(execution)
    sf._add_event(execution, "ExecutionRedriven", {"executionRedrivenEventDetails": {"redriveCount": count}})
    sf._emit_execution_status_event(execution)
    snapshot = contextvars.copy_context()
    threading.Thread(target=snapshot.run, args=(run_execution, data["executionArn"]), daemon=True).start()
    return json_response({"redriveDate": now})


def describe_execution(data: dict[str, Any]) -> Response:
    """Describe an execution with its redrives."""
    status_code, headers, body = _describe_execution(data)
    execution = sf._executions.get(data.get("executionArn"))
    if execution is None:
        return status_code, headers, body
    status = execution["status"]
    is_redrivable = status in _REDRIVABLE and "mapRunArn" not in execution
    said = {"redriveCount": execution.get("redriveCount", 0), "redriveStatus": "REDRIVABLE"}
    if not is_redrivable:
        said["redriveStatus"] = "NOT_REDRIVABLE"
        said["redriveStatusReason"] = f"Execution is {status} and cannot be redriven"
    if "redriveDate" in execution:
        said["redriveDate"] = execution["redriveDate"]
    return json_response(json.loads(body) | said)


def run_execution(arn: str) -> None:
    """Walk through a machine, from its start or from where the execution failed."""
    execution = sf._executions[arn]
    machine = sf._state_machines[execution["stateMachineArn"]]
    ROLE.set(machine["roleArn"])
    definition = json.loads(machine["definition"])
    given = json.loads(execution["input"])
    context = {
        "QueryLanguage": definition.get("QueryLanguage", "JSONPath"),
        "Execution": {
            "Id": arn,
            "Input": given,
            "Name": execution["name"],
            "StartTime": execution["startDate"],
            "RedriveCount": execution.get("redriveCount", 0),
        },
        "StateMachine": {"Id": execution["stateMachineArn"], "Name": machine["name"]},
        "variables": {},
    }
    clock = threading.Timer(
        definition.get("TimeoutSeconds", threading.TIMEOUT_MAX), end_execution, (execution, TIMED_OUT)
    )
    clock.daemon = True
    clock.start()
    name, current = execution.get("_at", (definition["StartAt"], given))
    try:
        while name is not None and execution["status"] == RUNNING:
            execution["_at"] = (name, current)
            name, current = _run_state(definition["States"][name], name, current, execution, context)
        end_execution(execution, SUCCEEDED, output=json.dumps(current))
    except sf._ExecutionError as failure:
        fail_execution(execution, failure.error, failure.cause)
    except Exception as failure:  # noqa: BLE001 # whatever it is, the execution has to end
        sf.logger.exception("Unexpected error in execution %s", arn)
        fail_execution(execution, "States.Runtime", str(failure))
    finally:
        clock.cancel()


def fail_execution(execution: dict[str, Any], error: str, cause: str) -> None:
    """End an execution that failed."""
    end_execution(execution, FAILED, error=error, cause=cause)


def _run_state(
    state: dict[str, Any], name: str, given: Any, execution: dict[str, Any], context: dict[str, Any]
) -> tuple[str | None, Any]:
    """Return the next state's name, None after the last, and its input."""
    kind = state["Type"]
    context["State"] = {"Name": name, "EnteredTime": now_iso(), "RetryCount": 0}
    entered = {"name": name, "input": json.dumps(given)}
    sf._add_event(execution, f"{kind}StateEntered", {"stateEnteredEventDetails": entered})
    following: str | None = None
    if kind == "Fail":
        raise sf._ExecutionError(*sf._fail_state_error(state, given, context))
    if kind == "Succeed":
        result = sf._apply_output_path(state, sf._apply_input_path(state, given, context), context)
    elif kind in ("Task", "Parallel", "Map"):
        run = {"Task": sf._execute_task, "Parallel": sf._execute_parallel, "Map": sf._execute_map}[kind]
        result, following = run(state, given, execution, context)
    else:
        run = {"Pass": sf._execute_pass, "Choice": sf._execute_choice, "Wait": sf._execute_wait}[kind]
        result, following = run(state, given, context)
    exited = {"name": name, "output": json.dumps(result)}
    sf._add_event(execution, f"{kind}StateExited", {"stateExitedEventDetails": exited})
    return following, result


def _no_such(data: dict[str, Any]) -> Response:
    arn = data.get("executionArn")
    return error_response_json("ExecutionDoesNotExist", f"Execution Does Not Exist: '{arn}'", 400)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
