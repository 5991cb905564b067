"""A state machine like the stack's behaves in the emulator as on AWS."""

import json
import time
from typing import Any

import pytest
from botocore.exceptions import ClientError

from emulator.machine import BUCKET, DENIED, ROLE, Machine, as_role, make_function, one_task_machine

pytestmark = pytest.mark.slow


def tasks(count: int, **what: Any) -> list[dict[str, Any]]:
    """Return tasks named 0, 1, 2 and so on."""
    return [{"name": str(index), **what} for index in range(count)]


def fails_until(name: str, key: str, error: str = "WrongError") -> dict[str, Any]:
    """Return a task that fails until an object exists."""
    return {"name": name, "fails_until": key, "error": error}


def running_of(machine: Machine, arn: str) -> dict[str, int]:
    """Wait until a child runs. Return the counts at that moment."""
    while True:
        runs = machine.states.list_map_runs(executionArn=arn)["mapRuns"]
        if runs and (counts := machine.counts(arn)).get("running"):
            return counts
        time.sleep(0.05)


def error_of(caught: pytest.ExceptionInfo[ClientError]) -> str:
    """Return AWS's name of an error."""
    return str(caught.value.response["Error"]["Code"])


@pytest.mark.long
def test_map_runs_children_in_processes_of_their_own(machine: Machine) -> None:
    """Eight tasks at a time need eight worker processes. The state's output is its input."""
    arn = machine.start(tasks(8, waits_for="go/8"))
    while running_of(machine, arn) != {"running": 8}:
        time.sleep(0.05)
    machine.mark("go/8")

    found = machine.ended(arn)
    assert found["status"] == "SUCCEEDED"
    assert json.loads(found["output"]) == {"gather": arn.rpartition(":")[2]}
    assert machine.counts(arn) == {"succeeded": 8}
    assert {child["output"] for child in machine.children(arn)} == {"{}"}


def test_map_runs_no_more_than_the_concurrency_of_its_input(machine: Machine) -> None:
    """MaxConcurrencyPath is followed, and DescribeMapRun counts the waiting children."""
    arn = machine.start(tasks(4, waits_for="go/1"), workers=1)
    counts = running_of(machine, arn)
    machine.mark("go/1")

    assert counts == {"running": 1, "pending": 3}
    assert machine.map_run(arn)["maxConcurrency"] == 1
    assert machine.ended(arn)["status"] == "SUCCEEDED"


def test_map_that_runs_obeys_another_concurrency(machine: Machine) -> None:
    """After UpdateMapRun more children start, or no more."""
    arn = machine.start(tasks(4, waits_for="go/3"), workers=1)
    assert running_of(machine, arn) == {"running": 1, "pending": 3}

    (run,) = machine.states.list_map_runs(executionArn=arn)["mapRuns"]
    machine.states.update_map_run(mapRunArn=run["mapRunArn"], maxConcurrency=3)
    while machine.counts(arn) != {"running": 3, "pending": 1}:
        time.sleep(0.05)
    machine.mark("go/3")

    assert machine.ended(arn)["status"] == "SUCCEEDED"


def test_map_fails_and_aborts_the_rest_when_too_much_has_failed(machine: Machine) -> None:
    """By default, one failure aborts the running children, and the waiting ones never start."""
    bad = fails_until("a", "never") | {"waits_for": "go/bad"}
    arn = machine.start([bad, *tasks(3, waits_for="go/2")], workers=2)
    while running_of(machine, arn) != {"running": 2, "pending": 2}:
        time.sleep(0.05)
    machine.mark("go/bad")
    found = machine.ended(arn)
    machine.mark("go/2")

    assert (found["status"], found["error"]) == ("FAILED", "States.ExceedToleratedFailureThreshold")
    assert found["redriveStatus"] == "REDRIVABLE"
    assert "output" not in found
    assert machine.counts(arn) == {"failed": 1, "aborted": 1, "pending": 2}
    assert machine.map_run(arn)["status"] == "FAILED"


@pytest.mark.parametrize(("tolerated", "status"), [(25, "SUCCEEDED"), (24, "FAILED")])
def test_map_bears_the_percentage_of_its_input(machine: Machine, tolerated: int, status: str) -> None:
    """ToleratedFailurePercentagePath is followed: as many failures as it says are tolerated."""
    found = machine.run([fails_until("a", "never"), *tasks(3)], tolerated=tolerated)

    assert found["status"] == status


