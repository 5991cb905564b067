"""Gathers as executions of the state machine: a fake of Step Functions for every state.

The real client is asked in `tests/cli/test_remote.py`, on moto.
"""

import io
import json
from collections.abc import Callable
from contextlib import nullcontext
from copy import replace
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

import botocore.session
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, NoCredentialsError
from botocore.validate import validate_parameters
from obstore.exceptions import PermissionDeniedError

from pixel_gather.core.errors import (
    DeniedError,
    DeploymentError,
    GatherError,
    GatherNotFoundError,
    NotRedrivableError,
    RequestError,
    ThrottledError,
    UnreachableError,
)
from pixel_gather.core.estimate.fleet import child_sizes
from pixel_gather.core.request.naming import execution_name, with_random_name
from pixel_gather.core.request.request import parse_request
from pixel_gather.io.aws.executions import Executions, SharedLooks
from pixel_gather.io.aws.gather_document import SeenExecution, status_document, summary_key
from pixel_gather.io.store.store_error_status import said_of_place

MACHINE = "arn:aws:states:eu-central-1:123456789012:stateMachine:Gather-1"
MAP_RUN = "arn:aws:states:eu-central-1:123456789012:mapRun:Gather-1/Shards:1"
EXECUTIONS = MACHINE.replace("stateMachine", "execution")
NAME = "0123456789abcdef"
REQUEST = {"sources": {"list": "s3://lists/a.txt"}, "window": {"tile": "centre"}}
BEGAN = datetime(2026, 11, 20, 10, 0, tzinfo=UTC)
NOW = BEGAN + timedelta(seconds=30)
SUMMARY = {
    "gather": NAME,
    "cube": f"s3://arrays/{NAME}.zarr",
    "n_sources": 1000,
    "n_shards": 10,
    "n_missing": 10,
    "tasks_per_child": 1,
    "n_workers": 10,
    "usd": 0.5,
    "seconds": 12.0,
    "warnings": ["another Region"],
}
RESULT = {
    "gather": NAME,
    "cube": f"s3://arrays/{NAME}.zarr",
    "report": f"s3://arrays/{NAME}.zarr/report.json",
    "report_page": f"s3://arrays/{NAME}.zarr/report.html",
    "n_sources": 1000,
    "n_failed": 3,
    "n_shards": 10,
    "n_lost_shards": 1,
    "usd": 0.45,
    "warnings": ["1 of 10 chips lies on no image"],
}
COUNTS = dict.fromkeys(
    ("pending", "running", "succeeded", "failed", "timedOut", "aborted", "total", "pendingRedrive"), 0
)


def refusal(code: str, operation: str = "DescribeExecution", message: str = "no") -> ClientError:
    """Return the exception that boto3 raises for an error of AWS."""
    return ClientError({"Error": {"Code": code, "Message": message}}, operation)


@dataclass
class FakeStepFunctions:
    """Executions in memory. Checks every call against the service's own model."""

    executions: dict[str, dict[str, Any]] = field(default_factory=dict)
    counts: dict[str, int] | None = None
    failed: list[dict[str, Any]] = field(default_factory=list)
    """Children of the Map Run that failed."""

    refusals: dict[str, Exception] = field(default_factory=dict)
    """The error of an operation, such as ``DescribeExecution``."""

    calls: list[str] = field(default_factory=list)
    map_status: str = "RUNNING"
    updates: list[dict[str, Any]] = field(default_factory=list)
    """What was asked of UpdateMapRun."""

    before_start: Callable[[str], object] = lambda _name: None

    def __post_init__(self) -> None:
        """Load the service's model."""
        self._model = botocore.session.get_session().get_service_model("stepfunctions")

    def add(self, name: str = NAME, status: str = "RUNNING", **more: Any) -> Self:
        """Add an execution, and return itself."""
        ended = {} if status == "RUNNING" else {"stopDate": NOW}
        self.executions[f"{EXECUTIONS}:{name}"] = {
            "name": name,
            "status": status,
            "startDate": BEGAN,
            "input": json.dumps(REQUEST),
            **ended,
            **more,
        }
        return self

    def describe_execution(self, **given: Any) -> dict[str, Any]:
        """As boto3."""
        self._take("DescribeExecution", given)
        return self._found(given["executionArn"]) | {"executionArn": given["executionArn"]}

    def start_execution(self, **given: Any) -> dict[str, Any]:
        """As boto3."""
        self._take("StartExecution", given)
        self.before_start(given["name"])
        arn = f"{given['stateMachineArn'].replace('stateMachine', 'execution')}:{given['name']}"
        if arn in self.executions:
            raise refusal("ExecutionAlreadyExists", "StartExecution")
        self.add(given["name"], input=given["input"])
        return {"executionArn": arn, "startDate": BEGAN}

    def list_executions(self, **given: Any) -> dict[str, Any]:
        """As boto3."""
        self._take("ListExecutions", given)
        wanted = given.get("statusFilter")
        if "mapRunArn" in given:
            assert wanted == "FAILED", "thousands have succeeded"
            listed = [{"executionArn": each["executionArn"]} for each in self.failed]
            return {"executions": listed[: given["maxResults"]]}
        found = [each for each in self.executions.values() if wanted in (None, each["status"])]
        found.reverse()
        start = int(given.get("nextToken", 0))
        stop = start + given["maxResults"]
        return {"executions": found[start:stop]} | ({"nextToken": str(stop)} if stop < len(found) else {})

    def stop_execution(self, **given: Any) -> dict[str, Any]:
        """As boto3."""
        self._take("StopExecution", given)
        stopped = {"status": "ABORTED", "stopDate": NOW, "error": given["error"], "cause": given["cause"]}
        self._found(given["executionArn"]).update(stopped)
        return {"stopDate": NOW}

    def redrive_execution(self, **given: Any) -> dict[str, Any]:
        """As boto3."""
        self._take("RedriveExecution", given)
        self._found(given["executionArn"])["status"] = "RUNNING"
        return {"redriveDate": NOW}

    def list_map_runs(self, **given: Any) -> dict[str, Any]:
        """As boto3."""
        self._take("ListMapRuns", given)
        runs = [
            {"mapRunArn": MAP_RUN, "startDate": BEGAN},
            {"mapRunArn": f"{MAP_RUN}-former", "startDate": BEGAN - timedelta(hours=1)},
        ]
        return {"mapRuns": [] if self.counts is None else runs}

    def describe_map_run(self, **given: Any) -> dict[str, Any]:
        """As boto3."""
        self._take("DescribeMapRun", given)
        assert self.counts is not None
        assert given["mapRunArn"] == MAP_RUN, "only the last one tells"
        return {
            "itemCounts": COUNTS | self.counts,
            "mapRunArn": given["mapRunArn"],
            "status": self.map_status,
            "maxConcurrency": 10,
        }

    def update_map_run(self, **given: Any) -> dict[str, Any]:
        """As boto3."""
        self._take("UpdateMapRun", given)
        self.updates.append(given)
        return {}

    def _take(self, operation: str, given: dict[str, Any]) -> None:
        self.calls.append(operation)
        validate_parameters(given, self._model.operation_model(operation).input_shape)
        if operation in self.refusals:
            raise self.refusals[operation]

    def _found(self, arn: str) -> dict[str, Any]:
        if arn not in self.executions:
            child = next((each for each in self.failed if each["executionArn"] == arn), None)
            if child is None:
                raise refusal("ExecutionDoesNotExist")
            return child
        return self.executions[arn]


