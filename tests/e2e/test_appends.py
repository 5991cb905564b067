"""Appends on the deployed stack: by the API, with the roles of the functions, on the emulated S3."""

import json
import re
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
import xarray as xr
from botocore.exceptions import ClientError
from click.testing import CliRunner

from e2e.api import UNDRAWN, call, gathered, wait_for
from e2e.test_gathers import DATA, IN_SAMPLES, SERIES, WINDOW
from pixel_gather import gather, open_cube, retry_failed
from pixel_gather.core.plan.cube_plan import claim_of
from pixel_gather.engine.find_failed_rows import digest_again
from pixel_gather.engine.row_claim import RowClaim
from pixel_gather.features.verify.verify import verify
from pixel_gather.in_process.settings import Settings
from pixel_gather.io.store.store_settings import StoreSettings
from pixel_gather_cli.commands.status import status_command
from pixel_gather_emulator.deploy import DeployedStack
from support.undrawn import gather_undrawn

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

APPENDED: Final = (r"appended +2 rows\n", r"appended +1 row\n", r"appended +nothing: the cube has all")
LAYOUT: Final = {"layout": {"chunk": [2, 32, 32], "shard_rows": 4}, "expected_rows": 8}
NO_SHARDS: Final = {"layout": {"chunk": [2, 1000, 1000]}, "expected_rows": 8, "sharding": False}


def request(deployment: DeployedStack, *numbers: int, **output: Any) -> dict[str, Any]:
    """Return a request for some files of the series."""
    hrefs = [f"s3://{deployment.samples.bucket}/{IN_SAMPLES}/{SERIES[n]}" for n in numbers]
    return {"sources": hrefs, "window": WINDOW, "output": output}


def test_the_emulated_store_puts_only_what_is_unchanged(deployment: DeployedStack) -> None:
    """If-Match and If-None-Match hold, as on S3: the commit of an append rests on both."""
    s3, where = deployment.client("s3"), {"Bucket": deployment.array_bucket, "Key": "conditions"}
    etag = s3.put_object(**where, Body=b"1", IfNoneMatch="*")["ETag"]
    with pytest.raises(ClientError, match="PreconditionFailed"):
        s3.put_object(**where, Body=b"2", IfNoneMatch="*")

    s3.put_object(**where, Body=b"3", IfMatch=etag)
    with pytest.raises(ClientError, match="PreconditionFailed"):
        s3.put_object(**where, Body=b"4", IfMatch=etag)

    assert s3.get_object(**where)["Body"].read() == b"3"


