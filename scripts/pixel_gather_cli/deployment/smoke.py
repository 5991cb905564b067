"""A gather of the samples on AWS, and what was seen of it: executions, logs, and the cube."""

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, Final, Self

from msgspec import Struct

from pixel_gather.core import samples
from pixel_gather.core.errors import DeploymentError
from pixel_gather.io.aws.aws_errors import answer_unless, aws_errors_in_words
from pixel_gather.io.aws.gather_document import summary_key
from pixel_gather_cli.deployment.aws_account import AwsAccount

PLAN: Final = "plan_gather"
SHARD: Final = "gather_shard"
FINISH: Final = "finish_gather"

_POLL_S: Final = 1.0
_LONGEST_S: Final = 900.0
_LATE_S: Final = 60.0
"""CloudWatch shows lines, and Step Functions shows ends, some seconds late."""

_REPORT: Final = re.compile(
    r"REPORT RequestId: (?P<id>\S+)\s+Duration: (?P<run>[\d.]+) ms\s+"
    r"Billed Duration: (?P<billed>[\d.]+) ms\s+"
    r"Memory Size: (?P<size>\d+) MB\s+Max Memory Used: (?P<peak>\d+) MB"
    r"(\s+Init Duration: (?P<start>[\d.]+) ms)?"
)


class Call(Struct, frozen=True, kw_only=True):
    """One invocation of a function, as Lambda reports it."""

    function: str
    """The function's module: `PLAN`, `SHARD` or `FINISH`."""

    run_s: float
    billed_s: float
    memory_mib: int
    peak_mib: int
    start_s: float | None
    """Lambda's part of a cold start; None if the environment was warm."""

    @classmethod
    def of_line(cls, line: str, function: str) -> tuple[str, Self] | None:
        """Return the id of a request and its call, or None if the line is no report."""
        found = _REPORT.search(line)
        if found is None:
            return None
        start = found["start"]
        return found["id"], cls(
            function=function,
            run_s=float(found["run"]) / 1000,
            billed_s=float(found["billed"]) / 1000,
            memory_mib=int(found["size"]),
            peak_mib=int(found["peak"]),
            start_s=None if start is None else float(start) / 1000,
        )


class Smoke(Struct, frozen=True, kw_only=True):
    """What was seen of one gather of the samples."""

    name: str
    execution: Mapping[str, Any]
    """Step Functions' description."""

    states_s: Mapping[str, float]
    """Seconds of each state of the machine."""

    n_transitions: int
    """Of the gather's own execution, without its children."""

    map_run: Mapping[str, Any]
    children: Sequence[Mapping[str, Any]]
    functions: Sequence[str]
    """ARNs of the functions that the execution's definition names."""

    calls: Sequence[Call]
    summary: Mapping[str, Any]
    """What the plan wrote: forecast dollars and seconds."""

    @property
    def result(self) -> Mapping[str, Any]:
        """Return the gather's result."""
        found: Mapping[str, Any] = json.loads(self.execution["output"])
        return found

    def calls_of(self, function: str) -> list[Call]:
        """Return the calls of one function."""
        return [each for each in self.calls if each.function == function]


