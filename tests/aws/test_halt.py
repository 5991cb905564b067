"""A deployment is halted and goes on: what runs has one worker meanwhile, and nothing is redriven."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from aws.test_executions import FakeBucket, FakeStepFunctions, gathers, refusal
from pixel_gather.core.errors import NotRedrivableError, RequestError, ThrottledError
from pixel_gather.core.halt_marker import HALTED_KEY
from pixel_gather.io.aws.executions import Executions
from pixel_gather.io.aws.halt import Switch


@dataclass
class Bucket(FakeBucket):
    """A control bucket whose objects may be replaced and deleted."""

    def put_object(self, *, Bucket: str, Key: str, Body: bytes) -> None:  # type: ignore[override] # noqa: N803
        """As boto3."""
        assert Bucket == "control"
        self.objects[Key] = Body

    def delete_object(self, *, Bucket: str, Key: str) -> None:  # noqa: N803
        """As boto3."""
        assert Bucket == "control"
        self.objects.pop(Key, None)


@dataclass
class Maps(FakeStepFunctions):
    """Executions, each with its own Map Run of so many workers."""

    workers: dict[str, int] = field(default_factory=dict)
    """By the execution's name. None has begun of an execution that is not here."""

    n_busy: int = 0
    """Changes of workers that are throttled first."""

    ended: str = ""
    """Name of the execution whose Map Run ends after it was described."""

    def list_map_runs(self, **given: Any) -> dict[str, Any]:
        """As boto3."""
        name = given["executionArn"].rpartition(":")[2]
        return {"mapRuns": [{"mapRunArn": name}] if name in self.workers else []}

    def describe_map_run(self, **given: Any) -> dict[str, Any]:
        """As boto3."""
        name = given["mapRunArn"]
        return {"mapRunArn": name, "status": self.map_status, "maxConcurrency": self.workers[name]}

    def update_map_run(self, **given: Any) -> dict[str, Any]:
        """As boto3."""
        if self.n_busy:
            self.n_busy -= 1
            raise refusal("ThrottlingException", "UpdateMapRun")
        if given["mapRunArn"] == self.ended:
            raise refusal("ValidationException", "UpdateMapRun")
        self.workers[given["mapRunArn"]] = given["maxConcurrency"]
        return {}


def switch_of(machine: Maps, tables: Maps, bucket: Bucket, *, on_pause: Any = lambda: None) -> Switch:
    """Return the code under test, on fakes."""

    def of(kind: str, found: Maps) -> Executions:
        plain = gathers(found)
        return Executions(
            plain.state_machine_arn, stepfunctions=found, s3=bucket, control_bucket="control", kind=kind
        )

    return Switch(gathers=of("gather", machine), tables=of("table", tables), sleep=lambda _: on_pause())


def test_what_runs_has_one_worker_and_then_its_own_number_again() -> None:
    """Gathers and tables alike. What has ended is left alone, and so is what begins after all went on."""
    machine, tables, bucket = Maps(workers={"a": 40, "b": 7, "old": 9}), Maps(workers={"t": 5}), Bucket()
    for name, status in (("a", "RUNNING"), ("b", "RUNNING"), ("old", "SUCCEEDED")):
        machine.add(name, status)
    tables.add("t")
    switch = switch_of(machine, tables, bucket)

    limited = switch.halt(left_s=lambda: 900)
    while_halted = machine.workers | tables.workers
    again = switch.halt(left_s=lambda: 900, by_hand=True)
    why = switch.gathers.why_halted()
    machine.workers["later"] = 1
    machine.add("later")
    freed = switch.resume()

    assert set(limited) == set(again) == set(freed) == {"a", "b", "t"}
    assert while_halted == {"a": 1, "b": 1, "old": 9, "t": 1}
    assert machine.workers | tables.workers == {"a": 40, "b": 7, "old": 9, "later": 1, "t": 5}
    assert why is not None
    assert why.startswith("this deployment was halted by hand")
    assert switch.gathers.why_halted() is None
    assert HALTED_KEY not in bucket.objects


def test_workers_are_not_raised_by_hand_while_halted() -> None:
    """A halted deployment saves money. Fewer workers are still fine."""
    machine, bucket = Maps(workers={"a": 40}), Bucket()
    machine.add("a")
    switch = switch_of(machine, Maps(), bucket)
    switch.halt(left_s=lambda: 900)

    with pytest.raises(RequestError, match=r"^workers: it has 1 worker, and gets no more now: .*--resume"):
        switch.gathers.limit("a", 2)
    switch.gathers.limit("a", 1)

    assert machine.workers == {"a": 1}


def test_workers_that_begin_later_are_waited_for() -> None:
    """A plan that had not seen the marker may take minutes until its workers begin."""
    machine, bucket = Maps(), Bucket()
    machine.add("planning")
    pauses: list[bool] = []

    def on_pause() -> None:
        pauses.append(HALTED_KEY in bucket.objects)
        if len(pauses) == 3:
            machine.workers["planning"] = 300

    limited = switch_of(machine, Maps(), bucket, on_pause=on_pause).halt(left_s=lambda: 900)

    assert (limited, machine.workers) == (["planning"], {"planning": 1})
    assert all(pauses), "the marker comes first"