@pytest.mark.long
def test_appends_through_the_api_are_one_gather_in_process(
    deployment: DeployedStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two appends run at once, and one in process follows. Each has its rows. Again, nothing is added.

    The status of each tells how many rows it added, in the API's answer and on the command line.
    """
    for name, value in deployment.variables.items():
        monkeypatch.setenv(name, value)
    first = gathered(deployment, request(deployment, 0, name="grows", **LAYOUT, **UNDRAWN))
    assert first["state"] == "succeeded", first
    wanted = [request(deployment, *numbers, append_to="grows") for numbers in ((1, 2), (0, 3))]

    begun = [call(deployment, "POST", "/gathers", each).body for each in wanted]
    ended = [wait_for(deployment, each["id"], longest_s=300) for each in begun]
    again = gathered(deployment, wanted[1])
    settings = Settings(stores=StoreSettings(), draws_report=False)
    last = gather(request(deployment, 4, append_to=first["cube"]), settings=settings)

    told = [
        CliRunner().invoke(status_command, [each["id"]], catch_exceptions=False).output
        for each in (first, *ended, again)
    ]

    assert [each["state"] for each in ended] == ["succeeded", "succeeded"], ended
    assert [each["result"]["n_appended"] for each in (first, *ended, again)] == [None, 2, 1, 0]
    assert "appended" not in told[0]
    assert all(re.search(words, text) for words, text in zip(APPENDED, told[1:], strict=True)), told
    assert again["state"] == "succeeded"
    assert again["result"]["shape"][0] == 4
    assert last.n_appended == 1
    cube = open_cube(first["cube"])
    order = [SERIES.index(href.rpartition("/")[2]) for href in cube["href"].values.tolist()]
    assert order in ([0, 1, 2, 3, 4], [0, 3, 1, 2, 4])
    files = [str(DATA / IN_SAMPLES / SERIES[n]) for n in order]
    here = gather_undrawn({"sources": files, "window": WINDOW, "output": LAYOUT}, to=tmp_path)
    np.testing.assert_array_equal(cube["band_1"].values, xr.open_zarr(tmp_path)["band_1"].values)
    assert last.report.digest == here.report.digest
    assert verify(first["cube"]).is_same
    page = deployment.client("s3").get_object(Bucket=deployment.array_bucket, Key="grows.zarr/report.json")
    assert json.loads(page["Body"].read())["shape"][0] == 4
    assert open_cube(first["cube"], 1).sizes["source"] == 1


def test_an_append_to_no_cube_is_refused(deployment: DeployedStack) -> None:
    """The error names the field."""
    document = gathered(deployment, request(deployment, 0, append_to="nowhere"))
    folder = call(deployment, "POST", "/gathers", request(deployment, 0, append_to="s3://b/c.zarr"))

    assert document["state"] == "failed"
    assert "output.append_to" in json.dumps(document)
    assert folder.status == 422
    assert "output.append_to" in json.dumps(folder.body)


@pytest.mark.long
def test_an_append_reads_what_had_failed_in_its_own_row(
    deployment: DeployedStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it takes over from an append that was abandoned. Its chunks are no shards."""
    name, layout = "recovered", NO_SHARDS
    for variable, value in deployment.variables.items():
        monkeypatch.setenv(variable, value)
    s3, bucket = deployment.client("s3"), deployment.samples.bucket
    late = f"{IN_SAMPLES}/late-{name}-{SERIES[1]}"
    hrefs = [f"s3://{bucket}/{IN_SAMPLES}/{SERIES[0]}", f"s3://{bucket}/{late}"]
    wanted = {"sources": hrefs, "window": WINDOW, "output": {"name": name, **layout, **UNDRAWN}}
    first = gathered(deployment, wanted)
    tried = gathered(deployment, request(deployment, 2, append_to=name))
    assert [each["state"] for each in (first, tried)] == ["succeeded", "succeeded"], tried
    s3.upload_file(str(DATA / IN_SAMPLES / SERIES[1]), bucket, late)

    where = {"Bucket": deployment.array_bucket, "Key": f"{name}.zarr/zarr.json"}
    root = json.loads(s3.get_object(**where)["Body"].read())
    digest = json.loads(root["attributes"]["pixel_gather"])["versions"][1]["digest"]
    claim = RowClaim(
        claim=f"00003-{claim_of(1.8e9)}",
        digest=digest_again(digest, 3),
        planned_at=1.8e9,
        first_row=3,
        n_rows=3,
        has_taken_over=True,
        again=sha256(b"[1]").hexdigest()[:16],
    )
    where["Key"] = f"{name}.zarr/versions/00003.claim"
    s3.put_object(**where, Body=claim.to_bytes())
    added = gathered(deployment, request(deployment, 2, append_to=name))

    assert added["state"] == "succeeded", added
    assert s3.get_object(**where)["Body"].read() == claim.to_bytes(), "it went on under this claim"
    cube = open_cube(first["cube"])
    assert cube["status"].values.tolist() == [0, 0, 0]
    files = [str(DATA / IN_SAMPLES / SERIES[n]) for n in range(3)]
    gather_undrawn({"sources": files, "window": WINDOW, "output": layout}, to=tmp_path)
    np.testing.assert_array_equal(cube["band_1"].values, xr.open_zarr(tmp_path)["band_1"].values)
    assert verify(first["cube"]).is_same


@pytest.mark.long
def test_a_reduced_cube_grows_and_its_rows_gain(
    deployment: DeployedStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row of three sources lacks two. An append reads one of them beside a new row, `retry` the other."""
    for variable, value in deployment.variables.items():
        monkeypatch.setenv(variable, value)
    s3, bucket = deployment.client("s3"), deployment.samples.bucket
    late = {n: f"{IN_SAMPLES}/late-mean-{SERIES[n]}" for n in (1, 2)}
    keys = [late.get(n, f"{IN_SAMPLES}/{SERIES[n]}") for n in range(5)]
    scenes = [{"href": f"s3://{bucket}/{key}", "season": n // 3} for n, key in enumerate(keys)]
    asked = {"window": WINDOW, "reduce": {"by": "season", "statistic": "mean"}}
    for n in (3, 5):
        lines = ["href,season", *(f"{each['href']},{each['season']}" for each in scenes[:n])]
        s3.put_object(Bucket=bucket, Key=f"means-{n}.csv", Body="\n".join(lines).encode())
    first = gathered(
        deployment,
        asked
        | {"sources": f"s3://{bucket}/means-3.csv", "output": {"name": "means-grow", **LAYOUT, **UNDRAWN}},
    )
    assert first["state"] == "succeeded", first

    s3.upload_file(str(DATA / IN_SAMPLES / SERIES[1]), bucket, late[1])
    added = gathered(
        deployment, asked | {"sources": f"s3://{bucket}/means-5.csv", "output": {"append_to": "means-grow"}}
    )
    there = open_cube(first["cube"])["sources_used"].values.tolist()
    s3.upload_file(str(DATA / IN_SAMPLES / SERIES[2]), bucket, late[2])
    tried = retry_failed(first["cube"], settings=Settings(stores=StoreSettings(), draws_report=False))

    assert added["state"] == "succeeded", added
    assert (added["result"]["n_appended"], there) == (1, [2, 2])
    assert tried is not None
    files = [each | {"href": str(DATA / IN_SAMPLES / SERIES[n])} for n, each in enumerate(scenes)]
    gather_undrawn(asked | {"sources": {"rows": files}, "output": LAYOUT}, to=tmp_path)
    cube = open_cube(first["cube"])
    assert cube["sources_used"].values.tolist() == [3, 2]
    np.testing.assert_array_equal(cube["band_1"].values, xr.open_zarr(tmp_path)["band_1"].values)
    assert verify(first["cube"]).is_same