@dataclass
class FakeBucket:
    """The control bucket."""

    objects: dict[str, bytes] = field(default_factory=dict)
    missing: str = "NoSuchKey"
    refuses: str | None = None
    """Code of the error of a PUT."""

    def get_object(self, *, Bucket: str, Key: str) -> dict[str, Any]:  # noqa: N803 # boto3's names
        """As boto3."""
        assert Bucket == "control"
        if Key not in self.objects:
            raise refusal(self.missing, "GetObject")
        return {"Body": io.BytesIO(self.objects[Key])}

    def put_object(self, *, Bucket: str, Key: str, Body: bytes, IfNoneMatch: str) -> None:  # noqa: N803 # as above
        """As boto3."""
        assert (Bucket, IfNoneMatch) == ("control", "*")
        if self.refuses is not None or Key in self.objects:
            raise refusal(self.refuses or "PreconditionFailed", "PutObject")
        self.objects[Key] = Body


def gathers(
    machine: FakeStepFunctions, *, summary: dict[str, Any] | None = None, of: str = NAME, **bucket: str
) -> Executions:
    """Return the code under test, on fakes."""
    objects = {} if summary is None else {summary_key(of): json.dumps(summary).encode()}
    return Executions(
        MACHINE,
        stepfunctions=machine,
        s3=FakeBucket(objects, **bucket),
        control_bucket="control",
        links_from="/v1",
        now=lambda: NOW,
    )


def test_submit_starts_a_gather_under_the_requests_name() -> None:
    """The execution's input is the plain request, the same as when it is started from the console."""
    machine = FakeStepFunctions()

    answer = gathers(machine).submit(REQUEST, name=NAME)

    (execution,) = machine.executions.values()
    assert answer["id"] == NAME
    assert answer["is_new"] is True
    assert answer["state"] == "running"
    assert answer["links"] == {"self": f"/v1/gathers/{NAME}"}
    assert json.loads(execution["input"]) == REQUEST
    assert machine.calls == ["DescribeExecution", "StartExecution"]


@pytest.mark.parametrize(("status", "state"), [("RUNNING", "running"), ("SUCCEEDED", "succeeded")])
def test_submit_twice_is_the_same_gather(status: str, state: str) -> None:
    """A second submit starts nothing while the gather runs or after it has succeeded."""
    machine = FakeStepFunctions().add(status=status)

    answer = gathers(machine).submit(REQUEST, name=NAME)

    assert (answer["id"], answer["is_new"], answer["state"]) == (NAME, False, state)
    assert "StartExecution" not in machine.calls


@pytest.mark.parametrize(("status", "id_"), [("RUNNING", NAME), ("SUCCEEDED", f"{NAME}-2")])
def test_an_append_that_has_succeeded_is_started_again(status: str, id_: str) -> None:
    """It may find more sources. One that runs is the same."""
    machine = FakeStepFunctions().add(status=status)

    assert gathers(machine).submit(REQUEST, name=NAME, again=True)["id"] == id_


@pytest.mark.parametrize("status", ["FAILED", "TIMED_OUT", "ABORTED"])
def test_submit_after_a_failure_is_a_next_attempt(status: str) -> None:
    """After a failure, submit starts a new attempt. Attempts are numbered from the second."""
    machine = FakeStepFunctions().add(status=status)
    second = gathers(machine).submit(REQUEST, name=NAME)
    machine.add(f"{NAME}-2", status=status)
    third = gathers(machine).submit(REQUEST, name=NAME)

    assert (second["id"], second["is_new"]) == (f"{NAME}-2", True)
    assert (third["id"], third["is_new"]) == (f"{NAME}-3", True)


def test_submit_finds_the_later_attempt_that_runs() -> None:
    """A running second attempt is found, although the first one failed."""
    machine = FakeStepFunctions().add(status="FAILED").add(f"{NAME}-2")

    answer = gathers(machine).submit(REQUEST, name=NAME)

    assert (answer["id"], answer["is_new"]) == (f"{NAME}-2", False)


def test_submit_at_the_same_moment_starts_one_gather() -> None:
    """Of two submits at the same moment, the second finds the gather of the first."""
    machine = FakeStepFunctions()
    machine.before_start = machine.add

    answer = gathers(machine).submit(REQUEST, name=NAME)

    assert (answer["id"], answer["is_new"], answer["state"]) == (NAME, False, "running")
    assert len(machine.executions) == 1


def test_submit_gives_up_after_many_failures() -> None:
    """The error says what to do. The name never gets longer than Step Functions allows."""
    name = "n" * 60 + f"-{NAME}"
    machine = FakeStepFunctions()
    for attempt in ("", *(f"-{number}" for number in range(2, 99))):
        machine.add(name + attempt, status="FAILED")
    assert gathers(machine).submit(REQUEST, name=name)["id"] == f"{name}-99"
    machine.add(f"{name}-99", status="FAILED")

    with pytest.raises(RequestError, match="failed 99 times"):
        gathers(machine).submit(REQUEST, name=name)
    assert max(len(execution["name"]) for execution in machine.executions.values()) <= 80


def test_submit_refuses_an_input_that_step_functions_cannot_take() -> None:
    """The error of a request that is too long suggests a list file."""
    machine = FakeStepFunctions()
    hrefs = [f"s3://bucket/{number:040}.tif" for number in range(5000)]

    with pytest.raises(RequestError, match="list file") as refused:
        gathers(machine).submit({"sources": {"hrefs": hrefs}, "window": "centre"}, name=NAME)

    assert refused.value.field == "sources"
    assert machine.calls == []


