"""Gathers on the emulated stack, whose functions reach S3 through a proxy that lets requests fail.

Plan, workers, finish and the API's functions send all their requests to S3 through it. The emulator's own
calls do not pass it. Processes of the functions are killed at random, while they work. The state machine
tries again, as on AWS. An execution that fails all the same is redriven, as an operator does.
"""

import os
import random
import signal
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import xarray as xr
from obstore.store import S3Store
from zarr.storage import ObjectStore

from e2e.api import UNDRAWN, call, execution_arn
from faults.chaos import ChaosRun, layout, passing_on
from pixel_gather_emulator.additions.workers import descendants
from pixel_gather_emulator.deploy import DeployedStack, deployed
from support.cloud_store import CloudStore, serving

_WAITS: Final = 0.2
"""Factor of a state machine's waits between tries."""

_HANGS_S: Final = 12.0
"""How long a request gets no answer. The functions wait for 10 s."""

_LONGEST_LIFE_S: Final = 8.0
_POLL_S: Final = 0.5
_UPLOADS: Final = 8
_FOLDER: Final = "chaos"
_PROC: Final = Path("/proc")
_FAILED: Final = ("TaskFailed", "TaskTimedOut", "LambdaFunctionFailed")
_OF_STEPS: Final = ("plan", "shard", "finish")
"""Parts of the names of the functions that the state machine calls."""


@dataclass(frozen=True, kw_only=True)
class StackUnderFaults:
    """The deployed stack, and what lets its requests fail."""

    stack: DeployedStack
    faults: CloudStore

    def run(self, *, seed: int, failing: float, n_kills: int, longest_s: float) -> ChaosRun:
        """Gather once. Arguments as for `faults.chaos.run`.

        Raises:
            TimeoutError: It does not end.
        """
        faults, chance = self.faults, random.Random(-seed)  # noqa: S311 # no secret
        faults.chance, faults.failing = random.Random(seed), failing  # noqa: S311 # as above
        faults.counts.clear()
        began_s = time.monotonic()
        id_ = self._submitted(f"chaos-{seed}", longest_s)
        states = self.stack.client("stepfunctions")
        arn = execution_arn(self.stack, id_)
        n_started, n_killed = 1, 0
        cpu: dict[int, float] = {}
        kill_s = time.monotonic() + chance.random() * _LONGEST_LIFE_S
        while (status := states.describe_execution(executionArn=arn)["status"]) != "SUCCEEDED":
            if time.monotonic() - began_s > longest_s:
                raise TimeoutError(f"seed {seed} does not end: {faults.counts}")
            if status != "RUNNING":
                n_started += 1
                states.redrive_execution(executionArn=arn)
            before, cpu = cpu, {pid: _cpu_s(pid) for pid in self._workers()}
            busy = [pid for pid, used_s in cpu.items() if used_s > before.get(pid, 0.0)]
            if n_killed < n_kills and time.monotonic() > kill_s and busy:
                _kill(chance.choice(busy))
                n_killed += 1
                kill_s = time.monotonic() + chance.random() * _LONGEST_LIFE_S
            time.sleep(_POLL_S)
        seconds, faults.failing = time.monotonic() - began_s, 0.0
        return ChaosRun(
            seconds=seconds,
            n_started=n_started,
            n_killed=n_killed,
            n_failed=_n_failed_tries(states, arn),
            requests=faults.counts.copy(),
            cube=self._opened(f"chaos-{seed}.zarr"),
            shards=self._shards(f"chaos-{seed}.zarr/"),
        )

    def _submitted(self, name: str, longest_s: float) -> str:
        """Submit through the API until it takes the request. Its functions suffer from faults, too."""
        request = {
            "sources": f"s3://{self.stack.samples.bucket}/{_FOLDER}/sources.csv",
            "window": layout()["window"],
            "output": {**UNDRAWN, **layout()["output"], "name": name},
        }
        until = time.monotonic() + longest_s
        while time.monotonic() < until:
            answered = call(self.stack, "POST", "/gathers", request)
            if answered.status == 202:
                id_: str = answered.body["id"]
                return id_
            assert answered.status >= 500, answered
            time.sleep(_POLL_S)
        raise TimeoutError(f"{name} is not taken")

    def _workers(self) -> list[int]:
        """Return the processes of the functions that the state machine calls."""
        started = descendants(self.stack.emulator.supervisor.pid, _PROC)
        return [pid for pid in started if any(each in _function_of(pid).lower() for each in _OF_STEPS)]

    def _opened(self, cube: str) -> xr.Dataset:
        with patch.dict(os.environ, self.stack.variables):
            store = ObjectStore(S3Store(self.stack.array_bucket, prefix=cube), read_only=True)
            opened: xr.Dataset = xr.open_zarr(store, chunks=None).load()
        return opened

    def _shards(self, prefix: str) -> dict[str, bytes]:
        s3, bucket = self.stack.client("s3"), self.stack.array_bucket
        pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=f"{prefix}band_1/c/")
        keys = [each["Key"] for page in pages for each in page.get("Contents", ())]
        return {
            key.removeprefix(prefix): s3.get_object(Bucket=bucket, Key=key)["Body"].read() for key in keys
        }


