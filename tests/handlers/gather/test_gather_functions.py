"""The three functions of a gather, one after another as the state machine calls them."""

import asyncio
import json
import sys
from copy import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import xarray as xr
from obstore.store import S3Store
from zarr.storage import ObjectStore

from handlers.deployment.settings import SourceBucket
from pixel_gather.core.errors import GatherCancelledError, StoreError
from pixel_gather.core.halt_marker import cancelled_key
from pixel_gather.core.request.request import parse_request
from pixel_gather.core.stores import ROOT_KEY, FoundCube
from pixel_gather.io.cube.zarr_cube import ZarrCube
from support.lambda_functions import EXECUTION, REGION, Context, StateMachine, records, remove_objects
from support.undrawn import bare, gather_undrawn

pytestmark = pytest.mark.usefixtures("without_hedges")

SERIES = Path(__file__).parents[2] / "data/series/files"
LANDSAT = sorted(SERIES.glob("gdalcubes/*_B2.TIF"))
IN_SHARDS = {"layout": {"chunk": [1, 64, 64], "shard_rows": 3}}
REQUEST: dict[str, Any] = {
    "sources": {"prefix": "s3://sources/landsat"},
    "window": {"pixels": [10, 20, 100, 90]},
    "output": IN_SHARDS,
}
NAME = parse_request(REQUEST).cube_name


def test_gather_by_functions_equals_the_one_in_process(machine: StateMachine, tmp_path: Path) -> None:
    """The functions and the process make the same digest and the same cube."""
    local = gather_undrawn(
        REQUEST | {"sources": {"hrefs": [str(file) for file in LANDSAT], "time": "auto"}},
        to=tmp_path / "cube",
    )

    result = machine.run(REQUEST)

    assert result["digest"] == local.report.digest
    assert result["status"] == {"ok": 8}
    assert (result["n_shards"], result["n_lost_shards"], result["n_failed"]) == (3, 0, 0)
    assert result["cube"] == f"s3://cubes/out/{NAME}.zarr"
    assert result["usd"] > 0
    *same, of_prices = result["warnings"]
    assert same == list(local.report.warnings) != []
    assert of_prices.startswith("the dollars are by the prices of us-east-1")
    cube = _cube(NAME)
    assert cube.attrs["complete"] == 1
    xr.testing.assert_equal(bare(cube), bare(xr.open_zarr(tmp_path / "cube")))
    assert cube.href.values.tolist() == [f"s3://sources/landsat/{file.name}" for file in LANDSAT]


@pytest.mark.long
def test_chips_by_functions_equal_those_in_process(machine: StateMachine, tmp_path: Path) -> None:
    """A table of chips beside the sources is read by the plan, and its tasks are those of rows."""
    lines = [f"c{n},{560_000 + n * 40_000},{4_540_000 - n % 2 * 90_000},{n % 2}" for n in range(5)]
    table = "\n".join(["id,x,y,label", *lines]).encode()
    (tmp_path / "chips.csv").write_bytes(table)
    machine.s3.put_object(Bucket="sources", Key="chips.csv", Body=table)
    windows = {"size": [16, 12], "crs": "EPSG:32618"}
    local = gather_undrawn(
        {
            "sources": {"hrefs": [str(file) for file in LANDSAT], "time": "auto"},
            "windows": windows | {"table": str(tmp_path / "chips.csv")},
        },
        to=tmp_path / "cube",
    )
    request = {
        "sources": {"prefix": "s3://sources/landsat"},
        "windows": windows | {"table": "s3://sources/chips.csv"},
    }

    result = machine.run(request)

    assert result["digest"] == local.report.digest
    cube = _cube(parse_request(request).cube_name)
    assert cube["band_1"].dims == ("chip", "time", "y", "x")
    np.testing.assert_array_equal(cube["band_1"], xr.open_zarr(tmp_path / "cube")["band_1"])
    assert result["status"]["ok"] > 0
    assert machine.planned(request)["verdict"] == "complete"


