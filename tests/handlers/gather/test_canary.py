"""The canary: gathers the samples, and says whether their pixels are right."""

import json
from collections.abc import Iterator
from copy import replace
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import ModuleType
from typing import Any

import pytest
from botocore.exceptions import ClientError

from pixel_gather.core.samples import N_SAMPLES, PIXELS, key_of, sample
from support.lambda_functions import Context, cold_start


@dataclass
class FakeStepFunctions:
    """Ends each execution after two looks at it, as it is told."""

    ends: dict[str, Any]
    n_unknown: int = 0
    """Looks that do not find it yet, as Step Functions does not promise to know it at once."""

    started: list[str] = field(default_factory=list)
    n_looks: int = 0

    def start_execution(self, *, name: str, **_: Any) -> dict[str, Any]:
        """Start an execution."""
        self.started.append(name)
        return {"startDate": datetime.now(UTC)}

    def describe_execution(self, **_: Any) -> dict[str, Any]:
        """Describe it."""
        if self.n_unknown > 0:
            self.n_unknown -= 1
            raise ClientError({"Error": {"Code": "ExecutionDoesNotExist"}}, "DescribeExecution")
        self.n_looks += 1
        return {"status": "RUNNING"} if self.n_looks <= 2 else self.ends


@pytest.fixture
def canary(s3: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The function."""
    with cold_start(monkeypatch, "canary") as module:
        imported: Any = module
        imported.canary = replace(
            imported.canary, executions=replace(imported.canary.executions, s3=s3), poll_s=0.0
        )
        yield module


def act_on(module: Any, states: FakeStepFunctions) -> None:
    """Let the function start and describe executions there."""
    executions = replace(module.canary.executions, stepfunctions=states)
    module.canary = replace(module.canary, executions=executions)


def ended(digest: str) -> dict[str, Any]:
    """Return the description of an execution that succeeded."""
    return {"status": "SUCCEEDED", "output": json.dumps({"digest": digest})}


@pytest.mark.long
@pytest.mark.parametrize(
    ("ends", "wrong"),
    [
        (ended(PIXELS), None),
        (ended("0" * 32), f"pixel-gather-canary-20261124T150000Z has other pixels: {'0' * 32}"),
        (
            {"status": "FAILED", "error": "StoreError", "cause": "denied"},
            "pixel-gather-canary-20261124T150000Z FAILED: StoreError denied",
        ),
    ],
)
def test_canary_says_what_is_wrong(
    canary: Any, s3: Any, capsys: pytest.CaptureFixture[str], ends: dict[str, Any], wrong: str | None
) -> None:
    """The samples are written, the gather has the name of its time, and the metric is 1 if it is wrong."""
    states = FakeStepFunctions(ends)
    act_on(canary, states)

    answer = canary.handler({"time": "2026-11-24T15:00:00Z"}, Context())

    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert answer == {"wrong": wrong}
    assert states.started == ["pixel-gather-canary-20261124T150000Z"]
    assert [line["CanaryFailed"] for line in lines if "CanaryFailed" in line] == [[int(wrong is not None)]]
    content = [s3.get_object(Bucket="control", Key=key_of(i))["Body"].read() for i in range(N_SAMPLES)]
    assert content == [sample(index) for index in range(N_SAMPLES)]


def test_canary_that_is_not_found_at_once_is_not_wrong(canary: Any) -> None:
    """It looks again."""
    act_on(canary, FakeStepFunctions(ended(PIXELS), n_unknown=2))

    assert canary.handler({"time": "2026-11-24T15:00:00Z"}, Context()) == {"wrong": None}


@pytest.mark.parametrize("n_unknown", [0, 9])
def test_canary_that_does_not_end_is_wrong(canary: Any, n_unknown: int) -> None:
    """It gives up while it can still say so."""
    act_on(canary, FakeStepFunctions({"status": "RUNNING"}, n_unknown=n_unknown))

    answer = canary.handler({"time": "2026-11-24T15:00:00Z"}, Context(left_s=29))

    assert answer == {"wrong": "pixel-gather-canary-20261124T150000Z has not ended"}
