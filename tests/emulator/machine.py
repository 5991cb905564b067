"""A state machine like the stack's, made in an emulator by boto3. It takes seconds, unlike a deployment."""

import io
import json
import time
import uuid
import zipfile
from collections.abc import Mapping, Sequence
from copy import replace
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pixel_gather_emulator.emulator import Emulator

BUCKET: Final = "marks"
DENIED: Final = "denied"
ROLE: Final = "arn:aws:iam::000000000000:role/worker"
TIMEOUT_S: Final = 120
"""Eight functions start at once. Beside much other work on two cores they take more than 10 s."""
MEMORY_MIB: Final = 256

_BOOTSTRAP: Final = """#!/bin/sh
export PYTHONPATH="$PIXEL_GATHER_TEST_PATH"
exec "$PIXEL_GATHER_EMULATOR_PYTHON" -m awslambdaric "$_HANDLER"
"""
_INVOKE: Final = "arn:aws:states:::lambda:invoke"
_TRUST: Final = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Principal": {"Service": "lambda.amazonaws.com"},
            "Action": "sts:AssumeRole",
        }
    ],
}
_RIGHTS: Final = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Action": ["lambda:InvokeFunction", "states:StartExecution"],
            "Resource": ["arn:aws:lambda:*:*:function:*", "arn:aws:states:*:*:stateMachine:*"],
        },
        {
            "Effect": "Allow",
            "Action": ["s3:GetObject", "s3:PutObject", "s3:ListBucket"],
            "Resource": [f"arn:aws:s3:::{BUCKET}", f"arn:aws:s3:::{BUCKET}/*"],
        },
    ],
}
RETRY: Final = [
    {
        "ErrorEquals": ["BusyError"],
        "IntervalSeconds": 1,
        "MaxAttempts": 2,
        "BackoffRate": 2,
        "MaxDelaySeconds": 2,
        "JitterStrategy": "FULL",
    }
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A state machine, and how to run it."""

    emulator: Emulator
    arn: str
    states: Any = field(repr=False)
    s3: Any = field(repr=False)

    def start(
        self,
        tasks: Sequence[Mapping[str, Any]],
        *,
        name: str | None = None,
        workers: int = 100,
        tolerated: float = 0,
    ) -> str:
        """Start an execution and return its ARN."""
        name = name or uuid.uuid4().hex
        key = f"manifests/{name}.json"
        self.s3.put_object(Bucket=BUCKET, Key=key, Body=json.dumps(list(tasks)).encode())
        answer = {
            "verdict": "planned",
            "gather": name,
            "manifest": {"bucket": BUCKET, "key": key},
            "workers": workers,
            "tolerated_failure_percentage": tolerated,
        }
        return self.start_with(answer, name=name)

    def start_with(self, answer: Mapping[str, Any], *, name: str) -> str:
        """Start an execution whose plan returns this answer."""
        started = self.states.start_execution(
            stateMachineArn=self.arn, name=name, input=json.dumps({"answer": answer})
        )
        return str(started["executionArn"])

    def run(self, tasks: Sequence[Mapping[str, Any]], **options: Any) -> dict[str, Any]:
        """Run an execution and return its description at the end."""
        return self.ended(self.start(tasks, **options))

    def ended(self, arn: str) -> dict[str, Any]:
        """Wait for an execution's end."""
        while (found := self.described(arn))["status"] == "RUNNING":
            time.sleep(0.05)
        return found

    def described(self, arn: str) -> dict[str, Any]:
        """Describe an execution."""
        return dict(self.states.describe_execution(executionArn=arn))

    def map_run(self, arn: str) -> dict[str, Any]:
        """Describe the only Map Run of an execution."""
        (run,) = self.states.list_map_runs(executionArn=arn)["mapRuns"]
        return dict(self.states.describe_map_run(mapRunArn=run["mapRunArn"]))

    def counts(self, arn: str) -> dict[str, int]:
        """Return the counts that are not 0, without the total."""
        counts = self.map_run(arn)["itemCounts"]
        return {name: count for name, count in counts.items() if count and name != "total"}

    def children(self, arn: str) -> list[dict[str, Any]]:
        """Describe the children of the only Map Run."""
        run = self.map_run(arn)["mapRunArn"]
        listed = self.states.list_executions(mapRunArn=run)["executions"]
        return [self.described(child["executionArn"]) for child in listed]

    def tries(self, arn: str, task: str) -> int:
        """Return how many times a task was run."""
        found = self.s3.list_objects_v2(Bucket=BUCKET, Prefix=f"tries/{arn.rpartition(':')[2]}/{task}/")
        return int(found["KeyCount"])

    def mark(self, key: str) -> None:
        """Write the object that lets failing tasks succeed, and waiting ones end."""
        self.s3.put_object(Bucket=BUCKET, Key=key, Body=b"")


def make_machine(emulator: Emulator) -> Machine:
    """Make buckets, role, functions and the machine."""
    s3, states = emulator.client("s3"), emulator.client("stepfunctions")
    for bucket in (BUCKET, DENIED):
        s3.create_bucket(Bucket=bucket)
    s3.put_object(Bucket=DENIED, Key="a", Body=b"secret")
    role = make_role(emulator, "worker", _RIGHTS)
    functions = {name: make_function(emulator, name, role=role) for name in ("manifest", "shard")}
    made = states.create_state_machine(
        name="machine", definition=json.dumps(_definition(**functions)), roleArn=role
    )
    return Machine(emulator=emulator, arn=made["stateMachineArn"], states=states, s3=s3)


def as_role(machine: Machine, name: str, rights: Mapping[str, Any]) -> Machine:
    """Make the same machine with another role."""
    definition = machine.states.describe_state_machine(stateMachineArn=machine.arn)["definition"]
    role = make_role(machine.emulator, name, rights)
    made = machine.states.create_state_machine(name=name, definition=definition, roleArn=role)
    return replace(machine, arn=made["stateMachineArn"])


def make_function(
    emulator: Emulator,
    handler: str,
    *,
    role: str,
    name: str | None = None,
    timeout_s: int = TIMEOUT_S,
    **variables: str,
) -> str:
    """Make a function from worker.py and return its ARN."""
    made = emulator.client("lambda").create_function(
        FunctionName=name or handler,
        Runtime="provided.al2023",
        Handler=f"worker.{handler}",
        Role=role,
        Code={"ZipFile": _package()},
        Timeout=timeout_s,
        MemorySize=MEMORY_MIB,
        Environment={"Variables": {"BUCKET": BUCKET, **variables}},
    )
    return str(made["FunctionArn"])


def one_task_machine(machine: Machine, function: str, *, role: str = ROLE, **of_task: Any) -> Machine:
    """Make a machine of one task, which invokes a function with the execution's input."""
    task = {"Type": "Task", "Resource": _INVOKE, "End": True, "OutputPath": "$.Payload"}
    task["Parameters"] = {"FunctionName": function, "Payload.$": "$"}
    definition = {"StartAt": "Task", "States": {"Task": {**task, **of_task.pop("task", {})}}, **of_task}
    made = machine.states.create_state_machine(
        name=uuid.uuid4().hex, definition=json.dumps(definition), roleArn=role
    )
    return replace(machine, arn=made["stateMachineArn"])


def make_role(emulator: Emulator, name: str, rights: Mapping[str, Any] | None = None) -> str:
    """Make a role with one policy, or none, and return its ARN."""
    iam = emulator.client("iam")
    role = iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(_TRUST))["Role"]
    if rights is not None:
        iam.put_role_policy(RoleName=name, PolicyName="rights", PolicyDocument=json.dumps(rights))
    return str(role["Arn"])