def test_halt_ends_when_its_time_does() -> None:
    """The marker is there, so nothing else begins."""
    machine, bucket = Maps(), Bucket()
    machine.add("planning")

    assert switch_of(machine, Maps(), bucket).halt(left_s=lambda: 10) == []
    assert HALTED_KEY in bucket.objects


def test_step_functions_that_is_busy_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It answers few questions about Map Runs in a second."""
    machine, n_tries = Maps(workers={"a": 40}), 0
    machine.add("a")
    change = Executions.change_workers

    def busy_at_first(self: Executions, id_: str, workers: int) -> Any:
        nonlocal n_tries
        n_tries += 1
        if n_tries < 3:
            raise ThrottledError("busy")
        return change(self, id_, workers)

    monkeypatch.setattr(Executions, "change_workers", busy_at_first)

    assert switch_of(machine, Maps(), Bucket()).halt(left_s=lambda: 900) == ["a"]
    assert n_tries == 3


def test_map_that_ends_meanwhile_keeps_no_other_from_being_halted() -> None:
    """Step Functions refuses to change it."""
    machine = Maps(workers={"a": 40, "b": 7}, ended="b")
    for name in ("a", "b"):
        machine.add(name)

    assert switch_of(machine, Maps(), Bucket()).halt(left_s=lambda: 10) == ["a"]
    assert machine.workers == {"a": 1, "b": 7}


@pytest.mark.parametrize("n_busy", [3, 1000])
def test_no_number_of_workers_is_lost_if_step_functions_is_busy(n_busy: int) -> None:
    """It is asked again. If it stays busy, the deployment is halted still, and can be resumed later."""
    machine, bucket = Maps(workers={"a": 40, "b": 7}), Bucket()
    for name in ("a", "b"):
        machine.add(name)
    switch = switch_of(machine, Maps(), bucket)
    switch.halt(left_s=lambda: 900)
    machine.n_busy = n_busy

    if n_busy == 1000:
        with pytest.raises(ThrottledError, match="these still have one worker: b, a"):
            switch.resume()
        assert switch.gathers.why_halted() is not None
        machine.n_busy = 0

    assert set(switch.resume()) == {"a", "b"}
    assert machine.workers == {"a": 40, "b": 7}
    assert switch.gathers.why_halted() is None


def test_halt_that_waits_ends_when_all_goes_on() -> None:
    """It waits for workers that have not begun, for minutes. Whoever resumes meanwhile is not undone."""
    machine, bucket = Maps(workers={"a": 40}), Bucket()
    machine.add("planning")
    machine.add("a")
    n_pauses = 0

    def on_pause() -> None:
        nonlocal n_pauses
        n_pauses += 1
        if n_pauses == 5:
            bucket.objects.clear()

    limited = switch_of(machine, Maps(), bucket, on_pause=on_pause).halt(left_s=lambda: 900 - n_pauses)

    assert (limited, bucket.objects) == ([], {})
    assert machine.workers == {"a": 40}


def test_what_is_listed_late_is_halted_too() -> None:
    """ListExecutions is eventually consistent. What began a moment before the marker has not seen it."""
    machine = Maps(workers={"new": 300})

    def on_pause() -> None:
        if not machine.executions:
            machine.add("new")

    limited = switch_of(machine, Maps(), Bucket(), on_pause=on_pause).halt(left_s=lambda: 900)

    assert (limited, machine.workers) == (["new"], {"new": 1})


def test_two_halts_at_one_time_keep_the_numbers_of_both() -> None:
    """The budget and the alarm of a day may both call. The second one finds the workers lowered."""
    machine, bucket = Maps(workers={"a": 40}), Bucket()
    machine.add("a")
    first = switch_of(machine, Maps(), bucket)
    n_pauses = 0

    def on_pause() -> None:
        nonlocal n_pauses
        n_pauses += 1
        if n_pauses == 1:
            first.halt(left_s=lambda: 900)

    switch_of(machine, Maps(), bucket, on_pause=on_pause).halt(left_s=lambda: 900)
    first.resume()

    assert machine.workers == {"a": 40}


def test_nothing_is_redriven_while_all_is_halted() -> None:
    """A redrive passes no plan, which would look for the marker."""
    machine, bucket = Maps(), Bucket()
    machine.add("a", "FAILED", redriveStatus="REDRIVABLE", error="States.Timeout")
    switch = switch_of(machine, Maps(), bucket)
    switch.halt(left_s=lambda: 900)

    with pytest.raises(NotRedrivableError, match="has spent its budget of the month"):
        switch.gathers.redrive("a")

    assert "RedriveExecution" not in machine.calls
    switch.resume()
    assert switch.gathers.redrive("a")["state"] == "running"
