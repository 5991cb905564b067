"""Each function of gathers and schedules does its work with the rights of its role, and no other work.

The emulator gives functions its operator's rights, so they run here with those of their roles.
"""

import json
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import pytest

from e2e.api import UNDRAWN, execution_arn, gathered, refused_writes, slow_request
from e2e.principals import User, denied, handled, user_of
from e2e.test_gathers import IN_SAMPLES, SERIES, WINDOW, hrefs
from pixel_gather.core.errors import GatherError
from pixel_gather_emulator.deploy import DeployedStack
from scenes import scenes
from support.api_bridge import body_of, event
from support.geojson import collection

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

NAME: Final = "by-roles"
FUNCTIONS: Final = ("plan_gather", "gather_shard", "finish_gather", "tick")
OF_THE_API: Final = ("dry_run", "submit", "status")


@pytest.fixture(scope="module")
def users(deployment: DeployedStack) -> dict[str, User]:
    """A user for each function."""
    return {name: user_of(deployment, name) for name in (*FUNCTIONS, *OF_THE_API)}


def _items(users: Mapping[str, User], verdict: Mapping[str, Any]) -> list[Any]:
    """Return the items of the manifest: the tasks of each child."""
    place = verdict["manifest"]
    s3 = users["plan_gather"].deployment.client("s3")
    items: list[Any] = json.loads(s3.get_object(Bucket=place["bucket"], Key=place["key"])["Body"].read())
    return items


def gathered_by_hand(users: Mapping[str, User], request: dict[str, Any], execution: str) -> dict[str, Any]:
    """Call the functions as the state machine does. Each shard is done twice. Return the result."""
    verdict = handled(users, "plan_gather", {"request": request, "execution": execution})
    assert verdict["verdict"] == "planned", verdict
    event = {"gather": verdict["gather"], "execution": execution}
    for tasks in _items(users, verdict) * 2:
        handled(users, "gather_shard", event | {"tasks": tasks, "limit_s": 60})
    done: dict[str, Any] = handled(users, "finish_gather", event | {"failed_shards": 0})
    return done


def test_functions_of_gathers_need_no_more_than_their_roles(users: dict[str, User]) -> None:
    """Plan, shard and finish make a cube, and an append to it, with the rights of their own roles.

    The first gather shares the requests that its bucket allows. Both enter the register and leave it.
    """
    deployment = users["plan_gather"].deployment
    limits = {"requests_per_s": {f"s3://{deployment.samples.bucket}": 100}}
    first = {
        "sources": hrefs(deployment)[:3],
        "window": WINDOW,
        "output": UNDRAWN | {"name": NAME},
        "limits": limits,
    }
    more = {"sources": hrefs(deployment)[3:], "window": WINDOW, "output": {"append_to": NAME}}

    made = gathered_by_hand(users, first, "first-by-hand")
    grown = gathered_by_hand(users, more, "more-by-hand")

    kept = deployment.client("s3").list_objects_v2(Bucket=deployment.control_bucket, Prefix="pace/")
    assert f"pace/s3-{deployment.samples.bucket}.json" in [each["Key"] for each in kept["Contents"]]
    register = deployment.client("s3").get_object(Bucket=deployment.control_bucket, Key="pace/gathers.json")
    assert not {"first-by-hand", "more-by-hand"} & json.loads(register["Body"].read()).keys()
    assert made["status"] == {"ok": 3}
    assert grown["status"] == {"ok": len(SERIES)}


def asked(users: Mapping[str, User], function: str, method: str, path: str, given: Any = None) -> Any:
    """Return the status and the body of what a function of the API answers, with the rights of its role."""
    body = None if given is None else json.dumps(given)
    answer = handled(users, function, event(method, path, body=body), left_s=29)
    return answer["statusCode"], body_of(answer)