@pytest.mark.long
def test_finish_gather_writes_the_report_into_the_cubes_folder(machine: StateMachine) -> None:
    """The report has the fields of the result and all others. Its page has figures."""
    result = machine.run(REQUEST)

    report = _json(machine.s3, "cubes", result["report"].removeprefix("s3://cubes/"))
    assert result["report"] == f"s3://cubes/out/{NAME}.zarr/report.json"
    assert {name: report[name] for name in ("gather", "cube", "digest", "n_sources", "usd")} == {
        name: result[name] for name in ("gather", "cube", "digest", "n_sources", "usd")
    }
    assert sum(report["usd_by_service"].values()) == result["usd"]
    assert report["requests"] == result["requests"] > 8
    assert result["report_page"] == f"s3://cubes/out/{NAME}.zarr/report.html"
    page = machine.s3.get_object(Bucket="cubes", Key=f"out/{NAME}.zarr/report.html")
    assert page["ContentType"] == "text/html; charset=utf-8"
    content = page["Body"].read()
    assert NAME.encode() in content
    assert content.count(b"<svg") > 4


@pytest.mark.long
def test_finish_gather_draws_no_report_that_the_request_does_not_want(machine: StateMachine) -> None:
    """The cube has the page of its pixels, costs less, and is complete for the next who ask."""
    request = REQUEST | {"output": {"name": "bare", "report": False}}

    result = machine.run(request)

    found = machine.s3.list_objects_v2(Bucket="cubes", Prefix="out/bare.zarr/")["Contents"]
    names = {item["Key"].rpartition("/")[2] for item in found}
    assert (result["status"], result["report"], result["report_page"]) == ({"ok": 8}, None, None)
    assert names >= {"view.html", "receipt.json", "rows.parquet"}
    assert names.isdisjoint({"report.json", "report.txt", "report.html"})
    assert machine.planned(request) == {"verdict": "complete", "result": result}


