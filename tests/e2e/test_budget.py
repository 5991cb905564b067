"""A budget that is spent: the topic calls the function, and the function has the rights that it needs."""

import json
import time
from typing import Any
from urllib.parse import quote

import pytest

from e2e.api import Answered, call, execution_arn, wait_for
from e2e.principals import handled, user_of
from pixel_gather.core.halt import HALTED_KEY
from pixel_gather.core.samples import N_SAMPLES, key_of, request_of, sample
from pixel_gather_emulator.deploy import DeployedStack
from support.forked_commands import run_command

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SLOWLY = 0.2
"""Requests a second of the bucket of sources, so that a gather runs for as long as the test needs."""


def budget(deployment: DeployedStack, *options: str) -> dict[str, Any]:
    """Run the command as the person who has deployed the stack."""
    done = run_command("budget", "--json", *options, environment=deployment.environment)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def begun(deployment: DeployedStack, name: str) -> str:
    """Start a gather that takes long, and return its id when its workers have begun."""
    s3, bucket = deployment.client("s3"), deployment.control_bucket
    for index in range(N_SAMPLES):
        s3.put_object(Bucket=bucket, Key=key_of(index), Body=sample(index))
    request = {**request_of(bucket, name=name, report=False)}
    request["limits"] = {"workers": 2, "requests_per_s": {f"s3://{bucket}": SLOWLY}}
    id_: str = call(deployment, "POST", "/gathers", request).body["id"]
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
    assert (refused["state"], refused["error"]["type"]) == ("failed", "BudgetError")
    assert refused["error"]["detail"] == shown["halted"]
    assert "has spent its budget of the month" in shown["halted"]
    assert (resumed["halted"], resumed["changed"]) == (None, [id_])
    assert again["state"] == "succeeded"


def test_answers_at_once_obey_a_spent_budget(deployment: DeployedStack) -> None:
    """Rankings, series and pixels are refused in the same words, under the roles of their functions."""
    sources = quote(deployment.samples.list_href)
    ranking = {
        "sources": deployment.samples.list_href,
        "by": "b1 + 17",
        "area": {"bbox": [-105.5, 38.5, -104.5, 39.5]},
    }

    def answers() -> list[Answered]:
        return [
            call(deployment, "POST", "/rankings", ranking),
            call(deployment, "GET", f"/series?point=-105,39&list={sources}"),
            call(deployment, "GET", f"/drill?point=-105,39&list={sources}"),
        ]

    try:
        handled({"halt": user_of(deployment, "halt")}, "halt", {"Records": []})
        refused = answers()
        shown = budget(deployment)
    finally:
        budget(deployment, "--resume")
    afterwards = answers()

    assert {(each.status, each.body["type"], each.body["detail"]) for each in refused} == {
        (422, "urn:pixel-gather:problem:budget_error", shown["halted"])
    }
    assert [each.status for each in afterwards] == [200, 200, 200]


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
