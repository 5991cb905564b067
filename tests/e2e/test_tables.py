"""Tables of points and zones by the deployed API and the command line, and the rights of their functions."""

import io
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from e2e.api import call, wait_for
from e2e.principals import User, handled, user_of
from e2e.test_gathers import DATA, SERIES, run_cli
from pixel_gather import points, zones
from pixel_gather_emulator.deploy import DeployedStack
from support.api_bridge import body_of, event
from support.lambda_functions import EXECUTION

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

DEMO = DATA / "demo"
SAME = ("id", "time", "b1", "valid", "status")
OF_ZONES = ("id", "time", "mean", "p90", "count", "valid", "status")


def here(folder: Path, *, of_zones: bool = False) -> pa.Table:
    """Return the table of the samples, made in this process."""
    to, sources = folder / "here.parquet", str(DEMO / "sources.csv")
    if of_zones:
        zones(str(DEMO / "fields.geojson"), sources, to=to, id="field", statistics="mean,p90,count")
    else:
        points(str(DEMO / "plots.csv"), sources, to=to, id="plot_id")
    return pq.read_table(to)


def stored(deployment: DeployedStack, href: str) -> pa.Table:
    """Return a table on S3."""
    bucket, _, key = href.removeprefix("s3://").partition("/")
    content = deployment.client("s3").get_object(Bucket=bucket, Key=key)["Body"].read()
    return pq.read_table(io.BytesIO(content))


def features_href(deployment: DeployedStack, name: str) -> str:
    """Put a file of features into the bucket of samples, and return its address."""
    bucket = deployment.samples.bucket
    deployment.client("s3").put_object(Bucket=bucket, Key=f"features/{name}", Body=(DEMO / name).read_bytes())
    return f"s3://{bucket}/features/{name}"


def test_zones_go_through_the_map(deployment: DeployedStack, tmp_path: Path) -> None:
    """The table is that of this process. The same request is answered by the table that is there."""
    asked = {
        "zones": features_href(deployment, "fields.geojson"),
        "id": "field",
        "statistics": "mean,p90,count",
        "sources": deployment.samples.list_href,
    }
    planned = call(deployment, "POST", "/tables/plan", asked)
    answered = call(deployment, "POST", "/tables", asked)
    document = wait_for(deployment, answered.body["id"], kind="tables")
    again = call(deployment, "POST", "/tables", asked)

    assert (planned.status, answered.status, again.status) == (200, 202, 200), (planned, answered, again)
    assert planned.body["features"] == 4
    assert document["state"] == "succeeded", document
    found, expected = stored(deployment, document["links"]["table"]), here(tmp_path, of_zones=True)
    assert found.select(OF_ZONES).equals(expected.select(OF_ZONES))
    assert again.body["links"]["table"] == document["links"]["table"]


def test_command_line_makes_a_table_by_the_deployment(deployment: DeployedStack, tmp_path: Path) -> None:
    """Features of this machine are uploaded. The table is that of this process, and is found again."""
    plots, listed_at = str(DEMO / "plots.csv"), deployment.samples.list_href
    arguments = ("points", plots, "--sources", listed_at, "--id", "plot_id")
    planned = run_cli(deployment, *arguments, "--deployed", "--dry-run", "--json")
    made = run_cli(deployment, *arguments, "--deployed", "--json", "--quiet")
    document = json.loads(made.stdout)
    shown = run_cli(deployment, "status", document["id"])
    listed = run_cli(deployment, "list", "--tables", "--json")

    assert (planned.returncode, made.returncode) == (0, 0), (planned.stderr, made.stderr)
    assert json.loads(planned.stdout)["features"] == 5
    found = stored(deployment, document["links"]["table"])
    assert found.select(SAME).equals(here(tmp_path).select(SAME))
    assert shown.stdout.splitlines()[0] == f"table job     {document['id']}"
    assert f"table         {document['links']['table']}" in shown.stdout
    assert document["id"] in [each["id"] for each in json.loads(listed.stdout)["tables"]]


def test_a_table_is_stopped_and_redriven(deployment: DeployedStack, tmp_path: Path) -> None:
    """The redriven table is that of this process."""
    asked = {
        "points": features_href(deployment, "plots.csv"),
        "id": "plot_id",
        "by": "b1",
        "sources": deployment.samples.list_href,
    }
    line = call(deployment, "POST", "/tables", asked).body
    stopped = call(deployment, "DELETE", f"/tables/{line['id']}")
    redriven = run_cli(deployment, "redrive", line["id"], "--json")
    document = wait_for(deployment, line["id"], kind="tables")

    assert (stopped.status, stopped.body["state"]) == (200, "stopped")
    assert redriven.returncode == 0, redriven.stderr
    assert document["state"] == "succeeded", document
    found = stored(deployment, document["links"]["table"])
    assert found.select(SAME[:2]).equals(here(tmp_path).select(SAME[:2]))


@pytest.fixture(scope="module")
def users(deployment: DeployedStack) -> dict[str, User]:
    """A user for each function of tables."""
    return {name: user_of(deployment, name) for name in ("answer_tables", "plan_table", "read_images")}


@pytest.mark.long
def test_functions_of_tables_need_no_more_than_their_roles(
    users: dict[str, User], deployment: DeployedStack
) -> None:
    """The emulator gives functions its operator's rights, so they run here with those of their roles."""
    asked = {
        "points": features_href(deployment, "plots.csv"),
        "id": "plot_id",
        "square": 3,
        "sources": deployment.samples.list_href,
    }

    planned = handled(
        users, "answer_tables", event("POST", "/tables/plan", body=json.dumps(asked)), left_s=29
    )
    verdict = handled(users, "plan_table", {"request": asked, "execution": "by-hand"})
    place = verdict["manifest"]
    content = deployment.client("s3").get_object(Bucket=place["bucket"], Key=place["key"])["Body"].read()
    for tasks in json.loads(content):
        work = {"gather": verdict["gather"], "tasks": tasks, "limit_s": 60}
        first, second = (handled(users, "read_images", work) for _ in range(2))
        assert first["n_scenes"] > second["n_scenes"] == 0
    ended = {"gather": verdict["gather"], "execution": EXECUTION, "failed_shards": 100}
    done = handled(users, "plan_table", ended)

    assert body_of(planned)["features"] == 5, planned
    assert (done["verdict"], done["result"]["scenes"]) == ("complete", len(SERIES))
    assert stored(deployment, done["result"]["table"]).num_rows == done["result"]["lines"]
