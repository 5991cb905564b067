"""Lambda entry point: plan a gather.

The event has the execution's input (``request``), its name (``execution``) and start (``started_at``). The
answer is a verdict: planned, complete, waiting or refused. Errors that the user can mend are returned as
refused, with a sentence. Errors that another try can mend are raised. Waiting is for another append to the
same cube, and is no error.
"""

import asyncio
import json
import math
import random
from collections.abc import AsyncIterator, Awaitable, Coroutine, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Final

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext
from msgspec import Struct

from handlers.deployment.admit_request import admit, open_gather_table, refuse
from handlers.deployment.settings import Settings
from handlers.deployment.stores import Deployment
from handlers.gather.capacity import deployed_workers, worker_size_index
from handlers.gather.publish_result import describe_result
from handlers.gather.readers import Readers
from handlers.gather.register import Content, enter
from pixel_gather.core.errors import AppendRunningError, ArrayExistsError, BudgetError, RequestError
from pixel_gather.core.estimate.estimate_result import Estimate
from pixel_gather.core.plan.chip_table import ChipTable
from pixel_gather.core.plan.cube_plan import CubePlan
from pixel_gather.core.plan.cut_tasks import ShardTask
from pixel_gather.core.plan.manifest import manifest, manifest_key
from pixel_gather.core.plan.map_plan import plan_map
from pixel_gather.core.request.request import GatherRequest, parse_request
from pixel_gather.core.scenes.search_criteria import NoSceneError
from pixel_gather.core.schedule import is_of_a_tick
from pixel_gather.engine.base_cube import find_finished_cube
from pixel_gather.engine.gather_context import GatherContext, GatherStores
from pixel_gather.engine.plan_gather import plan_gather, read_found_list
from pixel_gather.engine.step_files import both, find_committed, is_planned
from pixel_gather.io.aws.gather_document import summary_key
from pixel_gather.io.aws.metrics import EmfMetrics
from pixel_gather.io.crs import RasterioProjector
from pixel_gather.io.cube.written_report import look_for_report
from pixel_gather.io.lists.source_table import SqliteSourceTable

_WAIT_S: Final = (15, 45)
"""Shortest and longest pause before an append is planned again. Several appends do not all come at once."""

_LATE_WAIT_S: Final = (75, 135)
"""The same after an hour. A round takes nine events of an execution, which ends at 25,000 events or after two
days. By these pauses the events last for the two days."""

_LATE_AFTER_S: Final = 3600.0

_MOST_INLINE_NBYTES: Final = 100_000
"""Step Functions passes on 256 KiB at most."""

_TOLERATED_PERCENT: Final = 10
"""Percent of children, a whole number, that may fail before the map gives up. Finish judges exactly."""


@asynccontextmanager
async def _asked[T](question: Coroutine[Any, Any, T]) -> AsyncIterator[asyncio.Task[T]]:
    """Ask now what is needed later. What is not answered at the end of the context is cancelled."""
    answer = asyncio.create_task(question)
    try:
        yield answer
    finally:
        answer.cancel()
        await asyncio.gather(answer, return_exceptions=True)


