"""One gather over many shards and several workers: all sources arrive, and a failure stays small.

On AWS each worker has a log stream. The emulator starts one for every invocation, so workers are
distinguished by their logs: when they started, and how long each shard took.
"""

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
import xarray as xr

from e2e.api import ENDED, UNDRAWN, call, execution_arn, gathered, refused_writes, wait_for
from e2e.test_gathers import DATA, IN_SAMPLES, SERIES, WINDOW, opened
from pixel_gather_emulator.deploy import DeployedStack
from support.undrawn import gather_undrawn

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

N_SOURCES: Final = 200
SHARD_ROWS: Final = 8
N_SHARDS: Final = N_SOURCES // SHARD_ROWS
N_WORKERS: Final = 2
LAYOUT: Final = {"chunk": [4, 97, 85], "shard_rows": SHARD_ROWS}
POLL_S: Final = 0.3

type Interval = tuple[datetime, datetime]


@dataclass(frozen=True, kw_only=True)
class Filled:
    """A worker's log entry about a shard that it filled."""

    index: int
    invocation: str
    was_cold: bool
    at_work: Interval
    """The interval by the worker's own clock. It lies inside one invocation."""


def source_list(folder: str) -> str:
    """Return a list that names the samples many times, each time with another day."""
    lines = (
        f"{folder}/{SERIES[n % len(SERIES)]},{date(1990, 1, 1) + timedelta(days=n)},n{n}\n"
        for n in range(N_SOURCES)
    )
    return "href,time,note\n" + "".join(lines)


@pytest.fixture(scope="module")
def listed(deployment: DeployedStack) -> str:
    """Put the list beside the samples and return its href."""
    bucket, key = deployment.samples.bucket, "many/sources.csv"
    text = source_list(f"s3://{bucket}/{IN_SAMPLES}")
    deployment.client("s3").put_object(Bucket=bucket, Key=key, Body=text.encode())
    return f"s3://{bucket}/{key}"


@dataclass(frozen=True)
class InProcess:
    """The same gather in this process."""

    place: Path
    digest: str


@pytest.fixture(scope="module")
def in_process(tmp_path_factory: pytest.TempPathFactory) -> InProcess:
    """Gather the same files here."""
    folder = tmp_path_factory.mktemp("many")
    (folder / "sources.csv").write_text(source_list(str(DATA / IN_SAMPLES)))
    request = {"sources": str(folder / "sources.csv"), "window": WINDOW, "output": {"layout": LAYOUT}}
    here = gather_undrawn(request, to=folder / "cube.zarr")
    return InProcess(folder / "cube.zarr", here.report.digest)


def requested(name: str, listed: str, **limits: float) -> dict[str, Any]:
    """Return the request with its own output name."""
    return {
        "sources": listed,
        "window": WINDOW,
        "output": UNDRAWN | {"name": name, "layout": LAYOUT},
        "limits": {"workers": N_WORKERS, **limits},
    }


def map_run(deployment: DeployedStack, id_: str) -> dict[str, Any] | None:
    """Describe the Map Run of a gather, or return None before it begins."""
    states = deployment.client("stepfunctions")
    arn = execution_arn(deployment, id_)
    runs = states.list_map_runs(executionArn=arn)["mapRuns"]
    if not runs:
        return None
    found: dict[str, Any] = states.describe_map_run(mapRunArn=runs[0]["mapRunArn"])
    return found


def children(deployment: DeployedStack, run: dict[str, Any]) -> dict[int, dict[str, Any]]:
    """Describe the executions of a Map Run that have begun, by the shard of each."""
    states = deployment.client("stepfunctions")
    pages = states.get_paginator("list_executions").paginate(mapRunArn=run["mapRunArn"])
    found = [
        states.describe_execution(executionArn=child["executionArn"])
        for page in pages
        for child in page["executions"]
    ]
    return {task["index"]: child for child in found for task in json.loads(child["input"])["tasks"]}


def n_events(deployment: DeployedStack, child: dict[str, Any], type_: str) -> int:
    """Count the events of one kind in the history of an execution."""
    states = deployment.client("stepfunctions")
    history = states.get_execution_history(executionArn=child["executionArn"])["events"]
    return sum(event["type"] == type_ for event in history)


