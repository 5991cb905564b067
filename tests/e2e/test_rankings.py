"""Rankings by the deployed API, at once and by the state machine, and the rights of their functions."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import pytest
from botocore.exceptions import ClientError

from e2e.api import call, wait_for
from e2e.principals import User, handled, user_of
from e2e.test_gathers import DATA, IN_SAMPLES, SERIES, run_cli
from pixel_gather import rank
from pixel_gather_emulator.deploy import DeployedStack
from support.api_bridge import body_of, event

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

BOX: Final = [-109.1, 36.9, -101.9, 41.1]
SAME: Final = ("rank", "rank_low", "rank_high", "id", "time", "value", "error", "level", "clear", "status")


def body(deployment: DeployedStack, **more: Any) -> dict[str, Any]:
    """Return a ranking of the sample series."""
    return {"sources": deployment.samples.list_href, "by": "b1", "area": {"bbox": BOX}, **more}


def same(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what does not depend on who has read the scenes."""
    return [{name: row[name] for name in SAME} for row in rows]


def here(by: str, **more: Any) -> list[dict[str, Any]]:
    """Return the rows of the same ranking in this process."""
    return same(rank(str(DATA / "demo/sources.csv"), by=by, bbox=BOX, **more).rows())


def test_small_ranking_is_answered_at_once_and_kept(deployment: DeployedStack) -> None:
    """The table is that of this process. A second ranking reads nothing."""
    # by a bound, what is read depends on the bytes of headers, which are others on S3
    first = call(deployment, "POST", "/rankings", body(deployment, precision="exact"))
    second = call(deployment, "POST", "/rankings", body(deployment, precision="exact", order="asc"))

    assert (first.status, second.status) == (200, 200), (first, second)
    assert same(first.body["scenes"]) == here("b1", precision="exact")
    assert same(second.body["scenes"]) == here("b1", precision="exact", order="asc")
    assert first.body["totals"]["requests"] > 0
    assert (second.body["totals"]["requests"], second.body["totals"]["kept"]) == (0, len(SERIES))


def test_large_ranking_goes_through_the_map(deployment: DeployedStack) -> None:
    """Its rounds are runs of the map. Its table is that of this process, and is on S3 as well."""
    asked = body(deployment, by="b1 * 2", precision=0)
    answered = call(deployment, "POST", "/rankings", asked, headers={"Prefer": "respond-async"})
    document = wait_for(deployment, answered.body["id"], kind="tables")
    again = call(deployment, "POST", "/rankings", asked, headers={"Prefer": "respond-async"})
    other = call(deployment, "POST", "/rankings", body(deployment, by="b1 * 2", precision=0, top=2))

    assert answered.status == 202, answered
    assert document["state"] == "succeeded", document
    rows = document["ranking"]["scenes"]
    assert same(rows) == here("b1 * 2", precision=0)
    assert document["result"]["rounds"] >= 1
    assert (again.status, again.body) == (200, document["ranking"])
    assert other.body["totals"]["requests"] == 0
    bucket, _, key = document["links"]["table"].removeprefix("s3://").partition("/")
    stored = deployment.client("s3").get_object(Bucket=bucket, Key=key)["Body"].read()
    assert json.loads(stored)["scenes"] == rows


def test_large_ranking_is_stopped_and_redriven(deployment: DeployedStack) -> None:
    """The redriven ranking has the table of this process. The command line reaches it as a gather."""
    asked = body(deployment, by="b1 * 4", precision="exact")
    line = call(deployment, "POST", "/rankings", asked, headers={"Prefer": "respond-async"}).body
    path = f"/tables/{line['id']}"
    stopped = call(deployment, "DELETE", path)
    listed = run_cli(deployment, "list", "--tables", "--state", "stopped", "--json")
    redriven = call(deployment, "POST", f"{path}/redrive")
    document = wait_for(deployment, line["id"], kind="tables")
    shown = run_cli(deployment, "status", line["id"])

    assert (stopped.status, stopped.body["state"]) == (200, "stopped")
    assert [each["id"] for each in json.loads(listed.stdout)["tables"]] == [line["id"]]
    assert (redriven.status, redriven.body["state"]) == (202, "running")
    assert document["state"] == "succeeded", document
    assert same(document["ranking"]["scenes"]) == here("b1 * 4", precision="exact")
    assert shown.stdout.splitlines()[0] == f"table job     {line['id']}"
    assert SERIES[0] in shown.stdout


