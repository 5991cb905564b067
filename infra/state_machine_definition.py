"""The workflow in Amazon States Language: plan, a Map with a child for each item of the manifest, finish.

A small gather has no Map Run: the plan's answer has the items, and an inline Map fills them at once. Beside
it, finish starts, and loads the plan. After any failure, all items go to the Map.
An item has a few shards. If a child's first Task is late, the child starts a second Task with a fresh worker.
If a worker was killed, as for lack of memory, a worker of the largest size takes what is left.
The Map bears that some children fail, so that one bad shard does not stop all others. Finish then judges by
the request's own limit.
Tables, which are rankings, points and zones, have the same workflow with other functions. Their finish may
plan another round of the Map.

The Map has no Retry and no Catch. A Retry would run all shards again. A Catch would leave nothing to redrive.
States call published versions of the functions. A running execution keeps its definition, so it also keeps
the code and the settings that it began with, whatever is deployed meanwhile.
Paths are JSONPath and results are passed through S3, so that the same workflow runs in the emulator.
"""

from collections.abc import Sequence
from typing import Any, Final

from aws_cdk import Duration
from aws_cdk import aws_stepfunctions as sfn
from aws_cdk import aws_stepfunctions_tasks as tasks
from constructs import Construct
from msgspec import Struct

from infra.lambda_function import GatherFunction
from pixel_gather.core.estimate.worker_limits import MOST_TASKS_PER_CHILD

MAP_LABEL: Final = "Shards"
"""Part of the ARNs of the Map's runs and children."""


class StateNames(Struct, frozen=True, kw_only=True):
    """What the states of one machine are called."""

    plan: str = "Plan"
    map: str = "GatherShards"
    first_try: str = "GatherShard"
    second_try: str = "GatherLateShard"
    largest: str = "GatherInLargest"
    finish: str = "Finish"
    complete: str = "AlreadyComplete"
    inline: str = "GatherInline"
    inline_map: str = "FillShards"
    inline_task: str = "FillShard"


OF_GATHERS: Final = StateNames()
OF_TABLES: Final = StateNames(
    plan="Begin",
    map="ReadImages",
    first_try="ReadSome",
    second_try="ReadLateOnes",
    largest="ReadInLargest",
    finish="DecideNextRound",
    complete="Written",
)

_LONGEST_GATHER: Final = Duration.days(2)
"""One worker fills 10,000 shards of 15 seconds in this time."""

_START_UP: Final = Duration.seconds(60)
"""A Task's time-out is the function's own plus this. So Lambda times out first and reports it. A cold start
does not count."""

_THROTTLED: Final = ["Lambda.TooManyRequestsException"]
"""The account cannot run more functions now. Wait until others end, however long that takes."""

_TRANSIENT: Final = [
    "Lambda.ServiceException",
    "Lambda.AWSLambdaException",
    "Lambda.SdkClientException",
    "Lambda.ClientExecutionTimeoutException",
    "BusyError",
    "StoreError",
    "ThrottledError",
    "UnreachableError",
]
"""Errors that another try can mend. All others would fail again. The last two are those of a STAC API that is
searched, and of AWS's own APIs, such as that of the secret with the Earthdata token."""

_ITEM: Final = {
    "gather": sfn.JsonPath.string_at("$.gather"),
    "execution": sfn.JsonPath.string_at("$.execution"),  # a child's own name is another
    "tasks": sfn.JsonPath.object_at("$$.Map.Item.Value"),
    "size": sfn.JsonPath.number_at("$.worker_size"),
    "limit_s": sfn.JsonPath.number_at("$.shard_limit_s"),
}
"""The input of a worker, in both Maps."""

_ANY_TRY: Final = {
    "gather": sfn.JsonPath.string_at("$.gather"),
    "execution": sfn.JsonPath.string_at("$.execution"),
    "tasks": sfn.JsonPath.object_at("$.tasks"),
}
"""What the event of each try of a worker has."""

_FIRST_TRY: Final = _ANY_TRY | {"limit_s": sfn.JsonPath.number_at("$.limit_s")}
"""The event of a worker's first try."""

