"""The check of a deployment, and its canary under its own role."""

import json
from subprocess import CompletedProcess
from typing import Any

import pytest

from e2e.principals import handled, user_of
from pixel_gather_emulator.deploy import DeployedStack
from support.forked_commands import run_command

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def checked(deployment: DeployedStack, *options: str) -> CompletedProcess[str]:
    """Run the command as the person who has deployed the stack."""
    return run_command("check", *options, environment=deployment.environment)


@pytest.mark.long
def test_check_answers_what_only_a_deployment_can_tell(deployment: DeployedStack) -> None:
    """All pixels are right, failures are as assumed, and no figure is passed off as AWS's."""
    done = checked(deployment, "--failures", "--json")
    found: dict[str, Any] = json.loads(done.stdout)
    rows = {each["what"]: each for each in found["findings"]}

    assert done.returncode == 0, (done.stderr, found)
    assert found["is_emulated"]
    assert {each["to_do"] for each in found["findings"]} == {""}
    assert {"ACCOUNT", "CHILD", "FIRST_BYTE", "MAP_RUN", "STEPS"} <= found["measured"].keys()
    assert rows["pixels of 20 samples"]["measured"] == "the same"
    assert rows["the cube as it lies in the bucket"]["measured"] == "the same"
    assert float(rows["dollars"]["measured"]) == pytest.approx(float(rows["dollars"]["assumed"]), rel=0.9)
    assert rows["the map takes its tolerance from the plan"]["measured"] == "10 %"
    assert rows["a gather keeps the versions of its functions"]["measured"] == "4 published versions"
    assert rows["the topic takes events of EventBridge"]["measured"] == "it came"
    assert rows["a redrive runs the map again after its own failure"]["measured"] == "SUCCEEDED"
    assert rows["S3's answer about a missing object to a role that may not list"]["measured"] == "1 denied"
    assert rows["error of a worker that is killed for lack of memory"]["measured"] == "Runtime.ExitError"
    policy = deployment.client("s3").get_bucket_policy(Bucket=deployment.array_bucket)["Policy"]
    assert "PixelGatherCheck" not in policy


def test_check_saves_no_figures_of_the_emulator(deployment: DeployedStack, tmp_path: Any) -> None:
    """A plan for AWS would rest on them."""
    refused = checked(deployment, "--save", str(tmp_path / "cdk.context.json"))

    assert (refused.returncode, list(tmp_path.iterdir())) == (2, [])
    assert "figures of the emulator are not those of AWS" in refused.stderr


@pytest.mark.long
def test_canary_gathers_the_samples_under_its_own_role(deployment: DeployedStack) -> None:
    """Its few rights are enough, and a second call of the same time waits for the same gather."""
    users = {"canary": user_of(deployment, "canary")}

    answers = [handled(users, "canary", {"time": "2026-11-24T15:00:00Z"}) for _ in range(2)]

    assert answers == [{"wrong": None}] * 2
