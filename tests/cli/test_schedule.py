"""The command for schedules, against moto's EventBridge Scheduler."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, override

import boto3
import pytest
import yaml
from click.testing import CliRunner
from moto import mock_aws

from pixel_gather.core.errors import DeploymentError, RequestError
from pixel_gather.core.schedule import FROM_SETTINGS, Schedule
from pixel_gather_cli.deployment.aws_account import AwsAccount
from pixel_gather_cli.deployment.schedules import DeployedSchedules
from pixel_gather_cli.main import command

GROUP, TICK = "PixelGather-main", "arn:aws:lambda:eu-central-1:123456789012:function:tick"
ROLE = "arn:aws:iam::123456789012:role/schedules"
LOST = "arn:aws:sqs:eu-central-1:123456789012:lost"
REQUEST: dict[str, Any] = {
    "sources": {"stac": {"api": "https://stac.example.org/v1", "assets": ["red"]}},
    "window": {"bbox": [11, 46, 11.1, 46.1]},
}


@pytest.fixture
def scheduler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """A stack with a group for schedules and one schedule of its settings."""
    for name, value in {
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_REGION": "eu-central-1",
        "AWS_DEFAULT_REGION": "eu-central-1",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "request.yaml").write_text(yaml.safe_dump(REQUEST))
    outputs = {
        "ScheduleGroup": GROUP,
        "TickFunctionArn": TICK,
        "ScheduleRoleArn": ROLE,
        "LostTicksArn": LOST,
        "CatalogHosts": "stac.example.org,other.example.org:8443",
        "HttpsHosts": "none",
        "Signing": "none",
        "SourceBuckets": "bucket,scenes",
        "ControlBucket": "control",
        "ArrayBucket": "arrays",
    }
    template = {
        "Resources": {"Topic": {"Type": "AWS::SNS::Topic"}},
        "Outputs": {name: {"Value": value} for name, value in outputs.items()},
    }
    with mock_aws():
        boto3.client("cloudformation").create_stack(StackName=GROUP, TemplateBody=json.dumps(template))
        client = boto3.client("scheduler")
        client.create_schedule_group(Name=GROUP)
        own = Schedule(
            name="of-the-stack", every="rate(1 day)", request=REQUEST | {"output": {"append_to": "first"}}
        )
        client.create_schedule(
            Name=own.name,
            GroupName=GROUP,
            Description=FROM_SETTINGS,
            ScheduleExpression=own.every,
            FlexibleTimeWindow={"Mode": "OFF"},
            Target={"Arn": TICK, "RoleArn": ROLE, "Input": json.dumps(own.event())},
        )
        yield client


def run(*arguments: str) -> str:
    """Run the command and return its output."""
    done = CliRunner().invoke(command, ["schedule", *arguments], standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return done.stdout


@pytest.mark.long
def test_schedule_is_added_listed_and_removed(scheduler: Any) -> None:
    """It calls the stack's function of ticks by the stack's role. The cube may be named by an option."""
    options = ["--append-to", "bolzano", "--overlap-days", "3", "--json"]
    added = run("add", "daily", "request.yaml", "--every", "cron(0 6 * * ? *)", *options)
    found = scheduler.get_schedule(GroupName=GROUP, Name="daily")
    shown, listed = run("list"), json.loads(run("list", "--json"))["schedules"]
    removed = run("remove", "daily", "--json")

    assert json.loads(added).items() >= {"name": "daily", "overlap_days": 3}.items()
    assert json.loads(added)["request"]["output"] == {"append_to": "bolzano"}
    assert json.loads(removed) == {"name": "daily"}
    assert (found["Target"]["Arn"], found["Target"]["RoleArn"]) == (TICK, ROLE)
    assert found["Target"]["DeadLetterConfig"] == {"Arn": LOST}
    assert found["ScheduleExpression"] == "cron(0 6 * * ? *)"
    event = json.loads(found["Target"]["Input"])
    assert event["tick"] == "<aws.scheduler.scheduled-time>"
    made = Schedule.of_event(event)
    assert (made.name, made.cube, made.overlap_days) == ("daily", "bolzano", 3)
    assert shown.splitlines()[1] == "daily         cron(0 6 * * ? *)  bolzano  3 d      schedule add"
    assert [(each["name"], each["is_of_settings"]) for each in listed] == [
        ("daily", False),
        ("of-the-stack", True),
    ]
    assert "daily" not in run("list")


@pytest.mark.long
@pytest.mark.usefixtures("scheduler")
def test_the_index_of_a_schedule_may_lie_in_a_cube(tmp_path: Path) -> None:
    """No other file that is read may lie there."""
    indexed = REQUEST | {"index": "s3://arrays/cubes/a.zarr/headers.parquet", "output": {"append_to": "a"}}
    (tmp_path / "indexed.yaml").write_text(yaml.safe_dump(indexed))

    run("add", "indexed", "indexed.yaml", "--every", "rate(1 day)")

    assert "indexed" in run("list")


@pytest.mark.long
def test_schedule_of_a_table_is_added(scheduler: Any, tmp_path: Path) -> None:
    """The file is the body of POST /tables; other options have no place in it."""
    body = {"zones": "s3://bucket/fields.geojson", "by": "ndvi", "sources": {"catalog": {}}}
    (tmp_path / "table.yaml").write_text(yaml.safe_dump(body))
    arguments = ("add", "fields", "table.yaml", "--every", "rate(5 days)", "--append-to", "ndvi")
    run(*arguments)
    event = json.loads(scheduler.get_schedule(GroupName=GROUP, Name="fields")["Target"]["Input"])

    assert event["request"] == body | {"append_to": "ndvi"}
    assert "zones-ndvi" in run("list")
    with pytest.raises(RequestError, match="--sources: write what a table takes into REQUEST"):
        run(*arguments, "--sources", "list.csv")


class LateAccount(AwsAccount):
    """An account whose list of schedules still has one that was removed a moment ago."""

    @override
    def client(self, service: str) -> Any:
        client = super().client(service)
        if service == "scheduler":
            client.meta.events.register("after-call.scheduler.ListSchedules", self._add_removed)
        return client

    def _add_removed(self, parsed: dict[str, Any], **_: Any) -> None:
        parsed["Schedules"].append({"Name": "removed"})


@pytest.mark.usefixtures("scheduler")
def test_a_schedule_that_was_removed_a_moment_ago_is_not_listed() -> None:
    """EventBridge Scheduler is eventually consistent."""
    schedules = DeployedSchedules(LateAccount(region=None, profile=None, endpoint=None), GROUP)

    assert [each.name for each in schedules.list_()] == ["of-the-stack"]


DAILY = ("request.yaml", "--every", "rate(1 day)")
REFUSED = {
    ("add", "of-the-stack", *DAILY, "--append-to", "b"): "there is a schedule",
    ("add", "other", *DAILY, "--append-to", "first"): "appends to first already",
    ("add", "other", *DAILY): "output.append_to: name the cube",
    ("add", "other", "request.yaml", "--every", "daily", "--append-to", "b"): "--every: it is ",
    (
        "add",
        "other",
        *DAILY,
        "--stac",
        "https://c.org/v1",
        "--assets",
        "red",
        "--append-to",
        "b",
    ): "c.org is not allowed here",
    ("add", "other", "cmr.yaml", *DAILY[1:]): "request.sources.stac.cmr: the host cmr.earthdata",
    ("add", "other", "table.yaml", *DAILY[1:]): "request.sources.stac.api: the host c.org",
    ("add", "other", *DAILY, "--append-to", "s3://arrays/cubes/b.zarr"): "--append-to: it is 's3://arrays",
    (
        "add",
        "other",
        "foreign.yaml",
        *DAILY[1:],
    ): "request.sources.catalog.file: the bucket other is not allowed",
    ("add", "other", "local.yaml", *DAILY[1:]): "request.sources.stac.items: 'items.json' has no folder",
    ("add", "other", "uploaded.yaml", *DAILY[1:]): "request.zones: uploaded files are removed after a month",
    ("add", "other", "cubes.yaml", *DAILY[1:]): "request.zones: the bucket arrays is not allowed here",
    ("add", "other", "web.yaml", *DAILY[1:]): "request.zones: the host c.org is not allowed here",
    (
        "add",
        "other",
        "signed.yaml",
        *DAILY[1:],
    ): "request.sources.sign: this deployment does not sign by earth",
    ("remove", "of-the-stack"): "comes from the stack's settings",
    ("remove", "nobody"): "there is no schedule nobody",
    ("list", "--stack", "Nobody"): "--stack and --region name another$",
}


@pytest.mark.long
@pytest.mark.usefixtures("scheduler")
def test_what_cannot_be_done_is_said(tmp_path: Path) -> None:
    """Nothing is added or removed."""
    requests = {
        "cmr": {
            "sources": {"stac": {"cmr": {"short_name": "HLSL30"}, "assets": ["B04"]}},
            "window": REQUEST["window"],
            "output": {"append_to": "b"},
        },
        "table": {
            "sources": {"stac": {"api": "https://c.org/v1"}},
            "zones": "s3://bucket/f.geojson",
            "append_to": "b",
        },
        "foreign": {
            "sources": {"catalog": {"file": "s3://other/all.parquet", "assets": ["red"]}},
            "window": REQUEST["window"],
            "output": {"append_to": "b"},
        },
        "local": {
            "sources": {"stac": {"items": "items.json", "assets": ["red"]}},
            "window": REQUEST["window"],
            "output": {"append_to": "b"},
        },
        "signed": {
            "sources": {
                "sign": "earthdata",
                "catalog": {"file": "s3://scenes/all.parquet", "assets": ["red"]},
            },
            "window": REQUEST["window"],
            "output": {"append_to": "b"},
        },
        "uploaded": {"sources": {"catalog": {}}, "zones": "s3://control/lists/f.geojson", "append_to": "b"},
        "cubes": {"sources": {"catalog": {}}, "zones": "s3://arrays/lists/f.geojson", "append_to": "b"},
        "web": {"sources": {"catalog": {}}, "zones": "https://c.org/f.geojson", "append_to": "b"},
    }
    for name, request in requests.items():
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(request))
    for arguments, message in REFUSED.items():
        with pytest.raises((RequestError, DeploymentError), match=message):
            run(*arguments)

    (line,) = run("list").splitlines()[1:]
    assert line.startswith("of-the-stack")