class Planner(Struct, frozen=True):
    """Plans gathers of one deployment."""

    deployment: Deployment
    readers: Readers
    projector: RasterioProjector

    async def plan(self, given: Any, *, execution: str, left_s: float) -> dict[str, Any]:
        """Plan a gather and write the files that its workers need. Safe to run twice.

        Raises:
            RequestError: The request is wrong, or does not fit the sources.
            BudgetError: The plan is over a limit, or the month's budget is spent.
            ArrayExistsError: Another cube is at the same place.
            StoreError: A store refused.
        """
        deployment = self.deployment
        request = admit(parse_request(given), deployment.settings)
        context = GatherContext(
            cube=deployment.cube(request.cube_name),
            control=deployment.control(request.cube_name),
            sources=self.readers.sources(request.sources.sign, self.projector),
        )
        async with (
            _asked(deployment.check_not_halted()) as not_halted,
            _asked(deployment.register.read()) as running,
        ):
            found_list = await read_found_list(request, context)
            if request.sources.are_searched:  # a search costs requests
                await not_halted
            async with open_gather_table(request, deployment, left_s=left_s, found_list=found_list) as table:
                planned = await plan_gather(
                    request,
                    table=table,
                    context=context,
                    workers=deployed_workers(deployment.settings),
                    archive=deployment.archives,
                    may_write=lambda: not_halted,
                )
                listed = table.table if isinstance(table, ChipTable) else table
                reads = listed.common_href if isinstance(listed, SqliteSourceTable) else ""
            await not_halted
            if planned is None:
                return await self._complete(request, context)
            return await self._verdict(*planned, request, execution, reads=reads, running=running)

    async def _complete(self, request: GatherRequest, context: GatherContext) -> dict[str, Any]:
        """Return the verdict where there is nothing to gather. A finish writes a report that is missing."""
        gather, is_new = request.cube_name, request.output.append_to is None
        found = await find_finished_cube(context.cube, field="output")
        report = found.complete_report()
        assert report is not None  # noqa: S101 # it is complete
        draws = request.output.report
        written = await look_for_report(self.deployment.cube(gather).store)
        is_missing = is_new and draws and not written.has_page
        if is_missing and await is_planned(context.of_plan(found.claim).control):
            return {
                "verdict": "planned",
                "gather": f"{gather}/{found.claim}",
                "failed_shards": _tolerated_percentage(request),
                "n_missing": 0,
            }
        n_appended = None if is_new else 0
        result = describe_result(
            report, gather, self.deployment, written, has_report=draws, n_appended=n_appended
        )
        return {"verdict": "complete", "result": result}

    async def nothing_yet(self, given: Any, why: NoSceneError, *, execution: str) -> dict[str, Any]:
        """Return the verdict on a tick whose search finds no scene: it is complete, without a cube.

        The summary has the reason as a warning, so the status of the execution shows it.
        """
        gather = parse_request(given).cube_name
        summary = {"gather": gather, "n_sources": 0, "n_rows": 0, "n_shards": 0, "n_missing": 0, "usd": 0.0}
        counts = {"tasks_per_child": 1, "n_workers": 1, "seconds": 0.0, "warnings": [str(why)]}
        await self.deployment.summaries.put(summary_key(execution), json.dumps(summary | counts).encode())
        return {"verdict": "complete", "result": {"gather": gather, "why": str(why)}}

    async def waiting(
        self, why: AppendRunningError, *, execution: str, started_at: str | None
    ) -> dict[str, Any]:
        """Return the verdict where another append is at work. The status of the execution says so."""
        told = json.dumps({"is_waiting": True}).encode()
        await self.deployment.summaries.put(summary_key(execution), told)
        started = None if started_at is None else datetime.fromisoformat(started_at)
        is_late = started is not None and (datetime.now(UTC) - started).total_seconds() > _LATE_AFTER_S
        wait_s = random.randint(*(_LATE_WAIT_S if is_late else _WAIT_S))  # noqa: S311 # no secret
        return {"verdict": "waiting", "wait_s": wait_s, "cause": str(why)}

    async def _verdict(
        self,
        plan: CubePlan,
        tasks: Sequence[ShardTask],
        request: GatherRequest,
        execution: str,
        *,
        reads: str,
        running: Awaitable[Content],
    ) -> dict[str, Any]:
        """Write the manifest of the missing shards, and return how the state machine goes on."""
        deployment, gather = self.deployment, request.cube_name
        workers, place = deployed_workers(deployment.settings), deployment.cube(gather).place
        control = deployment.control(f"{gather}/{plan.claim}")
        stores = GatherStores(cube=deployment.cube(gather), control=control)
        done = await find_committed(plan, tasks, stores=stores)
        missing = [task for task in tasks if task.index not in done]
        n_shards, n_missing = len(tasks), len(missing)
        map_plan = plan_map(plan, request.limits, n_shards=n_shards, n_missing=n_missing, workers=workers)
        wants, n_workers = min(map_plan.n_workers, n_missing), map_plan.n_workers
        summary = _summary(plan, gather, cube=place, n_shards=n_shards, n_missing=n_missing)

        async def grant() -> int:
            if not n_missing:
                return 0
            return await enter(
                deployment.register,
                execution,
                wants=wants,
                most=deployment.settings.all_workers,
                seconds=plan.estimate.seconds,
                reads=reads,
                first_read=running,
                gets_per_s=_gets_per_s(plan.estimate),
            )

        async def write(n_workers: int, *of_workers: str) -> tuple[bytes, bool]:
            counts = {"tasks_per_child": map_plan.tasks_per_child, "n_workers": n_workers}
            content = manifest(missing, **counts)
            # without a Map Run, the items travel with the verdict; the Map reads the manifest if one fails
            is_inline = map_plan.is_inline and n_workers >= wants and len(content) <= _MOST_INLINE_NBYTES
            warnings = {"warnings": plan.warnings, "worker_warnings": of_workers}
            told = summary | counts | warnings | {"is_inline": is_inline}
            await both(
                control.put(manifest_key(execution), content),
                deployment.summaries.put(summary_key(execution), json.dumps(told).encode()),
            )
            return content, is_inline

        # the files are put while the register is asked, as if no other gather ran
        granted, (content, is_inline) = await both(grant(), write(n_workers))
        if granted < wants:
            n_workers = granted
            fewer = f"other gathers run: this one has {granted:,} of {wants:,} workers"
            content, is_inline = await write(n_workers, fewer)
        return {
            "verdict": "planned",
            "gather": f"{gather}/{plan.claim}",
            "execution": execution,
            "manifest": {
                "bucket": deployment.settings.control_bucket,
                "key": control.prefix + manifest_key(execution),
            },
            "workers": n_workers,
            "worker_size": worker_size_index(map_plan.worker_memory_mib, deployment.settings),
            "shard_limit_s": map_plan.first_limit_s,
            "late_shard_s": map_plan.late_shard_s,
            "failed_shards": _tolerated_percentage(request),
            "tolerated_failure_percentage": max(
                _TOLERATED_PERCENT, math.ceil(_tolerated_percentage(request))
            ),
            "cube": place,
            "n_shards": n_shards,
            "n_missing": n_missing,
        } | ({"items": json.loads(content)} if is_inline else {})


