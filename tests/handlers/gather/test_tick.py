"""Ticks of a schedule: which gather each one starts, by the functions of a deployment."""

import json
from collections.abc import Iterator
from copy import replace
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import ModuleType
from typing import Any, Final

import pytest
from botocore.exceptions import ClientError

from pixel_gather import Settings, StoreSettings, gather
from pixel_gather.core.errors import RequestError, StoreError
from pixel_gather.core.schedule import Schedule
from pixel_gather.io.aws.gather_document import SeenExecution, status_document, summary_key
from pixel_gather_cli.deployment.status_text import status_text
from scenes.scenes import item
from support.geojson import collection
from support.lambda_functions import ENVIRONMENT, Context, StateMachine, cold_start

REQUEST: dict[str, Any] = {
    "sources": {"stac": {"items": "s3://sources/items.json", "assets": ["B2"]}},
    "window": {"pixels": [10, 20, 100, 90]},
    "output": {"append_to": "grows"},
}
DAILY = Schedule(name="daily", every="rate(1 day)", request=REQUEST, overlap_days=2)


@dataclass
class FakeStepFunctions:
    """Keeps what was started. Like AWS, it refuses a name that is taken by another input."""

    started: dict[str, Any] = field(default_factory=dict)
    running: set[str] = field(default_factory=set)
    machines: set[str] = field(default_factory=set)
    """Which state machines have started something."""

    def start_execution(self, *, stateMachineArn: str, name: str, input: str) -> dict[str, Any]:  # noqa: A002, N803 # boto3's
        """Start an execution."""
        self.machines.add(stateMachineArn)
        if name in self.started:
            raise ClientError({"Error": {"Code": "ExecutionAlreadyExists"}}, "StartExecution")
        self.started[name] = json.loads(input)
        return {"startDate": datetime.now(UTC)}

    def describe_execution(self, *, executionArn: str) -> dict[str, Any]:  # noqa: N803 # boto3's
        """Describe an execution."""
        return self._line(executionArn.rpartition(":")[2])

    def list_executions(self, *, statusFilter: str, maxResults: int, **_: Any) -> dict[str, Any]:  # noqa: N803 # boto3's
        """List those that run."""
        assert statusFilter == "RUNNING"
        return {"executions": [self._line(name) for name in sorted(self.running)[:maxResults]]}

    def _line(self, name: str) -> dict[str, Any]:
        return {"name": name, "status": "RUNNING", "startDate": datetime.now(UTC)}


@pytest.fixture
def states() -> FakeStepFunctions:
    """A Step Functions without executions."""
    return FakeStepFunctions()