def _package() -> bytes:
    package = io.BytesIO()
    with zipfile.ZipFile(package, "w") as archive:
        bootstrap = zipfile.ZipInfo("bootstrap")
        bootstrap.external_attr = 0o755 << 16
        archive.writestr(bootstrap, _BOOTSTRAP)
        archive.write(Path(__file__).with_name("worker.py"), "worker.py")
    return package.getvalue()


def _definition(*, manifest: str, shard: str) -> dict[str, Any]:
    gather_shard = {
        "Type": "Task",
        "Resource": _INVOKE,
        "Parameters": {"FunctionName": shard, "Payload.$": "$"},
        "OutputPath": None,
        "Retry": RETRY,
        "End": True,
    }
    return {
        "StartAt": "Plan",
        "States": {
            "Plan": {
                "Type": "Task",
                "Resource": _INVOKE,
                "Parameters": {
                    "FunctionName": manifest,
                    "Payload": {"request.$": "$$.Execution.Input", "execution.$": "$$.Execution.Name"},
                },
                "OutputPath": "$.Payload",
                "Next": "Verdict",
            },
            "Verdict": {
                "Type": "Choice",
                "Choices": [{"Variable": "$.verdict", "StringEquals": "refused", "Next": "Refused"}],
                "Default": "Shards",
            },
            "Refused": {"Type": "Fail", "ErrorPath": "$.error", "CausePath": "$.cause"},
            "Shards": {
                "Type": "Map",
                "ItemReader": {
                    "Resource": "arn:aws:states:::s3:getObject",
                    "ReaderConfig": {"InputType": "JSON"},
                    "Parameters": {"Bucket.$": "$.manifest.bucket", "Key.$": "$.manifest.key"},
                },
                "ItemSelector": {"gather.$": "$.gather", "task.$": "$$.Map.Item.Value"},
                "MaxConcurrencyPath": "$.workers",
                "ToleratedFailurePercentagePath": "$.tolerated_failure_percentage",
                "ItemProcessor": {
                    "ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"},
                    "StartAt": "GatherShard",
                    "States": {"GatherShard": gather_shard},
                },
                "ResultPath": None,
                "Next": "Finish",
            },
            "Finish": {"Type": "Pass", "Parameters": {"gather.$": "$.gather"}, "End": True},
        },
    }
