"""A budget that is spent: the topic calls the function, and the function has the rights that it needs."""

import json
import time
from typing import Any

import pytest

from e2e.api import call, execution_arn, slow_request, wait_for
from e2e.principals import handled, user_of
from pixel_gather.core.halt_marker import HALTED_KEY
from pixel_gather.core.samples import request_of
from pixel_gather_emulator.deploy import DeployedStack
from support.forked_commands import run_command

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def budget(deployment: DeployedStack, *options: str) -> dict[str, Any]:
    """Run the command as the person who has deployed the stack."""
    done = run_command("budget", "--json", *options, environment=deployment.environment)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def begun(deployment: DeployedStack, name: str) -> str:
    """Start a gather that takes long, and return its id when its workers have begun."""
    id_: str = call(deployment, "POST", "/gathers", slow_request(deployment, name)).body["id"]
    until = time.monotonic() + 120
    while workers(deployment, id_) is None:
        assert time.monotonic() < until
        time.sleep(1)
    return id_


def workers(deployment: DeployedStack, id_: str) -> int | None:
    """Return how many workers a gather may have; None before they begin."""
    states = deployment.client("stepfunctions")
    runs = states.list_map_runs(executionArn=execution_arn(deployment, id_))["mapRuns"]
    return states.describe_map_run(mapRunArn=runs[0]["mapRunArn"])["maxConcurrency"] if runs else None


@pytest.mark.long
def test_spent_budget_halts_all_until_somebody_resumes(deployment: DeployedStack) -> None:
    """What runs has one worker, under the function's own role. What is submitted is refused in words."""
    id_ = begun(deployment, "budget-running")
    call(deployment, "POST", f"/gathers/{id_}/limit?workers=3")
    try:
        limited = handled({"halt": user_of(deployment, "halt")}, "halt", {"Records": []})
        while_halted = workers(deployment, id_)
        other = request_of(deployment.control_bucket, name="budget-refused", report=False)
        refused = wait_for(deployment, call(deployment, "POST", "/gathers", other).body["id"])
        shown = budget(deployment)
    finally:
        resumed = budget(deployment, "--resume")
    afterwards = workers(deployment, id_)
    call(deployment, "DELETE", f"/gathers/{id_}")
    again = wait_for(deployment, call(deployment, "POST", "/gathers", other).body["id"])

    assert limited == {"limited": [id_]}
    assert (while_halted, afterwards) == (1, 3)
    assert (refused["state"], refused["error"]["type"]) == ("failed", "HaltedError")
    assert refused["error"]["detail"] == shown["halted"]
    assert "has spent its budget of the month" in shown["halted"]
    assert (resumed["halted"], resumed["changed"]) == (None, [id_])
    assert again["state"] == "succeeded"


def test_topic_of_the_budget_calls_the_function(deployment: DeployedStack) -> None:
    """AWS Budgets tells the topic that the template names, and the marker is there soon."""
    budgets = deployment.client("budgets")
    account = deployment.emulator.account
    (made,) = budgets.describe_budgets(AccountId=account)["Budgets"]
    notice = {"NotificationType": "ACTUAL", "ComparisonOperator": "GREATER_THAN", "Threshold": 100.0}
    (told,) = budgets.describe_subscribers_for_notification(
        AccountId=account, BudgetName=made["BudgetName"], Notification=notice
    )["Subscribers"]
    s3, control = deployment.client("s3"), {"Bucket": deployment.control_bucket}
    try:
        deployment.client("sns").publish(TopicArn=told["Address"], Subject="AWS Budgets", Message="100 %")
        until = time.monotonic() + 60
        while not s3.list_objects_v2(**control, Prefix=HALTED_KEY)["KeyCount"]:
            assert time.monotonic() < until
            time.sleep(0.5)
    finally:
        budget(deployment, "--resume")

    assert float(made["BudgetLimit"]["Amount"]) == 50
    assert made["CostFilters"] == {"TagKeyValue": ["user:pixel-gather$main"]}
