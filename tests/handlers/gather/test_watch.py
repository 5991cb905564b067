"""How late schedules are, by the executions of a deployment."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import batched
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from support.lambda_functions import Context, cold_start, records

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


@dataclass
class FakeScheduler:
    """Schedules in memory."""

    schedules: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add(self, name: str, every: str, *, days_ago: float, state: str = "ENABLED") -> None:
        """Add a schedule that was made some days ago."""
        made = NOW - timedelta(days=days_ago)
        self.schedules[name] = {
            "Name": name,
            "ScheduleExpression": every,
            "CreationDate": made,
            "State": state,
        }

    def get_paginator(self, operation: str) -> Any:
        """As boto3. A page has one schedule."""
        assert operation == "list_schedules"
        return SimpleNamespace(
            paginate=lambda **_: ({"Schedules": [{"Name": name}]} for name in self.schedules)
        )

    def get_schedule(self, **given: Any) -> dict[str, Any]:
        """As boto3."""
        assert given["GroupName"] == "PixelGather-test"
        if self.schedules[given["Name"]]["State"] == "REMOVED":
            raise ClientError({"Error": {"Code": "ResourceNotFoundException"}}, "GetSchedule")
        return self.schedules[given["Name"]]


@dataclass
class FakeStepFunctions:
    """Executions that have succeeded, the latest first, on pages of two."""

    ended: list[tuple[str, float]] = field(default_factory=list)
    """Names, and how many hours ago they ended."""

    of_tables: tuple[str, ...] = ()
    """Names of tables that have just ended."""

    def get_paginator(self, operation: str) -> Any:
        """As boto3."""
        assert operation == "list_executions"
        return SimpleNamespace(paginate=self._pages)

    def _pages(self, **given: Any) -> Iterator[dict[str, Any]]:
        assert given["statusFilter"] == "SUCCEEDED"
        if given["stateMachineArn"] == "tables":
            yield {"executions": [{"name": name, "stopDate": NOW} for name in self.of_tables]}
            return
        for some in batched(self.ended, 2, strict=False):
            ends = [{"name": name, "stopDate": NOW - timedelta(hours=hours)} for name, hours in some]
            yield {"executions": ends}


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The function, with fakes."""
    with cold_start(monkeypatch, "watch") as imported:
        module: Any = imported
        module.watch = module.Watch(("machine", "tables"), FakeScheduler(), FakeStepFunctions())
        module.datetime = SimpleNamespace(now=lambda _: NOW)
        yield module


def test_schedules_are_as_late_as_their_last_success_in_their_own_pauses(
    watch: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that was never gathered counts from its making. Names that begin alike are told apart."""
    scheduler, states = watch.watch.scheduler, watch.watch.stepfunctions
    scheduler.add("alps", "rate(1 day)", days_ago=90)
    scheduler.add("alps-2", "rate(12 hours)", days_ago=90)
    scheduler.add("new", "cron(0 6 * * ? *)", days_ago=4)
    scheduler.add("off", "rate(1 minute)", days_ago=90, state="DISABLED")
    scheduler.add("gone", "rate(1 minute)", days_ago=90, state="REMOVED")  # the list tells it late
    states.ended = [
        ("by-hand", 1),
        ("tick-alps-2-20261120T000000Z", 6),
        ("tick-alps-20261118T120000Z", 48),
        ("tick-alps-2-20261101T000000Z", 400),
    ]

    late = watch.handler({"group": "PixelGather-test"}, Context())

    assert late == {"alps": 2.0, "alps-2": 0.5, "new": 4.0}
    written = records(capsys.readouterr().out, with_="ScheduleLateness")
    assert {each["schedule"]: each["ScheduleLateness"] for each in written} == {
        name: [value] for name, value in late.items()
    }


def test_schedules_of_tables_are_seen_as_well(watch: ModuleType) -> None:
    """Their executions are those of another state machine."""
    watch.watch.scheduler.add("fields", "rate(1 day)", days_ago=90)
    watch.watch.stepfunctions.of_tables = ("tick-fields-20261120T120000Z",)

    assert watch.handler({"group": "PixelGather-test"}, Context()) == {"fields": 0.0}


def test_deployment_without_schedules_is_not_late(
    watch: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    """A value is written all the same: without one the alarm would ring."""
    assert watch.handler({"group": "PixelGather-test"}, Context()) == {}

    (written,) = records(capsys.readouterr().out, with_="ScheduleLateness")
    assert written["ScheduleLateness"] == [0.0]
    assert "schedule" not in json.loads(json.dumps(written))
