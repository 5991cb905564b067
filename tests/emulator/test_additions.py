"""The additions to ministack: each is still needed, and does its part."""

import inspect
import os
import queue
import random
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any, override

import pytest
from ministack.core import iam_actions, lambda_runtime
from ministack.services import eventbridge, lambda_svc, s3, scheduler, stepfunctions
from ministack.services.cloudformation import provisioners, stacks

from pixel_gather_emulator.additions import (
    MINISTACK,
    addresses,
    alarms,
    paths,
    rights,
    schedules,
    task_clock,
    tasks,
    workers,
)


def test_additions_are_for_the_version_that_is_installed() -> None:
    """The additions must be reviewed when ministack's version changes."""
    assert version("ministack") == MINISTACK


@pytest.mark.parametrize(
    ("lacking", "where"),
    [
        ("RedriveExecution", stepfunctions.handle_request),
        ("TIMED_OUT", stepfunctions._run_execution),
        ('found["input"]', stepfunctions._start_execution),
        ("InvalidName", stepfunctions._start_execution),
        ("redriveStatus", stepfunctions._describe_execution),
        ("_map_runs", stepfunctions._stop_execution),
        ("MaxConcurrencyPath", stepfunctions),
        ("ToleratedFailurePercentagePath", stepfunctions),
        ("ToleratedFailureCountPath", stepfunctions),
        ("ABORTED", stepfunctions._run_distributed_map),
        ("MaxDelaySeconds", stepfunctions),
        ("JitterStrategy", stepfunctions),
        ("TimeoutSecondsPath", stepfunctions),
        ("DataLimitExceeded", stepfunctions),
        ("Invalid path", stepfunctions),
        ("TooManyRequestsException", stepfunctions._call_lambda),
        ("MemorySize", lambda_runtime.ProvidedWorker),
        ("ResponseSizeTooLarge", lambda_runtime),
        ("mapRunArn", iam_actions.extract_resource_arn),
        ("groupName", iam_actions.extract_resource_arn),
        ("ListBucket", iam_actions.s3_additional_checks),
        ("aws.scheduler.scheduled-time", scheduler),
        ("AWS::Budgets::Budget", provisioners),
        ("RoleArn", scheduler._tick_schedules),
        ("roleArn", stepfunctions._call_lambda),
        ("roleArn", stepfunctions._s3_object_text),
        ("_aws/execute-api", stacks._resolve_stack_outputs),
        ("Condition", lambda_runtime),
        ("errorType", lambda_runtime.ProvidedWorker._await_init),
        ("disable_nagle_algorithm", lambda_runtime),
        ("monotonic", stepfunctions._invoke_resource_with_timeout),
        ("Semaphore", lambda_runtime),
    ],
)
def test_ministack_still_lacks_what_is_added(lacking: str, where: Any) -> None:
    """An addition must be removed once ministack has the feature."""
    assert lacking not in inspect.getsource(where)


def test_output_names_the_api_on_the_emulators_own_port() -> None:
    """The API is addressed by path, because names below localhost do not always resolve."""
    endpoint = "https://127.0.0.1:4000"

    found = addresses.emulated_address("https://abc123.execute-api.us-east-1.amazonaws.com/v1/", endpoint)

    assert found == "https://127.0.0.1:4000/_aws/execute-api/abc123/v1/"
    assert addresses.emulated_address("a-bucket", endpoint) == "a-bucket"


def test_alarm_on_metric_math_is_made() -> None:
    """An alarm on an expression is described by it. Ministack itself refuses such alarms."""
    properties = {
        "Metrics": [
            {"Id": "sum", "Expression": "a + b"},
            {"Id": "a", "MetricStat": {}, "ReturnData": False},
        ],
        "Threshold": 1,
        "ComparisonOperator": "GreaterThanThreshold",
    }
    with pytest.raises(ValueError, match="metric math"):
        provisioners._cw_metric_alarm_record("name", properties)

    record = alarms.alarm_record("name", properties)

    assert (record["MetricName"], record["Namespace"]) == ("a + b", alarms.NAMESPACE)


