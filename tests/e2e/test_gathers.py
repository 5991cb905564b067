"""The real stack, deployed by the real CDK, with every Lambda function in its own process.

Tests say where the emulator differs from AWS. What it cannot show, such as the state machine's definition and
the rights of each role, is tested on the template in tests/infra.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any, Final

import numpy as np
import pytest
import rasterio
import xarray as xr
from obstore.store import S3Store
from zarr.storage import ObjectStore

from e2e.api import UNDRAWN, call, execution_arn, gathered, refused_writes, wait_for
from pixel_gather_emulator.deploy import DeployedStack
from support.forked_commands import run_command
from support.projections import BOX as PROJECTED_BOX
from support.projections import write_projected
from support.resolutions import NORTH, WEST, scenes
from support.undrawn import gather_undrawn

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

DATA: Final = Path(__file__).parents[1] / "data"
SERIES: Final = (
    "nclimgrid-prcp-189501.tif",
    "nclimgrid-prcp-189502.tif",
    "prcp-202201-grd-prelim-01.tif",
    "prcp-202201-grd-scaled-01.tif",
    "prcp-202201-grd-scaled-02.tif",
)
IN_SAMPLES: Final = "series/files/stactools-nclimgrid"
N: Final = len(SERIES)
WINDOW: Final = {"bbox": [-109, 37, -102, 41]}


def hrefs(deployment: DeployedStack) -> list[str]:
    """Return the hrefs of the sample files of one series."""
    return [f"s3://{deployment.samples.bucket}/{IN_SAMPLES}/{name}" for name in SERIES]


def opened(deployment: DeployedStack, cube: str, monkeypatch: pytest.MonkeyPatch) -> xr.Dataset:
    """Open a cube of the emulated S3 by xarray, in the emulator's environment."""
    for name, value in deployment.variables.items():
        monkeypatch.setenv(name, value)
    found: xr.Dataset = xr.open_zarr(ObjectStore(S3Store.from_url(cube), read_only=True))
    return found


def run_cli(deployment: DeployedStack, *arguments: str, typed: str = "") -> CompletedProcess[str]:
    """Run the command in the emulator's environment."""
    return run_command(*arguments, environment=deployment.environment, typed=typed)


