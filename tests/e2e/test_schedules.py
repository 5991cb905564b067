"""A cube that keeps itself up to date: schedules of the deployed stack, with the clock moved on."""

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any, Final

import pytest
import xarray as xr
import yaml
from obstore.store import S3Store
from zarr.storage import ObjectStore

from e2e.api import call
from e2e.principals import User, handled, user_of
from e2e.test_gathers import IN_SAMPLES, SERIES
from e2e.test_tables import features_href, stored
from pixel_gather_emulator.deploy import DeployedStack
from scenes.scenes import item
from support.forked_commands import run_command

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

DAY_S: Final = 86_400
ITEMS: Final = "schedules/items.json"
CUBE: Final = "keeps-itself-up-to-date"


@pytest.fixture(scope="module")
def scheduler(deployment: DeployedStack) -> User:
    """A user with the policy for schedules alone."""
    return User.with_policies(deployment, "scheduler", "SchedulePolicyArn")


def run_cli(user: User, *arguments: str) -> CompletedProcess[str]:
    """Run the command as a user on their own machine."""
    return run_command("schedule", *arguments, environment=user.environment)


def put_items(deployment: DeployedStack, n: int, *, key: str = ITEMS) -> None:
    """Put a file of items with the first ``n`` sample files, one a day up to today."""
    today = datetime.now(UTC).replace(microsecond=0)
    items = [
        item(
            f"s{at}",
            box=(-180.0, -80.0, 180.0, 80.0),
            time=(today - timedelta(days=10 - at)).isoformat().replace("+00:00", "Z"),
            assets={"heat": {"href": f"s3://{deployment.samples.bucket}/{IN_SAMPLES}/{name}"}},
        )
        for at, name in enumerate(list(SERIES)[:n])
    ]
    body = json.dumps({"type": "FeatureCollection", "features": items}).encode()
    deployment.client("s3").put_object(Bucket=deployment.samples.bucket, Key=key, Body=body)


def executions(deployment: DeployedStack) -> list[dict[str, Any]]:
    """Return the executions of the schedule, the first one first."""
    page = deployment.client("stepfunctions").list_executions(stateMachineArn=deployment.state_machine_arn)
    found = [each for each in page["executions"] if each["name"].startswith("tick-daily-")]
    return sorted(found, key=lambda each: each["name"])


def ticked(deployment: DeployedStack, n: int) -> dict[str, Any]:
    """Return the schedule's ``n``-th gather when it has succeeded. From the second on, move the clock."""
    if n > 1:
        deployment.emulator.move_clock(DAY_S + 60)
    until = time.monotonic() + 180
    while time.monotonic() < until:
        found = executions(deployment)
        if len(found) == n and found[-1]["status"] != "RUNNING":
            arn = found[-1]["executionArn"]
            described: dict[str, Any] = deployment.client("stepfunctions").describe_execution(
                executionArn=arn
            )
            assert described["status"] == "SUCCEEDED", described
            return described
        time.sleep(0.5)
    raise AssertionError(f"{executions(deployment)}\n{deployment.emulator.log_tail()}")


def opened(deployment: DeployedStack) -> xr.Dataset:
    """Open the cube."""
    variables = deployment.variables
    store = S3Store(
        deployment.array_bucket,
        prefix=f"{CUBE}.zarr",
        endpoint=deployment.endpoint,
        access_key_id=variables["AWS_ACCESS_KEY_ID"],
        secret_access_key=variables["AWS_SECRET_ACCESS_KEY"],
        region=deployment.region,
        client_options={"allow_invalid_certificates": True},
    )
    found: xr.Dataset = xr.open_zarr(ObjectStore(store, read_only=True))
    return found