@pytest.mark.long
def test_every_option_of_a_request_needs_no_more_than_the_roles(users: dict[str, User]) -> None:
    """Dry run, plan, shard and finish have the rights for each option. A dry run comes first and last.

    Options that need no store are taken together.
    """
    deployment = users["plan_gather"].deployment
    arrays, control, samples = deployment.array_bucket, deployment.control_bucket, deployment.samples.bucket
    files, item = hrefs(deployment), json.dumps(_item(hrefs(deployment)[0]))
    users["submit"].client("s3").put_object(Bucket=control, Key="lists/items.json", Body=item.encode())
    users["submit"].client("s3").put_object(Bucket=control, Key="lists/a.txt", Body="\n".join(files).encode())
    chips = b"id,lon,lat\nhere,-105,39\nthere,-104,40\n"
    users["submit"].client("s3").put_object(Bucket=control, Key="lists/chips.csv", Body=chips)
    in_folder = {"prefix": f"s3://{samples}/{IN_SAMPLES}/", "glob": "nclimgrid-prcp-*.tif"}
    in_archive = {"sources": files[:2], "window": WINDOW}
    options: dict[str, dict[str, Any]] = {
        "archive-first": in_archive | {"output": {"archive": "of-roles"}},
        "archive-next": in_archive | {"sources": files[2:4], "output": {"archive": "of-roles"}},
        "uploaded-list": {"sources": f"s3://{control}/lists/a.txt", "window": WINDOW},
        "list-beside": {"sources": deployment.samples.list_href, "window": "centre"},
        "folder": {"sources": in_folder, "window": WINDOW},
        "items": {
            "sources": {"stac": {"items": f"s3://{control}/lists/items.json", "assets": ["prcp"]}},
            "window": WINDOW,
        },
        "catalog": {
            "sources": {
                "catalog": {"file": deployment.samples.catalog_href, "assets": ["data"], "area": "all"}
            },
            "window": "centre",
        },
        "pixels": {
            "sources": files[:2],
            "window": {"tile": [0, 0]},
            "bands": [1],
            "overview": 0,
            "masked": True,
            "nodata": -1,
            "grid": "same",
            "output": {
                "layout": {"chunk": [2, 32, 32], "shard_rows": 2},
                "codec": "zfp",
                "zfp_tolerance": 0,
                "expected_rows": 4,
            },
            "limits": {"usd": 1, "files": 9, "workers": 2, "failed_shards": 0.5},
        },
        "source-codec": {"sources": files[:2], "window": {"tile": [0, 0]}, "output": {"codec": "source"}},
        "index": {
            "sources": files[:2],
            "window": WINDOW,
            "index": f"s3://{arrays}/roles-source-codec.zarr/headers.parquet",
        },
        "chips": {
            "sources": files[:2],
            "windows": {"table": f"s3://{control}/lists/chips.csv", "size": [8, 8]},
        },
        "warped": {
            "sources": files[:2],
            "window": {"bbox": [-106, 38, -104, 40]},
            "grid": {"crs": "EPSG:3857", "resolution": 5000},
            "values": "scaled",
            "output": {"bands": "axis"},
        },
        "plain": {"sources": files[:2], "window": WINDOW, "output": {"sharding": False}},
        "drawn": {"sources": files[:1], "window": WINDOW, "output": {"report": True}},
    }
    for name, given in options.items():
        request = given | {"output": UNDRAWN | given.get("output", {}) | {"name": f"roles-{name}"}}
        told = [asked(users, "dry_run", "POST", "/plans", request)]

        made = gathered_by_hand(users, request, f"by-roles-{name}")
        told.append(asked(users, "dry_run", "POST", "/plans", request))

        assert [code for code, _ in told] == [200, 200], (name, told)
        assert made["status"].get("ok"), (name, made)


def test_dry_run_of_an_append_says_what_is_there(users: dict[str, User]) -> None:
    """An append to no cube is refused in words; S3 answers 403 to a function that may not list."""
    request = {"sources": hrefs(users["dry_run"].deployment), "window": WINDOW}

    code, told = asked(users, "dry_run", "POST", "/plans", request | {"output": {"append_to": "not-there"}})

    assert (code, told["field"]) == (422, "output.append_to"), told


