"""Rankings by the deployed API, at once and by the state machine, and the rights of their functions."""

import json
from typing import Any, Final

import pytest

from e2e.api import call, wait_for
from e2e.principals import User, handled, user_of
from e2e.test_gathers import DATA, SERIES
from pixel_gather import rank
from pixel_gather_emulator.deploy import DeployedStack
from support.api_bridge import body_of, event
from support.lambda_functions import EXECUTION

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


@pytest.fixture(scope="module")
def users(deployment: DeployedStack) -> dict[str, User]:
    """A user for each function of rankings."""
    return {name: user_of(deployment, name) for name in ("rank", "plan_table", "read_images")}


@pytest.mark.long
def test_functions_of_rankings_need_no_more_than_their_roles(users: dict[str, User]) -> None:
    """The emulator gives functions its operator's rights, so they run here with those of their roles."""
    deployment = users["rank"].deployment
    asked = body(deployment, by="b1 * 3", precision="coarse")

    verdict = handled(users, "plan_table", {"request": asked, "execution": "by-hand"})
    place = verdict["manifest"]
    stored = deployment.client("s3").get_object(Bucket=place["bucket"], Key=place["key"])["Body"].read()
    for tasks in json.loads(stored):
        handled(users, "read_images", {"gather": verdict["gather"], "tasks": tasks, "limit_s": 60})
    ended = {"gather": verdict["gather"], "execution": EXECUTION, "failed_shards": 100}
    done = handled(users, "plan_table", ended)
    answer = handled(users, "rank", event("POST", "/rankings", body=json.dumps(asked)), left_s=29)

    assert verdict["verdict"] == "planned", verdict
    assert (done["verdict"], done["result"]["scenes"]) == ("complete", len(SERIES))
    assert answer["statusCode"] == 200, answer
    assert same(body_of(answer)["scenes"]) == here("b1 * 3", precision="coarse")
    assert body_of(answer)["totals"]["requests"] == 0