def test_gather_through_the_api_is_the_gather_in_process(
    deployment: DeployedStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gather by API Gateway, a map and a cube on S3 has the same pixels as one in process, bit by bit."""
    request = {"sources": hrefs(deployment), "window": WINDOW, "output": {"name": "api"}}

    document = gathered(deployment, request)

    files = [str(DATA / IN_SAMPLES / name) for name in SERIES]
    here = gather_undrawn({"sources": files, "window": WINDOW}, to=tmp_path)
    assert document["state"] == "succeeded", document
    assert document["result"]["digest"] == here.report.digest
    assert document["sources"] == {"total": N, "done": N, "failed": 0}
    assert document["result"]["usd"] > 0
    cube = opened(deployment, document["cube"], monkeypatch)
    np.testing.assert_array_equal(cube.band_1.values, xr.open_zarr(tmp_path).band_1.values)
    report = deployment.client("s3").get_object(Bucket=deployment.array_bucket, Key="api.zarr/report.json")
    assert json.loads(report["Body"].read())["digest"] == here.report.digest
    assert document["links"]["report_page"] == f"{document['cube']}/report.html"
    page = deployment.client("s3").get_object(Bucket=deployment.array_bucket, Key="api.zarr/report.html")
    assert page["ContentType"] == "text/html; charset=utf-8"
    assert b"api" in page["Body"].read()


def uploaded(deployment: DeployedStack, rows: Sequence[Mapping[str, str]], name: str) -> str:
    """Upload files with a list of them. Return where the list is."""
    there, lines = deployment.client("s3"), ["href,band,scene,time"]
    for row in rows:
        key = f"{name}/{Path(row['href']).name}"
        there.upload_file(row["href"], deployment.samples.bucket, key)
        lines.append(f"s3://{deployment.samples.bucket}/{key},{row['band']},{row['scene']},{row['time']}")
    key = f"lists/{name}.csv"
    there.put_object(Bucket=deployment.control_bucket, Key=key, Body="\n".join(lines).encode())
    return f"s3://{deployment.control_bucket}/{key}"


def bands_of_one_place(folder: Path) -> list[dict[str, Any]]:
    """Write four scenes of two bands."""
    rows: list[dict[str, Any]] = scenes(folder, 4, {"red": 10, "nir": 10})["rows"]
    return rows


def files_of_several_crss(folder: Path) -> list[dict[str, Any]]:
    """Write three files of one place."""
    return [
        {
            "href": str(write_projected(folder, crs, seed=n)),
            "band": "red",
            "scene": f"s{n}",
            "time": f"2024-01-0{n + 1}",
        }
        for n, crs in enumerate(("EPSG:32632", "EPSG:32633", "EPSG:3035"))
    ]


@dataclass(frozen=True, kw_only=True)
class Growing:
    """A cube and an append to it. The request of the append does not repeat what the cube knows."""

    id: str
    write: Callable[[Path], list[dict[str, Any]]]
    asked: dict[str, Any]
    of_the_first: dict[str, Any]
    n_first: int
    planned: dict[str, Any]
    """Part of the answer of POST /plans."""

    same: tuple[str, ...]
    """Arrays that are compared, beside those of the offsets."""


GROWING: Final = (
    Growing(
        id="axis",
        write=bands_of_one_place,
        asked={"window": {"pixels": [0, 0, 64, 64]}, "values": "harmonised"},
        of_the_first={"output": {"layout": {"chunk": [2, 64, 64], "shard_rows": 8}, "bands": "axis"}},
        n_first=6,
        planned={"dims": ["time", "band", "y", "x"], "values": "harmonised"},
        same=("bands",),
    ),
    Growing(
        id="warped",
        write=files_of_several_crss,
        asked={"window": {"bbox": list(PROJECTED_BOX)}, "values": "scaled"},
        of_the_first={"grid": {"crs": "utm", "resolution": 20}},
        n_first=2,
        planned={"crs": "EPSG:32632", "values": "scaled"},
        same=("red", "x", "y", "status", "valid_fraction"),
    ),
)


@pytest.mark.parametrize("case", GROWING, ids=lambda case: case.id)
def test_cube_and_append_through_the_api_are_one_gather_in_process(
    case: Growing, deployment: DeployedStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers make axes of bands and maps, and harmonise and scale pixels, from their packages alone."""
    rows, output = case.write(tmp_path), case.of_the_first.get("output", {})
    for row in rows:
        with rasterio.open(row["href"], "r+") as source:
            source.scales, source.offsets = (0.0001,), (-0.1 + 0.05 * int(row["scene"][1:]),)
    parts = rows[: case.n_first], rows[case.n_first :]
    lists = [uploaded(deployment, part, f"{case.id}-{n}") for n, part in enumerate(parts)]
    first_asked = case.asked | case.of_the_first | {"sources": lists[0]}

    planned = call(deployment, "POST", "/plans", first_asked)
    first = gathered(deployment, first_asked | {"output": output | UNDRAWN | {"name": case.id}})
    grown = gathered(
        deployment, case.asked | {"sources": lists[1], "output": UNDRAWN | {"append_to": case.id}}
    )

    gather_undrawn(case.asked | case.of_the_first | {"sources": {"rows": rows}}, to=tmp_path / "here")
    assert planned.body.items() >= case.planned.items()
    assert (first["state"], grown["state"]) == ("succeeded", "succeeded"), grown
    cube, local = opened(deployment, first["cube"], monkeypatch), xr.open_zarr(tmp_path / "here")
    for name in (*case.same, "offset_state", "offset_reason"):
        np.testing.assert_array_equal(cube[name].values, local[name].values)
    assert set(cube["offset_state"].values.flat) == {0, 1}


@pytest.mark.long
def test_monthly_medians_through_the_api(
    deployment: DeployedStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers give bands one grid, hide pixels and reduce months as in process. What failed is told."""
    rows = scenes(tmp_path, 6, {"red": 10, "scl": 20})["rows"]
    rows = [row | {"time": f"2024-0{1 + at // 4}-{1 + at:02}"} for at, row in enumerate(rows)]
    asked = {
        "window": {"bbox": [WEST + 400, NORTH - 1840, WEST + 1680, NORTH - 560], "crs": "source"},
        "grid": {"resolution": "finest"},
        "mask": {"band": "scl", "drop": [3, 8], "dilate": 2},
        "reduce": {"by": "month", "statistic": "median"},
    }
    request = asked | {"sources": uploaded(deployment, rows, "reduce")}
    deployment.client("s3").delete_object(
        Bucket=deployment.samples.bucket, Key=f"reduce/{Path(rows[4]['href']).name}"
    )
    Path(rows[4]["href"]).unlink()

    planned = call(deployment, "POST", "/plans", request)
    document = gathered(deployment, request | {"output": UNDRAWN | {"name": "reduce"}})

    gather_undrawn(asked | {"sources": {"rows": rows}}, to=tmp_path / "here")
    assert planned.body["grid"]["bands"] == {"red": "as it is"}
    assert (planned.body["mask"], planned.body["reduce"]) == (asked["mask"], asked["reduce"])
    assert planned.body["shape"] == [3, 128, 128]
    assert document["state"] == "succeeded", document
    assert document["sources"] == {"total": 12, "done": 12, "failed": 1}
    cube, local = opened(deployment, document["cube"], monkeypatch), xr.open_zarr(tmp_path / "here")
    for name in ("red", "time", "sources_used", "sources_failed"):
        np.testing.assert_array_equal(cube[name].values, local[name].values)
    assert cube["sources_failed"].values.tolist() == [0, 1, 0]


@pytest.mark.long
def test_chips_are_redriven_and_added_to_a_cube_of_the_deployment(
    deployment: DeployedStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A redrive knows their table. A second table adds the chips that the cube lacks.

    The command uploads the tables. Chips of a late image are tried again.
    """
    points = [f"p{n},{-108.5 + n * 0.7},{37.5 + n % 3},{n % 2}" for n in range(9)]
    for name, lines in (("few", points[:4]), ("every", points)):
        (tmp_path / f"{name}.csv").write_text("\n".join(["id,lon,lat,label", *lines]))
    *there, last = hrefs(deployment)
    bucket = deployment.samples.bucket
    (tmp_path / "list.txt").write_text("\n".join([*there, f"s3://{bucket}/late-chips.tif"]))

    def submitted(name: str, *options: str) -> CompletedProcess[str]:
        table = ("--windows", str(tmp_path / f"{name}.csv"), "--size", "12,8", "--no-report")
        return run_cli(deployment, "submit", "--sources", str(tmp_path / "list.txt"), *table, *options)

    with refused_writes(deployment, "grown-chips.zarr/band_1/c/*"):
        first = submitted("few", "--name", "grown-chips", "--json")
        assert first.returncode == 0, first.stderr
        id_ = json.loads(first.stdout)["id"]
        failed = wait_for(deployment, id_)
    redriven = call(deployment, "POST", f"/gathers/{id_}/redrive")
    document = wait_for(deployment, id_)
    source = {"Bucket": bucket, "Key": last.removeprefix(f"s3://{bucket}/")}
    deployment.client("s3").copy_object(Bucket=bucket, Key="late-chips.tif", CopySource=source)
    grown = submitted("every", "--append-to", "grown-chips", "--watch")

    assert (failed["state"], redriven.status, document["state"]) == ("failed", 202, "succeeded")
    assert document["sources"]["failed"] > 0
    assert grown.returncode == 0, grown.stdout
    files = [str(DATA / IN_SAMPLES / name) for name in SERIES]
    windows = {"table": str(tmp_path / "every.csv"), "size": [12, 8]}
    here = xr.open_zarr(gather_undrawn({"sources": files, "windows": windows}, to=tmp_path / "cube").place)

    cube = opened(deployment, f"s3://{deployment.array_bucket}/grown-chips.zarr", monkeypatch)
    assert sorted(cube.chip.values.tolist()) == sorted(here.chip.values.tolist())
    same = cube.sel(chip=here.chip.values)
    np.testing.assert_array_equal(same.band_1.values, here.band_1.values)
    np.testing.assert_array_equal(same.status.values, here.status.values)
    assert same.label.values.tolist() == here.label.values.tolist()
    verified = run_cli(deployment, "verify", f"s3://{deployment.array_bucket}/grown-chips.zarr")
    assert verified.returncode == 0, verified.stdout


def test_same_request_twice_is_the_same_gather(deployment: DeployedStack) -> None:
    """The same request starts no second gather, unless it is forced. Then it makes another cube."""
    request = {"sources": hrefs(deployment), "window": WINDOW, "output": UNDRAWN | {"name": "twice"}}
    first = call(deployment, "POST", "/gathers", request)
    again = call(deployment, "POST", "/gathers", request)
    done = wait_for(deployment, first.body["id"])
    after = call(deployment, "POST", "/gathers", request)
    forced = call(deployment, "POST", "/gathers?force=true", request)
    other = wait_for(deployment, forced.body["id"])

    assert (first.status, again.status, after.status, forced.status) == (202, 200, 200, 202)
    assert first.body["id"] == again.body["id"] == after.body["id"] != forced.body["id"]
    assert other["cube"] != done["cube"]
    assert other["result"]["digest"] == done["result"]["digest"]


def ended(states: Any, arn: str, *, longest_s: float = 120) -> dict[str, Any]:
    """Wait for an execution."""
    until = time.monotonic() + longest_s
    while True:
        found: dict[str, Any] = states.describe_execution(executionArn=arn)
        if found["status"] != "RUNNING":
            return found
        assert time.monotonic() < until
        time.sleep(0.3)


def test_command_line_gathers_and_tells(
    deployment: DeployedStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A local list file is uploaded. ``watch`` ends with the gather, and ``list`` and ``status`` show it."""
    sources = tmp_path / "list.csv"
    sources.write_text("href,note\n" + "".join(f"{href},n{i}\n" for i, href in enumerate(hrefs(deployment))))

    asked = ("--sources", str(sources), "--bbox", "-109,37,-102,41", "--name", "cli", "--no-report")
    done = run_cli(deployment, "submit", *asked, "--watch", "--json")

    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["state"] == "succeeded"
    assert list(opened(deployment, document["cube"], monkeypatch).note.values) == [f"n{i}" for i in range(N)]
    assert document["id"] in run_cli(deployment, "list").stdout
    status = json.loads(run_cli(deployment, "status", document["id"], "--json").stdout)
    assert status["result"] == document["result"]
    direct = json.loads(run_cli(deployment, "status", document["id"], "--direct", "--json").stdout)
    assert direct["result"] == document["result"]


def test_gdal_path_runs_in_the_worker(deployment: DeployedStack) -> None:
    """A source that the fast path cannot read is read by GDAL in a child of the Lambda process."""
    jp2 = f"s3://{deployment.samples.bucket}/files/gdal-autotest/int16.jp2"

    document = gathered(
        deployment, {"sources": [jp2], "window": "centre", "output": UNDRAWN | {"name": "gdal"}}
    )

    assert document["state"] == "succeeded", document
    assert document["sources"]["failed"] == 0, document


def wait_for_a_failed_try(deployment: DeployedStack, id_: str, *, longest_s: float = 60) -> None:
    """Wait until a task of the gather's child has failed."""
    states = deployment.client("stepfunctions")
    arn = execution_arn(deployment, id_)
    until = time.monotonic() + longest_s
    while time.monotonic() < until:
        for run in states.list_map_runs(executionArn=arn)["mapRuns"]:
            for child in states.list_executions(mapRunArn=run["mapRunArn"])["executions"]:
                history = states.get_execution_history(executionArn=child["executionArn"])["events"]
                if any(event["type"] in ("TaskFailed", "LambdaFunctionFailed") for event in history):
                    return
        time.sleep(0.1)
    raise AssertionError("no try has failed")


@pytest.mark.long
def test_gather_beyond_its_tolerance_fails_and_is_redriven(deployment: DeployedStack) -> None:
    """A redrive runs only the lost shards again."""
    request = {"sources": hrefs(deployment), "window": WINDOW, "output": UNDRAWN | {"name": "redriven"}}
    with refused_writes(deployment, "redriven.zarr/band_1/c/*"):
        failed = gathered(deployment, request)
    answered = call(deployment, "POST", f"/gathers/{failed['id']}/redrive")
    document = wait_for(deployment, failed["id"])
    once_more = call(deployment, "POST", f"/gathers/{failed['id']}/redrive")

    assert failed["state"] == "failed"
    assert failed["error"]["type"] == "States.ExceedToleratedFailureThreshold"
    assert "redrive" in failed["links"]
    assert answered.status == 202, answered
    assert document["state"] == "succeeded", document
    assert (once_more.status, once_more.content_type) == (409, "application/problem+json")


@pytest.mark.long
def test_gather_whose_finish_failed_goes_on_without_a_worker(deployment: DeployedStack) -> None:
    """If all shards are committed, the next attempt runs no map and only finishes."""
    request = {"sources": hrefs(deployment), "window": WINDOW, "output": UNDRAWN | {"name": "unfinished"}}
    with refused_writes(deployment, "unfinished.zarr/href/*"):
        failed = gathered(deployment, request)
    document = gathered(deployment, request)

    assert failed["state"] == "failed"
    assert failed["error"]["type"] == "StoreError", failed["error"]
    assert failed["shards"]["succeeded"] == failed["shards"]["total"] == 1
    assert document["id"] == f"{failed['id']}-2"
    assert document["state"] == "succeeded", document
    assert document["result"]["requests"] > 0
    states = deployment.client("stepfunctions")
    arn = execution_arn(deployment, document["id"])
    assert states.list_map_runs(executionArn=arn)["mapRuns"] == []


def test_gathers_do_not_notice_that_functions_change(deployment: DeployedStack) -> None:
    """The state machine calls published versions, so a deployment changes nothing for what runs."""
    lambda_ = deployment.client("lambda")
    functions = [
        each
        for each in lambda_.list_functions()["Functions"]
        if each["Handler"].rpartition(".")[0].endswith(("plan_gather", "gather_shard", "finish_gather"))
    ]
    request = {"sources": hrefs(deployment), "window": WINDOW, "output": UNDRAWN | {"name": "kept-version"}}
    for each in functions:
        lambda_.update_function_configuration(
            FunctionName=each["FunctionName"], Environment={"Variables": {}}
        )
    try:
        document = gathered(deployment, request)
    finally:
        for each in functions:
            name, environment = each["FunctionName"], each["Environment"]
            lambda_.update_function_configuration(FunctionName=name, Environment=environment)

    assert len(functions) == 4
    assert document["state"] == "succeeded", document


@pytest.mark.long
def test_gather_is_stopped(deployment: DeployedStack) -> None:
    """DELETE stops the gather for good. A redrive is refused, and the same request continues it."""
    request = {"sources": hrefs(deployment), "window": WINDOW, "output": UNDRAWN | {"name": "stopped"}}
    with refused_writes(deployment, "stopped.zarr/band_1/c/*"):
        id_ = call(deployment, "POST", "/gathers", request).body["id"]
        wait_for_a_failed_try(deployment, id_)
        answered = call(deployment, "DELETE", f"/gathers/{id_}")
        stopped = wait_for(deployment, id_)
    redriven = call(deployment, "POST", f"/gathers/{id_}/redrive")
    again = gathered(deployment, request)

    assert answered.status == 200, answered
    assert (stopped["state"], stopped["error"]["type"]) == ("stopped", "GatherCancelledError")
    assert (redriven.status, "submit its request again" in redriven.body["detail"]) == (409, True)
    assert again["state"] == "succeeded"
    assert again["id"] == f"{id_}-2"


def test_refused_requests_are_problems_that_say_why(deployment: DeployedStack) -> None:
    """Of the deployment's own buckets only a part may be read, and of others nothing."""
    for source, says in (
        ({"hrefs": ["s3://not-allowed/a.tif"]}, "not-allowed"),
        ({"list": f"s3://{deployment.control_bucket}/gathers/x/plan.msgpack"}, deployment.control_bucket),
    ):
        answered = call(deployment, "POST", "/gathers", {"sources": source, "window": "centre"})

        assert (answered.status, answered.content_type) == (422, "application/problem+json"), answered
        assert says in answered.body["detail"]


def test_api_describes_itself(deployment: DeployedStack) -> None:
    """The description is in the package of its function."""
    answered = call(deployment, "GET", "/openapi.json")

    assert answered.status == 200
    assert "/gathers/{id}/redrive" in answered.body["paths"]