def test_tick_tells_its_time_in_the_input() -> None:
    """Other inputs are sent as they stand."""
    target = {"Arn": "a", "Input": '{"tick": "<aws.scheduler.scheduled-time>"}'}

    assert schedules.with_tick_time(target, 1_764_000_000.7)["Input"] == '{"tick": "2025-11-24T16:00:00Z"}'
    assert schedules.with_tick_time({"Arn": "a"}, 0.0) == {"Arn": "a"}


def test_clock_of_schedules_is_moved_by_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the file it is the machine's."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))

    assert abs(schedules.moved_time() - time.time()) < 5
    (tmp_path / "clock").write_text("86400.0")
    assert abs(schedules.moved_time() - time.time() - 86_400) < 5


def test_rate_ticks_at_once_and_cron_at_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """As EventBridge Scheduler does with a rate that has no start date."""
    calls: list[str] = []
    now = SimpleNamespace(time=lambda: 1_796_000_000.0)
    monkeypatch.setattr(scheduler, "time", now)
    monkeypatch.setattr(scheduler, "_schedule_last_fired", {})
    found = {
        ("1", "eu", f"group/{name}"): {
            "State": "ENABLED",
            "ScheduleExpression": every,
            "CreationDate": now.time(),
            "Target": {"Arn": name},
        }
        for name, every in (("rate", "rate(1 day)"), ("cron", "cron(0 6 * * ? *)"))
    }
    monkeypatch.setattr(scheduler, "_schedules", SimpleNamespace(_data=found))
    monkeypatch.setattr(eventbridge, "_invoke_target", lambda target, *_, **__: calls.append(target["Arn"]))

    schedules.tick_schedules()
    schedules.tick_schedules()

    assert calls == ["rate"]


def test_rights_on_a_schedule_are_those_of_its_group() -> None:
    """The group is in the body of a new schedule, and in the query of any other call."""
    found = [
        rights.extract_resource_arn("scheduler", method, "/schedules/daily", {}, body, query, "eu", "1")
        for method, body, query in (
            ("POST", b'{"GroupName": "ours"}', {}),
            ("DELETE", b"", {"groupName": ["ours"]}),
            ("GET", b"", {"groupName": "ours"}),
            ("POST", b"{}", {}),
        )
    ]

    assert found[:3] == ["arn:aws:scheduler:eu:1:schedule/ours/daily"] * 3
    assert found[3] == "arn:aws:scheduler:eu:1:schedule/default/daily"


def test_right_to_list_is_asked_for_missing_objects_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key may have a percent sign."""
    monkeypatch.setattr(s3, "_buckets", {"b": {"objects": {"a%20b.tif": {}}}})

    needed = [
        rights.s3_additional_checks("GET", f"/b/{key}", {}, b"", {}) for key in ("a%20b.tif", "a b.tif")
    ]

    assert needed == [[], [("s3:ListBucket", "arn:aws:s3:::b")]]


def test_retrier_waits_longer_each_time_up_to_its_maximum() -> None:
    """Without jitter the waits are exact."""
    retrier = {"ErrorEquals": ["a"], "IntervalSeconds": 2, "BackoffRate": 3, "MaxDelaySeconds": 10}

    waits = []
    for tried in range(3):
        found, index = tasks.find_matching_retrier([retrier], "a", {0: tried})
        assert found is not None
        waits.append(found["IntervalSeconds"] * found["BackoffRate"] ** tried)

    assert waits == [2, 6, 10]
    assert index == 0


def test_retrier_with_full_jitter_waits_anything_up_to_that() -> None:
    """Waits are random, so that throttled workers do not return at the same time."""
    random.seed(1)
    retrier = {"ErrorEquals": ["a"], "IntervalSeconds": 8, "JitterStrategy": "FULL"}

    waits = [
        (tasks.find_matching_retrier([retrier], "a", {})[0] or {})["IntervalSeconds"] for _ in range(200)
    ]

    assert 0 <= min(waits) < 1
    assert 7 < max(waits) <= 8


def test_retrier_gives_up_as_often_as_ministack_does() -> None:
    """Ministack still counts MaxAttempts."""
    retrier = {"ErrorEquals": ["a"], "MaxAttempts": 1}

    assert tasks.find_matching_retrier([retrier], "a", {0: 1}) == (None, -1)
    assert tasks.find_matching_retrier([retrier], "b", {}) == (None, -1)


@pytest.mark.parametrize(("n", "status"), [(6_291_554, "ok"), (6_291_555, "error")])
def test_answer_of_more_than_lambda_takes_is_an_error(
    n: int, status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two bytes of it are the quotes of a text."""
    monkeypatch.setattr(workers, "_invoke", lambda _: {"status": "ok", "result": "x" * n, "log": "said"})

    found = workers.invoke(None)

    assert (found["status"], found["log"]) == (status, "said")
    if status == "error":
        assert found["error_payload"]["errorType"] == "Function.ResponseSizeTooLarge"