@pytest.mark.long
def test_workers_find_the_marker_of_a_cancelled_gather_by_their_own_rights(users: dict[str, User]) -> None:
    """Status may put it. Worker and finish may read it. They may not list, so S3 answers 403 without it."""
    deployment = users["status"].deployment
    request = {"sources": hrefs(deployment), "window": WINDOW, "output": UNDRAWN | {"name": "cancelled"}}
    with refused_writes(deployment, "cancelled.zarr/band_1/c/*"):
        id_ = asked(users, "submit", "POST", "/gathers", request)[1]["id"]
        stopped = asked(users, "status", "DELETE", f"/gathers/{id_}")
        # A worker that runs on after this must not commit its shard: then no task would be left.
        planned = handled(users, "plan_gather", {"request": request, "execution": id_})
        event = {"gather": planned["gather"], "execution": id_}
        (tasks,) = _items(users, planned)
        worked = handled(users, "gather_shard", event | {"tasks": tasks, "limit_s": 60})

    assert (stopped[0], stopped[1]["state"]) == (200, "stopped")
    assert worked["shards"] == []
    with pytest.raises(GatherError, match="was cancelled: submit its request again"):
        handled(users, "finish_gather", event | {"failed_shards": 0})


@pytest.mark.long
def test_status_changes_the_workers_of_a_gather_that_runs(users: dict[str, User]) -> None:
    """Before its workers have begun, and after its end, it is refused in words."""
    deployment = users["status"].deployment

    id_ = asked(users, "submit", "POST", "/gathers", slow_request(deployment, "limited"))[1]["id"]
    states, arn = deployment.client("stepfunctions"), execution_arn(deployment, id_)
    code, told = asked(users, "status", "POST", f"/gathers/{id_}/limit?workers=7")
    while code != 200:
        assert "have not begun" in told["detail"], told
        time.sleep(1)
        if states.list_map_runs(executionArn=arn)["mapRuns"]:  # asking it costs less than the function
            code, told = asked(users, "status", "POST", f"/gathers/{id_}/limit?workers=7")
    (run,) = states.list_map_runs(executionArn=arn)["mapRuns"]
    found = states.describe_map_run(mapRunArn=run["mapRunArn"])
    stopped = asked(users, "status", "DELETE", f"/gathers/{id_}")
    late = asked(users, "status", "POST", f"/gathers/{id_}/limit?workers=7")

    assert (told["id"], told["state"], found["maxConcurrency"]) == (id_, "running", 7)
    assert (stopped[0], late[0]) == (200, 422)
    assert "does not run any more" in late[1]["detail"]


def test_functions_of_the_api_need_no_more_than_their_roles(users: dict[str, User]) -> None:
    """Submit starts a gather and lends a place for a list. Status shows, stops and redrives it."""
    deployment = users["submit"].deployment
    request = {"sources": hrefs(deployment)[:1], "window": WINDOW, "output": UNDRAWN | {"name": "of-api"}}

    code, line = asked(users, "submit", "POST", "/gathers", request)
    lent = asked(users, "submit", "POST", "/lists", {"sha256": 64 * "0", "suffix": "csv", "nbytes": 9})
    stopped = asked(users, "status", "DELETE", f"/gathers/{line['id']}")
    shown = asked(users, "status", "GET", f"/gathers/{line['id']}")
    listed = asked(users, "status", "GET", "/gathers")
    redriven = asked(users, "status", "POST", f"/gathers/{line['id']}/redrive")

    assert (code, lent[0], stopped[0], shown[0], listed[0]) == (202, 200, 200, 200, 200)
    assert redriven[0] in {202, 409}, redriven  # it may have succeeded before it was stopped
    assert line["id"] in {each["id"] for each in listed[1]["gathers"]}