@pytest.mark.parametrize(
    ("request_", "field", "says"),
    [
        ({"points": {"features": ["a" * 260_000]}, "sources": "s3://b/list.csv"}, "points", "to a file"),
        ({"zones": {"features": ["a" * 260_000]}, "sources": ["s3://b/a"]}, "zones", "to a file"),
        ({"sources": {"stac": {"area": ["a" * 260_000]}}, "window": {}}, "sources", "fewer corners"),
        (
            {"by": "b1", "area": {"geojson": ["a" * 260_000]}, "sources": ["s3://b/a"]},
            "area",
            "fewer corners",
        ),
    ],
    ids=["points", "zones", "search", "area"],
)
def test_submit_names_the_field_that_makes_a_request_too_large(
    request_: dict[str, Any], field: str, says: str
) -> None:
    """And says what makes that one smaller."""
    with pytest.raises(RequestError, match=says) as refused:
        gathers(FakeStepFunctions()).submit(request_, name=NAME)

    assert refused.value.field == field


@pytest.mark.parametrize(("nbytes", "fits"), [(260_000, True), (260_001, False)])
def test_submit_leaves_room_for_what_the_plan_is_told_beside_the_request(nbytes: int, *, fits: bool) -> None:
    """The plan's payload is the request and the execution's name. Both together must stay below 256 KiB."""
    machine = FakeStepFunctions()
    empty = len('{"sources":["' + '"]}')
    request = {"sources": ["a" * (nbytes - empty)]}

    with nullcontext() if fits else pytest.raises(RequestError, match="260,000"):
        gathers(machine).submit(request, name=NAME)

    assert len(machine.executions) == fits
    payload = {"request": request, "execution": f"{'n' * 60}-{NAME}-99"}
    assert not fits or len(json.dumps(payload)) <= 256 * 1024


def test_start_refuses_what_submit_refuses() -> None:
    """The canary starts its gathers by it."""
    machine = FakeStepFunctions()

    with pytest.raises(RequestError, match="list file"):
        gathers(machine).start({"sources": ["a" * 260_000]}, name=NAME)

    assert machine.calls == []


def test_start_that_is_throttled_has_started_nothing() -> None:
    """Only the error of an execution that is there is none."""
    machine = FakeStepFunctions(refusals={"StartExecution": refusal("ThrottlingException", "StartExecution")})

    with pytest.raises(ThrottledError):
        gathers(machine).submit(REQUEST, name=NAME)


def test_start_of_what_cannot_be_described_yet_says_that_it_runs() -> None:
    """Step Functions knows the name before it can describe the execution."""
    there = refusal("ExecutionAlreadyExists", "StartExecution")

    line = gathers(FakeStepFunctions(refusals={"StartExecution": there})).submit(REQUEST, name=NAME)

    assert (line["id"], line["is_new"], line["state"]) == (NAME, False, "running")


def test_start_of_what_is_there_says_what_became_of_it() -> None:
    """It starts no other attempt."""
    machine = FakeStepFunctions().add(status="SUCCEEDED")

    line = gathers(machine).start(REQUEST, name=NAME)

    assert (line["id"], line["is_new"], line["state"]) == (NAME, False, "succeeded")


def test_submit_counts_the_inputs_bytes_and_not_its_characters() -> None:
    """The limit of 256 KiB is in bytes, not in characters."""
    hrefs = ["s3://bucket/" + "ü" * 500 for _ in range(300)]

    with pytest.raises(RequestError, match="list file"):
        gathers(FakeStepFunctions()).submit({"sources": {"hrefs": hrefs}}, name=NAME)


def test_status_of_a_running_gather_counts_shards_and_estimates_the_rest() -> None:
    """Sources and dollars are estimated by the share of shards that are done."""
    machine = FakeStepFunctions(counts={"total": 10, "succeeded": 4, "running": 3, "pending": 2, "failed": 1})
    machine.add()

    found = gathers(machine, summary=SUMMARY).status(NAME)

    assert found["state"] == "running"
    assert found["submitted_at"] == "2026-11-20T10:00:00Z"
    assert found["ended_at"] is None
    assert found["seconds"] == 30
    assert found["request"] == REQUEST
    assert found["cube"] == SUMMARY["cube"]
    assert found["shards"] == {"total": 10, "pending": 2, "running": 3, "succeeded": 4, "failed": 1}
    assert found["sources"] == {"total": 1000, "done": 400, "failed": None}
    assert found["usd"]["planned"] == 0.5
    assert found["usd"]["so_far"] == pytest.approx(0.2)
    assert "estimate" in found["usd"]["basis"]
    assert found["error"] is None
    assert found["result"] is None
    assert found["warnings"] == ["another Region"]
    self_ = f"/v1/gathers/{NAME}"
    assert found["links"] == {"self": self_, "stop": self_, "cube": SUMMARY["cube"]}


@pytest.mark.parametrize("missing", ["NoSuchKey", "AccessDenied"])
def test_status_before_the_plan_is_there_says_what_is_known(missing: str) -> None:
    """A missing summary is no error. S3 answers 403 for it, because the function may not list."""
    machine = FakeStepFunctions().add()

    found = gathers(machine, missing=missing).status(NAME)

    assert found["state"] == "running"
    assert (found["cube"], found["shards"], found["sources"]) == (None, None, None)
    assert found["usd"] == {"planned": None, "so_far": None, "basis": "no plan, no price"}


@pytest.mark.parametrize(("status", "n_said"), [("RUNNING", 1), ("ABORTED", 0)])
def test_status_of_an_append_that_waits_says_for_what(status: str, n_said: int) -> None:
    """It has no plan yet, and no shards. When it has ended, it waits no more."""
    machine = FakeStepFunctions().add(status=status)

    found = gathers(machine, summary={"is_waiting": True}).status(NAME)

    waits = "another append to this cube is at work; this one goes on by itself when that one is done"
    assert (found["warnings"], found["shards"], found["sources"]) == ([waits] * n_said, None, None)


@pytest.mark.parametrize(
    ("counts", "told", "expected"),
    [
        # Ten shards for two workers are children of 4, 3, 1, 1 and 1 shards, which the Map Run counts.
        (
            {"total": 5, "succeeded": 2, "running": 2, "pending": 1},
            {"tasks_per_child": 4, "n_workers": 2},
            {"pending": 1, "running": 2, "succeeded": 7},
        ),
        # The plan is there, and the Map Run has not begun.
        (None, {}, {"pending": 10}),
        # The Map Run reads its manifest: its total grows meanwhile.
        (
            {"total": 4, "succeeded": 1, "running": 2, "pending": 1},
            {},
            {"pending": 7, "running": 2, "succeeded": 1},
        ),
        # Shards of an earlier attempt are done, although the Map Run does not have them.
        ({"total": 3, "succeeded": 1, "running": 2}, {"n_missing": 3}, {"running": 2, "succeeded": 8}),
        # No shard is missing, so there is no Map Run.
        (None, {"n_missing": 0}, {"succeeded": 10}),
    ],
    ids=["several in a child", "planned", "manifest half read", "next attempt", "none missing"],
)
def test_status_counts_shards(
    counts: dict[str, int] | None, told: dict[str, int], expected: dict[str, int]
) -> None:
    """Status counts the shards of the gather, and not the children of the Map Run."""
    machine = FakeStepFunctions(counts=counts).add(f"{NAME}-2")

    found = gathers(machine, summary=SUMMARY | told, of=f"{NAME}-2").status(f"{NAME}-2")

    none = {"pending": 0, "running": 0, "succeeded": 0, "failed": 0}
    assert found["shards"] == {"total": 10} | none | expected
    assert found["sources"]["done"] == 100 * expected.get("succeeded", 0)
    assert found["usd"]["so_far"] == pytest.approx(0.05 * expected.get("succeeded", 0))