@pytest.fixture(scope="module")
def daily(
    deployment: DeployedStack, scheduler: User, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """A schedule that somebody with the right to add schedules has added."""
    request = tmp_path_factory.mktemp("schedules") / "request.yaml"
    items = f"s3://{deployment.samples.bucket}/{ITEMS}"
    request.write_text(
        yaml.safe_dump(
            {
                "sources": {"stac": {"items": items, "assets": ["heat"]}},
                "window": {"pixels": [0, 0, 40, 30]},
            }
        )
    )
    put_items(deployment, 2)
    added = run_cli(
        scheduler, "add", "daily", str(request), "--every", "rate(1 day)", "--append-to", CUBE, "--no-report"
    )
    assert added.returncode == 0, added.stderr
    yield "daily"
    removed = run_cli(scheduler, "remove", "daily")
    assert removed.returncode == 0, removed.stderr
    assert "no schedules" in run_cli(scheduler, "list").stderr


@pytest.mark.usefixtures("daily")
def test_watch_sees_how_late_schedules_are_by_its_own_rights(deployment: DeployedStack) -> None:
    """It may list executions and schedules, and read the schedules of its group."""
    users = {"watch": user_of(deployment, "watch")}

    late = handled(users, "watch", {"group": deployment.outputs["ScheduleGroup"]})

    assert late.keys() == {"daily"}
    assert 0 <= late["daily"] < 1


@pytest.mark.usefixtures("daily")
def test_ticks_make_the_cube_then_append_what_is_new_then_nothing(deployment: DeployedStack) -> None:
    """The first tick comes at once. The cube is made, grows by the new scenes, and stays as it is."""
    ticked(deployment, 1)
    rows_of_first = opened(deployment)["href"].values.tolist()
    put_items(deployment, 4)
    second = ticked(deployment, 2)
    after_second = opened(deployment)
    ticked(deployment, 3)
    after_third = opened(deployment)

    names = [f"s3://{deployment.samples.bucket}/{IN_SAMPLES}/{name}" for name in SERIES]
    assert rows_of_first == names[:2]
    assert after_second["href"].values.tolist() == names[:4]
    assert (after_second["status"] == 0).all()
    assert after_third["href"].values.tolist() == names[:4]
    assert json.loads(second["input"])["output"] == {"append_to": CUBE, "report": False}
    assert json.loads(second["input"])["sources"]["stac"]["datetime"].partition("/")[0] != ".."


@pytest.mark.long
def test_ticks_make_a_table_then_append_what_is_new(
    deployment: DeployedStack, scheduler: User, tmp_path: Path
) -> None:
    """Two days, by the roles of their functions. The name of the table stands for its last version."""
    key, bucket = "schedules/items-of-table.json", deployment.samples.bucket
    put_items(deployment, 2, key=key)
    request = tmp_path / "table.yaml"
    request.write_text(
        yaml.safe_dump(
            {
                "points": features_href(deployment, "plots.csv"),
                "id": "plot_id",
                "sources": {"stac": {"items": f"s3://{bucket}/{key}", "assets": ["heat"]}},
            }
        )
    )
    added = run_cli(
        scheduler, "add", "plots", str(request), "--every", "rate(1 day)", "--append-to", "keeps-up-to-date"
    )
    assert added.returncode == 0, added.stderr
    first = grown_table(deployment, n_images=2)
    put_items(deployment, 4, key=key)
    deployment.emulator.move_clock(DAY_S + 60)
    second = grown_table(deployment, n_images=4)
    removed = run_cli(scheduler, "remove", "plots")

    assert removed.returncode == 0, removed.stderr
    assert (first["version"], second["version"], second["read"]) == (1, 2, 2)
    lines = stored(deployment, second["table"])
    assert len(set(lines["href"].to_pylist()) - {None}) == 4
    assert stored(deployment, first["table"]).num_rows < lines.num_rows == second["lines"]


def grown_table(deployment: DeployedStack, *, n_images: int) -> dict[str, Any]:
    """Return the table's result when it has so many images."""
    until = time.monotonic() + 180
    while time.monotonic() < until:
        shown = call(deployment, "GET", "/tables/points-keeps-up-to-date")
        result = shown.body.get("result") or {}
        if result.get("scenes") == n_images:
            return dict(result)
        time.sleep(0.5)
    raise AssertionError(f"{shown}\n{deployment.emulator.log_tail()}")