def _n_failed_tries(states: Any, arn: str) -> int:
    """Return how many tries of an execution's tasks have failed, those of its children included."""
    runs = [each["mapRunArn"] for each in states.list_map_runs(executionArn=arn)["mapRuns"]]
    pages = (page for run in runs for page in states.get_paginator("list_executions").paginate(mapRunArn=run))
    arns = [arn, *(each["executionArn"] for page in pages for each in page["executions"])]
    histories = (
        page
        for each in arns
        for page in states.get_paginator("get_execution_history").paginate(executionArn=each)
    )
    return sum(event["type"] in _FAILED for page in histories for event in page["events"])


def _function_of(pid: int) -> str:
    """Return the name of the function that a process serves; an empty text if there is none."""
    name = b"AWS_LAMBDA_FUNCTION_NAME="
    with suppress(OSError):
        variables = (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
        return next((each[len(name) :].decode() for each in variables if each.startswith(name)), "")
    return ""


def _cpu_s(pid: int) -> float:
    """Return the CPU time of a process; 0 if it has ended. One that waits for a call uses none."""
    with suppress(OSError):
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def _kill(pid: int) -> None:
    """Kill a process with its children."""
    for each in (pid, *descendants(pid, _PROC)):
        with suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)


@contextmanager
def stack_under_faults(sources: Mapping[str, bytes]) -> Iterator[StackUnderFaults]:
    """Deploy the stack and put the sources, by ``bucket/key``, into its bucket of samples."""
    faults = CloudStore(hangs_s=_HANGS_S)
    with (
        serving(faults) as proxy,
        deployed(wait_scale=_WAITS, environment={"AWS_ENDPOINT_URL_S3": proxy}) as stack,
    ):
        faults.pass_on = passing_on(stack.endpoint, ca_certs=str(stack.emulator.bundle))
        _put(stack, sources)
        yield StackUnderFaults(stack=stack, faults=faults)


def _put(stack: DeployedStack, sources: Mapping[str, bytes]) -> None:
    """Put the sources and their list beside the samples."""
    s3, bucket = stack.client("s3", max_pool_connections=_UPLOADS), stack.samples.bucket
    keys = {f"{_FOLDER}/{path}": content for path, content in sources.items()}
    with ThreadPoolExecutor(_UPLOADS) as pool:
        list(pool.map(lambda key: s3.put_object(Bucket=bucket, Key=key, Body=keys[key]), keys))
    hrefs = [f"s3://{bucket}/{key}" for key in keys]
    text = "\n".join(["href", *hrefs, ""])
    s3.put_object(Bucket=bucket, Key=f"{_FOLDER}/sources.csv", Body=text.encode())