def test_children_share_the_shards_of_two_workers() -> None:
    """The first ones are the largest."""
    assert child_sizes(10, tasks_per_child=4, n_workers=2) == [4, 3, 1, 1, 1]


@pytest.mark.parametrize(
    ("status", "expected"), [("RUNNING", "running"), ("FAILED", "succeeded"), ("ABORTED", "pending")]
)
def test_status_of_a_small_gather_without_a_map_run(status: str, expected: str) -> None:
    """All of its workers start at once. If one fails there is a Map Run, so here the finish has failed."""
    machine = FakeStepFunctions().add(status=status)

    found = gathers(machine, summary=SUMMARY | {"is_inline": True}).status(NAME)

    none = {"pending": 0, "running": 0, "succeeded": 0, "failed": 0}
    assert found["shards"] == {"total": 10} | none | {expected: 10}


@pytest.mark.parametrize(
    ("told", "so_far"),
    [({"n_appended": 0}, None), ({"n_appended": 1}, 0.45), ({"n_appended": 0, "n_retried": 1}, 0.45)],
)
def test_dollars_of_an_append_are_said_to_be_those_of_the_whole_cube(
    told: dict[str, int], so_far: Any
) -> None:
    """The report counts all gathers of a cube. An append of nothing has no dollars of its own."""
    machine = FakeStepFunctions().add(status="SUCCEEDED", output=json.dumps(RESULT | told))

    usd = gathers(machine, summary=SUMMARY).status(NAME)["usd"]

    assert usd["so_far"] == so_far
    assert usd["basis"].startswith("what the report counts of the whole cube, with all of its appends, ")


def test_status_without_a_summary_has_the_map_runs_shards() -> None:
    """Without a summary the Map Run's counts are shown."""
    machine = FakeStepFunctions(counts={"total": 4, "succeeded": 1, "running": 2, "timedOut": 1}).add()

    found = gathers(machine).status(NAME)

    assert found["shards"] == {"total": 4, "pending": 0, "running": 2, "succeeded": 1, "failed": 1}


def test_status_of_a_gather_that_succeeded_is_its_result() -> None:
    """The result needs one call of Step Functions and the plan's summary, and no other call."""
    machine = FakeStepFunctions()
    whole = RESULT | {"n_lost_shards": 0}
    machine.add(status="SUCCEEDED", output=json.dumps(whole))

    found = gathers(machine, summary=SUMMARY).status(NAME)

    assert machine.calls == ["DescribeExecution"]
    assert found["state"] == "succeeded"
    assert found["ended_at"] == "2026-11-20T10:00:30Z"
    assert found["shards"] == {"total": 10, "pending": 0, "running": 0, "succeeded": 10, "failed": 0}
    assert found["sources"] == {"total": 1000, "done": 1000, "failed": 3}
    assert found["usd"]["so_far"] == 0.45
    assert found["result"] == whole
    assert found["links"].keys() == {"self", "cube", "report", "report_page", "report_in_console"}


@pytest.mark.parametrize(
    ("began", "host"),
    [
        ("arn:aws:states:eu-central-1:123456789012", "eu-central-1.console.aws.amazon.com"),
        ("arn:aws-cn:states:cn-north-1:123456789012", "cn-north-1.console.amazonaws.cn"),
        ("arn:aws-us-gov:states:us-gov-west-1:123456789012", "us-gov-west-1.console.amazonaws-us-gov.com"),
    ],
)
def test_status_links_the_report_where_a_browser_opens_it(began: str, host: str) -> None:
    """The link leads to the S3 console, where the user's own rights apply."""
    page = "s3://arrays/out/a&b.zarr/report.html"

    links = links_of(f"{began}:execution:Gather-1:{NAME}", page)

    address = urlsplit(links["report_in_console"])
    assert (address.netloc, address.path) == (host, "/s3/object/arrays")
    assert parse_qs(address.query) == {
        "region": [began.split(":")[3]],
        "prefix": ["out/a&b.zarr/report.html"],
    }


@pytest.mark.parametrize(
    ("arn", "page"),
    [
        (f"arn:aws:states:us-east-1:000000000000:execution:Gather-1:{NAME}", RESULT["report_page"]),
        (f"arn:aws:states:us-east-1:123456789012:execution:Gather-1:{NAME}", None),
        ("", RESULT["report_page"]),
    ],
    ids=["emulated", "not drawn", "not told"],
)
def test_status_links_no_console_that_would_not_show_the_page(arn: str, page: str | None) -> None:
    """There is no link in the emulation, nor where the page could not be drawn."""
    links = links_of(arn, page)

    assert "report_in_console" not in links
    assert links.get("report_page") == page


def links_of(arn: str, page: Any) -> dict[str, str]:
    """Return the links in the status of a gather that has succeeded."""
    result = json.dumps(RESULT | {"report_page": page})
    (found,) = (
        FakeStepFunctions().add(status="SUCCEEDED", output=result, executionArn=arn).executions.values()
    )
    document = status_document(SeenExecution(found=found), now=NOW, links_from="")
    return dict(document["links"])


@pytest.mark.parametrize("status", ["RUNNING", "PENDING_REDRIVE"])
def test_a_gather_that_was_redriven_has_not_ended(status: str) -> None:
    """Step Functions may still tell when it stopped before."""
    machine = FakeStepFunctions().add(status=status, stopDate=BEGAN + timedelta(seconds=10))

    found = gathers(machine).status(NAME)

    assert (found["state"], found["ended_at"], found["seconds"]) == ("running", None, 30.0)


def test_status_of_a_gather_whose_control_files_have_expired_is_still_its_result() -> None:
    """The output of the execution outlives the control files."""
    machine = FakeStepFunctions().add(status="SUCCEEDED", output=json.dumps(RESULT))

    found = gathers(machine).status(NAME)

    assert found["cube"] == RESULT["cube"]
    assert found["usd"] == {"planned": None, "so_far": 0.45, "basis": found["usd"]["basis"]}


