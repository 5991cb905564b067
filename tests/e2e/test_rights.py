"""Each function of gathers and schedules does its work with the rights of its role, and no other work.

The emulator gives functions its operator's rights, so they run here with those of their roles.
"""

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import pytest
from botocore.exceptions import ClientError

from e2e.api import UNDRAWN
from e2e.principals import User, function_of, user_of
from e2e.test_gathers import IN_SAMPLES, SERIES, WINDOW, hrefs
from pixel_gather_emulator.deploy import DeployedStack
from support.lambda_functions import Context, cold_start

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

NAME: Final = "by-roles"
FUNCTIONS: Final = ("plan_gather", "gather_shard", "finish_gather", "tick")


@pytest.fixture(scope="module")
def users(deployment: DeployedStack) -> dict[str, User]:
    """A user for each function."""
    return {name: user_of(deployment, name) for name in FUNCTIONS}


def handled(users: Mapping[str, User], name: str, given: Any) -> Any:
    """Return what a handler answers, here, with the rights of its role."""
    user = users[name]
    deployed = function_of(user.deployment, name)["Environment"]["Variables"]
    with (
        pytest.MonkeyPatch.context() as patch,
        cold_start(patch, name, **deployed, **user.variables) as module,
    ):
        return json.loads(json.dumps(module.handler(given, Context(left_s=900))))


def gathered_by_hand(users: Mapping[str, User], request: dict[str, Any], execution: str) -> dict[str, Any]:
    """Call the functions as the state machine does. Each shard is done twice. Return the result."""
    verdict = handled(users, "plan_gather", {"request": request, "execution": execution})
    assert verdict["verdict"] == "planned", verdict
    place = verdict["manifest"]
    s3 = users["plan_gather"].deployment.client("s3")
    stored = s3.get_object(Bucket=place["bucket"], Key=place["key"])["Body"].read()
    for tasks in json.loads(stored) * 2:
        handled(users, "gather_shard", {"gather": verdict["gather"], "tasks": tasks, "limit_s": 60})
    done: dict[str, Any] = handled(users, "finish_gather", {"gather": verdict["gather"], "failed_shards": 0})
    return done


def test_functions_of_gathers_need_no_more_than_their_roles(users: dict[str, User]) -> None:
    """Plan, shard and finish make a cube, and an append to it, with the rights of their own roles."""
    deployment = users["plan_gather"].deployment
    first = {"sources": hrefs(deployment)[:3], "window": WINDOW, "output": UNDRAWN | {"name": NAME}}
    more = {"sources": hrefs(deployment)[3:], "window": WINDOW, "output": {"append_to": NAME}}

    made = gathered_by_hand(users, first, "first-by-hand")
    grown = gathered_by_hand(users, more, "more-by-hand")

    assert made["status"] == {"ok": 3}
    assert grown["status"] == {"ok": len(SERIES)}


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


def test_roles_of_gathers_and_schedules_may_do_nothing_else(users: dict[str, User]) -> None:
    """Each is denied what the next function may do, and nobody removes anything."""
    deployment = users["tick"].deployment
    arrays, control, samples = deployment.array_bucket, deployment.control_bucket, deployment.samples.bucket
    machine, source = deployment.state_machine_arn, f"{IN_SAMPLES}/{SERIES[0]}"
    pixels, plan, root = "a.zarr/band_1/c/0/0/0", "gathers/a/1/plan.msgpack", "a.zarr/zarr.json"
    for name, user in users.items():
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
            with pytest.raises(ClientError) as error:
                each()
            assert error.value.response["Error"]["Code"] in {"AccessDenied", "AccessDeniedException"}, (
                name,
                each,
            )