@pytest.fixture
def tick(s3: Any, states: FakeStepFunctions, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The function of ticks."""
    del s3
    with cold_start(monkeypatch, "tick") as imported:
        module: Any = imported
        executions = replace(module.ticker.executions, stepfunctions=states)
        tables = replace(module.ticker.tables, stepfunctions=states)
        module.ticker = module.Ticker(module.deployment, executions, tables)
        yield module


def told(tick: ModuleType, when: str, schedule: Schedule = DAILY) -> dict[str, Any]:
    """Call the function at a time and return its answer."""
    answer: dict[str, Any] = tick.handler(schedule.event(when), Context())
    return answer


def put_items(s3: Any, n: int) -> None:
    """Put a file of items that names the first ``n`` scenes, one a day from 1 June."""
    listed = s3.list_objects_v2(Bucket="sources", Prefix="landsat/")["Contents"]
    keys = sorted(each["Key"] for each in listed)[:n]
    items = [
        item(f"s{at}", time=f"2026-06-{at + 1:02}T10:00:00Z", assets={"B2": {"href": f"s3://sources/{key}"}})
        for at, key in enumerate(keys)
    ]
    s3.put_object(Bucket="sources", Key="items.json", Body=json.dumps(collection(items)))


def datetime_of(request: dict[str, Any]) -> str:
    """Return the time range of a request's search."""
    return str(request["sources"]["stac"]["datetime"])


@pytest.mark.long
def test_first_tick_makes_the_cube_and_the_next_searches_from_before_its_last_row(
    tick: ModuleType, s3: Any, s3_url: str, states: FakeStepFunctions
) -> None:
    """A tick that comes twice starts one gather. Rows of an append that has not ended do not count."""
    put_items(s3, 3)

    first = told(tick, "2026-06-03T12:00:00Z")
    again = told(tick, "2026-06-03T12:00:00Z")
    request = states.started["tick-daily-20260603T120000Z"]
    stores = StoreSettings(endpoint=s3_url)
    gather(request, to="s3://cubes/out/grows.zarr", settings=Settings(stores=stores, draws_report=False))
    second = told(tick, "2026-06-05T12:00:00Z")

    assert first["execution"] == again["execution"] == "tick-daily-20260603T120000Z"
    assert (datetime_of(request), request["output"]) == ("../2026-06-03T12:00:00Z", {"name": "grows"})
    later = states.started[second["execution"]]
    assert datetime_of(later) == "2026-06-01T10:00:00Z/2026-06-05T12:00:00Z"
    assert later["output"] == {"append_to": "grows"}
    assert len(states.started) == 2

    key = {"Bucket": "cubes", "Key": "out/grows.zarr/zarr.json"}
    root = json.loads(s3.get_object(**key)["Body"].read())
    root["consolidated_metadata"]["metadata"]["time"]["shape"] = [2]  # the third row is of no version yet
    s3.put_object(**key, Body=json.dumps(root))
    third = told(tick, "2026-06-06T12:00:00Z")
    assert datetime_of(states.started[third["execution"]]).startswith("2026-05-31T10:00:00Z/")


@pytest.mark.long
def test_three_ticks_make_the_cube_append_what_is_new_and_append_nothing(
    tick: ModuleType, machine: StateMachine, states: FakeStepFunctions
) -> None:
    """The gathers are run by the deployment's own functions, as the state machine calls them."""
    rows, ends = [], []
    for day, n in ((3, 3), (6, 5), (7, 5)):
        put_items(machine.s3, n)
        started = told(tick, f"2026-06-{day:02}T12:00:00Z")["execution"]
        ends.append(machine.run(states.started[started]))
        root = machine.s3.get_object(Bucket="cubes", Key="out/grows.zarr/zarr.json")
        metadata = json.loads(root["Body"].read())["consolidated_metadata"]["metadata"]
        rows.append(metadata["B2"]["shape"][0])

    assert rows == [3, 5, 5], ends
    assert ends[2]["verdict"] == "complete"
    assert [ends[0]["n_appended"], ends[1]["n_appended"], ends[2]["result"]["n_appended"]] == [None, 2, 0]


def test_tick_that_finds_no_scene_is_no_failure(
    tick: ModuleType, machine: StateMachine, states: FakeStepFunctions
) -> None:
    """The execution succeeds without a cube, and says why. The same search by a person is refused."""
    put_items(machine.s3, 3)
    name = told(tick, "2026-05-03T12:00:00Z")["execution"]

    verdict = machine.planned(states.started[name], execution=name)
    by_hand = machine.planned(states.started[name], execution="grows-0123456789abcdef")

    assert verdict["verdict"] == "complete"
    assert "no scene was found" in verdict["result"]["why"]
    assert (by_hand["verdict"], by_hand["error"]) == ("refused", "RequestError")
    assert machine.s3.list_objects_v2(Bucket="cubes")["KeyCount"] == 0
    kept = machine.s3.get_object(Bucket="control", Key=summary_key(name))["Body"].read()
    described = {"name": name, "status": "SUCCEEDED", "startDate": datetime.now(UTC)}
    found = described | {"output": json.dumps(verdict["result"])}
    seen = SeenExecution(found=found, summary=json.loads(kept))
    document = status_document(seen, now=datetime.now(UTC), links_from="")
    assert (document["state"], document["sources"]["total"]) == ("succeeded", 0)
    assert document["warnings"] == [verdict["result"]["why"]]
    assert "no scene was found" in status_text(document)
    assert told(tick, "2026-06-03T12:00:00Z")["execution"] == "tick-daily-20260603T120000Z"


def test_tick_whose_scenes_lack_the_asset_is_refused(
    tick: ModuleType, machine: StateMachine, states: FakeStepFunctions
) -> None:
    """That is a wrong request, so the notice of failed ticks is sent."""
    put_items(machine.s3, 3)
    stac = REQUEST["sources"]["stac"] | {"assets": ["B99"]}
    wrong = replace(DAILY, request=REQUEST | {"sources": {"stac": stac}})
    name = told(tick, "2026-06-03T12:00:00Z", wrong)["execution"]

    verdict = machine.planned(states.started[name], execution=name)

    assert (verdict["verdict"], verdict["error"]) == ("refused", "RequestError")
    assert "none has an asset B99" in verdict["cause"]


def test_first_gather_that_failed_is_gone_on_with_by_the_next_tick(
    tick: ModuleType, s3: Any, states: FakeStepFunctions
) -> None:
    """The unfinished cube is that of the first tick's search. Another search would be refused there."""
    told(tick, "2026-06-02T12:00:00Z")
    begun = states.started["tick-daily-20260602T120000Z"]
    attributes = {"pixel_gather": json.dumps({"request": begun}), "complete": 0}
    body = json.dumps({"zarr_format": 3, "node_type": "group", "attributes": attributes})
    s3.put_object(Bucket="cubes", Key="out/grows.zarr/zarr.json", Body=body)

    later = told(tick, "2026-06-04T12:00:00Z")

    assert states.started[later["execution"]] == begun


def test_tick_leaves_a_gather_that_runs_alone(tick: ModuleType, states: FakeStepFunctions) -> None:
    """The next tick finds the same scenes. A schedule whose name begins the same does not count.

    Nor does the same tick, if it comes twice.
    """
    states.running = {"bolzano-0123456789abcdef", "tick-daily-20260601T120000Z"}
    found = told(tick, "2026-06-02T12:00:00Z")

    assert found["execution"] is None
    assert found["why"].startswith("the gather of an earlier tick is running")
    name = "tick-daily-20260602T120000Z"
    states.running = {"tick-daily-two-20260601T120000Z", "bolzano-0123456789abcdef"}
    assert told(tick, "2026-06-02T12:00:00Z")["execution"] == name
    states.running |= {name}
    assert told(tick, "2026-06-02T12:00:00Z")["execution"] == name


def test_tick_before_its_search_begins_starts_nothing(tick: ModuleType, states: FakeStepFunctions) -> None:
    """The answer says why."""
    stac = REQUEST["sources"]["stac"] | {"datetime": "2030/.."}
    later = replace(DAILY, request=REQUEST | {"sources": {"stac": stac}})

    found = told(tick, "2026-06-02T12:00:00Z", later)

    assert (found["execution"], states.started) == (None, {})
    assert "time range" in found["why"]


def test_wrong_event_and_what_is_no_cube_raise(tick: ModuleType, s3: Any) -> None:
    """The function fails, its alarm rings, and nothing is started."""
    with pytest.raises(RequestError, match="tick"):
        told(tick, "soon")
    s3.put_object(Bucket="cubes", Key="out/grows.zarr/zarr.json", Body=b'{"attributes": {}}')

    with pytest.raises(StoreError, match="no gather made"):
        told(tick, "2026-06-02T12:00:00Z")


_ZONES: Final[dict[str, Any]] = {
    "zones": "s3://sources/fields.geojson",
    "sources": {"stac": {"items": "s3://sources/items.json", "datetime": "2026-05/.."}},
    "by": "ndvi",
    "append_to": "ndvi",
}


def test_ticks_of_a_table_start_executions_of_tables(
    tick: ModuleType, s3: Any, states: FakeStepFunctions
) -> None:
    """The first one looks through all times, later ones from some days before the last image."""
    schedule = Schedule(name="fields", every="rate(1 day)", request=_ZONES, overlap_days=3)

    first = told(tick, "2026-06-03T12:00:00Z", schedule)
    s3.put_object(
        Bucket="cubes",
        Key="out/tables/zones-ndvi/result.json",
        Body=json.dumps({"last": "2026-06-02T10:00:00Z"}),
    )
    second = told(tick, "2026-06-05T12:00:00Z", schedule)
    states.running = {"tick-fields-20260605T120000Z"}
    third = told(tick, "2026-06-06T12:00:00Z", schedule)

    started = [states.started[each["execution"]] for each in (first, second)]
    assert [datetime_of(each) for each in started] == [
        "2026-05-01T00:00:00Z/2026-06-03T12:00:00Z",
        "2026-05-30T10:00:00Z/2026-06-05T12:00:00Z",
    ]
    assert all({**each, "sources": None} == {**_ZONES, "sources": None} for each in started)
    assert (third["execution"], "is running" in third["why"]) == (None, True)
    assert states.machines == {ENVIRONMENT["PIXEL_GATHER_TABLE_STATE_MACHINE_ARN"]}


@pytest.mark.parametrize("content", ['{"last": ', "3", "{}"])
def test_a_tick_names_a_table_of_a_damaged_result(tick: ModuleType, s3: Any, content: str) -> None:
    """Nothing is started."""
    schedule = Schedule(name="fields", every="rate(1 day)", request=_ZONES, overlap_days=3)
    s3.put_object(Bucket="cubes", Key="out/tables/zones-ndvi/result.json", Body=content)

    with pytest.raises(StoreError, match=r"^s3://cubes/out/tables/zones-ndvi: its result\.json is damaged"):
        told(tick, "2026-06-05T12:00:00Z", schedule)