@pytest.mark.parametrize(
    ("told", "warns"),
    [({}, SUMMARY["warnings"]), ({"status": "SUCCEEDED", "output": json.dumps(RESULT)}, RESULT["warnings"])],
    ids=["running", "complete"],
)
def test_warnings_are_those_of_the_plan_until_there_is_a_result(
    told: dict[str, Any], warns: list[str]
) -> None:
    """The result knows what all rows have shown. Only the plan knows why there are fewer workers."""
    machine = FakeStepFunctions().add(**told)
    fewer = "other gathers run: this one has 12 of 20 workers"

    found = gathers(machine, summary=SUMMARY | {"worker_warnings": [fewer]}).status(NAME)

    assert found["warnings"] == [*warns, fewer]


def test_status_of_an_execution_with_another_output_has_no_result() -> None:
    """An output that no gather wrote is ignored."""
    machine = FakeStepFunctions().add(status="SUCCEEDED", output="[1]")

    assert gathers(machine).status(NAME)["result"] is None


@dataclass(frozen=True)
class Ended:
    """How an execution ended, and the expected error of its status."""

    id: str
    status: str
    told: dict[str, str]
    type: str
    detail: str


ENDED = (
    Ended("refused", "FAILED", {"error": "BudgetError", "cause": "too dear"}, "BudgetError", "too dear"),
    Ended(
        "function",
        "FAILED",
        {
            "error": "StoreError",
            "cause": json.dumps(
                {"errorMessage": "no bucket", "errorType": "StoreError", "stackTrace": ["x"]}
            ),
        },
        "StoreError",
        "no bucket",
    ),
    Ended(
        "tolerance",
        "FAILED",
        {"error": "States.ExceedToleratedFailureThreshold", "cause": "The specified tolerated failure ..."},
        "States.ExceedToleratedFailureThreshold",
        "limits.failed_shards",
    ),
    Ended("time", "TIMED_OUT", {}, "States.Timeout", "took longer"),
    Ended("stopped", "ABORTED", {"error": "Stopped", "cause": "stopped on request"}, "Stopped", "on request"),
    Ended("bare", "ABORTED", {}, "Stopped", "the gather is stopped"),
)


@pytest.mark.parametrize("case", ENDED, ids=lambda case: case.id)
def test_status_of_a_gather_that_failed_says_why(case: Ended) -> None:
    """Status has the error's own message, without a traceback."""
    machine = FakeStepFunctions(
        counts={"total": 10, "succeeded": 6, "failed": 1, "timedOut": 1, "aborted": 2}
    )
    machine.add(status=case.status, **case.told)

    found = gathers(machine, summary=SUMMARY).status(NAME)

    assert found["error"]["type"] == case.type
    assert case.detail in found["error"]["detail"]
    assert "stackTrace" not in found["error"]["detail"]
    assert found["shards"] == {"total": 10, "pending": 2, "running": 0, "succeeded": 6, "failed": 2}
    assert found["result"] is None


def test_status_finds_the_summary_whatever_the_execution_is_called() -> None:
    """The summary of an execution from the console is found by the execution's name."""
    machine = FakeStepFunctions().add("by-hand")

    assert gathers(machine, summary=SUMMARY, of="by-hand").status("by-hand")["cube"] == SUMMARY["cube"]


@pytest.mark.parametrize("input_", ["[]", "not json", "null", '{"output": 1}', '{"output": {"name": 1}}'])
def test_status_of_an_execution_with_an_odd_input_is_no_error(input_: str) -> None:
    """The input of an execution from the console may be any JSON."""
    machine = FakeStepFunctions()
    machine.add("by-hand", status="FAILED", input=input_, error="RequestError", cause="it must be an object")

    assert gathers(machine).status("by-hand")["error"]["detail"] == "it must be an object"


@pytest.mark.long
@pytest.mark.parametrize("id_", ["", "../x", "a/b", "-a", "a:b", "a b", "a" * 81, "a\n", "ä"])
def test_an_id_that_is_none_is_refused_before_any_call(id_: str) -> None:
    """An invalid id is refused before any call, because it becomes part of an ARN."""
    machine = FakeStepFunctions()
    executions = gathers(machine)

    for ask in (executions.status, executions.stop, executions.redrive):
        with pytest.raises(GatherNotFoundError):
            ask(id_)
    assert machine.calls == []


def test_an_unknown_id_is_not_found() -> None:
    """The error says how to list the gathers that exist."""
    executions = gathers(FakeStepFunctions())

    for ask in (executions.status, executions.stop, executions.redrive):
        with pytest.raises(GatherNotFoundError, match="no gather nobody"):
            ask("nobody")


def test_list_takes_one_call_a_page() -> None:
    """One page takes one call, even if there are many gathers."""
    machine = FakeStepFunctions()
    for number in range(5):
        machine.add(f"g{number}", status="SUCCEEDED" if number % 2 else "RUNNING")

    first = gathers(machine).list_(limit=3)
    second = gathers(machine).list_(limit=3, token=first["next"])

    assert [each["id"] for each in first["gathers"] + second["gathers"]] == ["g4", "g3", "g2", "g1", "g0"]
    assert second["next"] is None
    assert machine.calls == ["ListExecutions"] * 2
    assert first["gathers"][1] == {
        "id": "g3",
        "state": "succeeded",
        "submitted_at": "2026-11-20T10:00:00Z",
        "ended_at": "2026-11-20T10:00:30Z",
        "seconds": 30.0,
        "links": {"self": "/v1/gathers/g3"},
    }


@pytest.mark.parametrize(
    ("state", "ids"), [("running", ["a"]), ("stopped", ["b"]), ("timed_out", ["c"]), ("failed", [])]
)
def test_list_of_one_state(state: str, ids: list[str]) -> None:
    """States have our names, not those of Step Functions."""
    machine = FakeStepFunctions().add("a").add("b", status="ABORTED").add("c", status="TIMED_OUT")

    assert [each["id"] for each in gathers(machine).list_(limit=10, state=state)["gathers"]] == ids


@pytest.mark.parametrize(
    ("options", "field_"),
    [({"limit": 0}, "limit"), ({"limit": 1001}, "limit"), ({"limit": 1, "state": "RUNNING"}, "state")],
)
def test_list_refuses_what_it_cannot_answer(options: dict[str, Any], field_: str) -> None:
    """The error names the field."""
    with pytest.raises(RequestError) as refused:
        gathers(FakeStepFunctions()).list_(**options)

    assert refused.value.field == field_


@pytest.mark.parametrize("code", ["InvalidToken", "ValidationException"])
def test_list_refuses_a_wrong_token(code: str) -> None:
    """The error is a RequestError. Step Functions has another error for a token that is too long."""
    machine = FakeStepFunctions(refusals={"ListExecutions": refusal(code)})

    with pytest.raises(RequestError, match="token"):
        gathers(machine).list_(limit=1, token="x")  # noqa: S106 # of a page


