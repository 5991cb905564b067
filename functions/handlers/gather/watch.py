"""Lambda entry point: once an hour, write how late the schedules are. An alarm watches that.

The event has the name of the stack's group of schedules (``group``). A schedule is late by the age of its
last gather that has succeeded, in pauses between ticks.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final

import boto3
from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext
from botocore.exceptions import ClientError
from msgspec import Struct

from handlers.deployment.settings import Settings
from pixel_gather.core.longest_schedule_pause import longest_pause_s
from pixel_gather.core.metric_names import SCHEDULE_LATENESS
from pixel_gather.io.aws.aws_errors import code_of
from pixel_gather.io.aws.executions import TICK
from pixel_gather.io.aws.metrics import EmfMetrics

_MOST_PAGES: Final = 20
"""Of 1,000 executions. A schedule whose last success is older than those is as late as the oldest of them."""


class Watch(Struct, frozen=True):
    """Looks at the schedules of one deployment."""

    state_machine_arns: tuple[str, ...]
    """Of gathers and of tables."""

    scheduler: Any
    """boto3's client of EventBridge Scheduler."""

    stepfunctions: Any
    """boto3's client of Step Functions."""

    def lateness(self, group: str, *, now: datetime) -> dict[str, float]:
        """Return how late each enabled schedule is, in its own pauses between ticks."""
        schedules = {each["Name"]: each for each in self._schedules(group)}
        last = self._last_successes({name: each["CreationDate"] for name, each in schedules.items()})
        return {
            name: (now - last[name]).total_seconds() / longest_pause_s(each["ScheduleExpression"])
            for name, each in schedules.items()
        }

    def _schedules(self, group: str) -> Iterator[Mapping[str, Any]]:
        for page in self.scheduler.get_paginator("list_schedules").paginate(GroupName=group):
            for each in page["Schedules"]:
                try:
                    found = self.scheduler.get_schedule(GroupName=group, Name=each["Name"])
                except ClientError as error:
                    if code_of(error) != "ResourceNotFoundException":
                        raise
                    continue  # it was removed a moment ago: the list tells late
                if found["State"] == "ENABLED":
                    yield found

    def _last_successes(self, made: Mapping[str, datetime]) -> dict[str, datetime]:
        """Return when the last gather of each schedule succeeded; if none has, when the schedule was made."""
        last, unseen = dict(made), set(made)
        list_executions = self.stepfunctions.get_paginator("list_executions").paginate
        for arn in self.state_machine_arns if made else ():
            pages = list_executions(stateMachineArn=arn, statusFilter="SUCCEEDED", maxResults=1000)
            for page in islice(pages, _MOST_PAGES):
                for each in page["executions"]:  # the latest first
                    name = _schedule_of(each["name"])
                    if name in unseen:
                        unseen.remove(name)
                        last[name] = max(each["stopDate"], last[name])
                if not unseen:
                    return last
        return last


def _schedule_of(execution: str) -> str | None:
    found: re.Match[str] | None = TICK.fullmatch(execution)
    return None if found is None else found[1].removeprefix("tick-").removesuffix("-")


settings = Settings.from_environment()
logger = Logger()
metrics = EmfMetrics(stage=settings.stage)
machines = (settings.state_machine, settings.table_state_machine)
watch = Watch(machines, boto3.client("scheduler"), boto3.client("stepfunctions"))


@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, float]:
    """Write how late each schedule is, and 0 if there is none."""
    late = watch.lateness(event["group"], now=datetime.now(UTC))
    for schedule, lateness in late.items():
        metrics.write({SCHEDULE_LATENESS: [lateness]}, schedule=schedule)
        logger.info("schedule", extra={"schedule": schedule, "lateness": round(lateness, 2)})
    if not late:
        metrics.write({SCHEDULE_LATENESS: [0.0]})
    return late