def test_all_matches_all_but_what_cannot_be_caught() -> None:
    """States.ALL does not match the two errors that AWS excludes."""
    assert tasks.error_matches(["States.ALL"], "Anything")
    assert not tasks.error_matches(["States.ALL"], "States.DataLimitExceeded")
    assert not tasks.error_matches(["States.ALL"], "States.Runtime")


@pytest.fixture
def strict_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths that lead nowhere fail, as in the emulator."""
    monkeypatch.setattr(stepfunctions, "_resolve_path", paths.resolve_path)
    monkeypatch.setattr(stepfunctions, "_evaluate_rule", paths.evaluate_rule)


@pytest.mark.usefixtures("strict_paths")
def test_path_that_leads_nowhere_fails() -> None:
    """A path may lead to a null or to an item of an array."""
    given = {"a": {"b": None}, "c": [1]}
    template = {"first.$": "$.a.b", "second.$": "$.c[0]", "third.$": "$$.Execution.Name"}
    context = {"Execution": {"Name": "one"}}

    found = stepfunctions._resolve_params_obj(template, given, context)

    assert found == {"first": None, "second": 1, "third": "one"}
    for nowhere in ("$.b", "$.a.b.c", "$.c[1]", "$$.Map.Item.Value"):
        with pytest.raises(stepfunctions._ExecutionError, match="leads nowhere") as failed:
            stepfunctions._resolve_params_obj({"it.$": nowhere}, given, context)
        assert failed.value.error == "States.Runtime"


@pytest.mark.usefixtures("strict_paths")
def test_rule_on_a_missing_field_fails_but_for_is_present() -> None:
    """Rules are tried in order, until one holds."""
    rules = [
        {"Variable": "$.a", "IsPresent": True, "Next": "there"},
        {"Variable": "$.n", "NumericEquals": 0, "Next": "none"},
    ]
    state = {"Type": "Choice", "Choices": rules, "Default": "otherwise"}

    assert stepfunctions._execute_choice(state, {"a": None})[1] == "there"
    assert stepfunctions._execute_choice(state, {"n": 0})[1] == "none"
    assert stepfunctions._execute_choice(state, {"n": 1})[1] == "otherwise"
    with pytest.raises(stepfunctions._ExecutionError, match="leads nowhere"):
        stepfunctions._execute_choice(state, {})


def test_task_times_out_by_its_input_and_what_catches_it_goes_on_with_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A task's time-out may come from its input, as that of a shard's first try does."""
    may_end = threading.Event()
    monkeypatch.setattr(stepfunctions, "_invoke_resource", lambda *_: may_end.wait(10))
    state = {
        "Type": "Task",
        "Resource": "arn:aws:states:::lambda:invoke",
        "TimeoutSecondsPath": "$.limit_s",
        "Catch": [{"ErrorEquals": ["States.Timeout"], "ResultPath": None, "Next": "Again"}],
        "End": True,
    }
    given = {"limit_s": 0.1, "task": 3}

    went_on = tasks.execute_task(state, given, {"status": "RUNNING", "events": []}, {"State": {}})
    may_end.set()

    assert went_on == (given, "Again")