def filled_shards(deployment: DeployedStack, gather_id: str) -> list[Filled]:
    """Return what the workers of a gather logged."""
    logs = deployment.client("logs")
    groups = logs.get_paginator("describe_log_groups").paginate()
    names = [
        group["logGroupName"]
        for page in groups
        for group in page["logGroups"]
        if "ShardLog" in group["logGroupName"]
    ]
    lines = (
        json.loads(event["message"])
        for name in names
        for page in logs.get_paginator("filter_log_events").paginate(
            logGroupName=name, filterPattern='"shard finished"'
        )
        for event in page["events"]
        if event["message"].startswith("{")
    )
    return [
        _filled(line)
        for line in lines
        if line.get("message") == "shard finished" and line["gather_id"] == gather_id
    ]


def _filled(line: dict[str, Any]) -> Filled:
    end = datetime.strptime(line["timestamp"], "%Y-%m-%d %H:%M:%S,%f%z")
    begin = end - timedelta(seconds=line["read_s"] + line["measure_s"] + line["write_s"])
    return Filled(
        index=line["shard_index"],
        invocation=line["function_request_id"],
        was_cold=line["cold_start"],
        at_work=(begin, end),
    )


def most_at_once(intervals: Iterable[Interval]) -> int:
    """Return the largest number of intervals that overlap."""
    moments = sorted(moment for begin, end in intervals for moment in ((begin, 1), (end, -1)))
    n, most = 0, 0
    for _, change in moments:
        n += change
        most = max(most, n)
    return most


def fewest_workers(shards: list[Filled]) -> int:
    """Return the smallest number of workers that explains these shards.

    Each worker fills one shard at a time, and is cold only in its first invocation. So a worker that was warm
    before all cold ones is another one.
    """
    n_cold = len({shard.invocation for shard in shards if shard.was_cold})
    first = min(shards, key=lambda shard: shard.at_work[1])
    is_another = n_cold > 0 and not first.was_cold
    return max(n_cold + is_another, most_at_once(shard.at_work for shard in shards))


def has_ended(document: dict[str, Any]) -> bool:
    """Check whether a status document is the last one of its gather."""
    return document["state"] in ENDED


def has_a_shard(document: dict[str, Any]) -> bool:
    """Check whether a status document counts a shard that is filled."""
    return document["shards"] is not None and document["shards"]["succeeded"] > 0


def watched(
    deployment: DeployedStack, id_: str, until: Callable[[dict[str, Any]], bool] = has_ended
) -> list[dict[str, Any]]:
    """Poll a gather through the API until a status document is as wanted, and return all of them."""
    seen: list[dict[str, Any]] = []
    latest = time.monotonic() + 120
    while not seen or not until(seen[-1]):
        assert time.monotonic() < latest, seen[-1]
        seen.append(call(deployment, "GET", f"/gathers/{id_}").body)
        time.sleep(POLL_S)
    return seen