def test_redrive_runs_what_failed_and_no_more(machine: Machine) -> None:
    """The redrive continues in the same Map Run of the same execution."""
    found = machine.run([*tasks(3), fails_until("bad", "mended/1")], workers=1)
    arn = found["executionArn"]
    machine.mark("mended/1")
    before = machine.map_run(arn)["mapRunArn"]
    machine.states.redrive_execution(executionArn=arn)
    again = machine.ended(arn)

    assert found["status"] == "FAILED"
    assert (again["status"], again["redriveCount"]) == ("SUCCEEDED", 1)
    assert again["redriveDate"] > again["startDate"]
    assert "error" not in again
    assert machine.counts(arn) == {"succeeded": 4}
    assert (machine.map_run(arn)["mapRunArn"], machine.map_run(arn)["redriveCount"]) == (before, 1)
    assert [machine.tries(arn, name) for name in ("0", "1", "2", "bad")] == [1, 1, 1, 2]


def test_redrive_of_a_success_is_refused(machine: Machine) -> None:
    """A successful execution cannot be redriven, as on AWS."""
    found = machine.run(tasks(1))

    with pytest.raises(ClientError) as caught:
        machine.states.redrive_execution(executionArn=found["executionArn"])

    assert error_of(caught) == "ExecutionNotRedrivable"


def test_stopped_execution_stays_aborted_and_can_be_redriven(machine: Machine) -> None:
    """Children are aborted at once, their later ends change nothing, and a redrive runs them again."""
    arn = machine.start(tasks(4, waits_for="go/4"), workers=2)
    running_of(machine, arn)
    machine.states.stop_execution(executionArn=arn, error="Stopped", cause="by a test")
    stopped, counts = machine.described(arn), machine.counts(arn)
    machine.mark("go/4")
    time.sleep(0.5)
    later = machine.described(arn)
    machine.states.redrive_execution(executionArn=arn)
    again = machine.ended(arn)

    assert (stopped["status"], stopped["error"], stopped["cause"]) == ("ABORTED", "Stopped", "by a test")
    assert counts["aborted"] >= 1
    assert "running" not in counts
    assert later["stopDate"] == stopped["stopDate"]
    assert again["status"] == "SUCCEEDED"
    assert machine.counts(arn) == {"succeeded": 4}


def test_same_start_twice_is_the_same_execution_while_it_runs(machine: Machine) -> None:
    """Another input under the same name is an error, and so is the name of an ended execution."""
    answer = {"verdict": "refused", "error": "RequestError", "cause": "no"}
    slow = tasks(1, seconds=1)
    first = machine.start(slow, name="twice")
    second = machine.start(slow, name="twice")
    with pytest.raises(ClientError) as other:
        machine.start_with(answer, name="twice")
    machine.ended(first)
    with pytest.raises(ClientError) as ended:
        machine.start(slow, name="twice")

    assert first == second
    assert error_of(other) == error_of(ended) == "ExecutionAlreadyExists"


@pytest.mark.parametrize("name", ["a b", "a/b", "x" * 81])
def test_names_are_checked(machine: Machine, name: str) -> None:
    """Invalid names are refused, as on AWS."""
    with pytest.raises(ClientError) as caught:
        machine.start_with({}, name=name)

    assert error_of(caught) == "InvalidName"


def test_fail_state_says_what_its_input_says(machine: Machine) -> None:
    """ErrorPath and CausePath are followed."""
    answer = {"verdict": "refused", "error": "RequestError", "cause": "sources: name one"}
    found = machine.ended(machine.start_with(answer, name="refused"))

    assert (found["error"], found["cause"]) == ("RequestError", "sources: name one")


def test_exceptions_keep_their_class_and_only_the_named_are_tried_again(machine: Machine) -> None:
    """Only the named errors are retried. A worker survives exceptions."""
    busy, wrong = fails_until("busy", "never", "BusyError"), fails_until("wrong", "never")
    found = machine.run([busy, wrong], tolerated=100)
    arn = found["executionArn"]

    assert {child["error"] for child in machine.children(arn)} == {"BusyError", "WrongError"}
    assert (machine.tries(arn, "busy"), machine.tries(arn, "wrong")) == (3, 1)


@pytest.mark.parametrize(
    ("task", "error"),
    [
        ({"memory_mib": 400}, "Runtime.ExitError"),
        ({"reads": {"Bucket": DENIED, "Key": "a"}}, "AccessDenied"),
        ({"answer_nbytes": 300_000}, "States.DataLimitExceeded"),
    ],
    ids=["memory", "rights", "size"],
)
def test_limits_of_a_function_are_errors_of_its_task(
    machine: Machine, task: dict[str, Any], error: str
) -> None:
    """The errors have the names that AWS gives them."""
    found = machine.run([{"name": "a", **task}], tolerated=100)

    (child,) = machine.children(found["executionArn"])
    assert (child["status"], child["error"]) == ("FAILED", error)


