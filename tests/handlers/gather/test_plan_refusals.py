"""Refusals of the plan are answers with a sentence, so that the execution fails with a readable cause."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, get_args, get_type_hints

import pytest

from pixel_gather.core.errors import REFUSALS, HaltedError
from pixel_gather.core.halt_marker import HALTED_KEY, halt_content
from pixel_gather.core.request.request import parse_request
from pixel_gather.io.store.limiter.govern_host import Budget
from support.lambda_functions import Context, StateMachine, cold_start, records

LANDSAT: dict[str, Any] = {
    "sources": {"prefix": "s3://sources/landsat"},
    "window": {"pixels": [0, 0, 40, 30]},
}


@dataclass(frozen=True)
class Case:
    """A request that is refused."""

    id: str
    request: Any
    error: str
    says: str
    objects: dict[str, bytes] = field(default_factory=dict)
    """Objects in the bucket of sources beside the files."""


REFUSED = (
    Case("nothing", None, "RequestError", "must be an object"),
    Case("field", LANDSAT | {"colour": 1}, "RequestError", "colour: there is no such field"),
    Case("bucket", LANDSAT | {"sources": ["s3://other/a.tif"]}, "RequestError", "the bucket other"),
    Case("missing-list", LANDSAT | {"sources": "s3://sources/no.csv"}, "RequestError", "cannot be read"),
    Case(
        "bucket-in-list",
        LANDSAT | {"sources": "s3://sources/list.csv"},
        "RequestError",
        "list.csv line 2: the bucket other is not allowed",
        {"list.csv": b"href\ns3://other/a.tif\n"},
    ),
    Case(
        "table of chips",
        {"sources": LANDSAT["sources"], "windows": {"table": "s3://elsewhere/chips.csv", "size": [4, 4]}},
        "RequestError",
        "windows.table: ",
    ),
    Case(
        "index",
        LANDSAT | {"index": "s3://elsewhere/headers.parquet"},
        "RequestError",
        "index: the bucket elsewhere is not allowed here",
    ),
    Case(
        "signing",
        LANDSAT | {"sources": LANDSAT["sources"] | {"sign": "earthdata"}},
        "RequestError",
        "sources.sign: this deployment does not sign by earthdata",
    ),
    Case(
        "control file",
        LANDSAT | {"sources": "s3://control/gathers/a/list.csv"},
        "RequestError",
        "sources.list: the bucket control is not allowed here",
    ),
    Case(
        "append",
        LANDSAT | {"output": {"append_to": "s3://elsewhere/a.zarr"}},
        "RequestError",
        "output.append_to: write the name of a cube",
    ),
    Case("files", LANDSAT | {"limits": {"files": 7}}, "BudgetError", "7 files"),
)


@pytest.mark.long
@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.id)
def test_plan_gather_refuses_with_a_sentence(case: Case, machine: StateMachine) -> None:
    """The answer has the error's class and says what to do. Nothing is written."""
    for key, content in case.objects.items():
        machine.s3.put_object(Bucket="sources", Key=key, Body=content)

    verdict = machine.planned(case.request)

    assert verdict.keys() == {"verdict", "error", "cause"}
    assert (verdict["verdict"], verdict["error"]) == ("refused", case.error)
    assert case.says in verdict["cause"]
    assert machine.s3.list_objects_v2(Bucket="cubes")["KeyCount"] == 0


@pytest.mark.long
def test_plan_gather_refuses_a_place_that_another_request_holds(machine: StateMachine) -> None:
    """The error says how to keep both cubes."""
    named = LANDSAT | {"output": {"name": "mine"}}
    machine.planned(named)

    verdict = machine.planned(named | {"window": {"pixels": [0, 0, 20, 20]}})

    assert (verdict["verdict"], verdict["error"]) == ("refused", "ArrayExistsError")
    assert "s3://cubes/out/mine.zarr" in verdict["cause"]
    assert "another output.name" in verdict["cause"]


@pytest.mark.long
def test_plan_gather_refuses_what_differs_from_the_archive(machine: StateMachine) -> None:
    """The first plan stores the archive beside the cubes. Others have the same codec."""
    first = machine.planned(LANDSAT | {"output": {"name": "one", "archive": "all", "codec": "zstd"}})
    stored = machine.s3.get_object(Bucket="cubes", Key="out/all.archive.json")["Body"].read()
    other = machine.planned(LANDSAT | {"output": {"name": "two", "archive": "all", "codec": "none"}})
    like = machine.planned(LANDSAT | {"output": {"name": "three", "archive": "all"}})

    assert (first["verdict"], like["verdict"]) == ("planned", "planned")
    assert "output.codec: the cube has zstd; the new rows would have none" in other["cause"]
    assert machine.s3.get_object(Bucket="cubes", Key="out/all.archive.json")["Body"].read() == stored


