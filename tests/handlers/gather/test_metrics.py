"""Metrics of large shards: every value reaches CloudWatch within the format's limits."""

import json
from copy import replace

import numpy as np
import pytest

from handlers.gather.shard_metrics import metrics_of_gather, metrics_of_shard
from pixel_gather.core.model.outcome import Outcome, ShardResult
from pixel_gather.core.model.source import Cost
from pixel_gather.core.model.status import Status
from pixel_gather.core.results.report import Tally
from pixel_gather.io.aws.metrics import EmfMetrics
from support.fakes import FakeReader, table_of
from support.plans import planned

N_SOURCES = 1024
A = np.ones((1, 50, 40), "uint16")
COUNTS = {"ok": 5, "absent": 4, "missing": 2, "lost": 1}


def test_every_value_of_a_large_shard_is_written_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Each record has at most 100 values per metric and 1 MB."""
    EmfMetrics(stage="test").write(metrics_of_shard(_result()), gather_id="g", shard_index=7)

    lines = capsys.readouterr().out.splitlines()
    written = [json.loads(line) for line in lines]
    assert len(written) == 11
    assert max(len(line) for line in lines) < 1_000_000
    for name, expected in (
        ("SourceOpenSeconds", [n / 1000 for n in range(N_SOURCES)]),
        ("SourceReadSeconds", [(n + 2 * n) / 1000 for n in range(N_SOURCES)]),
        ("SourceTotalSeconds", [n + 0.5 for n in range(N_SOURCES)]),
    ):
        parts = [record[name] for record in written]
        assert max(map(len, parts)) <= 100
        assert [value for part in parts for value in part] == pytest.approx(expected)
    assert [record["Requests"] for record in written if "Requests" in record] == [[2 * N_SOURCES]]
    for record in written:
        [definition] = record["_aws"]["CloudWatchMetrics"]
        assert definition["Namespace"] == "PixelGather"
        assert definition["Dimensions"] == [["service", "stage"]]
        assert (record["service"], record["stage"]) == ("pixel-gather", "test")
        assert (record["gather_id"], record["shard_index"]) == ("g", 7)
        assert {each["Name"] for each in definition["Metrics"]} == {
            name for name in record if name[0].isupper()
        }


def test_failures_are_told_by_their_status_and_absent_sources_not_at_all() -> None:
    """A source that is absent from the list has no time and no failure."""
    result = _result()
    result.rows[0][0].status = Status.ABSENT
    result.rows[1][0].status = Status.TIMED_OUT
    result.rows[2][0].status = Status.MISSING
    result.rows[3][0].status = Status.MISSING

    by_name = {metric.name: values for metric, values in metrics_of_shard(result).items()}

    assert len(by_name["SourceTotalSeconds"]) == N_SOURCES - 1
    assert by_name["SourcesRead"] == [N_SOURCES - 4]
    assert by_name["SourcesFailed"] == [3]
    assert (by_name["SourcesTimedOut"], by_name["SourcesMissing"]) == ([1], [2])


def test_sources_in_strips_are_counted_once_by_the_finish() -> None:
    """Sources in several shards are counted by the finish, which knows all of their strips."""
    result = _result()
    report = replace(Tally(plan=planned(FakeReader({"a": A}), table_of("a"))).report(), status_counts=COUNTS)

    of_a_strip = {metric.name for metric in metrics_of_shard(result, is_strip=True)}
    by_name = {
        metric.name: values for metric, values in metrics_of_gather(report, 0.5, has_strips=True).items()
    }
    of_whole_windows = {metric.name for metric in metrics_of_gather(report, 0.5)}

    assert not [name for name in of_a_strip if name.startswith("Sources")]
    assert "SourceOpenSeconds" in of_a_strip
    assert by_name["GatherUsd"] == [0.5]
    assert (by_name["SourcesRead"], by_name["SourcesFailed"]) == ([5], [3])
    assert (by_name["SourcesMissing"], by_name["SourcesLost"]) == ([2], [1])
    assert {name for name in of_whole_windows if name.startswith("Sources")} == {"SourcesLost"}


def test_a_shards_seconds_are_all_of_its_worker() -> None:
    """A shard's seconds are those of reading, measuring and storing."""
    by_name = {metric.name: values for metric, values in metrics_of_shard(_result()).items()}

    assert by_name["ShardSeconds"] == [4.5]


def _result() -> ShardResult:
    return ShardResult(
        index=7,
        rows=[[_outcome(n)] for n in range(N_SOURCES)],
        read_s=3.0,
        write_s=1.0,
        measure_s=0.5,
        stored_nbytes=10,
        peak_rss_mib=100.0,
    )


def _outcome(n: int) -> Outcome:
    return Outcome(
        status=Status.OK,
        start_s=float(n),
        end_s=2.0 * n + 0.5,
        cost=Cost(open_s=n / 1000, read_s=n / 1000, decode_s=2 * n / 1000, nbytes=1000, requests=2),
    )