def test_function_that_takes_too_long_is_timed_out(machine: Machine) -> None:
    """The error has the name that AWS gives it."""
    function = make_function(machine.emulator, "shard", role=ROLE, name="short", timeout_s=2)
    task = {"Parameters": {"FunctionName": function, "Payload.$": "$.answer"}}
    one = one_task_machine(machine, function, task=task)

    found = one.ended(one.start_with({"gather": "short", "task": {"name": "a", "seconds": 60}}, name="short"))

    assert (found["status"], found["error"]) == ("FAILED", "Sandbox.Timedout")


def test_memory_and_rights_within_the_limits_are_given(machine: Machine) -> None:
    """This shows that the tests of too much memory and of a denied bucket are valid."""
    machine.mark("readable")
    given: tuple[dict[str, Any], ...] = {"memory_mib": 100}, {"reads": {"Bucket": BUCKET, "Key": "readable"}}

    assert machine.run([{"name": str(n), **each} for n, each in enumerate(given)])["status"] == "SUCCEEDED"


def test_error_while_starting_keeps_its_class(machine: Machine) -> None:
    """An error while a module is imported is the task's error."""
    function = make_function(machine.emulator, "shard", role=ROLE, name="broken", FAILS_TO_START="1")
    one = one_task_machine(machine, function)

    assert one.ended(one.start_with({}, name="a"))["error"] == "BusyError"


def test_throttled_function_is_too_many_requests(machine: Machine) -> None:
    """The error has AWS's name, so that the right retrier is used."""
    function = make_function(machine.emulator, "manifest", role=ROLE, name="reserved")
    machine.emulator.client("lambda").put_function_concurrency(
        FunctionName="reserved", ReservedConcurrentExecutions=0
    )
    one = one_task_machine(machine, function)

    assert one.ended(one.start_with({}, name="a"))["error"] == "Lambda.TooManyRequestsException"


def test_machine_times_out(machine: Machine) -> None:
    """TimeoutSeconds of a state machine ends its executions."""
    wait = {
        "Type": "Task",
        "TimeoutSeconds": 30,
        "Parameters": {"FunctionName": "shard", "Payload.$": "$.answer"},
    }
    one = one_task_machine(machine, "shard", task=wait, TimeoutSeconds=1)
    slow = {"gather": "timed-out", "task": {"name": "a", "seconds": 1.9}}

    found = one.ended(one.start_with(slow, name="a"))

    assert found["status"] == "TIMED_OUT"
    assert found["redriveStatus"] == "REDRIVABLE"


def test_too_large_a_result_is_not_caught_by_all(machine: Machine) -> None:
    """States.ALL does not match States.DataLimitExceeded."""
    task = {
        "Retry": [{"ErrorEquals": ["States.ALL"], "MaxAttempts": 3}],
        "Parameters": {"FunctionName": "shard", "Payload.$": "$.answer"},
    }
    one = one_task_machine(machine, "shard", task=task)
    large = {"gather": "large", "task": {"name": "a", "answer_nbytes": 300_000}}
    arn = one.start_with(large, name="large")

    assert one.ended(arn)["error"] == "States.DataLimitExceeded"
    assert one.tries(arn, "a") == 1


ALL: dict[str, str] = {
    "lambda:InvokeFunction": "arn:aws:lambda:*:*:function:*",
    "s3:GetObject": f"arn:aws:s3:::{BUCKET}/manifests/*",
    "states:StartExecution": "arn:aws:states:*:*:stateMachine:*",
}


@pytest.mark.parametrize(
    ("missing", "error"),
    [
        ("lambda:InvokeFunction", "Lambda.AWSLambdaException"),
        ("s3:GetObject", "States.ItemReaderFailed"),
        ("states:StartExecution", "States.Permissions"),
        (None, None),
    ],
)
def test_machine_does_what_its_own_role_may(machine: Machine, missing: str | None, error: str | None) -> None:
    """A missing right of the role fails here, and not only in an account."""
    rights = [
        {"Effect": "Allow", "Action": action, "Resource": resource}
        for action, resource in ALL.items()
        if action != missing
    ]
    name = f"without-{missing or 'nothing'}".replace(":", "-")
    restricted = as_role(machine, name, {"Version": "2012-10-17", "Statement": rights})

    found = restricted.run(tasks(1))

    assert found.get("error") == error
    assert (missing or "") in found.get("cause", "")