_TIMED_OUT: Final = ["Sandbox.Timedout", "States.Timeout"]

_LATE: Final = ["ShardLateError", *_TIMED_OUT]
"""Errors of a first try after which a fresh worker starts at once."""

_CRASHED: Final = ["Lambda.Unknown", "Runtime.OutOfMemory", "Runtime.ExitError"]
"""The function's process was killed or ended, most likely for lack of memory. An error that Lambda cannot
classify is called ``Lambda.Unknown``. AWS documents no complete list: docs/first-day.md checks the names."""

_THROTTLED_TRIES: Final = 2000
"""A pause takes a minute on average, so all pauses take 33 hours. If an account runs 10 functions at a time,
490 of 500 children wait for hours. None of them may be lost. A try adds three events to the history."""

_THROTTLED_TRIES_INLINE: Final = 3
"""All items of an inline Map share one history. After these tries they go to the Map, which waits longer."""

_LONGEST_EARLY_START: Final = Duration.seconds(20)
"""Finish that takes longer to start starts when its turn comes."""

_TRIES_AFTER_CRASH: Final = 2
"""A fresh environment may have enough memory even if a used one had not."""


class Tries(Struct, frozen=True, kw_only=True):
    """How often a Task is tried again after errors that another try can mend."""

    after_timeout: int | None
    """None if time-outs are caught instead."""

    after_crash: int | None = _TRIES_AFTER_CRASH
    """After the function was killed. None if that is caught instead."""

    throttled: int = _THROTTLED_TRIES
    """While Lambda throttles."""