def test_stop_stops_what_runs() -> None:
    """A running gather is stopped, and the answer has its new state."""
    machine = FakeStepFunctions().add()

    stopped = gathers(machine).stop(NAME)

    assert stopped["state"] == "stopped"
    assert stopped["ended_at"] == "2026-11-20T10:00:30Z"
    told = {"type": "GatherCancelledError", "detail": "cancelled on request"}
    assert gathers(machine).status(NAME)["error"] == told


@pytest.mark.parametrize("there", ["PreconditionFailed", "ConditionalRequestConflict"])
def test_stop_leaves_a_marker_before_it_stops(there: str) -> None:
    """Workers find it. The first marker stays, so a second request is no error, also at the same moment."""
    machine = FakeStepFunctions(refusals={"StopExecution": refusal("ThrottlingException", "StopExecution")})
    machine.add()
    executions = gathers(machine)

    with pytest.raises(GatherError):
        executions.stop(NAME)
    marked = dict(executions.s3.objects)
    machine.refusals.clear()
    executions.s3.refuses = there
    later = replace(executions, now=lambda: NOW + timedelta(hours=1))
    stopped = later.stop(NAME)

    assert json.loads(marked[f"cancelled/{NAME}"]) == {"cancelled_at": NOW.isoformat()}
    assert stopped["state"] == "stopped"
    assert executions.s3.objects == marked


def test_stop_that_cannot_leave_its_marker_stops_nothing() -> None:
    """Otherwise the workers would go on, and nobody would know."""
    machine = FakeStepFunctions().add()
    executions = gathers(machine, refuses="AccessDenied")

    with pytest.raises(GatherError):
        executions.stop(NAME)

    assert executions.status(NAME)["state"] == "running"


def test_stop_of_a_ranking_leaves_no_marker() -> None:
    """Its workers have seconds to go, and a redrive goes on with it."""
    machine = FakeStepFunctions().add()
    rankings = replace(gathers(machine), kind="ranking")

    rankings.stop(NAME)

    assert rankings.s3.objects == {}
    assert rankings.redrive(NAME)["state"] == "running"


def test_redrive_of_a_cancelled_gather_says_to_submit_it_again() -> None:
    """Its marker stays, so its workers would do nothing."""
    machine = FakeStepFunctions().add()
    gathers(machine).stop(NAME)

    with pytest.raises(NotRedrivableError, match="was cancelled: submit its request again"):
        gathers(machine).redrive(NAME)

    assert "redrive" not in gathers(machine).status(NAME)["links"]
    assert gathers(machine).submit(REQUEST, name=NAME)["id"] == f"{NAME}-2"


@pytest.mark.parametrize("workers", [1, 5, 10_000])
def test_limit_changes_the_map_run_of_a_gather_that_runs(workers: int) -> None:
    """The last Map Run gets the number, and the gather goes on."""
    machine = FakeStepFunctions(counts={"running": 2}).add()

    line = gathers(machine).limit(NAME, workers)

    assert (line["id"], line["state"]) == (NAME, "running")
    assert [each["maxConcurrency"] for each in machine.updates] == [workers]


@pytest.mark.parametrize(
    ("status", "counts", "map_status", "workers", "says"),
    [
        ("SUCCEEDED", None, "RUNNING", 5, "^id: the gather .* does not run any more"),
        ("RUNNING", None, "RUNNING", 5, "^id: the workers of .* cannot be limited now: they have not begun"),
        ("RUNNING", {"succeeded": 2}, "SUCCEEDED", 5, "have not begun, or have ended, or .* is so small"),
        ("RUNNING", {"running": 2}, "RUNNING", 0, "^workers: it must be 1 to 10,000"),
        ("RUNNING", {"running": 2}, "RUNNING", 10_001, "must be 1 to 10,000"),
    ],
)
def test_limit_says_why_it_cannot_be_set(
    status: str, counts: dict[str, int] | None, map_status: str, workers: int, says: str
) -> None:
    """No worker runs before the plan has ended, nor after the last shard. 0 would be no limit at all."""
    machine = FakeStepFunctions(counts=counts, map_status=map_status).add(status=status)

    with pytest.raises(RequestError, match=says):
        gathers(machine).limit(NAME, workers)

    assert machine.updates == []


@pytest.mark.parametrize("code", ["ValidationException", "ResourceNotFound"])
def test_limit_of_a_map_that_ends_meanwhile_says_so(code: str) -> None:
    """Step Functions refuses to change a Map Run that has ended since it was described."""
    machine = FakeStepFunctions(counts={}, refusals={"UpdateMapRun": refusal(code, "UpdateMapRun")}).add()

    with pytest.raises(RequestError, match=r"the workers of .* have ended"):
        gathers(machine).limit(NAME, 5)


def test_limit_of_an_unknown_gather_says_so() -> None:
    """As status, stop and redrive do."""
    with pytest.raises(GatherNotFoundError, match="there is no gather 0123"):
        gathers(FakeStepFunctions()).limit("0123456789abcdef", 5)


def test_stop_leaves_alone_what_has_ended() -> None:
    """A gather that has ended keeps its state, whether it was stopped or succeeded."""
    machine = FakeStepFunctions().add(status="SUCCEEDED")

    assert gathers(machine).stop(NAME)["state"] == "succeeded"
    assert "StopExecution" not in machine.calls


@pytest.mark.parametrize("status", ["FAILED", "TIMED_OUT", "ABORTED"])
def test_redrive_runs_again_what_ended_without_success(status: str) -> None:
    """A failed gather is redriven under its own id. Its status links to the redrive."""
    machine = FakeStepFunctions().add(status=status, error="States.ExceedToleratedFailureThreshold")
    offered = gathers(machine).status(NAME)["links"]

    line = gathers(machine).redrive(NAME)

    assert offered["redrive"] == f"/v1/gathers/{NAME}/redrive"
    assert (line["id"], line["state"], line["ended_at"]) == (NAME, "running", None)
    assert machine.calls[-1] == "RedriveExecution"


@pytest.mark.long
@pytest.mark.parametrize(
    ("first", "second"),
    [
        (NAME, f"{NAME}-2"),
        (f"alps-{NAME}-2", f"alps-{NAME}-3"),
        (f"{NAME}-9", f"{NAME}-10"),
        (f"{NAME}-98", f"{NAME}-99"),
    ],
)
@pytest.mark.parametrize("status", ["RUNNING", "SUCCEEDED", "FAILED"])
def test_redrive_of_an_attempt_that_has_a_later_one_names_that(first: str, second: str, status: str) -> None:
    """The error names the later attempt. Both would fill the same shards. Finding it takes one call."""
    machine = FakeStepFunctions().add(first, status="FAILED").add(second, status=status)

    with pytest.raises(NotRedrivableError, match=f"submitted again as {second}: redrive or look at that one"):
        gathers(machine).redrive(first)

    assert machine.calls == ["DescribeExecution"] * 2


