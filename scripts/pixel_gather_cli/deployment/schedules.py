"""The schedules of a deployment, in EventBridge Scheduler. No function of the deployment is asked."""

import json
from collections.abc import Mapping
from copy import replace
from typing import TYPE_CHECKING, Any, Final, Self

from msgspec import Struct

from pixel_gather.core.errors import DeploymentError, RequestError
from pixel_gather.core.request.href_policy import HrefPolicy
from pixel_gather.core.schedule import FROM_SETTINGS, LONGEST_DELAY_S, N_RETRIES, Schedule
from pixel_gather.io.aws.aws_errors import answer_unless, aws_errors_in_words
from pixel_gather_cli.deployment.remote import Target, find_stack

if TYPE_CHECKING:
    from pixel_gather_cli.deployment.aws_account import AwsAccount

_BY_HAND: Final = "added by pixel-gather schedule"
_LARGEST_NBYTES: Final = 200_000
"""Lambda takes 256 KB from Scheduler."""


class ScheduleLine(Struct, frozen=True, kw_only=True):
    """One schedule as the list shows it."""

    name: str
    every: str
    cube: str
    overlap_days: int
    is_enabled: bool
    is_of_settings: bool
    """Whether the deployment made it. It is changed in the stack's settings alone."""

    request: Mapping[str, Any]


class DeployedSchedules:
    """Adds, lists and removes schedules in the group of a stack."""

    def __init__(self, account: "AwsAccount", stack: str) -> None:
        """Take the account. Nothing is asked yet."""
        self._account, self._stack = account, stack
        self._scheduler = account.client("scheduler")

    @classmethod
    def taken_from(cls, options: dict[str, Any]) -> Self:
        """Remove the options of `stack_options` from a command's options and open what they name."""
        given = {name: options.pop(name) for name in ("stack", "region", "profile", "endpoint")}
        account, stack, _ = find_stack(Target(**given), "schedules on AWS")
        return cls(account, stack)

    def add(self, schedule: Schedule) -> None:
        """Add a schedule. The first tick of a rate comes at once, that of a cron at its next time.

        Raises:
            RequestError: One of this name or for this cube is there, the request is too large, or the
                deployment would not make its search, or read its files for as long as it ticks.
            DeploymentError: There is no such stack.
        """
        # Can it be kept, and would the deployment read what it names?
        content = json.dumps(schedule.event())
        if len(content.encode()) > _LARGEST_NBYTES:
            raise RequestError(
                f"it has {len(content):,} bytes, and a schedule holds {_LARGEST_NBYTES:,}: simplify its area",
                field="request",
            )
        uploads = self._output("ControlBucket")
        buckets = self._names("SourceBuckets") | {uploads}
        files = HrefPolicy(
            schemes=frozenset({"s3", "https"}),
            buckets=buckets,
            hosts=self._names("HttpsHosts"),
        )
        schedule.check_new(
            self._names("CatalogHosts"),
            signing=self._names("Signing"),
            files=files,
            indexes=replace(files, buckets=buckets | {self._output("ArrayBucket")}),
            uploads=uploads,
        )
        # A cube grows by one schedule only.
        for each in self.list_():
            if each.name == schedule.name:
                raise RequestError(
                    f"there is a schedule {each.name}; remove it first, or choose another name",
                    field="schedule.name",
                )
            if each.cube == schedule.cube:
                raise RequestError(
                    f"the schedule {each.name} appends to {each.cube} already", field="output.append_to"
                )
        with aws_errors_in_words():
            self._scheduler.create_schedule(
                Name=schedule.name,
                GroupName=self._output("ScheduleGroup"),
                Description=_BY_HAND,
                ScheduleExpression=schedule.every,
                FlexibleTimeWindow={"Mode": "OFF"},
                Target={
                    "Arn": self._output("TickFunctionArn"),
                    "RoleArn": self._output("ScheduleRoleArn"),
                    "Input": content,
                    "DeadLetterConfig": {"Arn": self._output("LostTicksArn")},
                    "RetryPolicy": {
                        "MaximumEventAgeInSeconds": LONGEST_DELAY_S,
                        "MaximumRetryAttempts": N_RETRIES,
                    },
                },
            )

    def list_(self) -> list[ScheduleLine]:
        """Return all schedules of the stack, by name."""
        group = self._output("ScheduleGroup")
        with aws_errors_in_words():
            pages = self._scheduler.get_paginator("list_schedules").paginate(GroupName=group)
            names = [each["Name"] for page in pages for each in page["Schedules"]]
            found = [self._get(group, name) for name in sorted(names)]
        return [_line(each) for each in found if each is not None]

    def _get(self, group: str, name: str) -> Mapping[str, Any] | None:
        """Return a schedule; None if it was removed a moment ago, as the list tells late."""
        return answer_unless(
            {"ResourceNotFoundException"}, lambda: self._scheduler.get_schedule(GroupName=group, Name=name)
        )

    def remove(self, name: str) -> None:
        """Remove a schedule. Its cube stays, and a gather that runs goes on."""
        found = next((each for each in self.list_() if each.name == name), None)
        if found is None:
            raise RequestError(
                f"there is no schedule {name[:80]}; schedule list shows those that there are", field="name"
            )
        if found.is_of_settings:
            raise RequestError(
                f"{name} comes from the stack's settings: remove it from schedules there, and deploy",
                field="name",
            )
        with aws_errors_in_words():
            self._scheduler.delete_schedule(GroupName=self._output("ScheduleGroup"), Name=name)

    def _names(self, output: str) -> frozenset[str]:
        """Return the names that an output holds; none of them is called ``none``."""
        return frozenset(self._output(output).split(",")) - {"none"}

    def _output(self, name: str) -> str:
        return self._account.stack_output(self._stack, name)


def _line(found: Mapping[str, Any]) -> ScheduleLine:
    try:
        event = json.loads(found["Target"]["Input"])
        schedule = Schedule.of_event(event)
    except (ValueError, KeyError) as error:
        raise DeploymentError(f"the schedule {found['Name']} is not one of Pixel Gather: {error}") from error
    return ScheduleLine(
        name=str(found["Name"]),
        every=str(found["ScheduleExpression"]),
        cube=schedule.cube,
        overlap_days=schedule.overlap_days,
        is_enabled=found.get("State", "ENABLED") == "ENABLED",
        is_of_settings=found.get("Description") == FROM_SETTINGS,
        request=schedule.request,
    )
