"""The workflow in Amazon States Language: plan, a Map of one Task for each shard, finish.

A shard whose Task is late gets a second one, with a fresh worker.

There is no Retry or Catch on the Map: a Retry would run all shards again, a Catch would leave nothing to
redrive. Paths are JSONPath, and results travel by S3, so that the same workflow runs emulated.
"""

from collections.abc import Sequence
from typing import Any, Final

from aws_cdk import Duration
from aws_cdk import aws_stepfunctions as sfn
from aws_cdk import aws_stepfunctions_tasks as tasks
from constructs import Construct

from infra.gather_function import GatherFunction
from pixel_gather.estimate.staffing import MOST_TASKS_PER_CHILD

_MAP: Final = "GatherShards"
MAP_LABEL: Final = "Shards"
"""In the ARNs of the Map's runs and children."""

_LONGEST_GATHER: Final = Duration.days(2)
"""10,000 shards of 15 seconds by one worker."""

_START_UP: Final = Duration.seconds(60)
"""Added to a function's own time-out, so that it is Lambda that says so, and a cold start is not counted."""

_THROTTLED: Final = ["Lambda.TooManyRequestsException"]
"""More workers than the account may run: wait, however long it takes others to end."""

_TRANSIENT: Final = [
    "Lambda.ServiceException",
    "Lambda.AWSLambdaException",
    "Lambda.SdkClientException",
    "Lambda.ClientExecutionTimeoutException",
    "Runtime.ExitError",
    "BusyError",
    "StoreError",
]
"""What another try can mend. All else is ours, or the request's, and would only fail again."""

_TIMED_OUT: Final = ["Sandbox.Timedout", "States.Timeout"]

_LATE: Final = ["ShardLateError", *_TIMED_OUT]
"""Of a shard's first try: a fresh worker takes its place, at once."""

_CRASHED: Final = ["Lambda.Unknown", "Runtime.OutOfMemory"]
"""A fresh environment has the memory that one which had run before did not; Lambda calls unknown what it
could not handle itself."""


