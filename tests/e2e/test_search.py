"""Searches through the deployed API, by a function that may read the catalog and list one bucket."""

from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlsplit

import pytest

from e2e.api import UNDRAWN, call, gathered
from e2e.principals import User, denied, function_of, user_of
from e2e.test_gathers import IN_SAMPLES, SERIES
from pixel_gather_emulator.deploy import DeployedStack
from support.api_bridge import body_of, event
from support.lambda_functions import Context, cold_start

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

IN_COLORADO: Final = "lat1=41&lng1=-102&lat2=37&lng2=-109"
FOLDERS: Final = "collections=folders"


def asked(deployment: DeployedStack, path: str, body: Any = None) -> Any:
    """Return what the API answers; every answer has the catalog's ETag."""
    answered = call(deployment, "GET" if body is None else "POST", path, body)
    assert answered.status == 200, answered
    assert answered.etag.strip('"') not in ("", "none")
    return answered.body


def test_area_answers_links_that_are_gathered(deployment: DeployedStack) -> None:
    """The API alone leads from two corners to a cube."""
    links = asked(deployment, f"/area?{IN_COLORADO}")
    swapped = asked(deployment, "/area?lat1=37&lng1=-109&lat2=41&lng2=-102")
    at_a_point = asked(deployment, "/area?lat=39&lng=-105&datetime=2022")
    request = {
        "sources": at_a_point,
        "window": {"point": [-105, 39]},
        "output": UNDRAWN | {"name": "from-area"},
    }

    document = gathered(deployment, request)

    folder = f"s3://{deployment.samples.bucket}/{IN_SAMPLES}/"
    assert sorted(links) == sorted(folder + name for name in SERIES)
    assert swapped == links
    assert sorted(at_a_point) == [folder + name for name in sorted(SERIES) if "2022" in name]
    assert document["state"] == "succeeded", document
    assert document["sources"] == {"total": 3, "done": 3, "failed": 0}


def test_stac_search_is_answered_and_its_links_lead_on(deployment: DeployedStack) -> None:
    """GET and POST are answered. So are the landing page, its collections and a scene's own link."""
    body = {"bbox": [-109, 37, -102, 41], "limit": 3}
    posted = asked(deployment, "/search", body)
    got = asked(deployment, "/search?bbox=-109,37,-102,41&limit=3")
    following = next(link for link in posted["links"] if link["rel"] == "next")
    rest = asked(deployment, "/search", following["body"])
    own = next(link["href"] for link in posted["features"][0]["links"] if link["rel"] == "self")
    page = asked(deployment, "/")

    assert [each["id"] for each in got["features"]] == [each["id"] for each in posted["features"]]
    assert len(posted["features"]) + len(rest["features"]) == len(SERIES)
    path = "/collections" + urlsplit(own).path.partition("/collections")[2]
    assert asked(deployment, path)["id"] == posted["features"][0]["id"]
    assert "https://api.stacspec.org/v1.0.0/item-search" in page["conformsTo"]
    assert {each["id"] for each in asked(deployment, "/collections")["collections"]} == {"images", "folders"}


def test_wrong_searches_and_unsigned_ones_are_refused(deployment: DeployedStack) -> None:
    """With problem details that name the parameter."""
    wrong = call(deployment, "GET", "/scenes?bbox=1,2,3")
    unsigned = call(deployment, "GET", "/scenes", signed=False)

    assert (wrong.status, wrong.body["field"]) == (400, "bbox")
    assert unsigned.status == 403


@pytest.fixture(scope="module")
def searcher(deployment: DeployedStack) -> User:
    """A user with the rights of the search function's role and no others."""
    return user_of(deployment, "answer_searches")


def test_search_function_needs_no_more_than_its_role(searcher: User, monkeypatch: pytest.MonkeyPatch) -> None:
    """The emulator gives functions its operator's rights, so the handler runs here with those of the role."""
    deployed = function_of(searcher.deployment, "answer_searches")["Environment"]["Variables"]
    variables = {**deployed, **searcher.variables}

    with cold_start(monkeypatch, "answer_searches", **variables) as module:
        found = module.handler(event("GET", f"/scenes?{FOLDERS}&expand=true"), Context(left_s=29))
        items = module.handler(event("GET", "/search?limit=100"), Context(left_s=29))
        module.catalog.close()

    assert found["statusCode"] == items["statusCode"] == 200, (found, items)
    by_id = {scene["id"]: scene for scene in body_of(found)["scenes"]}
    image = f"s3://{searcher.deployment.samples.bucket}/files/odc-geo/au-3577.tif"
    assert by_id["listed"]["links"] == {"au-3577.tif": image}
    not_listed = [by_id[name]["not_listed"][0]["status"] for name in ("empty", "elsewhere")]
    assert not_listed == ["missing", "denied"]
    assert len(body_of(items)["features"]) == len(SERIES) + 3


def test_search_role_reads_the_catalog_and_lists_the_allowed_bucket(searcher: User) -> None:
    """It reads what a search reads, in every version."""
    samples = searcher.deployment.samples.bucket
    s3 = searcher.client("s3")

    listed = s3.list_objects_v2(Bucket=samples, Prefix="demo/catalog.")["Contents"]
    items = [each["Key"] for each in listed if each["Key"].endswith(".items")]

    assert s3.get_object(Bucket=samples, Key="demo/catalog.columns")["Body"].read(8) == b"PGCATLG2"
    assert len(items) == 2
    assert all(s3.get_object(Bucket=samples, Key=key)["ContentLength"] for key in items)


def test_search_role_may_do_nothing_else(searcher: User) -> None:
    """No pixel, no cube, no control file, no other bucket, no gather, and nothing is written."""
    deployment = searcher.deployment
    samples, s3 = deployment.samples.bucket, searcher.client("s3")
    states = searcher.client("stepfunctions")
    refused: tuple[Callable[[], Any], ...] = (
        lambda: s3.get_object(Bucket=samples, Key=f"{IN_SAMPLES}/{SERIES[0]}"),
        lambda: s3.get_object(Bucket=samples, Key="demo/catalog.parquet"),
        lambda: s3.put_object(Bucket=samples, Key="demo/catalog.columns", Body=b""),
        lambda: s3.delete_object(Bucket=samples, Key="demo/catalog.columns"),
        lambda: s3.list_objects_v2(Bucket=deployment.array_bucket),
        lambda: s3.list_objects_v2(Bucket=deployment.control_bucket),
        lambda: s3.get_object(Bucket=deployment.control_bucket, Key="lists/x"),
        lambda: states.start_execution(stateMachineArn=deployment.state_machine_arn, input="{}"),
        lambda: states.list_executions(stateMachineArn=deployment.state_machine_arn),
    )
    for each in refused:
        denied(each)
