"""The real stack, deployed by the real CDK, with every Lambda function in its own process.

Tests say where the emulator differs from AWS. What it cannot show, such as the state machine's definition and
the rights of each role, is tested on the template in tests/infra.
"""

import json
import time
import uuid
from collections.abc import Mapping, Sequence
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


def test_an_axis_of_bands_through_the_api(
    deployment: DeployedStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cube and an append of it are those of one gather in process, in one object a shard."""
    rows = scenes(tmp_path, 4, {"red": 10, "nir": 10})["rows"]
    asked: dict[str, Any] = {"window": {"pixels": [0, 0, 64, 64]}}
    output = UNDRAWN | {"layout": {"chunk": [2, 64, 64], "shard_rows": 8}, "bands": "axis"}
    lists = [uploaded(deployment, part, f"axis-{n}") for n, part in enumerate((rows[:6], rows[6:]))]

    planned = call(deployment, "POST", "/plans", asked | {"sources": lists[0], "output": output})
    first = gathered(deployment, asked | {"sources": lists[0], "output": output | {"name": "axis"}})
    grown = gathered(deployment, asked | {"sources": lists[1], "output": UNDRAWN | {"append_to": "axis"}})

    gather_undrawn(asked | {"sources": {"rows": rows}, "output": output}, to=tmp_path / "here")
    assert planned.body["dims"] == ["time", "band", "y", "x"]
    assert (first["state"], grown["state"]) == ("succeeded", "succeeded"), grown
    cube, local = opened(deployment, first["cube"], monkeypatch), xr.open_zarr(tmp_path / "here")
    np.testing.assert_array_equal(cube["bands"].values, local["bands"].values)
    listed = deployment.client("s3").list_objects_v2(
        Bucket=deployment.array_bucket, Prefix="axis.zarr/bands/c/"
    )
    assert [each["Key"] for each in listed["Contents"]] == ["axis.zarr/bands/c/0/0/0/0"]


def test_bands_of_different_resolution_and_a_mask_through_the_api(
    deployment: DeployedStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers give all bands one grid and hide pixels, with the rights of their roles, as in process."""
    rows = scenes(tmp_path, 3, {"red": 10, "scl": 20})["rows"]
    asked = {
        "window": {"bbox": [WEST + 400, NORTH - 1840, WEST + 1680, NORTH - 560], "crs": "source"},
        "grid": {"resolution": "finest"},
        "mask": {"band": "scl", "drop": [3, 8], "dilate": 2},
    }
    request = asked | {"sources": uploaded(deployment, rows, "grid")}

    planned = call(deployment, "POST", "/plans", request)
    document = gathered(deployment, request | {"output": UNDRAWN | {"name": "grid"}})

    here = gather_undrawn(asked | {"sources": {"rows": rows}}, to=tmp_path / "here")
    assert planned.body["grid"]["bands"] == {"red": "as it is", "scl": "each pixel 2 x 2 times"}
    assert planned.body["mask"] == {"band": "scl", "drop": [3, 8], "dilate": 2}
    assert document["state"] == "succeeded", document
    assert document["result"]["digest"] == here.report.digest
    cube, local = opened(deployment, document["cube"], monkeypatch), xr.open_zarr(tmp_path / "here")
    for name in ("red", "scl", "masked"):
        np.testing.assert_array_equal(cube[name].values, local[name].values)


@pytest.mark.parametrize("values", ["harmonised", "scaled"])
def test_other_values_than_raw_through_the_api(
    deployment: DeployedStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, values: str
) -> None:
    """Workers harmonise and scale pixels of a cube and of an append as in process."""
    rows = scenes(tmp_path, 3, {"red": 10})["rows"]
    for n, row in enumerate(rows):
        with rasterio.open(row["href"], "r+") as source:
            source.scales, source.offsets = (0.0001,), (-0.1 + 0.05 * n,)
    asked: dict[str, Any] = {"window": {"pixels": [0, 0, 64, 64]}, "values": values}
    lists = [uploaded(deployment, part, f"{values}-{n}") for n, part in enumerate((rows[:2], rows[2:]))]

    planned = call(deployment, "POST", "/plans", asked | {"sources": lists[0]})
    first = gathered(deployment, asked | {"sources": lists[0], "output": UNDRAWN | {"name": values}})
    grown = gathered(deployment, asked | {"sources": lists[1], "output": UNDRAWN | {"append_to": values}})

    gather_undrawn(asked | {"sources": {"rows": rows}}, to=tmp_path / "here")
    assert planned.body["values"] == values
    assert (first["state"], grown["state"]) == ("succeeded", "succeeded"), grown
    cube, local = opened(deployment, first["cube"], monkeypatch), xr.open_zarr(tmp_path / "here")
    for name in ("red", "offset_state", "offset_reason"):
        np.testing.assert_array_equal(cube[name].values, local[name].values)
    assert cube["offset_state"].values.tolist() == [1, 1, 0]


def test_files_of_several_crss_are_warped_through_the_api(
    deployment: DeployedStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers make the maps themselves. An append keeps the grid, and its request names none."""
    rows = [
        {
            "href": str(write_projected(tmp_path, crs, seed=n)),
            "band": "red",
            "scene": f"s{n}",
            "time": f"2024-01-0{n + 1}",
        }
        for n, crs in enumerate(("EPSG:32632", "EPSG:32633", "EPSG:3035"))
    ]
    asked: dict[str, Any] = {"window": {"bbox": list(PROJECTED_BOX)}}
    grid = {"grid": {"crs": "utm", "resolution": 20}}
    lists = [uploaded(deployment, part, f"warp-{n}") for n, part in enumerate((rows[:2], rows[2:]))]

    planned = call(deployment, "POST", "/plans", asked | grid | {"sources": lists[0]})
    first = gathered(deployment, asked | grid | {"sources": lists[0], "output": UNDRAWN | {"name": "warped"}})
    grown = gathered(deployment, asked | {"sources": lists[1], "output": UNDRAWN | {"append_to": "warped"}})

    gather_undrawn(asked | grid | {"sources": {"rows": rows}}, to=tmp_path / "here")
    assert planned.body["grid"]["bands"] == {"red": "warped by nearest"}
    assert planned.body["crs"] == "EPSG:32632"
    assert (first["state"], grown["state"]) == ("succeeded", "succeeded"), grown
    cube, local = opened(deployment, first["cube"], monkeypatch), xr.open_zarr(tmp_path / "here")
    for name in ("red", "x", "y", "status", "valid_fraction"):
        np.testing.assert_array_equal(cube[name].values, local[name].values)


def test_monthly_medians_through_the_api(
    deployment: DeployedStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers reduce the scenes of a month below a mask as in process. What failed is told."""
    rows = scenes(tmp_path, 6, {"red": 10, "scl": 20})["rows"]
    rows = [row | {"time": f"2024-0{1 + at // 4}-{1 + at:02}"} for at, row in enumerate(rows)]
    asked = {
        "window": {"bbox": [WEST + 400, NORTH - 1840, WEST + 1680, NORTH - 560], "crs": "source"},
        "grid": {"resolution": "finest"},
        "mask": {"band": "scl", "drop": [3, 8]},
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
    assert planned.body["reduce"] == {"by": "month", "statistic": "median"}
    assert planned.body["shape"] == [3, 128, 128]
    assert document["state"] == "succeeded", document
    assert document["sources"] == {"total": 12, "done": 12, "failed": 1}
    cube, local = opened(deployment, document["cube"], monkeypatch), xr.open_zarr(tmp_path / "here")
    for name in ("red", "time", "sources_used", "sources_failed"):
        np.testing.assert_array_equal(cube[name].values, local[name].values)
    assert cube["sources_failed"].values.tolist() == [0, 1, 0]


def test_chips_that_are_submitted_are_those_in_process(
    deployment: DeployedStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command uploads the table. Plan, workers and finish do the rest under their own roles."""
    points = [f"p{n},{-108.5 + n * 0.7},{37.5 + n % 3},{n % 2}" for n in range(9)]
    (tmp_path / "chips.csv").write_text("\n".join(["id,lon,lat,label", *points]))
    (tmp_path / "list.txt").write_text("\n".join(hrefs(deployment)))
    options = ("--windows", str(tmp_path / "chips.csv"), "--size", "12,8", "--no-report")
    submitted = run_cli(
        deployment, "submit", "--sources", str(tmp_path / "list.txt"), *options, "--watch", "--name", "chips"
    )
    files = [str(DATA / IN_SAMPLES / name) for name in SERIES]
    windows = {"table": str(tmp_path / "chips.csv"), "size": [12, 8]}
    here = gather_undrawn({"sources": files, "windows": windows}, to=tmp_path / "cube")

    assert submitted.returncode == 0, submitted.stderr
    cube = opened(deployment, f"s3://{deployment.array_bucket}/chips.zarr", monkeypatch)
    assert dict(cube["band_1"].sizes) == {"chip": 9, "source": N, "y": 8, "x": 12}
    np.testing.assert_array_equal(cube.band_1.values, xr.open_zarr(here.place).band_1.values)
    assert cube.label.values.tolist() == xr.open_zarr(here.place).label.values.tolist()
    verified = run_cli(deployment, "verify", f"s3://{deployment.array_bucket}/chips.zarr")
    assert verified.returncode == 0, verified.stdout


def test_chips_are_added_to_a_cube_of_the_deployment(
    deployment: DeployedStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second table adds the chips that the cube lacks. Those of a late image are tried again."""
    points = [f"p{n},{-108.5 + n * 0.7},{37.5 + n % 3},{n % 2}" for n in range(9)]
    for name, lines in (("few", points[:4]), ("every", points)):
        (tmp_path / f"{name}.csv").write_text("\n".join(["id,lon,lat,label", *lines]))
    *there, last = hrefs(deployment)
    late = f"s3://{deployment.samples.bucket}/late-chips.tif"
    (tmp_path / "list.txt").write_text("\n".join([*there, late]))
    options = ("--sources", str(tmp_path / "list.txt"), "--size", "12,8", "--no-report", "--watch")
    for name, place in (("few", "--name"), ("every", "--append-to")):
        table = ("--windows", str(tmp_path / f"{name}.csv"))
        submitted = run_cli(deployment, "submit", *options, *table, place, "grown-chips")
        assert submitted.returncode == (1 if name == "few" else 0), f"{name}: {submitted.stdout}"
        key = last.removeprefix(f"s3://{deployment.samples.bucket}/")
        source = {"Bucket": deployment.samples.bucket, "Key": key}
        deployment.client("s3").copy_object(
            Bucket=deployment.samples.bucket, Key="late-chips.tif", CopySource=source
        )
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


def test_console_execution_takes_the_plain_request(deployment: DeployedStack) -> None:
    """An execution that was started by hand gathers the same. If the cube is complete, it reads nothing."""
    request = {
        "sources": hrefs(deployment),
        "window": {"tile": "centre"},
        "output": UNDRAWN | {"name": "console"},
    }
    states = deployment.client("stepfunctions")

    outputs = []
    for _ in range(2):
        arn = states.start_execution(
            stateMachineArn=deployment.state_machine_arn, name=str(uuid.uuid4()), input=json.dumps(request)
        )["executionArn"]
        outputs.append(ended(states, arn))

    assert [each["status"] for each in outputs] == ["SUCCEEDED", "SUCCEEDED"]
    first, second = (json.loads(each["output"]) for each in outputs)
    assert first["digest"] == second["digest"]
    assert first["n_sources"] == N


def test_console_execution_of_a_wrong_request_fails_with_a_sentence(deployment: DeployedStack) -> None:
    """The cause names the field, and nothing is written."""
    states = deployment.client("stepfunctions")
    arn = states.start_execution(
        stateMachineArn=deployment.state_machine_arn,
        input=json.dumps({"sources": hrefs(deployment), "window": "centre", "colour": 1}),
    )["executionArn"]

    found = ended(states, arn)

    assert found["status"] == "FAILED"
    assert found["error"] == "RequestError"
    assert "colour: there is no such field" in found["cause"]


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


def test_failing_source_costs_its_row_alone(
    deployment: DeployedStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing file gets a status and does not fail the gather. The command ends with 1."""
    missing = f"s3://{deployment.samples.bucket}/no/such.tif"
    sources = [*hrefs(deployment), missing]
    request = {"sources": sources, "window": WINDOW, "output": UNDRAWN | {"name": "holes"}}

    done = run_cli(deployment, "submit", "-", "--watch", "--json", typed=json.dumps(request))

    assert done.returncode == 1, done.stderr
    document = json.loads(done.stdout)
    assert document["state"] == "succeeded"
    assert document["sources"] == {"total": N + 1, "done": N + 1, "failed": 1}
    assert sum(document["result"]["status"].values()) == N + 1
    cube = opened(deployment, document["cube"], monkeypatch)
    assert bool(cube.band_1[-1].isnull().all())


def test_gdal_path_runs_in_the_worker(deployment: DeployedStack) -> None:
    """A source that the fast path cannot read is read by GDAL in a child of the Lambda process."""
    jpeg = f"s3://{deployment.samples.bucket}/files/gdal-autotest/stefan_full_rgba_jpeg_contig.tif"

    document = gathered(
        deployment, {"sources": [jpeg], "window": "centre", "output": UNDRAWN | {"name": "gdal"}}
    )

    assert document["state"] == "succeeded", document
    assert document["sources"]["failed"] == 0, document


def test_failing_shard_is_tried_again(deployment: DeployedStack) -> None:
    """A store that refuses for a while costs only time."""
    request = {"sources": hrefs(deployment), "window": WINDOW, "output": UNDRAWN | {"name": "retried"}}
    with refused_writes(deployment, "retried.zarr/band_1/c/*"):
        id_ = call(deployment, "POST", "/gathers", request).body["id"]
        wait_for_a_failed_try(deployment, id_)
    document = wait_for(deployment, id_)

    assert document["state"] == "succeeded", document
    assert document["shards"]["failed"] == 0


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


def test_chips_beyond_their_tolerance_fail_and_are_redriven(
    deployment: DeployedStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A redrive of chips knows their table, and fills what was lost."""
    points = [f"p{n},{-108.5 + n * 0.7},{37.5 + n % 3}" for n in range(9)]
    (tmp_path / "chips.csv").write_text("\n".join(["id,lon,lat", *points]))
    (tmp_path / "list.txt").write_text("\n".join(hrefs(deployment)))
    arguments = ("--sources", str(tmp_path / "list.txt"), "--windows", str(tmp_path / "chips.csv"))
    options = ("--size", "12,8", "--no-report", "--name", "redriven-chips", "--json")
    with refused_writes(deployment, "redriven-chips.zarr/band_1/c/*"):
        submitted = run_cli(deployment, "submit", *arguments, *options)
        assert submitted.returncode == 0, submitted.stderr
        id_ = json.loads(submitted.stdout)["id"]
        failed = wait_for(deployment, id_)
    answered = call(deployment, "POST", f"/gathers/{id_}/redrive")
    document = wait_for(deployment, id_)
    cube = opened(deployment, f"s3://{deployment.array_bucket}/redriven-chips.zarr", monkeypatch)

    assert (failed["state"], answered.status, document["state"]) == ("failed", 202, "succeeded")
    assert dict(cube["band_1"].sizes) == {"chip": 9, "source": N, "y": 8, "x": 12}
    assert (cube["status"] == 0).any()


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


def test_shards_may_be_lost_where_the_request_says_so(deployment: DeployedStack) -> None:
    """The cube is complete, and its status marks the rows that are lost."""
    request = {
        "sources": hrefs(deployment),
        "window": WINDOW,
        "output": UNDRAWN | {"name": "lost"},
        "limits": {"failed_shards": 1},
    }
    with refused_writes(deployment, "lost.zarr/band_1/c/*"):
        document = gathered(deployment, request)

    assert document["state"] == "succeeded", document
    assert document["result"]["status"] == {"lost": N}
    assert document["shards"]["failed"] == 1


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


def test_dry_run_tells_shape_and_price(deployment: DeployedStack) -> None:
    """POST /plans reads headers, writes nothing and starts nothing."""
    answered = call(deployment, "POST", "/plans", {"sources": hrefs(deployment), "window": WINDOW})

    assert answered.status == 200, answered
    assert answered.body["shape"] == [N, 97, 169]
    assert answered.body["estimate"]["usd"] > 0


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        ({"sources": ["s3://not-allowed/a.tif"], "window": "centre"}, "not-allowed"),
        ({"sources": ["https://example.org/a.tif"], "window": "centre"}, "https"),
        ({"sources": ["/vsis3/bucket/a.tif"], "window": "centre"}, "vsi"),
        ({"sources": ["http://169.254.169.254/latest"], "window": "centre"}, "http"),
        ({"sources": ["s3://{samples}/../a.tif"], "window": "centre"}, ".."),
        ({"sources": "s3://{control}/gathers/x/plan.msgpack", "window": "centre"}, "{control}"),
        ({"sources": ["s3://{samples}/a.tif"], "window": "centre", "output": {"name": "../x"}}, "name"),
        ({"sources": ["s3://{samples}/a.tif"]}, "window"),
        ({"sources": ["s3://{samples}/a.tif"], "window": "centre", "colour": 1}, "colour"),
    ],
)
def test_refused_requests_are_problems_that_say_why(
    deployment: DeployedStack, request_: Any, says: str
) -> None:
    """Nothing is started, and the answer names the field to change."""
    names = {"samples": deployment.samples.bucket, "control": deployment.control_bucket}
    text = json.dumps(request_)
    for name, value in names.items():
        text = text.replace(f"{{{name}}}", value)

    answered = call(deployment, "POST", "/gathers", json.loads(text))

    assert answered.status in (400, 403, 422), answered
    assert answered.content_type == "application/problem+json"
    assert says.format(**names) in json.dumps(answered.body)


def test_api_wants_credentials(deployment: DeployedStack) -> None:
    """A request without a signature is refused."""
    answered = call(deployment, "POST", "/gathers", {}, signed=False)

    assert answered.status == 403


def test_api_describes_itself(deployment: DeployedStack) -> None:
    """GET /openapi.json names every route."""
    answered = call(deployment, "GET", "/openapi.json")

    assert answered.status == 200
    assert set(answered.body["paths"]) >= {
        "/gathers",
        "/gathers/{id}",
        "/gathers/{id}/redrive",
        "/lists",
        "/openapi.json",
        "/plans",
    }


def test_unknown_gather_is_a_problem(deployment: DeployedStack) -> None:
    """The answer is 404, with the media type of problem details."""
    answered = call(deployment, "GET", "/gathers/never-was")

    assert (answered.status, answered.content_type) == (404, "application/problem+json")