@pytest.mark.long
def test_finish_gather_whose_report_cannot_be_drawn_ends_all_the_same(
    machine: StateMachine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The cube is complete without a page. The same request again draws the page."""

    def fail(*_: Any, **__: Any) -> None:
        raise MemoryError

    broken = ModuleType("broken")
    broken.report_files_of = fail  # type: ignore[attr-defined] # a module of our own
    verdict = machine.planned(REQUEST)
    for item in machine.manifest(verdict):
        machine.fill(verdict, [item])
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "pixel_gather.features.report.report_files", broken)
        result = machine.finished(verdict)
    asked_again = machine.planned(REQUEST)
    drawn = machine.finished(asked_again)

    assert (result["status"], result["report"], result["report_page"]) == ({"ok": 8}, None, None)
    assert "could not be drawn" in caplog.text
    assert (asked_again["verdict"], asked_again["n_missing"]) == ("planned", 0)
    assert drawn["report_page"] == f"s3://cubes/out/{NAME}.zarr/report.html"
    assert drawn | {"report": None, "report_page": None} == result
    assert machine.planned(REQUEST) == {"verdict": "complete", "result": drawn}


def test_plan_gather_tells_the_map_what_to_do(machine: StateMachine) -> None:
    """The verdict has the manifest, workers and tolerated failures, within the deployment's limits."""
    verdict = machine.planned(REQUEST | {"limits": {"workers": 9000, "failed_shards": 0.25}})

    assert verdict["verdict"] == "planned"
    name, _, claim = verdict["gather"].partition("/")
    assert name == NAME
    assert verdict["manifest"]["bucket"] == "control"
    assert verdict["manifest"]["key"].startswith(f"gathers/{NAME}/{claim}/manifests/")
    assert verdict["workers"] == 500
    assert (verdict["failed_shards"], verdict["tolerated_failure_percentage"]) == (25, 25)
    assert verdict["shard_limit_s"] == 120
    assert verdict["cube"] == f"s3://cubes/out/{NAME}.zarr"
    assert [item["index"] for item in machine.manifest(verdict)] == [0, 1, 2]
    summary = _json(machine.s3, "control", "summaries/by-hand.json")
    assert summary["gather"] == NAME
    assert summary["cube"] == verdict["cube"]
    assert (summary["n_sources"], summary["n_rows"], summary["n_shards"], summary["n_missing"]) == (
        8,
        8,
        3,
        3,
    )
    assert summary["shape"] == [8, 90, 100]
    assert summary["usd"] > 0
    assert summary["seconds"] > 0
    filled_with_0, in_strips, unlike, *_ = summary["warnings"]
    assert filled_with_0.startswith("the window lies partly outside 8 of 8 sampled sources")
    assert in_strips.startswith("8 of 8 sampled sources are stored in strips, not tiles")
    assert unlike.startswith("sampled sources do not share one grid")


def test_plan_gather_again_leaves_out_what_is_committed(machine: StateMachine) -> None:
    """Only shards that are not committed are in the next manifest, and the gather can be completed."""
    verdict = machine.planned(REQUEST)
    first = machine.manifest(verdict)[0]
    machine.fill(verdict, [first])

    again = machine.planned(REQUEST)

    assert [item["index"] for item in machine.manifest(again)] == [1, 2]
    assert machine.run(REQUEST)["status"] == {"ok": 8}


def test_gather_that_goes_on_keeps_to_the_limits_of_the_new_request(machine: StateMachine) -> None:
    """The worker that filled a shard without a budget follows it in the next execution, and then none."""
    ledger = "pace/s3-sources.json"

    def fill(index: int, execution: str, limits: dict[str, Any]) -> bool:
        verdict = machine.planned(REQUEST | {"limits": limits}, execution=execution)
        tasks = [task for task in machine.manifest(verdict) if task["index"] == index]
        machine.fill(verdict, tasks, execution=execution)
        found = machine.s3.list_objects_v2(Bucket="control", Prefix=ledger)
        machine.s3.delete_object(Bucket="control", Key=ledger)
        return bool(found["KeyCount"])

    assert not fill(0, "first", {})
    assert fill(1, "first-2", {"requests_per_s": {"s3://sources": 1000}})
    assert not fill(2, "first-3", {})


@pytest.mark.long
def test_plan_gather_of_a_complete_cube_answers_with_its_result(machine: StateMachine) -> None:
    """The same request again reads nothing, even if its control files have expired.

    Then no page can be drawn, and the result links only to existing files.
    """
    result = machine.run(REQUEST)
    remove_objects(machine.s3, "control")

    again = machine.run(REQUEST)
    machine.s3.delete_object(Bucket="cubes", Key=f"out/{NAME}.zarr/report.html")
    without_page = machine.planned(REQUEST)

    assert again == {"verdict": "complete", "result": result}
    assert without_page == {"verdict": "complete", "result": result | {"report_page": None}}


def test_gather_shard_twice_leaves_the_first_ones_bytes(
    machine: StateMachine, capsys: pytest.CaptureFixture[str]
) -> None:
    """Lambda may invoke a function twice for one event.

    The second one changes nothing and counts no source.
    """
    verdict = machine.planned(REQUEST)
    tasks = [machine.manifest(verdict)[1]]
    key = f"out/{NAME}.zarr/band_1/c/1/0/0"

    first = machine.fill(verdict, tasks)
    bytes_of_first = machine.s3.get_object(Bucket="cubes", Key=key)["Body"].read()
    second = machine.fill(verdict, tasks)

    assert machine.s3.get_object(Bucket="cubes", Key=key)["Body"].read() == bytes_of_first
    assert first["windows_read"] == second["windows_read"] == 3
    written = [each for each in records(capsys.readouterr().out, with_="_aws") if "shard_index" in each]
    assert len([each for each in written if "SourcesRead" in each]) == 1
    assert len([each for each in written if "SpentUsd" in each]) == len(written) - 1 == 2  # both are paid for
    assert machine.run(REQUEST)["status"] == {"ok": 8}


@pytest.mark.long
def test_gather_shard_that_is_late_leaves_it_to_a_fresh_worker(machine: StateMachine) -> None:
    """A first try stops within its limit and commits nothing. The second try has no such limit."""
    verdict = machine.planned(REQUEST)
    tasks = [machine.manifest(verdict)[1]]

    with pytest.raises(Exception, match="not filled in time") as raised:
        machine.fill(verdict, tasks, limit_s=0)

    assert type(raised.value).__name__ == "ShardLateError"
    assert [item["index"] for item in machine.manifest(machine.planned(REQUEST))] == [0, 1, 2]
    assert machine.fill(verdict, tasks)["windows_read"] == 3
    assert machine.run(REQUEST)["status"] == {"ok": 8}


@pytest.mark.long
def test_gather_shard_fills_all_shards_of_its_item(
    machine: StateMachine, caplog: pytest.LogCaptureFixture
) -> None:
    """One invocation logs one line for each shard and returns the totals."""
    verdict = machine.planned(REQUEST)
    tasks = machine.manifest(verdict)

    answer = machine.fill(verdict, tasks, limit_s=120)

    lines = [each for each in caplog.records if each.getMessage() == "shard finished"]
    assert [vars(each)["shard_index"] for each in lines] == [0, 1, 2]
    assert [each["shard_index"] for each in answer["shards"]] == [0, 1, 2]
    assert (answer["windows_read"], answer["windows_failed"]) == (8, 0)
    assert machine.manifest(machine.planned(REQUEST)) == []
    assert machine.finished(verdict)["status"] == {"ok": 8}


@pytest.mark.long
def test_gather_shard_goes_on_in_another_try_with_the_shards_that_it_had_no_time_for(
    machine: StateMachine,
) -> None:
    """Committed shards are not changed, so each try gets further."""
    verdict = machine.planned(REQUEST)
    tasks = machine.manifest(verdict)

    for left in ([1, 2], [2]):
        with pytest.raises(Exception, match="too short for more") as raised:
            machine.fill(verdict, tasks[-len(left) - 1 :], late_s=120, left_s=30)
        assert type(raised.value).__name__ == "ShardsLeftError"
        assert [task["index"] for task in machine.manifest(machine.planned(REQUEST))] == left


@pytest.mark.long
def test_plan_gather_gives_each_worker_its_own_shard_where_there_are_enough(machine: StateMachine) -> None:
    """Three shards are three children of the smaller function, because they fit it."""
    verdict = machine.planned(REQUEST)

    assert [len(item) for item in machine.items(verdict)] == [1, 1, 1]
    assert verdict["worker_size"] == 0
    assert verdict["late_shard_s"] == 900
    one_worker = machine.planned(REQUEST | {"limits": {"workers": 1}, "output": IN_SHARDS | {"name": "one"}})
    assert [len(item) for item in machine.items(one_worker)] == [3]


@pytest.mark.long
def test_plan_gather_prices_and_tells_of_sources_in_another_region(
    machine: StateMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The price has the transfer, so that limits count it. The plan says how to avoid it."""
    settings = replace(
        machine.plan.planner.deployment.settings,
        source_buckets=(SourceBucket(name="sources", region="us-west-2"),),
    )
    near = machine.planned(REQUEST)
    monkeypatch.setattr(machine.plan.planner.deployment, "settings", settings)
    far = machine.planned(REQUEST | {"output": IN_SHARDS | {"name": "far"}})

    summary = _json(machine.s3, "control", "summaries/by-hand.json")
    assert (near["verdict"], far["verdict"]) == ("planned", "planned")
    [warning] = [each for each in summary["warnings"] if "us-west-2" in each]
    assert warning.startswith("8 sources lie in the bucket sources in us-west-2, but the workers run in ")
    refused = machine.planned(
        REQUEST | {"output": IN_SHARDS | {"name": "capped"}, "limits": {"usd": summary["usd"] * 0.999}}
    )
    assert refused["error"] == "BudgetError"


@pytest.mark.long
def test_warm_worker_goes_from_one_gather_to_another_and_back(machine: StateMachine, tmp_path: Path) -> None:
    """The worker uses the plan and memory of the current gather."""
    other = REQUEST | {"sources": {"prefix": "s3://sources/heat"}, "window": {"pixels": [0, 0, 30, 20]}}
    verdict, other_verdict = machine.planned(REQUEST), machine.planned(other)
    items, other_items = machine.manifest(verdict), machine.manifest(other_verdict)

    for item, other_item in zip(items, [*other_items, None], strict=False):
        machine.fill(verdict, [item])
        if other_item is not None:
            machine.fill(other_verdict, [other_item])

    files = sorted(SERIES.glob("stactools-noaa-cdr/heat_content_anomaly_0-2000*.tif"))
    local = gather_undrawn(REQUEST | {"sources": [str(file) for file in LANDSAT]}, to=tmp_path / "a")
    other_local = gather_undrawn(other | {"sources": [str(file) for file in files]}, to=tmp_path / "b")
    assert machine.finished(verdict)["digest"] == local.report.digest
    assert machine.finished(other_verdict)["digest"] == other_local.report.digest


class _MeetingControl:
    """Control files of S3. The first ones are answered only after all of them are requested."""

    def __init__(self, control: Any, meeting: asyncio.Barrier, asked: list[str]) -> None:
        self._control = control
        self._meeting = meeting
        self._asked = asked

    async def get(self, key: str) -> bytes | None:
        await self._meet(key)
        content: bytes | None = await self._control.get(key)
        return content

    async def get_range(self, key: str, start: int, stop: int) -> bytes:
        await self._meet(key)
        content: bytes = await self._control.get_range(key, start, stop)
        return content

    async def put(self, key: str, content: bytes) -> None:
        await self._control.put(key, content)

    async def put_new(self, key: str, content: bytes) -> bool:
        was_put: bool = await self._control.put_new(key, content)
        return was_put

    async def _meet(self, key: str) -> None:
        self._asked.append(key)
        if len(self._asked) <= self._meeting.parties:
            async with asyncio.timeout(10):
                await self._meeting.wait()


@pytest.mark.long
def test_cold_worker_asks_for_all_its_control_files_at_one_time(
    machine: StateMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plan, list and the cube's metadata take one round trip before the first source, not three."""
    verdict = machine.planned(REQUEST)
    deployment, meeting = machine.shard.worker.deployment, asyncio.Barrier(3)
    asked: list[str] = []

    def control(gather: str, *, may_list: bool, real: Any = deployment.control) -> _MeetingControl:
        return _MeetingControl(real(gather, may_list=may_list), meeting, asked)

    async def look(cube: ZarrCube) -> FoundCube | None:
        if len(asked) < meeting.parties:  # not before it writes
            asked.append(ROOT_KEY)
            async with asyncio.timeout(10):
                await meeting.wait()
        return await find(cube)

    find = ZarrCube.found_among_files
    monkeypatch.setattr(deployment, "control", control)
    monkeypatch.setattr(ZarrCube, "found_among_files", look)

    answer = machine.fill(verdict, [machine.manifest(verdict)[0]])

    assert sorted(asked[:3]) == ["plan.msgpack", "sources.msgpack", ROOT_KEY]
    assert (answer["windows_read"], answer["windows_failed"]) == (3, 0)


@pytest.mark.long
def test_shard_and_finish_of_an_earlier_plan_are_refused(machine: StateMachine) -> None:
    """After the cube was removed and planned anew, a redrive of the old plan leaves it alone."""
    old = machine.planned(REQUEST | {"output": {"name": "mine", **IN_SHARDS}})
    for item in machine.manifest(old):
        machine.fill(old, [item])
    remove_objects(machine.s3, "cubes")
    new_layout = {"layout": {"chunk": [1, 64, 64], "shard_rows": 2}}
    new = machine.planned(REQUEST | {"output": {"name": "mine", **new_layout}})

    machine.fill(new, [machine.manifest(new)[0]])
    with pytest.raises(Exception, match="planned anew") as of_shard:
        machine.fill(old, [machine.manifest(old)[0]])
    with pytest.raises(Exception, match="planned anew since") as of_finish:
        machine.finished(old)

    assert {type(raised.value).__name__ for raised in (of_shard, of_finish)} == {"ArrayExistsError"}
    assert _json(machine.s3, "cubes", "out/mine.zarr/zarr.json")["attributes"]["complete"] == 0


@pytest.mark.long
def test_warm_worker_keeps_gdal_for_the_next_shard(machine: StateMachine, tmp_path: Path) -> None:
    """GDAL's child processes outlive an invocation."""
    files = sorted(SERIES.glob("mapchete-eo/*.jp2"))
    for file in files:
        machine.s3.upload_file(str(file), "sources", f"jp2/{file.name}")
    request = {
        "window": {"pixels": [5, 5, 20, 20]},
        "output": {"layout": {"chunk": [1, 20, 20], "shard_rows": 1}},
    }

    result = machine.run(request | {"sources": {"prefix": "s3://sources/jp2"}})

    local = gather_undrawn(request | {"sources": [str(file) for file in files]}, to=tmp_path / "cube")
    assert (result["status"], result["n_shards"]) == ({"ok": len(files)}, len(files))
    assert result["digest"] == local.report.digest


@pytest.mark.long
def test_append_waits_for_another_one(machine: StateMachine) -> None:
    """It is a verdict and no error: nobody is called at night for it. Afterwards it is planned."""
    hrefs = [f"s3://sources/landsat/{file.name}" for file in LANDSAT]
    append = {"window": REQUEST["window"], "output": {"append_to": "grows"}}
    machine.run(REQUEST | {"sources": hrefs[:4], "output": IN_SHARDS | {"name": "grows"}})
    at_work = machine.planned(append | {"sources": hrefs[4:6]}, execution="one")
    waiting = machine.planned(append | {"sources": hrefs[6:]}, execution="other")
    begun = (datetime.now(UTC) - timedelta(hours=2)).isoformat()
    late = machine.planned(append | {"sources": hrefs[6:]}, execution="other", started_at=begun)
    summary = _json(machine.s3, "control", "summaries/other.json")
    for item in machine.items(at_work):
        machine.fill(at_work, item, limit_s=60)
    machine.finished(at_work)
    planned = machine.planned(append | {"sources": hrefs[6:]}, execution="other")

    assert waiting["verdict"] == "waiting"
    assert 15 <= waiting["wait_s"] <= 45
    assert 75 <= late["wait_s"] <= 135
    assert "another append" in waiting["cause"]
    assert summary == {"is_waiting": True}
    assert planned["verdict"] == "planned"


@pytest.mark.long
def test_append_tells_how_many_failed_sources_it_has_read_again(machine: StateMachine) -> None:
    """It adds no row, and it is not nothing: the bytes of two files have come since."""
    hrefs = [f"s3://sources/landsat/{file.name}" for file in LANDSAT[:4]]
    late = ["late-b.TIF", "late-c.TIF"]
    hrefs += [f"s3://sources/landsat/{name}" for name in late]
    first = machine.run(REQUEST | {"sources": hrefs, "output": IN_SHARDS | {"name": "late"}})
    try:
        machine.s3.put_object(Bucket="sources", Key=f"landsat/{late[0]}", Body=LANDSAT[4].read_bytes())
        append = {"window": REQUEST["window"], "output": {"append_to": "late"}, "sources": hrefs}
        result = machine.run(append)
    finally:
        machine.s3.delete_object(Bucket="sources", Key=f"landsat/{late[0]}")

    told = ("n_appended", "n_retried", "n_read_again", "n_recovered")
    assert [first[name] for name in told] == [None, 0, 0, 0]
    assert [result[name] for name in told] == [0, 2, 1, 1]


@pytest.mark.long
def test_map_bears_a_whole_percentage_and_finish_judges_exactly(machine: StateMachine) -> None:
    """AWS documents the map's tolerance as an integer. One bad shard of ten may not stop the others."""
    for share, exact, whole in ((0, 0, 10), (0.007, 0.7, 10), (0.251, 25.1, 26)):
        verdict = machine.planned(REQUEST | {"limits": {"failed_shards": share}})

        assert verdict["failed_shards"] == exact
        assert verdict["tolerated_failure_percentage"] == whole
        assert isinstance(verdict["tolerated_failure_percentage"], int)


@pytest.mark.long
def test_lost_shard_is_tolerated_where_the_request_allows_it(machine: StateMachine) -> None:
    """Its rows get the status lost, and the cube is complete."""
    machine.lost = {1}

    result = machine.run(REQUEST | {"limits": {"failed_shards": 0.4}})

    assert result["status"] == {"ok": 5, "lost": 3}
    assert (result["n_failed"], result["n_lost_shards"]) == (3, 1)
    assert _cube(NAME).status.values.tolist() == [0, 0, 0, 10, 10, 10, 0, 0]


@pytest.mark.long
def test_lost_shard_fails_the_finish_where_none_may_be(machine: StateMachine) -> None:
    """The error says what to do."""
    machine.lost = {1}

    with pytest.raises(Exception, match="1 of 3 shards have not been gathered") as raised:
        machine.run(REQUEST)

    assert type(raised.value).__name__ == "ShardsMissingError"


@pytest.mark.long
def test_shards_tell_every_time_of_every_source(
    machine: StateMachine, capsys: pytest.CaptureFixture[str]
) -> None:
    """Metrics have each source's times, with the gather and the shard as properties and two dimensions."""
    hrefs = [f"s3://sources/landsat/{file.name}" for file in LANDSAT]
    capsys.readouterr()

    machine.run(REQUEST | {"sources": [*hrefs[:7], "s3://sources/landsat/not-there.tif"]})

    emitted = records(capsys.readouterr().out, with_="_aws")
    shards = [each for each in emitted if "SourcesRead" in each]
    assert [each["shard_index"] for each in shards] == [0, 1, 2]
    assert [each["shard_index"] for each in emitted if "SpentUsd" in each] == [0, 1, 2]
    assert {tuple(each["_aws"]["CloudWatchMetrics"][0]["Dimensions"][0]) for each in emitted} == {
        ("service", "stage")
    }
    assert {each["stage"] for each in emitted} == {"test"}
    for name in ("SourceOpenSeconds", "SourceReadSeconds", "SourceTotalSeconds"):
        assert [len(each[name]) for each in shards] == [3, 3, 2]
    assert [each["SourcesFailed"] for each in shards] == [[0], [0], [1]]
    assert shards[2]["SourcesMissing"] == [1]
    assert emitted[-1]["GatherSeconds"][0] > 0
    assert emitted[-1]["GatherUsd"][0] > 0


@pytest.mark.long
def test_shard_logs_one_line_with_fixed_keys(machine: StateMachine, caplog: pytest.LogCaptureFixture) -> None:
    """The message is constant, and the values are in keys."""
    verdict = machine.planned(REQUEST)
    item = machine.manifest(verdict)[0]
    caplog.clear()

    machine.fill(verdict, [item])

    [record] = [each for each in caplog.records if each.name == "pixel-gather"]
    line = json.loads(machine.shard.logger.registered_formatter.format(record))
    assert line["message"] == "shard finished"
    assert line["gather_id"] == NAME
    assert line["shard_index"] == 0
    assert (line["windows_read"], line["windows_failed"]) == (3, 0)
    assert line["decoded_bytes"] == 3 * 90 * 100 * 2
    assert line["requests"] > 3
    assert line["fetched_bytes"] > 0
    assert {
        "read_s",
        "measure_s",
        "write_s",
        "peak_rss_mib",
        "function_request_id",
        "cold_start",
    } <= line.keys()


@pytest.mark.long
def test_sources_still_unread_when_time_is_up_time_out(machine: StateMachine) -> None:
    """The worker commits what it has read before Lambda ends it."""
    verdict = machine.planned(REQUEST)
    item = machine.manifest(verdict)[0]

    answer = machine.fill(verdict, [item], left_s=0.0)

    assert (answer["windows_read"], answer["windows_failed"]) == (0, 3)


@pytest.mark.long
def test_store_that_refuses_fails_the_shard_by_the_name_that_is_retried(machine: StateMachine) -> None:
    """The error's class is StoreError, which the state machine retries by name."""
    verdict = machine.planned(REQUEST)
    item = machine.manifest(verdict)[0]
    remove_objects(machine.s3, "control")

    with pytest.raises(Exception, match="was never planned") as raised:
        machine.fill(verdict, [item])

    assert type(raised.value).__name__ == "StoreError"


def _json(s3: Any, bucket: str, key: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(s3.get_object(Bucket=bucket, Key=key)["Body"].read())
    return found


def _cube(name: str) -> xr.Dataset:
    store = S3Store("cubes", prefix=f"out/{name}.zarr", region=REGION, client_options={"allow_http": True})
    cube: xr.Dataset = xr.open_zarr(ObjectStore(store, read_only=True))
    return cube


@pytest.mark.long
def test_gather_with_the_index_of_an_earlier_one_takes_half_the_requests(machine: StateMachine) -> None:
    """An index inside a cube is named by its href. Workers get the packed headers of their shard."""
    first = machine.run(REQUEST)
    index = f"{first['cube']}/headers.parquet"
    with_index = REQUEST | {"index": index, "output": IN_SHARDS | {"name": "again"}}

    second = machine.run(with_index)

    assert second["digest"] == first["digest"]
    assert second["requests"] == first["requests"] - 8
    report = _json(machine.s3, "cubes", second["report"].removeprefix("s3://cubes/"))
    assert (report["n_known"], report["n_stale"], report["n_unfit"]) == (8, 0, 0)
    assert parse_request(REQUEST | {"index": index}).cube_name == NAME


@pytest.mark.long
def test_sources_whose_windows_are_cut_into_strips_count_once(
    machine: StateMachine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The metrics count each source once, although it is in three shards."""
    small = replace(machine.plan.deployed_workers(machine.plan.settings), max_task_nbytes=7000)
    monkeypatch.setattr(machine.plan, "deployed_workers", lambda _: small)  # such windows have gigabytes else

    result = machine.run(REQUEST | {"output": {"layout": {"chunk": [1, 32, 100]}}})

    emitted = records(capsys.readouterr().out, with_="_aws")
    assert result["n_shards"] == 3 * 8
    assert [each["SourcesRead"] for each in emitted if "SourcesRead" in each] == [[8]]
    assert [each["SourcesFailed"] for each in emitted if "SourcesFailed" in each] == [[0]]


@pytest.mark.long
def test_workers_and_finish_of_a_cancelled_gather_do_nothing_more(machine: StateMachine) -> None:
    """Workers end without an error, which would ring an alarm. Finish says it. A later execution goes on."""
    verdict = machine.planned(REQUEST)
    first, *_ = machine.manifest(verdict)
    machine.fill(verdict, [first], limit_s=60)
    machine.s3.put_object(Bucket="control", Key=cancelled_key(EXECUTION), Body=b"{}")

    after = machine.fill(verdict, machine.manifest(verdict)[1:], limit_s=60)

    assert after["shards"] == []
    with pytest.raises(GatherCancelledError, match="was cancelled: submit its request again"):
        machine.finished(verdict)
    again = machine.planned(REQUEST, execution="another")
    assert (again["gather"], again["n_missing"]) == (verdict["gather"], 2)
    machine.fill(again, machine.manifest(again), execution="another", limit_s=60)
    assert machine.finished(again)["status"] == {"ok": 8}


@pytest.mark.long
def test_small_gather_has_its_items_in_the_verdict(machine: StateMachine) -> None:
    """So it needs no Map Run. Another attempt has one, as well as a gather whose map has to bear failures."""
    small = machine.planned(REQUEST | {"output": IN_SHARDS | {"name": "small"}})
    items = machine.items(small)
    item, *_ = items
    machine.fill(small, item, limit_s=60)
    again = machine.planned(REQUEST | {"output": IN_SHARDS | {"name": "small"}})
    limited = machine.planned(
        REQUEST | {"output": IN_SHARDS | {"name": "limited"}, "limits": {"workers": 500}}
    )
    losing = machine.planned(
        REQUEST | {"output": IN_SHARDS | {"name": "losing"}, "limits": {"failed_shards": 0.5}}
    )
    summary = _json(machine.s3, "control", f"summaries/{EXECUTION}.json")

    assert small["items"] == items
    assert [task["index"] for (task,) in items] == [0, 1, 2]
    assert again["n_missing"] == 2
    assert not [each for each in (again, limited, losing) if "items" in each]
    assert summary["is_inline"] is False


@pytest.mark.long
def test_early_finish_loads_the_plan_and_changes_nothing(machine: StateMachine) -> None:
    """It is called while the shards are filled. The plan is used once, so another try reads it again."""
    verdict = machine.planned(REQUEST | {"output": IN_SHARDS | {"name": "early"}})
    early = {"gather": verdict["gather"], "execution": EXECUTION, "is_early": True}
    before = _keys(machine.s3)
    assert machine.finish.handler(early, Context()) is None
    assert _keys(machine.s3) == before
    for item in verdict["items"]:
        machine.fill(verdict, item, limit_s=60)
    plan = f"gathers/{verdict['gather']}/plan.msgpack"
    content = machine.s3.get_object(Bucket="control", Key=plan)["Body"].read()
    machine.s3.delete_object(Bucket="control", Key=plan)

    result = machine.finished(verdict)
    with pytest.raises(StoreError, match=r"plan\.msgpack"):
        machine.finished(verdict)

    machine.s3.put_object(Bucket="control", Key=plan, Body=content)
    assert machine.finished(verdict) == result
    assert result["status"] == {"ok": 8}


def test_plan_that_was_loaded_early_is_that_of_its_execution_alone(machine: StateMachine) -> None:
    """The first execution was cancelled before its finish. The next one goes on under other limits."""
    output = IN_SHARDS | {"name": "early"}
    first = machine.planned(REQUEST | {"output": output}, execution="first")
    early = {"gather": first["gather"], "execution": "first", "is_early": True}
    machine.finish.handler(early, Context())
    second = machine.planned(REQUEST | {"output": output | {"report": False}}, execution="second")
    for item in second["items"]:
        machine.fill(second, item, execution="second")

    result = machine.finished(second)

    assert second["gather"] == first["gather"]
    assert result["report_page"] is None


def test_early_finish_of_a_gather_without_a_plan_is_no_error(machine: StateMachine) -> None:
    """Whatever is wrong, the finish itself says it, when its turn comes."""
    gather = "nowhere/20261125T000000.000000Z"

    early = {"gather": gather, "execution": EXECUTION, "is_early": True}
    assert machine.finish.handler(early, Context()) is None
    with pytest.raises(StoreError, match=r"plan\.msgpack"):
        machine.finished({"gather": gather, "failed_shards": 0})


def _keys(s3: Any) -> dict[str, str]:
    """Return the ETags of all objects that a gather writes."""
    return {
        f"{bucket}/{each['Key']}": each["ETag"]
        for bucket in ("control", "cubes")
        for each in s3.list_objects_v2(Bucket=bucket).get("Contents", ())
    }