class StateDefinition(Construct):
    """Builds the definition. CDK's references in it are not resolved yet."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        plan: GatherFunction,
        shards: Sequence[GatherFunction],
        finish: GatherFunction,
        names: StateNames = OF_GATHERS,
        has_rounds: bool = False,
    ) -> None:
        """Build the states.

        The shards are one function in several sizes, the smallest first. The plan chooses one. If it has
        rounds, finish answers with a verdict, as plan does, and may plan the Map again.
        """
        super().__init__(scope, construct_id)
        self._names = names
        # The first task and the last one.
        planned = self._task(
            names.plan,
            plan,
            comment="Read a few headers, price the gather, write the manifest of its shards",
            payload={
                "request": sfn.JsonPath.object_at("$$.Execution.Input"),
                "execution": sfn.JsonPath.string_at("$$.Execution.Name"),
                "started_at": sfn.JsonPath.string_at("$$.Execution.StartTime"),
            },
            output_path="$.Payload",
            tries=Tries(after_timeout=1),  # a list that takes 15 minutes takes as long the next time
        )
        finished = self._task(
            names.finish,
            finish,
            comment="Write coordinates and the report, and mark the cube as complete",
            payload={
                "gather": sfn.JsonPath.string_at("$.gather"),
                "execution": sfn.JsonPath.string_at("$$.Execution.Name"),
                "failed_shards": sfn.JsonPath.number_at("$.failed_shards"),
            },
            output_path="$.Payload",
            tries=Tries(after_timeout=1),
        )
        # How an execution ends, and what the verdict of a plan leads to.
        refused = sfn.Fail(
            self,
            "Refused",
            comment="The request is wrong, costs too much, or its place is taken: the cause says what to do",
            error_path="$.error",
            cause_path="$.cause",
        )
        complete = sfn.Succeed(
            self,
            names.complete,
            comment="Its table is written" if has_rounds else "The same request has been gathered before",
            output_path="$.result",
        )
        verdict = (
            sfn.Choice(self, "Verdict")
            .when(sfn.Condition.string_equals("$.verdict", "refused"), refused)
            .when(sfn.Condition.string_equals("$.verdict", "complete"), complete)
        )
        if not has_rounds:
            verdict.when(sfn.Condition.string_equals("$.verdict", "waiting"), self._wait().next(planned))
        # After those verdicts, which have no n_missing: a rule on a missing field fails the execution.
        verdict.when(sfn.Condition.number_equals("$.n_missing", 0), finished)
        # Between them: the Map, or a small gather without one. With rounds, the verdict comes again.
        mapped = self._shards(shards)
        if has_rounds:
            finished.next(verdict)
        else:
            inline = self._inline(shards, finish)
            inline.add_catch(mapped, errors=["States.ALL"], result_path=sfn.JsonPath.DISCARD)
            verdict.when(sfn.Condition.is_present("$.items"), inline.next(finished))
        verdict.otherwise(mapped.next(finished))
        # CDK knows no task whose function is chosen by the input, so this is put into the document.
        graph = sfn.StateGraph(planned.next(verdict).start_state, "Pixel Gather")
        graph.timeout = _LONGEST_GATHER
        self.document: dict[str, Any] = dict(graph.to_graph_json())
        for name, task in self.document["States"][names.map]["ItemProcessor"]["States"].items():
            if name != names.largest:
                _name_function_by_size(task, shards)
        if not has_rounds:
            of_map, _ = self.document["States"][names.inline]["Branches"]
            iterated = of_map["States"][names.inline_map]["ItemProcessor"]["States"]
            _name_function_by_size(iterated[names.inline_task], shards)

    def _wait(self) -> sfn.Wait:
        return sfn.Wait(
            self,
            "WaitForOtherAppend",
            comment="Another append adds rows to the cube. It ends, or counts as abandoned after 30 minutes",
            time=sfn.WaitTime.seconds_path("$.wait_s"),
        )

    def _inline(self, functions: Sequence[GatherFunction], finish: GatherFunction) -> sfn.Parallel:
        """Make the states of a small gather: a worker for each item, and the start of finish beside them."""
        # The workers. Nothing is tried again here after a timeout or a crash: the Map does that.
        filled = sfn.Map(
            self,
            self._names.inline_map,
            comment="A worker for each item, all at once; there is no Map Run",
            items_path="$.items",
            item_selector=_ITEM,
            result_path=sfn.JsonPath.DISCARD,
        ).item_processor(
            self._task(
                self._names.inline_task,
                functions[-1],
                comment="As GatherShard. What fails here goes to the Map",
                payload=_FIRST_TRY,
                output_path=sfn.JsonPath.DISCARD,
                timeout=sfn.Timeout.at("$.limit_s"),
                tries=Tries(after_timeout=None, after_crash=None, throttled=_THROTTLED_TRIES_INLINE),
            )
        )
        # Beside them, so that finish need not start when they have ended.
        started = tasks.LambdaInvoke(
            self,
            "StartFinish",
            comment="Finish starts and loads the plan while the workers read",
            lambda_function=finish.version,
            payload=sfn.TaskInput.from_object(
                {
                    "gather": sfn.JsonPath.string_at("$.gather"),
                    "execution": sfn.JsonPath.string_at("$.execution"),
                    "is_early": True,
                }
            ),
            output_path=sfn.JsonPath.DISCARD,
            task_timeout=sfn.Timeout.duration(_LONGEST_EARLY_START),
            retry_on_service_exceptions=False,
        ).add_catch(
            sfn.Pass(self, "StartsLater", comment="Finish starts when its turn comes"),
            errors=["States.ALL"],
            result_path=sfn.JsonPath.DISCARD,
        )
        return sfn.Parallel(
            self,
            self._names.inline,
            comment="A small gather",
            result_path=sfn.JsonPath.DISCARD,
        ).branch(filled, started)

    def _shards(self, functions: Sequence[GatherFunction]) -> sfn.DistributedMap:
        shards = sfn.DistributedMap(
            self,
            self._names.map,
            comment="One worker at a time for each item of the manifest: a few shards",
            label=MAP_LABEL,
            map_execution_type=sfn.StateMachineType.STANDARD,
            item_reader=sfn.S3JsonItemReader(
                bucket_name_path=sfn.JsonPath.string_at("$.manifest.bucket"),
                key=sfn.JsonPath.string_at("$.manifest.key"),
            ),
            item_selector=_ITEM | {"late_s": sfn.JsonPath.number_at("$.late_shard_s")},
            max_concurrency_path="$.workers",
            tolerated_failure_percentage_path="$.tolerated_failure_percentage",
            result_path=sfn.JsonPath.DISCARD,
        )
        first_try = self._task(
            self._names.first_try,
            functions[-1],
            comment="Read the sources of each shard and write its object; a sidecar commits it",
            payload=_FIRST_TRY,
            output_path=sfn.JsonPath.DISCARD,
            timeout=sfn.Timeout.at("$.limit_s"),
            tries=Tries(after_timeout=None, after_crash=None),
        )
        late = "A fresh worker for what a late one has not committed; each shard has a limit of its own"
        second_try = self._another_try(self._names.second_try, functions[-1], late, tries_after_crash=None)
        killed = "A worker of the largest size for what one that was killed has not committed"
        largest = self._another_try(
            self._names.largest, functions[-1], killed, tries_after_crash=_TRIES_AFTER_CRASH
        )
        first_try.add_catch(second_try, errors=_LATE, result_path=sfn.JsonPath.DISCARD)
        for task in (first_try, second_try):
            task.add_catch(largest, errors=_CRASHED, result_path=sfn.JsonPath.DISCARD)
        return shards.item_processor(first_try)

    def _another_try(
        self, name: str, function: GatherFunction, comment: str, *, tries_after_crash: int | None
    ) -> tasks.LambdaInvoke:
        """Make a Task for what an earlier Task of the child has not committed."""
        task = self._task(
            name,
            function,
            comment=comment,
            payload=_ANY_TRY | {"late_s": sfn.JsonPath.number_at("$.late_s")},
            output_path=sfn.JsonPath.DISCARD,
            # each shard has a limit of its own, so only a stuck worker times out
            tries=Tries(after_timeout=1, after_crash=tries_after_crash),
        )
        task.add_retry(
            errors=["ShardsLeftError"],
            interval=Duration.seconds(1),
            backoff_rate=1,
            max_delay=Duration.seconds(2),
            max_attempts=MOST_TASKS_PER_CHILD,  # each try fills at least one shard
            jitter_strategy=sfn.JitterType.FULL,
        )
        return task

    def _task(
        self,
        name: str,
        function: GatherFunction,
        *,
        comment: str,
        payload: dict[str, Any],
        output_path: str,
        tries: Tries,
        timeout: sfn.Timeout | None = None,
    ) -> tasks.LambdaInvoke:
        """Make a Task. Without a time-out, it is a little more than the function's own."""
        task = tasks.LambdaInvoke(
            self,
            name,
            comment=comment,
            lambda_function=function.version,
            payload=sfn.TaskInput.from_object(payload),
            output_path=output_path,
            task_timeout=timeout or sfn.Timeout.duration(function.timeout.plus(_START_UP)),
            retry_on_service_exceptions=False,  # CDK's own retrier has no throttling and no jitter
        )
        _add_retries(task, tries)
        return task


def _add_retries(task: tasks.LambdaInvoke, tries: Tries) -> None:
    """Let a Task try again after errors that another try can mend."""
    task.add_retry(
        errors=_THROTTLED,
        interval=Duration.seconds(1),
        backoff_rate=2,
        max_delay=Duration.minutes(2),
        max_attempts=tries.throttled,
        jitter_strategy=sfn.JitterType.FULL,
    )
    retried = ((_TRANSIENT, 4), (_TIMED_OUT, tries.after_timeout), (_CRASHED, tries.after_crash))
    for errors, attempts in retried:
        if attempts is None:
            continue
        task.add_retry(
            errors=errors,
            interval=Duration.seconds(2),
            backoff_rate=2,
            max_delay=Duration.seconds(30),
            max_attempts=attempts,
            jitter_strategy=sfn.JitterType.FULL,
        )


def _name_function_by_size(task: dict[str, Any], functions: Sequence[GatherFunction]) -> None:
    """Let a Task invoke one of these functions, by the index in its input."""
    arns = ", ".join(f"'{each.version.function_arn}'" for each in functions)
    del task["Parameters"]["FunctionName"]
    task["Parameters"]["FunctionName.$"] = f"States.ArrayGetItem(States.Array({arns}), $.size)"