def test_redrive_of_a_tick_names_a_later_one_of_its_schedule() -> None:
    """That one has looked for the same scenes. Other schedules do not count."""
    machine = FakeStepFunctions()
    first, last = "tick-alps-20261101T000000Z", "tick-alps-20261103T000000Z"
    others = "tick-alps-2-20261104T000000Z", "tick-bern-20261104T000000Z"
    for name in (first, "tick-alps-20261102T000000Z", last, *others):
        machine.add(name, status="FAILED")

    with pytest.raises(
        NotRedrivableError, match=f"has run again since, as {last}, .*redrive or look at that one"
    ):
        gathers(machine).redrive(first)

    assert machine.calls == ["DescribeExecution", "ListExecutions"]
    assert gathers(machine).redrive(last)["state"] == "running"


@pytest.mark.parametrize("name", ["by-hand", "by-hand-2", f"{NAME}-99"])
def test_redrive_of_what_can_have_no_later_attempt_asks_for_none(name: str) -> None:
    """An execution from the console has no attempts, so none are looked for."""
    machine = FakeStepFunctions().add(name, status="FAILED")
    machine.add("by-hand-2" if name == "by-hand" else "by-hand-3")

    assert gathers(machine).redrive(name)["state"] == "running"
    assert machine.calls == ["DescribeExecution", "RedriveExecution"]


@dataclass(frozen=True)
class Undrivable:
    """An execution that Step Functions would refuse to redrive."""

    id: str
    told: dict[str, str]
    sentence: str


UNDRIVABLE = (
    Undrivable("running", {"status": "RUNNING"}, "still running"),
    Undrivable("succeeded", {"status": "SUCCEEDED"}, "has succeeded"),
    Undrivable("refused", {"status": "FAILED", "error": "RequestError"}, "was refused"),
    Undrivable("halted", {"status": "FAILED", "error": "HaltedError"}, "submit its request again, unchanged"),
    Undrivable(
        "old",
        {
            "status": "FAILED",
            "redriveStatus": "NOT_REDRIVABLE",
            "redriveStatusReason": "Execution redrivable period exceeded.",
        },
        r"for 14 days\): submit its request again",
    ),
    Undrivable(
        "history",
        {
            "status": "FAILED",
            "redriveStatus": "NOT_REDRIVABLE",
            "redriveStatusReason": "Execution history event limit exceeded.",
        },
        r"history event limit exceeded\): submit",
    ),
)


@pytest.mark.parametrize("case", UNDRIVABLE, ids=lambda case: case.id)
def test_redrive_of_what_cannot_be_says_why_and_what_to_do(case: Undrivable) -> None:
    """Step Functions is not called, and the status has no link to the redrive."""
    machine = FakeStepFunctions().add(**case.told)

    with pytest.raises(NotRedrivableError, match=case.sentence):
        gathers(machine).redrive(NAME)

    assert "RedriveExecution" not in machine.calls
    assert "redrive" not in gathers(machine).status(NAME)["links"]


def test_redrive_that_is_throttled_may_be_tried_again() -> None:
    """It says nothing of the gather."""
    throttled = refusal("ThrottlingException", "RedriveExecution")
    machine = FakeStepFunctions(refusals={"RedriveExecution": throttled}).add(status="FAILED")

    with pytest.raises(ThrottledError):
        gathers(machine).redrive(NAME)


def test_nothing_is_redriven_while_nobody_knows_whether_all_is_halted() -> None:
    """An error of the store is no sign that the file is missing."""
    machine = FakeStepFunctions().add(status="FAILED")

    with pytest.raises(GatherError, match="InternalError"):
        gathers(machine, missing="InternalError").redrive(NAME)

    assert "RedriveExecution" not in machine.calls


def test_redrive_that_step_functions_refuses_is_in_words_too() -> None:
    """A refusal that the description did not announce is one sentence, too."""
    too_old = refusal("ExecutionNotRedrivable", "RedriveExecution", "Execution redrivable period exceeded")
    machine = FakeStepFunctions(refusals={"RedriveExecution": too_old}).add(status="FAILED")

    with pytest.raises(NotRedrivableError, match="14 days"):
        gathers(machine).redrive(NAME)