def write_process(proc: Path, pid: int, *children: str, own: int, of_files: int) -> None:
    """Write Linux's files about a process. Each of its threads has started some children."""
    folder = proc / str(pid)
    for n, started in enumerate(children):
        (folder / "task" / str(pid + n)).mkdir(parents=True)
        (folder / "task" / str(pid + n) / "children").write_text(started)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "statm").write_text(f"9999 {own + of_files} {of_files} 1 0 1 0")


def test_memory_of_a_worker_is_its_and_its_childrens(tmp_path: Path) -> None:
    """Pages of shared files count once. Other processes do not count."""
    write_process(tmp_path, 10, "", "11 14 ", own=100, of_files=30)
    write_process(tmp_path, 11, "12 ", own=50, of_files=40)
    write_process(tmp_path, 12, "", own=7, of_files=1)
    write_process(tmp_path, 13, "", own=1000, of_files=1)

    family = [10, *workers.descendants(10, tmp_path)]

    assert family == [10, 11, 12, 14]  # the last one has ended meanwhile
    page = workers.memory_nbytes([13], tmp_path) // 1001
    assert workers.memory_nbytes(family, tmp_path) == (100 + 50 + 7 + 40) * page


def test_right_to_a_map_run_is_checked_against_the_map_run() -> None:
    """Rights to other resources, or to none, are checked by ministack."""

    def checked(service: str, body: bytes) -> str:
        headers: dict[str, str] = {}
        return rights.extract_resource_arn(service, "POST", "/", headers, body, {}, "us-east-1", "0" * 12)

    assert checked("states", b'{"mapRunArn": "arn:run"}') == "arn:run"
    assert checked("states", b'{"executionArn": "arn:execution"}') == "arn:execution"
    assert checked("states", b"not JSON") == "*"
    assert checked("sns", b'{"mapRunArn": "arn:run"}') == "*"


def test_call_waits_until_a_worker_of_its_function_is_free() -> None:
    """Fifty calls at once would start fifty processes, none of them in time. Other functions do not wait."""
    arn = "arn:aws:lambda:us-east-1:000000000000:function:waits"
    config = {"FunctionArn": arn, "Runtime": "provided.al2023"}
    acquire = partial(workers.acquire_worker, config=config, code_zip=b"", max_workers=1)
    held, found = acquire("waits")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(acquire, "waits")
        other, _ = acquire("other")
        still_waiting = not waiting.done()
        workers.release_worker(held)
        answer = waiting.result(timeout=60)
    workers.release_worker(answer[0])
    workers.release_worker(other)

    assert (found, still_waiting) == ("spawn", True)
    assert answer == (held, "reused")


class SlowStart:
    """Stands for a worker whose process takes until it is told to start."""

    def __init__(self) -> None:
        self.may_start = threading.Event()
        self.has_begun = threading.Event()

    def begin(self) -> None:
        """Start, as `lambda_runtime.ProvidedWorker._spawn` does."""
        self.has_begun.set()
        self.may_start.wait(10)


def test_no_more_workers_start_at_one_time_than_there_are_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """All at once they would take longer than a worker may take to start."""
    monkeypatch.setattr(workers, "_starting", threading.BoundedSemaphore(1))
    monkeypatch.setattr(workers, "_spawn", SlowStart.begin)
    first, second = SlowStart(), SlowStart()
    with ThreadPoolExecutor(2) as pool:
        pool.submit(workers.spawn, first)
        assert first.has_begun.wait(10)
        other = pool.submit(workers.spawn, second)
        waited = not second.has_begun.wait(0.1)
        first.may_start.set()
        second.may_start.set()
        other.result(timeout=10)

    assert waited


