"""Gathers by users who have only the stack's policies, in environments that name no part of it.

The emulator enforces IAM. Rights that it does not check, such as those of other console pages, are tested on
the template in tests/infra/test_access.py.
"""

import json
import subprocess
import sys
import urllib.request
from subprocess import CompletedProcess
from typing import Any, Final

import pytest
import xarray as xr
from obstore.exceptions import PermissionDeniedError
from obstore.store import S3Store
from zarr.storage import ObjectStore

from e2e.api import UNDRAWN
from e2e.principals import User, denied
from e2e.test_gathers import WINDOW, ended, hrefs
from pixel_gather_emulator.deploy import DeployedStack
from support.forked_commands import run_command

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

NAME: Final = "by-an-operator"


@pytest.fixture(scope="module")
def operator(deployment: DeployedStack) -> User:
    """A user with the operators' policy."""
    return User.with_policies(deployment, "operator", "OperatorPolicyArn")


@pytest.fixture(scope="module")
def reader(deployment: DeployedStack) -> User:
    """A user with the readers' policy."""
    return User.with_policies(deployment, "reader", "ReaderPolicyArn")


@pytest.fixture(scope="module")
def stranger(deployment: DeployedStack) -> User:
    """A user of the account without any policy."""
    return User.with_policies(deployment, "stranger")


def run_cli(user: User, *arguments: str) -> CompletedProcess[str]:
    """Run the command as a user on their own machine."""
    return run_command(*arguments, environment=user.environment)