@pytest.mark.long
def test_status_and_operators_learn_why_a_worker_failed(users: dict[str, User]) -> None:
    """The children of a Map Run are read with the rights of status, and with those of operators."""
    deployment = users["status"].deployment
    request = {"sources": hrefs(deployment)[:1], "window": WINDOW, "output": UNDRAWN | {"name": "why"}}
    with refused_writes(deployment, "why.zarr/band_1/c/*"):
        ended = gathered(deployment, request)
    operator = User.with_policies(deployment, "asks-why", "OperatorPolicyArn")

    _, shown = asked(users, "status", "GET", f"/gathers/{ended['id']}")
    states, arn = operator.client("stepfunctions"), execution_arn(deployment, ended["id"])
    (run,) = states.list_map_runs(executionArn=arn)["mapRuns"]
    (child,) = states.list_executions(mapRunArn=run["mapRunArn"])["executions"]

    (failure,) = shown["failures"]
    assert ended["state"] == "failed"
    assert (failure["shards"], failure["error"]) == ([0], "StoreError")
    assert "a right is missing" in failure["advice"], failure
    assert states.describe_execution(executionArn=child["executionArn"])["error"] == "StoreError"
    assert states.get_execution_history(executionArn=child["executionArn"])["events"]


def _item(href: str) -> dict[str, Any]:
    """Return a STAC item of one sample."""
    assets = {"prcp": {"href": href, "type": "image/tiff; application=geotiff"}}
    where: dict[str, Any] = {"box": (-125.0, 24.0, -66.0, 50.0), "time": "1895-01-01T00:00:00Z"}
    return collection([scenes.item("prcp-189501", collection="nclimgrid", assets=assets, **where)])


def test_function_of_schedules_needs_no_more_than_its_role(users: dict[str, User]) -> None:
    """A tick starts the first gather of a cube that is not there."""
    deployment = users["tick"].deployment
    given = {
        "schedule": "by-role",
        "every": "rate(1 day)",
        "tick": "2026-11-22T00:00:00Z",
        "request": {
            "sources": {"stac": {"items": f"s3://{deployment.samples.bucket}/none.json", "assets": ["a"]}},
            "window": "centre",
            "output": {"append_to": "by-a-tick"},
        },
    }

    told = handled(users, "tick", given)

    assert told["execution"].startswith("tick-by-role-"), told


@pytest.mark.long
def test_roles_of_gathers_and_schedules_may_do_nothing_else(users: dict[str, User]) -> None:
    """Each is denied what the next function may do, and nobody removes anything."""
    deployment = users["tick"].deployment
    arrays, control, samples = deployment.array_bucket, deployment.control_bucket, deployment.samples.bucket
    machine, source = deployment.state_machine_arn, f"{IN_SAMPLES}/{SERIES[0]}"
    pixels, plan, root = "a.zarr/band_1/c/0/0/0", "gathers/a/1/plan.msgpack", "a.zarr/zarr.json"
    for name in FUNCTIONS:
        user = users[name]
        s3, states = user.client("s3"), user.client("stepfunctions")
        put, get = partial(s3.put_object, Body=b""), s3.get_object
        refused: list[Callable[[], Any]] = [
            partial(s3.delete_object, Bucket=arrays, Key=root),
            partial(s3.delete_object, Bucket=control, Key=plan),
            partial(put, Bucket=samples, Key=source),
            partial(put, Bucket=control, Key="lists/a.csv"),
            partial(states.stop_execution, executionArn=machine.replace("stateMachine", "execution") + ":a"),
        ]
        if name != "tick":
            refused += [partial(states.start_execution, stateMachineArn=machine, input="{}")]
        if name in {"plan_gather", "tick"}:
            refused += [partial(put, Bucket=arrays, Key=pixels), partial(get, Bucket=arrays, Key=pixels)]
        if name in {"gather_shard", "finish_gather", "tick"}:
            refused += [
                partial(put, Bucket=control, Key=plan),
                partial(get, Bucket=control, Key="lists/a.csv"),
            ]
        if name in {"finish_gather", "tick"}:
            refused += [partial(get, Bucket=samples, Key=source)]
        if name in {"gather_shard", "tick"}:
            refused += [partial(s3.list_objects_v2, Bucket=control)]
        if name == "gather_shard":
            refused += [partial(s3.list_objects_v2, Bucket=each) for each in (arrays, samples)]
        if name == "tick":
            refused += [partial(put, Bucket=arrays, Key=root), partial(get, Bucket=control, Key=plan)]
        for each in refused:
            denied(each)
