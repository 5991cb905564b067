"""Step Functions as tables use it: each execution runs in the call that starts it."""

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import ModuleType
from typing import Any

import pytest
from botocore.exceptions import ClientError

from pixel_gather.io.aws.executions import Executions
from pixel_gather.io.store.store_settings import StoreSettings
from support.api_bridge import told
from support.lambda_functions import (
    ENVIRONMENT,
    EXECUTION,
    STATE_MACHINE,
    Context,
    cold_start,
    emptied,
    items_of,
    keys_of,
    remove_objects,
)


@dataclass
class TableMachine:
    """Calls the functions of a table as the state machine does. A fake of boto3's client."""

    plan: ModuleType
    worker: ModuleType
    s3: Any
    poison: set[str] = field(default_factory=set)
    """Scenes whose worker always crashes."""

    is_slow: bool = False
    """Whether executions keep running until they are stopped. They go on when they are redriven."""

    found: dict[str, dict[str, Any]] = field(default_factory=dict)
    n_children: list[int] = field(default_factory=list)
    """Of each round."""

    def forget(self) -> None:
        """Forget all tables, and empty the buckets of cubes and of control."""
        self.poison, self.found, self.n_children, self.is_slow = set(), {}, [], False
        for bucket in ("cubes", "control"):
            if keys_of(self.s3, bucket):
                remove_objects(self.s3, bucket)

    def start_execution(self, *, stateMachineArn: str, name: str, input: str) -> dict[str, Any]:  # noqa: A002, N803 # boto3's
        """Make a table."""
        assert stateMachineArn == STATE_MACHINE
        now = datetime.now(UTC)
        execution = {
            "name": name,
            "executionArn": f"arn:{name}",
            "input": input,
            "startDate": now,
            "stopDate": now,
        }
        event = {"request": json.loads(input), "execution": name}
        if self.is_slow:
            execution |= {"status": "RUNNING", "resume": event}
            del execution["stopDate"]
        else:
            execution |= self._ended(self.run(event))
        self.found[name] = execution
        return {"startDate": now}

    @staticmethod
    def _ended(verdict: Mapping[str, Any]) -> dict[str, Any]:
        if verdict["verdict"] == "complete":
            return {"status": "SUCCEEDED", "output": json.dumps(verdict["result"])}
        return {"status": "FAILED", "error": verdict["error"], "cause": verdict["cause"]}

    def list_executions(self, *, stateMachineArn: str, maxResults: int) -> dict[str, Any]:  # noqa: N803 # boto3's
        """Return the last executions, the latest first."""
        assert stateMachineArn == STATE_MACHINE
        return {"executions": list(self.found.values())[::-1][:maxResults]}

    def stop_execution(self, *, executionArn: str, error: str, cause: str) -> dict[str, Any]:  # noqa: N803 # boto3's
        """Stop an execution."""
        now = datetime.now(UTC)
        found = self.found[executionArn.rpartition(":")[2]]
        found |= {"status": "ABORTED", "error": error, "cause": cause, "stopDate": now}
        return {"stopDate": now}

    def redrive_execution(self, *, executionArn: str) -> None:  # noqa: N803 # boto3's
        """Run the round again at which an execution has stopped, and all after it."""
        found = self.found[executionArn.rpartition(":")[2]]
        found |= self._ended(self.run(found["resume"]))

    def list_map_runs(self, *, executionArn: str) -> dict[str, Any]:  # noqa: N803 # boto3's
        """Return one of an execution that was told how many workers it may have; else none."""
        found = self.found[executionArn.rpartition(":")[2]]
        return {"mapRuns": [{"mapRunArn": executionArn}] if "workers" in found else []}

    def describe_map_run(self, *, mapRunArn: str) -> dict[str, Any]:  # noqa: N803 # boto3's
        """Return a Map Run that is under way."""
        workers = self.found[mapRunArn.rpartition(":")[2]]["workers"]
        return {
            "mapRunArn": mapRunArn,
            "status": "RUNNING",
            "maxConcurrency": workers,
            "itemCounts": {"failed": 0},
        }

    def update_map_run(self, *, mapRunArn: str, maxConcurrency: int) -> Mapping[str, Any]:  # noqa: N803 # boto3's
        """Note how many workers it may have."""
        self.found[mapRunArn.rpartition(":")[2]]["workers"] = maxConcurrency
        return {}

    def describe_execution(self, *, executionArn: str) -> Mapping[str, Any]:  # noqa: N803 # boto3's
        """Return an execution."""
        name = executionArn.rpartition(":")[2]
        if name not in self.found:
            raise ClientError({"Error": {"Code": "ExecutionDoesNotExist"}}, "DescribeExecution")
        return self.found[name]

    def run(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """Return the last verdict."""
        while True:
            verdict = _through_json(self.plan.handler(event, Context()))
            if verdict["verdict"] != "planned":
                return verdict
            self.n_children.append(len(self.items(verdict)))
            for tasks in self.items(verdict):
                self._child(verdict, tasks)
            percentage = verdict["failed_shards"]
            event = {
                "gather": verdict["gather"],
                "execution": event["execution"],
                "failed_shards": percentage,
            }

    def items(self, verdict: Mapping[str, Any]) -> list[list[dict[str, Any]]]:
        """Return the tasks of each child of a round."""
        return items_of(self.s3, verdict)

    def _child(self, verdict: Mapping[str, Any], tasks: list[dict[str, Any]]) -> None:
        name, _, number = verdict["gather"].rpartition("/")
        key = f"tables/{name}/rounds/{number}/{tasks[0]['scenes_key']}"
        scenes = self.s3.get_object(Bucket="control", Key=key)["Body"].read()
        content = scenes[tasks[0]["start"] : tasks[0]["stop"]]
        if not any(name.encode() in content for name in self.poison):
            event = {"gather": verdict["gather"], "tasks": tasks, "limit_s": verdict["shard_limit_s"]}
            self.worker.handler(event, Context())


def _through_json(answer: Any) -> dict[str, Any]:
    decoded: dict[str, Any] = json.loads(json.dumps(answer))
    return decoded


@dataclass
class TableClient:
    """Calls the functions of tables one by one, as callers and the state machine do."""

    app: Any
    """Answers the routes of tables."""

    machine: TableMachine
    s3_url: str

    @property
    def stores(self) -> StoreSettings:
        """The S3 of the deployment."""
        return StoreSettings(endpoint=self.s3_url, region=ENVIRONMENT["AWS_REGION"])

    def do(self, method: str, path: str, body: Any = None, **query: str) -> tuple[int, Any]:
        """Send a request."""
        return told(self.app, method, path, body, query=query)

    def begun(self, body: Any, execution: str = "a") -> dict[str, Any]:
        """Begin a table, and return the verdict."""
        event = {"request": body, "execution": execution}
        verdict: dict[str, Any] = self.machine.plan.handler(event, Context())
        return verdict

    def handle(self, verdict: Mapping[str, Any], *items: int) -> None:
        """Let workers do some tasks of a round, or all."""
        tasks = self.machine.items(verdict)
        for item in items or range(len(tasks)):
            event = {"gather": verdict["gather"], "tasks": tasks[item], "limit_s": 60}
            self.machine.worker.handler(event, Context())

    def ended(self, gather: str) -> dict[str, Any]:
        """Call the function that ends a round."""
        event = {"gather": gather, "execution": EXECUTION, "failed_shards": 100}
        verdict: dict[str, Any] = self.machine.plan.handler(event, Context())
        return verdict


@contextmanager
def opened_machine(s3_url: str, *names: str) -> Iterator[tuple[TableMachine, Executions, list[ModuleType]]]:
    """Open functions over an emptied S3, and the machine whose executions they start."""
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        for variable, value in (dict(ENVIRONMENT) | {"AWS_ENDPOINT_URL": s3_url}).items():
            patch.setenv(variable, value)
        client = emptied(s3_url)
        plan, worker, *functions = (
            stack.enter_context(cold_start(patch, name)) for name in ("plan_table", "read_images", *names)
        )
        machine = TableMachine(plan, worker, client)
        executions = Executions(
            STATE_MACHINE, stepfunctions=machine, s3=client, control_bucket="control", kind="table"
        )
        yield machine, executions, functions