def test_worker_that_does_not_start_fails_its_call_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without this, every worker of the function is ended, those that are at work included."""

    def fail(*_: object, **__: object) -> None:
        raise lambda_runtime.ProvidedInitTimeout("it does not start")

    arn = "arn:aws:lambda:us-east-1:000000000000:function:fails"
    config = {"FunctionArn": arn, "FunctionName": "fails", "Runtime": "provided.al2023"}
    at_work, _ = lambda_runtime.acquire_worker("fails", config, b"zip")
    monkeypatch.setattr(workers, "_invoke", fail)
    monkeypatch.setattr(lambda_runtime.ProvidedWorker, "invoke", workers.invoke)

    answer = lambda_svc._execute_function_provided_warm({"config": config, "code_zip": b"zip"}, {}, "request")

    assert answer["error"]
    assert answer["body"] == {"errorMessage": "it does not start", "errorType": "Runtime.Unknown"}
    assert at_work in lambda_runtime._workers[lambda_runtime._worker_key("fails", config, "$LATEST")]


class _SlowLines(queue.Queue[str]):
    """Lines that reach a call's log as slowly as on a busy machine."""

    @override
    def put_nowait(self, item: str) -> None:
        time.sleep(0.02)
        super().put_nowait(item)


class _Written:
    """Stands for a worker that has written 20 lines, and has answered."""

    def __init__(self, pump: Callable[..., None]) -> None:
        reading, self.writing = os.pipe()
        stream = os.fdopen(reading, "rb")
        self._proc = SimpleNamespace(stdout=stream)
        self._stderr_queue = _SlowLines()
        os.write(self.writing, "".join(f"line {n}\n" for n in range(20)).encode())
        self._pump = threading.Thread(target=pump, args=(self, stream, self._stderr_queue))
        self._pump.start()

    def _drain_stderr(self) -> str:
        said: str = lambda_runtime.ProvidedWorker._drain_stderr(self)
        return said

    def end(self) -> str:
        """Let its process end. Return what is left of its lines."""
        os.write(self.writing, b"the end")
        os.close(self.writing)
        self._pump.join()
        return self._drain_stderr()


def test_a_calls_log_has_all_lines_that_were_written_before_its_answer() -> None:
    """Without this, a call's last lines are lost on a busy machine if its worker is not called again."""
    expected = [f"line {n}" for n in range(20)]
    worker = _Written(workers.pump_output)
    said, at_end, after = workers.written_lines(worker), worker.end(), workers.written_lines(worker)
    cut = _Written(lambda_runtime.ProvidedWorker._pump_output)
    said_without = lambda_runtime.ProvidedWorker._drain_stderr_bounded(cut)
    cut.end()

    assert said.splitlines() == expected
    assert (at_end, after) == ("the end", "")
    assert said_without.splitlines() != expected, "ministack waits for all lines by itself"


def test_time_in_which_a_task_waits_for_this_machine_is_not_its_own() -> None:
    """Fifty gathers share four workers. A task that waited for one was timed out, and so was its retry."""
    now_s = 0.0
    clock = task_clock.TaskClock(lambda: now_s)
    now_s = 1.0
    with clock.waits():
        now_s = 500.0
        while_waiting_s = clock.counted_s
    now_s = 502.0

    assert while_waiting_s == 1.0
    assert clock.counted_s == 3.0


@pytest.mark.long
def test_task_that_waits_for_a_worker_is_not_timed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is timed out once it works for too long."""
    may_end = threading.Event()

    def wait_and_work(*_: object) -> str:
        with task_clock.uncounted():
            time.sleep(1.5)
        may_end.wait(10)
        return "done"

    monkeypatch.setattr(stepfunctions, "_invoke_resource", wait_and_work)
    began_s = time.monotonic()
    with pytest.raises(stepfunctions._ExecutionError) as timed_out:
        task_clock.invoke_resource_with_timeout("a", {}, 1.0)
    took_s = time.monotonic() - began_s
    may_end.set()

    assert timed_out.value.error == "States.Timeout"
    assert took_s > 1.5
    assert task_clock.invoke_resource_with_timeout("a", {}, 60.0) == "done"
