"""Lambda entry point: start the gather or the table of one tick of a schedule.

EventBridge Scheduler calls it with the result of `pixel_gather.core.schedule.Schedule.event`. It may call
it twice for one tick: both start the same execution.
"""

import asyncio
from collections.abc import Mapping
from copy import replace
from typing import Any, Final

import boto3
from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext
from msgspec import Struct

from handlers.deployment.settings import Settings
from handlers.deployment.stores import Deployment
from pixel_gather.core.schedule import Schedule, tick_us_of
from pixel_gather.core.time_range import parse_period
from pixel_gather.io.aws.executions import Executions
from pixel_gather.io.cube.last_row import CubeState, cube_state

_IS_RUNNING: Final = "the gather of an earlier tick is running; the next tick will look for the same scenes"
_IS_OVER: Final = "the search's own time range has ended, or has not begun"


class _TableResult(Struct, frozen=True):
    last: str | None


class Ticker(Struct, frozen=True):
    """Starts the gathers of schedules of one deployment."""

    deployment: Deployment
    executions: Executions
    """Of gathers."""

    tables: Executions

    async def tick(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """Start a tick's gather.

        Returns:
            ``schedule``, ``tick``, ``execution`` or None, and ``why`` none was started or None.

        Raises:
            RequestError: The schedule is wrong. Nothing was started.
            StoreError: The cube cannot be read.
        """
        schedule, tick_us = Schedule.of_event(event), tick_us_of(event)
        name = schedule.execution(tick_us)
        told = {"schedule": schedule.name, "tick": event["tick"], "execution": None, "why": None}
        others = [each for each in self._running(schedule) if each != name]
        if others:
            return told | {"why": _IS_RUNNING}
        if schedule.table is None:
            cube = self.deployment.cube(schedule.cube)
            state = await asyncio.to_thread(cube_state, cube.store, place=cube.place)
            request = _request(schedule, state, tick_us)
        else:
            last_us = await self._last_of_table(schedule.cube)
            request = (
                schedule.first_request(tick_us)
                if last_us is None
                else schedule.next_request(last_us, tick_us)
            )
        if request is None:
            return told | {"why": _IS_OVER}
        await asyncio.to_thread(self._of(schedule).start, request, name=name)
        return told | {"execution": name}

    def _running(self, schedule: Schedule) -> list[str]:
        """Return the executions of a schedule that are running."""
        executions = self._of(schedule)
        found = executions.list_(limit=1000, state="running")[f"{executions.kind}s"]
        return [each["id"] for each in found if each["id"].rpartition("-")[0] + "-" == schedule.executions]

    def _of(self, schedule: Schedule) -> Executions:
        return self.executions if schedule.table is None else self.tables

    async def _last_of_table(self, name: str) -> int | None:
        """Return the time of a table's last image; None if there is none."""
        found = await self.deployment.find_result(name, type=_TableResult)
        last = None if found is None else found[0].last
        return None if last is None else parse_period(last).start_us


def _request(schedule: Schedule, state: CubeState | None, tick_us: int) -> dict[str, Any] | None:
    if state is None:
        return schedule.first_request(tick_us)
    if state.last_us is None:
        return schedule.first_request(tick_us, datetime=_datetime_of(state.request))
    return schedule.next_request(state.last_us, tick_us)


def _datetime_of(request: Mapping[str, Any]) -> str | None:
    """Return the time range of the search in a cube's request."""
    sources = request.get("sources", {})
    found = (sources.get("stac") or sources.get("catalog") or {}).get("datetime")
    return None if found is None else str(found)


settings = Settings.from_environment()
logger = Logger()
deployment = Deployment(settings)
_of_gathers = Executions(
    settings.state_machine,
    stepfunctions=boto3.client("stepfunctions"),
    s3=None,
    control_bucket=settings.control_bucket,
)
ticker = Ticker(
    deployment,
    _of_gathers,
    replace(_of_gathers, state_machine_arn=settings.table_state_machine, kind="table"),
)


@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Start the gather of a tick."""
    told = deployment.run(ticker.tick(event))
    logger.info("tick", extra=told)
    return told