def test_refused_and_unknown_rankings_say_why(deployment: DeployedStack) -> None:
    """The answers are problem details."""
    wrong = call(deployment, "POST", "/rankings", body(deployment, by="b1 +"))
    unknown = call(deployment, "GET", "/tables/0123456789abcdef")
    unsigned = call(deployment, "POST", "/rankings", body(deployment), signed=False)

    assert (wrong.status, wrong.body["field"]) == (422, "by")
    assert unknown.status == 404
    assert unsigned.status == 403


def test_command_line_ranks_by_the_deployment(deployment: DeployedStack) -> None:
    """A list of this machine is uploaded; what it names has to be in the deployment's buckets."""
    box = ",".join(map(str, BOX))
    done = run_cli(
        deployment,
        *("rank", deployment.samples.list_href, "--by", "b1", f"--bbox={box}"),
        *("--precision", "exact", "--deployed", "--json", "--quiet"),
    )

    assert done.returncode == 0, done.stderr
    assert same(json.loads(done.stdout)["scenes"]) == here("b1", precision="exact")


@pytest.fixture(scope="module")
def users(deployment: DeployedStack) -> dict[str, User]:
    """A user for each function of rankings."""
    return {name: user_of(deployment, name) for name in ("rank", "plan_table", "read_images")}


def test_functions_of_rankings_need_no_more_than_their_roles(users: dict[str, User]) -> None:
    """The emulator gives functions its operator's rights, so they run here with those of their roles."""
    deployment = users["rank"].deployment
    asked = body(deployment, by="b1 * 3", precision="coarse")

    verdict = handled(users, "plan_table", {"request": asked, "execution": "by-hand"})
    place = verdict["manifest"]
    stored = deployment.client("s3").get_object(Bucket=place["bucket"], Key=place["key"])["Body"].read()
    for tasks in json.loads(stored):
        handled(users, "read_images", {"gather": verdict["gather"], "tasks": tasks, "limit_s": 60})
    done = handled(users, "plan_table", {"gather": verdict["gather"], "failed_shards": 100})
    answer = handled(users, "rank", event("POST", "/rankings", body=json.dumps(asked)), left_s=29)

    assert verdict["verdict"] == "planned", verdict
    assert (done["verdict"], done["result"]["scenes"]) == ("complete", len(SERIES))
    assert answer["statusCode"] == 200, answer
    assert same(body_of(answer)["scenes"]) == here("b1 * 3", precision="coarse")
    assert body_of(answer)["totals"]["requests"] == 0


def test_roles_of_rankings_may_do_nothing_else(users: dict[str, User]) -> None:
    """No cube is read or written, no gather is started, no other control file is read, nothing is deleted."""
    deployment = users["rank"].deployment
    arrays, control, samples = deployment.array_bucket, deployment.control_bucket, deployment.samples.bucket
    for name, user in users.items():
        s3, states = user.client("s3"), user.client("stepfunctions")
        refused: list[Callable[[], Any]] = [
            partial(s3.get_object, Bucket=arrays, Key="a.zarr/zarr.json"),
            partial(s3.put_object, Bucket=arrays, Key="a.zarr/zarr.json", Body=b""),
            partial(s3.list_objects_v2, Bucket=arrays),
            partial(s3.get_object, Bucket=control, Key="gathers/a/1/plan.msgpack"),
            partial(s3.put_object, Bucket=control, Key="gathers/a/x", Body=b""),
            partial(s3.put_object, Bucket=samples, Key=f"{IN_SAMPLES}/{SERIES[0]}", Body=b""),
            partial(s3.delete_object, Bucket=arrays, Key="tables/statistics/a.sqlite"),
            partial(states.start_execution, stateMachineArn=deployment.state_machine_arn, input="{}"),
        ]
        if name == "read_images":
            refused += [
                partial(s3.put_object, Bucket=arrays, Key="tables/statistics/a.sqlite", Body=b""),
                partial(s3.get_object, Bucket=arrays, Key="tables/a/answer.json"),
                partial(s3.put_object, Bucket=control, Key="tables/a/rounds/0/state", Body=b""),
            ]
        for each in refused:
            with pytest.raises(ClientError) as error:
                each()
            assert error.value.response["Error"]["Code"] in {"AccessDenied", "AccessDeniedException"}