class DeployedStack:
    """A deployment, as the person who has deployed it sees it."""

    def __init__(self, account: AwsAccount, stack: str, *, poll_s: float = _POLL_S) -> None:
        self.account, self.stack, self.poll_s = account, stack, poll_s
        self.machine = account.stack_output(stack, "StateMachineArn")
        self.control_bucket = account.stack_output(stack, "ControlBucket")
        self.array_bucket = account.stack_output(stack, "ArrayBucket")
        self.s3, self.lambda_ = account.client("s3"), account.client("lambda")
        self.stepfunctions, self.logs = account.client("stepfunctions"), account.client("logs")
        self._cloudformation = account.client("cloudformation")

    @property
    def is_emulated(self) -> bool:
        """Whether the deployment is on this machine."""
        return self.machine.split(":")[4] == "000000000000"

    @cached_property
    def functions(self) -> dict[str, dict[str, Any]]:
        """Return the configuration of each of the stack's functions, by its ARN without a version."""
        names = self.resources("AWS::Lambda::Function").values()
        pages = self.lambda_.get_paginator("list_functions").paginate()
        every = (each for page in pages for each in page["Functions"])
        return {each["FunctionArn"]: each for each in every if each["FunctionName"] in names}

    def resources(self, kind: str) -> dict[str, str]:
        """Return the names of the stack's resources of a kind, by their names in the template.

        CloudFormation cuts long names, so they need not begin with the stack's name. Names of other stacks
        may begin alike. It still lists what an update has removed. What it could not make has no name.
        """
        pages = self._cloudformation.get_paginator("list_stack_resources").paginate(StackName=self.stack)
        return {
            each["LogicalResourceId"]: each["PhysicalResourceId"]
            for page in pages
            for each in page["StackResourceSummaries"]
            if each["ResourceType"] == kind
            and each["ResourceStatus"] != "DELETE_COMPLETE"
            and "PhysicalResourceId" in each
        }

    def put_samples(self) -> None:
        """Write the samples into the control bucket."""
        for index in range(samples.N_SAMPLES):
            key = samples.key_of(index)
            self.s3.put_object(Bucket=self.control_bucket, Key=key, Body=samples.sample(index))

    def start(self, request: Mapping[str, Any], name: str) -> str:
        """Start an execution and return its ARN."""
        answer = self.stepfunctions.start_execution(
            stateMachineArn=self.machine, name=name, input=json.dumps(request)
        )
        return str(answer["executionArn"])

    def wait(self, arn: str, *, n_redrives: int = 0) -> dict[str, Any]:
        """Wait until an execution has ended, and return its description.

        ``n_redrives`` is how often it was redriven. Step Functions may show its former end for a moment, and
        may not know a new execution for a moment.
        """
        found: dict[str, Any] = {}

        def has_ended() -> bool:
            describe = self.stepfunctions.describe_execution
            found.update(answer_unless({"ExecutionDoesNotExist"}, lambda: describe(executionArn=arn)) or {})
            return bool(found and found["status"] != "RUNNING" and found.get("redriveCount", 0) >= n_redrives)

        self.wait_until(has_ended, longest_s=_LONGEST_S)
        return found

    def wait_until(self, is_so: Callable[[], bool], *, longest_s: float) -> bool:
        """Ask again and again. Return whether it became so in time."""
        until = time.monotonic() + longest_s
        while not is_so():
            if time.monotonic() > until:
                return False
            time.sleep(self.poll_s)
        return True

    def map_run(self, arn: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Return the Map Run of an execution that has ended, and the run's children."""
        (run,) = self.stepfunctions.list_map_runs(executionArn=arn)["mapRuns"]
        children: list[dict[str, Any]] = []

        def have_ended() -> bool:
            pages = self.stepfunctions.get_paginator("list_executions").paginate(mapRunArn=run["mapRunArn"])
            children[:] = [each for page in pages for each in page["executions"]]
            return all("stopDate" in each for each in children)

        self.wait_until(have_ended, longest_s=_LATE_S)
        return self.stepfunctions.describe_map_run(mapRunArn=run["mapRunArn"]), children


def gather_samples(stack: DeployedStack) -> Smoke:
    """Gather the samples and return what was seen.

    Raises:
        DeploymentError: The gather did not succeed. The message says why.
    """
    name = f"{samples.PREFIX}{datetime.now(UTC):%Y%m%dT%H%M%S}"
    begun = datetime.now(UTC)
    with aws_errors_in_words():
        stack.put_samples()
        arn = stack.start(samples.request_of(stack.control_bucket, name=name, report=True), name)
        execution = stack.wait(arn)
        if execution["status"] != "SUCCEEDED":
            raise DeploymentError(
                f"the gather {name} is {execution['status']}: {execution.get('error')} "
                f"{execution.get('cause')}. pixel-gather status {name} says more"
            )
        run, children = stack.map_run(arn)
        states_s, n_transitions = _states(stack, arn)
        calls = _calls(stack, name, begun, n_calls=len(children) + 2)
        definition = stack.stepfunctions.describe_state_machine_for_execution(executionArn=arn)
        content = stack.s3.get_object(Bucket=stack.control_bucket, Key=summary_key(name))["Body"].read()
    return Smoke(
        name=name,
        execution=execution,
        states_s=states_s,
        n_transitions=n_transitions,
        map_run=run,
        children=children,
        functions=sorted(set(re.findall(r"arn:[^\"' ]+:function:[^\"' )]+", definition["definition"]))),
        calls=calls,
        summary=json.loads(content),
    )


def _states(stack: DeployedStack, arn: str) -> tuple[dict[str, float], int]:
    """Return the seconds of each state of an execution, and how many states it has entered."""
    pages = stack.stepfunctions.get_paginator("get_execution_history").paginate(executionArn=arn)
    entered: dict[str, datetime] = {}
    seconds: dict[str, float] = {}
    n = 1  # the start counts as one
    for event in (each for page in pages for each in page["events"]):
        if event["type"].endswith("StateEntered"):
            entered[event["stateEnteredEventDetails"]["name"]] = event["timestamp"]
            n += 1
        elif event["type"].endswith("StateExited"):
            name = event["stateExitedEventDetails"]["name"]
            seconds[name] = (event["timestamp"] - entered[name]).total_seconds()
    return seconds, n


def _calls(stack: DeployedStack, name: str, begun: datetime, *, n_calls: int) -> list[Call]:
    """Return what Lambda reports of a gather's calls. Lines may be late."""
    found: list[Call] = []

    def are_all_there() -> bool:
        found[:] = [
            call
            for module, group in _log_groups(stack)
            for call in _calls_in(stack, group, module, name, begun - timedelta(seconds=5))
        ]
        return len(found) >= n_calls

    stack.wait_until(are_all_there, longest_s=_LATE_S)
    return found


def _log_groups(stack: DeployedStack) -> Iterator[tuple[str, str]]:
    for each in stack.functions.values():
        module = each["Handler"].split(".")[-2]
        if module in (PLAN, SHARD, FINISH):
            yield module, each["LoggingConfig"]["LogGroup"]


def _calls_in(stack: DeployedStack, group: str, module: str, name: str, begun: datetime) -> Iterator[Call]:
    """Yield the calls of one function that wrote about a gather."""
    start = int(begun.timestamp() * 1000)
    ours = {
        json.loads(line)["function_request_id"]
        for line in _lines(stack, group, f'"{name}"', start)
        if "function_request_id" in line
    }
    for line in _lines(stack, group, "REPORT", start):
        found = Call.of_line(line, module)
        if found is not None and found[0] in ours:
            yield found[1]


def _lines(stack: DeployedStack, group: str, pattern: str, start: int) -> Iterator[str]:
    pages = stack.logs.get_paginator("filter_log_events").paginate(
        logGroupName=group, filterPattern=pattern, startTime=start
    )
    for page in pages:
        yield from (each["message"] for each in page["events"])
