"""Tasks: how long a retry waits, what a throttled Lambda is called, and how large a result may be.

AWS                                                      ministack
MaxDelaySeconds and JitterStrategy shape the waits       ignored
throttling is Lambda.TooManyRequestsException            Lambda.Unknown
a result over 256 KiB is States.DataLimitExceeded,       any size
which States.ALL does not match
an execution that was stopped is not retried             it is
TimeoutSecondsPath ends a task, too                      ignored

Still different: no wait is over 60 seconds.
"""

# ruff: noqa: SLF001 # an addition reaches into ministack

import json
import random
from collections.abc import Callable
from typing import Any, Final

from ministack.services import stepfunctions as sf

from pixel_gather_emulator.additions import machine_role
from pixel_gather_emulator.additions.endings import RUNNING

MOST_STATE_NBYTES: Final = 256 * 1024

_UNCATCHABLE: Final = ("States.DataLimitExceeded", "States.Runtime")

_find_matching_retrier: Callable[..., tuple[dict[str, Any] | None, int]] = sf._find_matching_retrier
_error_matches: Callable[[list[str], str], bool] = sf._error_matches
_add_event: Callable[..., Any] = sf._add_event
_execute_task: Callable[..., Any] = sf._execute_task


class Stopped(sf._ExecutionError):  # type: ignore[misc] # ministack ships no types
    """Ends a task whose execution ended while the task waited for another try."""


def apply() -> None:
    """Put the additions in place."""
    sf._find_matching_retrier = find_matching_retrier
    sf._error_matches = error_matches
    sf._call_lambda = call_lambda
    sf._add_event = add_event
    sf._execute_task = execute_task


def execute_task(state: dict[str, Any], raw_input: Any, execution: dict[str, Any], context: Any) -> Any:
    """Run a task. Its time-out may be in its input."""
    if path := state.get("TimeoutSecondsPath"):
        state = {**state, "TimeoutSeconds": sf._resolve_path_or_ctx(path, raw_input, context)}
    return _execute_task(state, raw_input, execution, context)


def find_matching_retrier(
    retriers: list[dict[str, Any]], error: str, retry_counts: dict[int, int]
) -> tuple[dict[str, Any] | None, int]:
    """Return the retrier for an error, with the wait before this try as its interval."""
    retrier, index = _find_matching_retrier(retriers, error, retry_counts)
    if retrier is None:
        return None, index
    wait = retrier.get("IntervalSeconds", 1) * retrier.get("BackoffRate", 2.0) ** retry_counts.get(index, 0)
    wait = min(wait, retrier.get("MaxDelaySeconds", wait))
    if retrier.get("JitterStrategy") == "FULL":
        wait = random.uniform(0, wait)  # noqa: S311 - not a secret
    return {**retrier, "IntervalSeconds": wait, "BackoffRate": 1.0}, index


def error_matches(error_equals: list[str], error: str) -> bool:
    """Return whether a retrier or catcher matches an error. States.ALL does not match all errors."""
    if error in _UNCATCHABLE:
        return error in error_equals
    return _error_matches(error_equals, error)


def add_event(execution: dict[str, Any], event_type: str, details: dict[str, Any] | None = None) -> Any:
    """Add an event to the history. Do not retry tasks of an execution that has ended."""
    if event_type == "TaskScheduled" and execution["status"] != RUNNING:
        raise Stopped("States.Runtime", "The execution has ended")
    return _add_event(execution, event_type, details)


def call_lambda(function: str, event: Any) -> Any:
    """Invoke a function as the state machine does."""
    check_size(event, "The payload")
    try:
        result = machine_role.call_lambda(function, event)
    except sf._ExecutionError as failure:
        if failure.error == "Lambda.Unknown" and '"TooManyRequestsException"' in failure.cause:
            raise sf._ExecutionError("Lambda.TooManyRequestsException", failure.cause) from failure
        raise
    check_size(result, "The state/task 'lambda:invoke' returned a result")
    return result


def check_size(value: Any, what: str) -> None:
    """Refuse a value that is larger than a state's input or output may be."""
    if len(json.dumps(value).encode()) > MOST_STATE_NBYTES:
        raise sf._ExecutionError(
            "States.DataLimitExceeded",
            f"{what} with a size exceeding the maximum number of bytes service limit.",
        )