class Workflow(Construct):
    """The states, as a definition that still has CDK's references in it."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        plan: GatherFunction,
        shards: Sequence[GatherFunction],
        finish: GatherFunction,
    ) -> None:
        """Build them.

        Args:
            scope: The construct that has them.
            construct_id: Of this one.
            plan: Reads headers and cuts the shards.
            shards: The same function in several sizes, the smallest first; the plan says which one.
            finish: Completes the cube.
        """
        super().__init__(scope, construct_id)
        planned = self._task(
            "Plan",
            plan,
            comment="Read a few headers, price the gather, write the manifest of its shards",
            payload={
                "request": sfn.JsonPath.object_at("$$.Execution.Input"),
                "execution": sfn.JsonPath.string_at("$$.Execution.Name"),
            },
            output_path="$.Payload",
            tries_after_timeout=1,  # a list that takes 15 minutes takes them every time
        )
        finished = self._task(
            "Finish",
            finish,
            comment="Make coordinates and the report, and say that the cube is complete",
            payload={
                "gather": sfn.JsonPath.string_at("$.gather"),
                "failed_shards": sfn.JsonPath.number_at("$.tolerated_failure_percentage"),
            },
            output_path="$.Payload",
            tries_after_timeout=1,
        )
        refused = sfn.Fail(
            self,
            "Refused",
            comment="The request is wrong, too dear, or its place is taken: the cause says what to do",
            error_path="$.error",
            cause_path="$.cause",
        )
        complete = sfn.Succeed(
            self,
            "AlreadyComplete",
            comment="The same request has been gathered before",
            output_path="$.result",
        )
        verdict = (
            sfn.Choice(self, "Verdict")
            .when(sfn.Condition.string_equals("$.verdict", "refused"), refused)
            .when(sfn.Condition.string_equals("$.verdict", "complete"), complete)
            .when(sfn.Condition.number_equals("$.n_missing", 0), finished)
            .otherwise(self._shards(shards).next(finished))
        )
        graph = sfn.StateGraph(planned.next(verdict).start_state, "Pixel Gather")
        graph.timeout = _LONGEST_GATHER
        self.definition: dict[str, Any] = dict(graph.to_graph_json())
        for task in self.definition["States"][_MAP]["ItemProcessor"]["States"].values():
            _name_function_by_size(task, shards)

    def _shards(self, functions: Sequence[GatherFunction]) -> sfn.DistributedMap:
        shards = sfn.DistributedMap(
            self,
            _MAP,
            comment="One worker at a time for each item of the manifest: a few shards",
            label=MAP_LABEL,
            map_execution_type=sfn.StateMachineType.STANDARD,
            item_reader=sfn.S3JsonItemReader(
                bucket_name_path=sfn.JsonPath.string_at("$.manifest.bucket"),
                key=sfn.JsonPath.string_at("$.manifest.key"),
            ),
            item_selector={
                "gather": sfn.JsonPath.string_at("$.gather"),
                "tasks": sfn.JsonPath.object_at("$$.Map.Item.Value"),
                "size": sfn.JsonPath.number_at("$.worker_size"),
                "limit_s": sfn.JsonPath.number_at("$.shard_limit_s"),
                "late_s": sfn.JsonPath.number_at("$.late_shard_s"),
            },
            max_concurrency_path="$.workers",
            tolerated_failure_percentage_path="$.tolerated_failure_percentage",
            result_path=sfn.JsonPath.DISCARD,
        )
        first_try = self._task(
            "GatherShard",
            functions[-1],
            comment="Read the sources of each shard and write its object; a sidecar commits it",
            payload={
                "gather": sfn.JsonPath.string_at("$.gather"),
                "tasks": sfn.JsonPath.object_at("$.tasks"),
                "limit_s": sfn.JsonPath.number_at("$.limit_s"),
            },
            output_path=sfn.JsonPath.DISCARD,
            timeout=sfn.Timeout.at("$.limit_s"),
            tries_after_timeout=None,
        )
        second_try = self._task(
            "GatherLateShard",
            functions[-1],
            comment="A fresh worker for what a late one has not committed; each shard has a limit of its own",
            payload={
                "gather": sfn.JsonPath.string_at("$.gather"),
                "tasks": sfn.JsonPath.object_at("$.tasks"),
                "late_s": sfn.JsonPath.number_at("$.late_s"),
            },
            output_path=sfn.JsonPath.DISCARD,
            tries_after_timeout=1,  # its shards end by themselves: only a worker that is stuck comes to this
        )
        second_try.add_retry(
            errors=["ShardsLeftError"],
            interval=Duration.seconds(1),
            backoff_rate=1,
            max_delay=Duration.seconds(2),
            max_attempts=MOST_TASKS_PER_CHILD,  # each has filled one shard at least
            jitter_strategy=sfn.JitterType.FULL,
        )
        first_try.add_catch(second_try, errors=_LATE, result_path=sfn.JsonPath.DISCARD)
        return shards.item_processor(first_try)

    def _task(
        self,
        name: str,
        function: GatherFunction,
        *,
        comment: str,
        payload: dict[str, Any] | None,
        output_path: str,
        tries_after_timeout: int | None,
        timeout: sfn.Timeout | None = None,
    ) -> tasks.LambdaInvoke:
        """Make a Task.

        Args:
            name: Of the state.
            function: To invoke.
            comment: For people.
            payload: What it is given; None for the state's whole input.
            output_path: What of its answer goes on.
            tries_after_timeout: None where a time-out is not to be retried, but caught.
            timeout: None for a little more than the function's own.
        """
        task = tasks.LambdaInvoke(
            self,
            name,
            comment=comment,
            lambda_function=function.function,
            payload=None if payload is None else sfn.TaskInput.from_object(payload),
            output_path=output_path,
            task_timeout=timeout or sfn.Timeout.duration(function.timeout.plus(_START_UP)),
            retry_on_service_exceptions=False,  # CDK's own retrier leaves out throttling, and has no jitter
        )
        task.add_retry(
            errors=_THROTTLED,
            interval=Duration.seconds(1),
            backoff_rate=2,
            max_delay=Duration.minutes(2),
            # A minute each on average, 33 hours in all: where an account may run 10 at one time, 490 of 500
            # children wait for hours, and none may be lost by that. A history has room: three events a try.
            max_attempts=2000,
            jitter_strategy=sfn.JitterType.FULL,
        )
        for errors, tries in ((_TRANSIENT, 4), (_TIMED_OUT, tries_after_timeout), (_CRASHED, 2)):
            if tries is None:
                continue
            task.add_retry(
                errors=errors,
                interval=Duration.seconds(2),
                backoff_rate=2,
                max_delay=Duration.seconds(30),
                max_attempts=tries,
                jitter_strategy=sfn.JitterType.FULL,
            )
        return task


def _name_function_by_size(task: dict[str, Any], functions: Sequence[GatherFunction]) -> None:
    """Let a Task invoke the function whose place is in its input, of these and no others."""
    arns = ", ".join(f"'{each.function.function_arn}'" for each in functions)
    del task["Parameters"]["FunctionName"]
    task["Parameters"]["FunctionName.$"] = f"States.ArrayGetItem(States.Array({arns}), $.size)"
