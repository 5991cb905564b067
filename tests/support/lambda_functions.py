"""A deployment without AWS: moto's S3 on loopback, and handlers imported as a cold start imports them."""

import importlib
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Final
from urllib.request import Request, urlopen

import boto3
import pytest

from support.counted_s3 import counted_s3

_HANDLERS: Final = Path(__file__).parents[2] / "functions/handlers"
REGION: Final = "eu-central-1"
EXECUTION: Final = "by-hand"
"""The execution that events of tests are of."""

STATE_MACHINE: Final = f"arn:aws:states:{REGION}:123456789012:stateMachine:pixel-gather"

ENVIRONMENT: Final[Mapping[str, str]] = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_REGION": REGION,
    "AWS_DEFAULT_REGION": REGION,
    "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "1769",
    "PIXEL_GATHER_STAGE": "test",
    "PIXEL_GATHER_ARRAY_BUCKET": "cubes",
    "PIXEL_GATHER_OUTPUT_PREFIX": "out/",
    "PIXEL_GATHER_CONTROL_BUCKET": "control",
    "PIXEL_GATHER_SOURCE_BUCKETS": json.dumps([{"name": "sources", "region": None}]),
    "PIXEL_GATHER_HTTPS_HOSTS": "[]",
    "PIXEL_GATHER_LIMITS": json.dumps({"usd": 10, "files": 1000, "workers": 500, "failed_shards": 0.5}),
    "PIXEL_GATHER_ALL_WORKERS": "900",
    "PIXEL_GATHER_CONCURRENCY": "16",
    "PIXEL_GATHER_SHARD_MEMORY_MIB": "[1024, 1769]",
    "PIXEL_GATHER_STATE_MACHINE_ARN": STATE_MACHINE,
    "PIXEL_GATHER_TABLE_STATE_MACHINE_ARN": f"{STATE_MACHINE}-tables",
    "POWERTOOLS_SERVICE_NAME": "pixel-gather",
    "POWERTOOLS_METRICS_NAMESPACE": "PixelGather",
    "POWERTOOLS_LOG_LEVEL": "INFO",
}


@dataclass(frozen=True)
class Context:
    """The context of an invocation, as Lambda gives it to a handler."""

    left_s: float = 900.0
    function_name: str = "function"
    memory_limit_in_mb: int = 1769
    invoked_function_arn: str = f"arn:aws:lambda:{REGION}:123456789012:function:function"
    aws_request_id: str = "request-1"

    def get_remaining_time_in_millis(self) -> int:
        """Return how long the invocation may still run."""
        return int(self.left_s * 1000)


def handler_module(name: str) -> str:
    """Return the module of a function, which is in the folder of its feature."""
    (file,) = _HANDLERS.glob(f"*/{name}.py")
    return f"handlers.{file.parent.name}.{name}"


@contextmanager
def cold_start(monkeypatch: pytest.MonkeyPatch, name: str, **environment: str | None) -> Iterator[ModuleType]:
    """Import a handler's module as if for the first time. None removes a variable."""
    for variable, value in (dict(ENVIRONMENT) | environment).items():
        if value is None:
            monkeypatch.delenv(variable, raising=False)
        else:
            monkeypatch.setenv(variable, value)
    module_name = handler_module(name)
    sys.modules.pop(module_name, None)
    module = importlib.import_module(module_name)
    try:
        yield module
    finally:
        if hasattr(module, "worker"):
            module.worker.deployment.run(module.worker.aclose())
            module.worker.deployment.close()
        readers = getattr(module, "readers", None) or getattr(
            getattr(module, "planner", None), "readers", None
        )
        if readers is not None:
            module.deployment.run(readers.aclose())
        if hasattr(module, "deployment"):
            module.deployment.close()
        sys.modules.pop(module_name, None)


@contextmanager
def s3_server() -> Iterator[str]:
    """Serve an empty S3 on loopback. Yields its address."""
    with counted_s3() as server:
        yield server.endpoint