@pytest.mark.long
def test_plan_gather_refuses_while_the_months_budget_is_spent(machine: StateMachine) -> None:
    """Nothing is written, so the same request begins anew when the marker is gone or its month is over."""
    named = LANDSAT | {"output": {"name": "halted"}}
    machine.s3.put_object(Bucket="control", Key=HALTED_KEY, Body=halt_content(datetime.now(UTC), {}))
    try:
        refused = machine.planned(named)
        written = machine.s3.list_objects_v2(Bucket="cubes", Prefix="out/halted.zarr").get("KeyCount", 0)
        last_month = halt_content(datetime(2026, 1, 31, tzinfo=UTC), {})
        machine.s3.put_object(Bucket="control", Key=HALTED_KEY, Body=last_month)
        planned = machine.planned(named)
    finally:
        machine.s3.delete_object(Bucket="control", Key=HALTED_KEY)

    assert (refused["verdict"], refused["error"]) == ("refused", "HaltedError")
    assert refused["cause"].startswith("this deployment has spent its budget of the month")
    assert written == 0
    assert planned["verdict"] == "planned"


def test_every_refusal_is_one_that_operators_are_not_told_of(machine: StateMachine) -> None:
    """The notice of failed gathers leaves out these errors and no others."""
    named = {error.__name__ for error in get_args(get_type_hints(machine.plan.refuse)["error"])}

    assert named | {HaltedError.__name__} == set(REFUSALS)


def test_plan_gather_counts_refusals(machine: StateMachine, capsys: pytest.CaptureFixture[str]) -> None:
    """Refusals are a metric without the names of gathers."""
    machine.planned({})

    [record] = records(capsys.readouterr().out, with_="_aws")
    assert record["GathersRefused"] == [1]


def test_plan_gather_lowers_a_requests_limits_to_the_deployments(
    s3: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request for more gets the deployment's limits."""
    del s3
    limits = '{"usd": 10, "files": 3, "workers": 5, "failed_shards": 0.1}'
    with cold_start(monkeypatch, "plan_gather", PIXEL_GATHER_LIMITS=limits) as module:
        asked = {"files": 1000, "workers": 50, "failed_shards": 1}
        event = {"request": LANDSAT | {"limits": asked}, "execution": "x"}
        refused = module.handler(event, Context())
        event["request"] = {
            "sources": {"prefix": "s3://sources/landsat", "glob": "*201801*.TIF"},
            "window": "centre",
            "limits": asked,
        }
        planned = module.handler(event, Context())

    assert "more than 3 files" in refused["cause"]
    assert (planned["workers"], planned["failed_shards"]) == (5, 10)


def test_a_list_may_have_as_many_files_as_the_limit(machine: StateMachine) -> None:
    """The plan asks for them no faster than the request allows, whatever the request before has allowed."""
    pace = {}
    for per_s in (50, 40):
        limits = {"files": 8, "requests_per_s": {"s3://sources": per_s}}
        verdict = machine.planned(LANDSAT | {"limits": limits, "output": {"name": f"at-{per_s}"}})
        pace[per_s] = machine.plan.deployment.budgets.governor("s3://sources").budget
        assert verdict["verdict"] == "planned"

    assert pace == {each: Budget(per_s=each, n_workers=1) for each in (50, 40)}


def test_a_request_that_names_no_workers_asks_for_no_number(machine: StateMachine) -> None:
    """The plan may choose fewer workers than allowed. Others would only wait and be billed."""
    module = machine.plan
    settings = module.settings

    asked = [
        module.admit(parse_request(LANDSAT | {"limits": limits}), settings).limits.workers
        for limits in ({}, {"workers": 3}, {"workers": 9000})
    ]

    assert settings.limits["workers"] == 500
    assert asked == [None, 3, 500]


@pytest.mark.long
def test_plan_gather_reads_an_uploaded_list(machine: StateMachine) -> None:
    """A list in the control bucket is read, but no source there. It may not have relative hrefs."""
    hrefs = ["s3://sources/landsat/" + name for name in _names(machine.s3)]
    machine.s3.put_object(Bucket="control", Key="lists/ab.txt", Body="\n".join(hrefs).encode())
    machine.s3.put_object(Bucket="control", Key="lists/relative.txt", Body=b"a.tif\n")

    result = machine.run(LANDSAT | {"sources": "s3://control/lists/ab.txt"})
    refused = machine.run(LANDSAT | {"sources": "s3://control/lists/relative.txt"})

    assert result["status"] == {"ok": 8}
    assert "relative.txt line 1: 'a.tif' has no folder to start from" in refused["cause"]


def test_plan_gather_raises_what_another_try_can_mend(s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bucket that refuses is an error to retry, not a refusal of the request."""
    del s3
    with (
        cold_start(monkeypatch, "plan_gather", PIXEL_GATHER_CONTROL_BUCKET="not-there") as module,
        pytest.raises(Exception, match="could not be") as raised,
    ):
        module.handler({"request": LANDSAT, "execution": "x"}, Context())

    assert type(raised.value).__name__ == "StoreError"


def _names(s3: Any) -> Iterator[str]:
    for item in s3.list_objects_v2(Bucket="sources", Prefix="landsat/")["Contents"]:
        yield item["Key"].removeprefix("landsat/")