@pytest.mark.parametrize(
    ("raised", "kind", "sentence"),
    [
        (refusal("ThrottlingException"), ThrottledError, "asked too often"),
        (refusal("TooManyRequestsException"), ThrottledError, "try again"),
        (refusal("AccessDeniedException", message="User x is not authorized"), DeniedError, "User x is not"),
        (refusal("ExpiredTokenException"), DeniedError, "have expired"),
        (refusal("UnrecognizedClientException"), DeniedError, "does not know these credentials"),
        (refusal("StateMachineDoesNotExist"), DeploymentError, "no such state machine"),
        (refusal("InternalFailure"), DeploymentError, "InternalFailure"),
        (NoCredentialsError(), DeniedError, "no AWS credentials"),
        (EndpointConnectionError(endpoint_url="https://states.example"), UnreachableError, "states.example"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_what_aws_refuses_is_one_sentence(raised: Exception, kind: type[GatherError], sentence: str) -> None:
    """Every call turns an error of AWS into one sentence."""
    machine = FakeStepFunctions(refusals={"DescribeExecution": raised, "ListExecutions": raised})

    with pytest.raises(kind, match=sentence):
        gathers(machine).status(NAME)
    with pytest.raises(kind, match=sentence):
        gathers(machine).list_(limit=1)


def test_execution_name_is_the_digest_or_the_name_with_it() -> None:
    """The name depends on the requested pixels and not on the limits."""
    plain = parse_request(REQUEST)
    named = parse_request(REQUEST | {"output": {"name": "n" * 60}})
    limited = parse_request(REQUEST | {"limits": {"usd": 1}})

    assert execution_name(plain) == plain.digest() == execution_name(limited)
    assert execution_name(named) == "n" * 60 + "-" + plain.digest()


@pytest.mark.parametrize("output", [{}, {"name": "alps"}, {"name": "n" * 60}])
def test_forced_is_another_gather_every_time(output: dict[str, str]) -> None:
    """Each forced request has a new valid name and asks for the same pixels."""
    request = parse_request(REQUEST | {"output": output})
    one, other = with_random_name(request), with_random_name(request)

    names = {execution_name(each) for each in (request, one, other)}
    assert len(names) == 3
    assert one.digest() == request.digest()
    assert parse_request(one.to_json()) == one
    assert one.cube_name.startswith(request.cube_name[:53])


def test_readers_of_one_second_share_a_look() -> None:
    """A hundred readers cost what one costs. A second later, and after a change, it is looked up again."""
    machine = FakeStepFunctions(counts={"total": 10, "running": 10}).add()
    now_s = 0.0
    shared = replace(gathers(machine, summary=SUMMARY), looks=SharedLooks(clock=lambda: now_s))

    answers = [shared.status(NAME) for _ in range(100)]
    assert machine.calls == ["DescribeExecution", "ListMapRuns", "DescribeMapRun"]
    assert all(each == answers[0] for each in answers)

    now_s = 1.0
    assert shared.status(NAME)["state"] == "running"
    assert len(machine.calls) == 6

    shared.limit(NAME, 5)
    shared.status(NAME)
    assert machine.calls[-3:] == ["DescribeExecution", "ListMapRuns", "DescribeMapRun"]

    shared.stop(NAME)
    assert shared.status(NAME)["state"] == "stopped"


def test_a_redrive_is_seen_at_once() -> None:
    """A reader of the same second does not get the look from before."""
    machine = FakeStepFunctions().add(status="FAILED")
    shared = replace(gathers(machine), looks=SharedLooks(clock=lambda: 0.0))
    assert shared.status(NAME)["state"] == "failed"

    shared.redrive(NAME)

    assert shared.status(NAME)["state"] == "running"


def test_a_gather_that_is_not_there_is_not_remembered() -> None:
    """It may begin at any moment."""
    machine = FakeStepFunctions()
    shared = replace(gathers(machine), looks=SharedLooks(clock=lambda: 0.0))
    with pytest.raises(GatherNotFoundError):
        shared.status(NAME)

    machine.add()

    assert shared.status(NAME)["state"] == "running"


@dataclass(frozen=True)
class Failure:
    """A child that failed, and words of the advice."""

    id: str
    error: str
    cause: str
    said: str
    advice: str


FAILURES = [
    Failure(
        "killed",
        "Lambda.Unknown",
        "RequestId: 1 Error: Runtime exited with error: signal: killed",
        "signal: killed",
        "worker_memory_mib",
    ),
    Failure(
        "late",
        "Sandbox.Timedout",
        json.dumps({"errorMessage": "2026-11-30T03:04:03.403Z 9a403b07 Task timed out after 900.00 seconds"}),
        "Task timed out after 900.00 seconds",
        "too slowly",
    ),
    Failure(
        "denied",
        "StoreError",
        json.dumps({"errorMessage": "s3://a/b: AccessDenied", "stackTrace": ["File secret.py"]}),
        "s3://a/b: AccessDenied",
        "a right is missing",
    ),
    Failure(
        "refused",
        "StoreError",
        json.dumps({"errorMessage": "a could not be written: the store refused access (403)"}),
        "refused access",
        "a right is missing",
    ),
    Failure(
        "of a key",
        "StoreError",
        json.dumps(
            {"errorMessage": said_of_place(PermissionDeniedError("not allowed: kms:GenerateDataKey"))}
        ),
        "may not use its KMS key",
        "a right is missing",
    ),
    Failure("busy", "Lambda.TooManyRequestsException", "Rate Exceeded", "Rate Exceeded", "redrive later"),
    Failure(
        "secret", "ThrottledError", json.dumps({"errorMessage": "too often"}), "too often", "redrive later"
    ),
    Failure("new", "KeyError", json.dumps({"errorMessage": "'a'"}), "'a'", "the log"),
    Failure("silent", "KeyError", "", "AWS does not say why", "the log"),
]


@pytest.mark.parametrize("case", FAILURES, ids=[each.id for each in FAILURES])
def test_status_says_why_workers_failed_and_what_to_do(case: Failure) -> None:
    """A failed child is shown with its shards, the error, its cause without a traceback, and advice."""
    machine = FakeStepFunctions(counts={"failed": 1, "total": 2})
    machine.add(status="FAILED", error="States.ExceedToleratedFailureThreshold")
    given = json.dumps({"gather": "a/1", "tasks": [{"index": 4}, {"index": 5}]})
    arn = f"{EXECUTIONS}/Shards:1"
    machine.failed.append({"executionArn": arn, "error": case.error, "cause": case.cause, "input": given})

    (failure,) = gathers(machine, summary=SUMMARY).status(NAME)["failures"]

    assert (failure["shards"], failure["error"]) == ([4, 5], case.error)
    assert case.said in failure["cause"]
    assert "secret" not in failure["cause"]
    assert case.advice in failure["advice"]


def test_status_asks_for_a_few_failed_children_and_for_none_where_none_failed() -> None:
    """A thousand failed children cost as many requests as three."""
    many = FakeStepFunctions(counts={"failed": 1000, "total": 1000})
    none = FakeStepFunctions(counts={"running": 2, "total": 2})
    for machine in (many, none):
        machine.add()
    arn = f"{EXECUTIONS}/Shards:"
    many.failed = [{"executionArn": f"{arn}{n}", "input": "{}"} for n in range(1000)]

    shown = [gathers(machine, summary=SUMMARY).status(NAME)["failures"] for machine in (many, none)]

    assert [len(each) for each in shown] == [3, 0]
    assert many.calls.count("DescribeExecution") == 4
    assert "ListExecutions" not in none.calls


def test_gather_with_missing_shards_is_to_be_submitted_again() -> None:
    """The map ended well, so a redrive would only finish again. The workers' errors are shown."""
    machine = FakeStepFunctions(counts={"failed": 1, "succeeded": 9, "total": 10})
    cause = json.dumps({"errorMessage": "1 of 10 shards have not been gathered (shard 4): run again"})
    machine.add(status="FAILED", error="ShardsMissingError", cause=cause)
    machine.failed.append({"executionArn": f"{EXECUTIONS}/Shards:1"})

    document = gathers(machine, summary=SUMMARY).status(NAME)

    assert "shard 4" in document["error"]["detail"]
    assert len(document["failures"]) == 1
    assert "redrive" not in document["links"]
    with pytest.raises(NotRedrivableError, match=r"submit its request again.*limits\.failed_shards"):
        gathers(machine, summary=SUMMARY).redrive(NAME)


def test_status_of_a_success_with_lost_shards_says_why_they_were_lost() -> None:
    """A success without lost shards asks for no Map Run."""
    lost, whole = FakeStepFunctions(counts={"failed": 1}), FakeStepFunctions(counts={})
    for machine, n_lost in ((lost, 1), (whole, 0)):
        machine.add(status="SUCCEEDED", output=json.dumps(RESULT | {"n_lost_shards": n_lost}))
    lost.failed.append({"executionArn": f"{EXECUTIONS}/Shards:1"})

    shown = [gathers(machine, summary=SUMMARY).status(NAME)["failures"] for machine in (lost, whole)]

    assert [len(each) for each in shown] == [1, 0]
    assert "ListMapRuns" not in whole.calls
