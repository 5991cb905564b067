"""EventBridge Scheduler: when it ticks, a clock that can be moved, and the rights of a schedule's role.

AWS                                                        ministack
``<aws.scheduler.scheduled-time>`` in an input is replaced  it is sent as it stands
a schedule acts with the rights of its role                 no rights are checked
it ticks within a minute                                    within 10 s; here within half a second
a rate without a start date ticks at once, too              one interval after it was made

The clock of schedules is ahead of the machine's by as many seconds as a file in the emulator's folder says;
see `pixel_gather_emulator.emulator.Emulator.move_clock`. A schedule that was due several times ticks
once.

Still different: the time that a tick names is when it was sent, not the planned minute. A call that fails is
not tried again.
"""

# ruff: noqa: SLF001 # an addition reaches into ministack

import logging
import math
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from ministack.services import eventbridge, scheduler

from pixel_gather_emulator.additions.machine_role import allows, principal_of
from pixel_gather_emulator.supervisor import CLOCK

SCHEDULED_TIME: Final = "<aws.scheduler.scheduled-time>"

_TICK_S: Final = 0.5
_log: Final = logging.getLogger("scheduler")

_invoke_target: Callable[..., None] = eventbridge._invoke_target
_tick_schedules: Callable[[], None] = scheduler._tick_schedules


def apply() -> None:
    """Put the additions in place."""
    scheduler._SCHEDULE_TICK_INTERVAL = _TICK_S
    scheduler.time = SimpleNamespace(time=moved_time, sleep=time.sleep)
    scheduler._tick_schedules = tick_schedules
    eventbridge._invoke_target = invoke_target


def tick_schedules() -> None:
    """Call the targets of all schedules that are due. A rate that has never ticked is due."""
    for key, schedule in list(scheduler._schedules._data.items()):
        if schedule["ScheduleExpression"].startswith("rate("):
            scheduler._schedule_last_fired.setdefault(key, -math.inf)
    _tick_schedules()


def moved_time() -> float:
    """Return seconds since 1970-01-01 UTC by the clock of schedules."""
    try:
        return time.time() + float(Path(tempfile.gettempdir()).parent.joinpath(CLOCK).read_text())
    except OSError:
        return time.time()


def invoke_target(target: dict[str, Any], event: dict[str, Any], *rest: Any, **named: Any) -> None:
    """Call the target of a rule or of a schedule."""
    if event.get("Source") != "aws.scheduler":
        _invoke_target(target, event, *rest, **named)
        return
    principal = principal_of(target["RoleArn"], session="scheduler")
    if ":lambda:" in target["Arn"] and not allows(principal, "lambda:InvokeFunction", target["Arn"]):
        _log.error("%s may not invoke %s: the tick is lost", principal, target["Arn"])
        return
    _invoke_target(with_tick_time(target, event["Time"]), event, *rest, **named)


def with_tick_time(target: dict[str, Any], at: float) -> dict[str, Any]:
    """Return a schedule's target with the time of the tick in its input."""
    moment = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    given = target.get("Input")
    return target if given is None else target | {"Input": given.replace(SCHEDULED_TIME, moment)}
