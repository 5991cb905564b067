"""The cost of a try is reported, however the try ends."""

import json
from typing import Any

import pytest

from handlers.deployment.report_spending import report_spending
from pixel_gather.core.metric_names import SPENT_USD
from pixel_gather.io.aws.metrics import EmfMetrics
from support.lambda_functions import StateMachine
from support.spending import spent_in

LANDSAT: dict[str, Any] = {
    "sources": {"prefix": "s3://sources/landsat"},
    "window": {"pixels": [0, 0, 40, 30]},
}


@pytest.mark.long
def test_a_shard_tells_what_it_cost(machine: StateMachine, capsys: pytest.CaptureFixture[str]) -> None:
    """The cost has the requests, the puts and at least three transitions.

    A shard that is there already costs less.
    """
    verdict = machine.planned(LANDSAT)
    (task,) = machine.manifest(verdict)
    capsys.readouterr()

    first = machine.fill(verdict, [task], limit_s=verdict["shard_limit_s"])
    (usd,) = spent_in(capsys.readouterr().out)
    machine.fill(verdict, [task], limit_s=verdict["shard_limit_s"])
    (again,) = spent_in(capsys.readouterr().out)

    least = 3 * 0.025e-3 + 3 * 0.005e-3 + first["shards"][0]["requests"] * 0.4e-6
    assert least < usd < least + 0.001
    assert 0 < again < usd


def test_a_try_that_fails_tells_what_it_cost(capsys: pytest.CaptureFixture[str]) -> None:
    """Failed tries are reported, because the plan's cap does not count them."""
    with (
        pytest.raises(RuntimeError),
        report_spending(EmfMetrics(stage="test"), memory_mib=1769, gather_id="g", shard_index=7),
    ):
        raise RuntimeError

    (record,) = map(json.loads, capsys.readouterr().out.splitlines())
    (usd,) = record[SPENT_USD.name]
    assert (record["gather_id"], record["shard_index"]) == ("g", 7)
    assert 0.025e-3 < usd < 0.001