def emptied(url: str) -> Any:
    """Return boto3's client of an S3 with the empty buckets of a deployment."""
    with urlopen(Request(f"{url}/moto-api/reset", method="POST")):  # noqa: S310 # our own server
        client = boto3.client("s3", endpoint_url=url, region_name=REGION)
    for bucket in ("sources", "cubes", "control"):
        client.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": REGION})
    return client


def keys_of(s3: Any, bucket: str, prefix: str = "") -> list[str]:
    """Return the keys of all objects below a prefix."""
    return [each["Key"] for each in s3.list_objects_v2(Bucket=bucket, Prefix=prefix).get("Contents", ())]


def remove_objects(s3: Any, bucket: str, prefix: str = "") -> None:
    """Remove all objects below a prefix, of which there is one at least."""
    keys = keys_of(s3, bucket, prefix)
    assert keys, f"nothing is below {prefix}"
    s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": key} for key in keys]})


@dataclass
class StateMachine:
    """Calls the handlers as the state machine does, one child after another."""

    plan: ModuleType
    shard: ModuleType
    finish: ModuleType
    s3: Any
    lost: set[int] = field(default_factory=set)
    """Indexes of shards whose worker always fails."""

    def run(self, request: Any) -> dict[str, Any]:
        """Return the verdict of the plan if it is final, else the answer of finish."""
        verdict = self.planned(request)
        if verdict["verdict"] != "planned":
            return verdict
        for item in self.items(verdict):
            tasks = [each for each in item if each["index"] not in self.lost]
            if tasks:
                self.fill(verdict, tasks, limit_s=verdict["shard_limit_s"])
        return self.finished(verdict)

    def planned(self, request: Any, *, execution: str = EXECUTION, **more: Any) -> dict[str, Any]:
        """Call plan and return its verdict."""
        answer = self.plan.handler({"request": request, "execution": execution, **more}, Context())
        verdict: dict[str, Any] = json.loads(json.dumps(answer))
        return verdict

    def fill(
        self, verdict: Mapping[str, Any], tasks: Any, *, left_s: float = 900.0, **more: Any
    ) -> dict[str, Any]:
        """Call the worker with some tasks and return its answer."""
        event = {"gather": verdict["gather"], "execution": EXECUTION, "tasks": tasks, **more}
        answer: dict[str, Any] = self.shard.handler(event, Context(left_s=left_s))
        return answer

    def items(self, verdict: Mapping[str, Any]) -> list[list[dict[str, Any]]]:
        """Return the items of the manifest: the tasks of each child."""
        return items_of(self.s3, verdict)

    def manifest(self, verdict: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the tasks of all children, in order."""
        return [task for item in self.items(verdict) for task in item]

    def finished(self, verdict: Mapping[str, Any]) -> dict[str, Any]:
        """Call finish and return its answer."""
        event = {
            "gather": verdict["gather"],
            "execution": verdict.get("execution", EXECUTION),
            "failed_shards": verdict["failed_shards"],
        }
        answer: dict[str, Any] = json.loads(json.dumps(self.finish.handler(event, Context())))
        return answer


def items_of(s3: Any, verdict: Mapping[str, Any]) -> list[list[dict[str, Any]]]:
    """Return what a plan's manifest holds: the tasks of each child."""
    place = verdict["manifest"]
    answer = s3.get_object(Bucket=place["bucket"], Key=place["key"])
    items: list[list[dict[str, Any]]] = json.loads(answer["Body"].read())
    return items


def line_of(links_from: str, name: str) -> dict[str, Any]:
    """Return an execution in a list, as the API tells it."""
    return {
        "id": name,
        "state": "running",
        "submitted_at": "2026-11-21T00:00:00Z",
        "ended_at": None,
        "seconds": 0.0,
        "links": {"self": f"{links_from}/gathers/{name}"},
    }


def records(out: str, *, with_: str) -> list[dict[str, Any]]:
    """Return the JSON lines of standard output that have a key."""
    found = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    return [each for each in found if with_ in each]