@pytest.fixture(scope="module")
def gathered(deployment: DeployedStack, operator: User, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The end of a gather that an operator has submitted, with a local list file."""
    sources = tmp_path_factory.mktemp("lists") / "list.txt"
    sources.write_text("\n".join(hrefs(deployment)))
    done = run_cli(
        operator,
        *("submit", "--sources", str(sources), "--bbox", ",".join(map(str, WINDOW["bbox"]))),
        *("--name", NAME, "--watch", "--json"),
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_operator_submits_and_finds_the_api_by_the_stack(gathered: Any) -> None:
    """An operator needs only the policy, and no setting, after the deployment."""
    assert gathered["state"] == "succeeded", gathered
    assert gathered["sources"]["failed"] == 0


@pytest.mark.parametrize("way", [(), ("--direct",)], ids=["api", "direct"])
def test_operator_watches_stops_and_redrives(gathered: Any, operator: User, way: tuple[str, ...]) -> None:
    """Every command reaches the gather. An impossible operation is not reported as a missing right."""
    status = run_cli(operator, "status", gathered["id"], *way, "--json")
    listed = run_cli(operator, "list", *way)
    stopped = run_cli(operator, "cancel", gathered["id"], *way)
    redriven = run_cli(operator, "redrive", gathered["id"], *way)

    assert json.loads(status.stdout)["result"] == gathered["result"], status.stderr
    assert gathered["id"] in listed.stdout, listed.stderr
    assert stopped.returncode == 0, stopped.stderr
    assert redriven.returncode != 0
    for each in (status, listed, stopped, redriven):
        assert "denied" not in each.stderr.lower()
        assert "not authorized" not in each.stderr


def test_operator_gathers_and_looks_in_the_console(deployment: DeployedStack, operator: User) -> None:
    """An operator may make the calls of the console's pages: state machines, start, execution and history.

    The input is the plain request. Where its cube is complete, it reads nothing.
    """
    states = operator.client("stepfunctions")
    machines = states.list_state_machines()["stateMachines"]
    arn = deployment.state_machine_arn
    assert arn in {each["stateMachineArn"] for each in machines}
    described = states.describe_state_machine(stateMachineArn=arn)
    request = {
        "sources": hrefs(deployment),
        "window": {"tile": "centre"},
        "output": UNDRAWN | {"name": "by-console"},
        "limits": {"failed_shards": 0.5},  # so that it has a Map Run
    }
    started = [states.start_execution(stateMachineArn=arn, input=json.dumps(request))["executionArn"]]
    found = ended(states, started[0])
    started.append(states.start_execution(stateMachineArn=arn, input=json.dumps(request))["executionArn"])
    again = ended(states, started[1])

    assert json.loads(described["definition"])["StartAt"] == "Plan"
    assert (found["status"], again["status"]) == ("SUCCEEDED", "SUCCEEDED"), (found, again)
    assert json.loads(again["output"])["digest"] == json.loads(found["output"])["digest"]
    events = states.get_execution_history(executionArn=started[0])["events"]
    assert events[-1]["type"] == "ExecutionSucceeded"
    (run,) = states.list_map_runs(executionArn=started[0])["mapRuns"]
    assert states.list_map_runs(executionArn=started[1])["mapRuns"] == []
    assert states.describe_map_run(mapRunArn=run["mapRunArn"])["status"] == "SUCCEEDED"


def test_operator_reads_no_cube(gathered: Any, deployment: DeployedStack, operator: User) -> None:
    """An operator has no right to read cubes."""
    assert gathered["state"] == "succeeded"
    denied(
        lambda: operator.client("s3").get_object(Bucket=deployment.array_bucket, Key=f"{NAME}.zarr/zarr.json")
    )


def test_reader_opens_cubes_and_their_reports(
    gathered: Any, reader: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader can open cubes with only the policy, as the README shows."""
    for name, value in reader.variables.items():
        monkeypatch.setenv(name, value)

    store = S3Store.from_url(gathered["cube"])
    cube = xr.open_zarr(ObjectStore(store, read_only=True))

    assert float(cube.band_1.max()) > 0
    assert b"<html" in bytes(store.get("report.html").bytes())
    assert any(each["path"] == "zarr.json" for page in store.list() for each in page)
    with pytest.raises(PermissionDeniedError):
        store.put("zarr.json", b"{}")


def _metadata_shown(user: User, cube: str) -> Any:
    """Return the metadata that ``pixel-gather view`` serves to the user's browser."""
    command = [sys.executable, "-m", "pixel_gather_cli", "view", cube, "--no-open", "--json"]
    with subprocess.Popen(  # noqa: S603 # our own words
        command, env=user.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        assert server.stderr is not None
        line = server.stdout.readline()
        try:
            assert line, server.stderr.read()
            url = json.loads(line)["url"].replace("view.html", "zarr.json")
            with urllib.request.urlopen(url, timeout=60) as answer:  # noqa: S310 # our own server
                return json.load(answer)
        finally:
            server.terminate()


def test_cube_in_the_private_bucket_is_viewed_by_its_readers(
    gathered: Any, deployment: DeployedStack, reader: User
) -> None:
    """By its address a reader needs no other right. By the gather's ID, one also asks the API."""
    both = User.with_policies(deployment, "viewer", "OperatorPolicyArn", "ReaderPolicyArn")

    by_address = _metadata_shown(reader, gathered["cube"])
    by_id = _metadata_shown(both, gathered["id"])
    refused_id = run_cli(reader, "view", gathered["id"], "--no-open")

    assert by_address["attributes"]["complete"]
    assert by_id == by_address
    assert refused_id.returncode == 2
    assert "DescribeStacks" in refused_id.stderr


def test_reader_starts_nothing_and_sees_no_control_file(
    gathered: Any, deployment: DeployedStack, reader: User
) -> None:
    """A reader may read cubes and nothing else."""
    submitted = run_cli(reader, "list")

    assert submitted.returncode == 2
    assert "DescribeStacks" in submitted.stderr
    key = f"summaries/{gathered['id']}.json"
    denied(lambda: reader.client("s3").get_object(Bucket=deployment.control_bucket, Key=key))
    denied(
        lambda: reader.client("stepfunctions").list_executions(stateMachineArn=deployment.state_machine_arn)
    )


def test_stranger_is_refused_everywhere(gathered: Any, deployment: DeployedStack, stranger: User) -> None:
    """The emulator checks rights: without a policy every call is denied."""
    listed = run_cli(stranger, "list", "--api", deployment.api_url)

    assert listed.returncode == 2
    denied(lambda: stranger.client("stepfunctions").list_state_machines())
    denied(
        lambda: stranger.client("s3").get_object(Bucket=deployment.array_bucket, Key=f"{NAME}.zarr/zarr.json")
    )
    assert gathered["state"] == "succeeded"