@pytest.mark.long
def test_many_shards_over_two_workers_are_the_gather_in_process(
    deployment: DeployedStack, listed: str, in_process: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two concurrent workers give the same pixels as one process, bit by bit."""
    id_ = call(deployment, "POST", "/gathers", requested("many", listed)).body["id"]

    document = wait_for(deployment, id_)

    assert document["state"] == "succeeded", document
    assert document["result"]["digest"] == in_process.digest
    assert document["result"]["status"] == {"ok": N_SOURCES}
    assert document["sources"] == {"total": N_SOURCES, "done": N_SOURCES, "failed": 0}
    cube = opened(deployment, document["cube"], monkeypatch)
    here = xr.open_zarr(in_process.place)
    np.testing.assert_array_equal(cube.band_1.values, here.band_1.values)
    np.testing.assert_array_equal(cube.time.values, here.time.values)

    run = map_run(deployment, id_)
    assert run is not None
    assert run["maxConcurrency"] == N_WORKERS
    shards = children(deployment, run)
    assert set(shards) == set(range(N_SHARDS))
    by_arn = {each["executionArn"]: each for each in shards.values()}
    assert len(by_arn) < N_SHARDS / 2
    assert most_at_once((each["startDate"], each["stopDate"]) for each in by_arn.values()) == N_WORKERS
    filled = filled_shards(deployment, "many")
    assert sorted(each.index for each in filled) == list(range(N_SHARDS))
    assert fewest_workers(filled) >= N_WORKERS


def assert_grows(running: list[dict[str, Any]]) -> None:
    """Check that the numbers in the status documents of a running gather never fall."""
    counted = [each for each in running if each["shards"] is not None]
    assert any(0 < each["shards"]["succeeded"] < N_SHARDS for each in counted)
    for each in counted:
        shards = each["shards"]
        assert shards["total"] == N_SHARDS
        assert sum(shards[name] for name in ("pending", "running", "succeeded", "failed")) == N_SHARDS
        assert shards["running"] <= N_WORKERS
        assert shards["failed"] == 0
        assert each["sources"]["total"] == N_SOURCES
    for earlier, later in pairwise(counted):
        assert earlier["seconds"] <= later["seconds"]
        assert earlier["shards"]["succeeded"] <= later["shards"]["succeeded"]
        assert earlier["sources"]["done"] <= later["sources"]["done"]
        assert earlier["usd"]["so_far"] <= later["usd"]["so_far"]


def test_failing_try_costs_its_shard_another_and_no_other_shard(
    deployment: DeployedStack, listed: str, in_process: InProcess
) -> None:
    """A refused shard is tried again, and all others are filled once. Meanwhile the status only grows."""
    refused = 1
    with refused_writes(deployment, f"many-retried.zarr/band_1/c/{refused}/0/0"):
        id_ = call(deployment, "POST", "/gathers", requested("many-retried", listed)).body["id"]
        wait_for_a_failed_try(deployment, id_, refused)
        before = watched(deployment, id_, has_a_shard)
    *after, document = watched(deployment, id_)

    assert document["state"] == "succeeded", document
    assert_grows([*before, *after])
    assert document["result"]["digest"] == in_process.digest
    assert document["result"]["status"] == {"ok": N_SOURCES}
    run = map_run(deployment, id_)
    assert run is not None
    by_shard = children(deployment, run)
    again = by_shard[refused]["executionArn"]
    tries = {each["executionArn"]: n_events(deployment, each, "TaskScheduled") for each in by_shard.values()}
    assert set(by_shard) == set(range(N_SHARDS))
    assert tries.pop(again) > 1
    assert set(tries.values()) == {1}
    assert sorted(each.index for each in filled_shards(deployment, "many-retried")) == list(range(N_SHARDS))


def wait_for_a_failed_try(deployment: DeployedStack, id_: str, index: int) -> None:
    """Wait until the task of one shard has failed."""
    until = time.monotonic() + 60
    child = None
    while time.monotonic() < until:
        if child is None:
            run = map_run(deployment, id_)
            child = children(deployment, run).get(index) if run else None
        elif n_events(deployment, child, "TaskFailed"):
            return
        time.sleep(POLL_S)
    raise AssertionError("no try has failed")


@pytest.mark.long
def test_lost_shard_costs_its_own_rows(
    deployment: DeployedStack, listed: str, in_process: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One shard whose workers always fail leaves its own rows empty and all others complete."""
    lost, most = 7, 1 / N_SHARDS
    with refused_writes(deployment, f"many-lost.zarr/band_1/c/{lost}/0/0", of="gather_shard"):
        document = gathered(deployment, requested("many-lost", listed, failed_shards=most))

    assert document["state"] == "succeeded", document
    assert document["result"]["status"] == {"ok": N_SOURCES - SHARD_ROWS, "lost": SHARD_ROWS}
    assert document["shards"]["failed"] == 1
    cube = opened(deployment, document["cube"], monkeypatch)
    found, wanted = cube.band_1.values, xr.open_zarr(in_process.place).band_1.values.copy()
    wanted[lost * SHARD_ROWS : (lost + 1) * SHARD_ROWS] = np.nan
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.long
def test_shard_that_always_fails_stops_no_other_shard(deployment: DeployedStack, listed: str) -> None:
    """All others are filled. The gather fails by naming the shard, and the same request goes on with it."""
    bad = 3
    request = requested("many-bad", listed, failed_shards=1e-6)
    with refused_writes(deployment, f"many-bad.zarr/band_1/c/{bad}/0/0"):
        failed = gathered(deployment, request)
    redriven = call(deployment, "POST", f"/gathers/{failed['id']}/redrive")
    again = gathered(deployment, request)

    assert (failed["state"], failed["error"]["type"]) == ("failed", "ShardsMissingError"), failed
    assert f"1 of {N_SHARDS} shards have not been gathered (shard {bad})" in failed["error"]["detail"]
    assert [each["shards"] for each in failed["failures"]] == [[bad]]
    assert (redriven.status, "submit its request again" in redriven.body["detail"]) == (409, True)
    assert again["state"] == "succeeded", again
    assert (again["result"]["n_shards"], again["result"]["n_lost_shards"]) == (N_SHARDS, 0)