def _tolerated_percentage(request: GatherRequest) -> float:
    return round((request.limits.failed_shards or 0) * 100, 6)


def _gets_per_s(estimate: Estimate) -> float:
    """Return how many GETs a second all workers together send while they read."""
    parts = estimate.seconds_by_part
    working_s = estimate.seconds - parts["plan"] - parts["finish"]
    return estimate.n_gets / working_s if working_s > 0 else 0.0


def _summary(plan: CubePlan, gather: str, *, cube: str, n_shards: int, n_missing: int) -> dict[str, Any]:
    return {
        "gather": gather,
        "cube": cube,
        "digest": plan.digest,
        "n_sources": plan.n_sources,
        "n_rows": plan.n_rows,
        "n_shards": n_shards,
        "n_missing": n_missing,
        "shape": list(plan.shape),
        "usd": plan.estimate.usd,
        "seconds": plan.estimate.seconds,
    }


settings = Settings.from_environment()
logger = Logger()
metrics = EmfMetrics(stage=settings.stage)
deployment = Deployment(settings)
planner = Planner(deployment, Readers(deployment, holds_a_shard=False), RasterioProjector())


@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Plan a gather and return the verdict."""
    logger.append_keys(execution=event.get("execution"))
    left_s = context.get_remaining_time_in_millis() / 1000
    given, execution = event["request"], event["execution"]
    try:
        verdict = deployment.run(planner.plan(given, execution=execution, left_s=left_s))
    except NoSceneError as error:
        if is_of_a_tick(execution):  # nobody asked for it now, and the next tick searches again
            verdict = deployment.run(planner.nothing_yet(given, error, execution=execution))
        else:
            verdict = refuse(error, metrics)
    except AppendRunningError as error:
        verdict = deployment.run(
            planner.waiting(error, execution=execution, started_at=event.get("started_at"))
        )
    except (RequestError, BudgetError, ArrayExistsError) as error:
        verdict = refuse(error, metrics)
    except TimeoutError as error:
        verdict = refuse(
            BudgetError(str(error) or "planning takes longer than the function may run"), metrics
        )
    shown = ("verdict", "gather", "n_shards", "n_missing", "error", "cause")
    logger.info("gather planned", extra={name: verdict[name] for name in shown if name in verdict})
    return verdict
