"""Dashboard and alarms: on metrics that functions write, and heard by somebody."""

import json
import re
from typing import Any

import pytest

from pixel_gather import telemetry
from pixel_gather.model.status import Status
from pixel_gather.telemetry import NAMESPACE, SERVICE, SOURCES_FAILED_BY_STATUS, Metric
from synthesized import Synthesized, synthesized


@pytest.fixture(scope="module")
def stack() -> Synthesized:
    """A stack of a stage of its own that tells somebody."""
    return synthesized(stage="test", alarm_email="operator@example.org")


def alarms(stack: Synthesized) -> dict[str, dict[str, Any]]:
    """Return the alarms by the first words of what they say."""
    return {
        each["AlarmDescription"].partition(":")[0]: each
        for each in stack.properties("AWS::CloudWatch::Alarm")
    }


def names_in_telemetry() -> set[str]:
    """Return the names of all metrics that functions may write."""
    single = {each.name for each in vars(telemetry).values() if isinstance(each, Metric)}
    return single | {each.name for each in SOURCES_FAILED_BY_STATUS.values()}


def test_metrics_have_one_name_each_and_every_failure_has_one() -> None:
    """No two metrics share a name; a status that is a failure is counted, and no other."""
    assert len(names_in_telemetry()) == len(SOURCES_FAILED_BY_STATUS) + sum(
        isinstance(each, Metric) for each in vars(telemetry).values()
    )
    assert SOURCES_FAILED_BY_STATUS.keys() == {each for each in Status if each.is_failure}
    assert SOURCES_FAILED_BY_STATUS[Status.TIMED_OUT].name == "SourcesTimedOut"


def test_alarms_watch_what_an_operator_has_to_mend(stack: Synthesized) -> None:
    """Failed gathers, failed sources, throttles, workers near their time-out: nothing else calls."""
    found = alarms(stack)
    slow = found["A worker came near its time-out"]
    timeout_ms = 1000 * stack.functions()["gather_shard"]["Timeout"]

    assert len(found) == 4
    assert slow["Threshold"] == 0.8 * timeout_ms
    assert (slow["MetricName"], slow["Statistic"]) == ("Duration", "Maximum")
    assert stack.show(slow["Dimensions"][0]["Value"]) == "<gather_shard>"


def expressions(stack: Synthesized) -> dict[str, dict[str, str]]:
    """Return the metric names of each alarm that calculates, by id, and its expression as ``""``."""
    found = {}
    for words, alarm in alarms(stack).items():
        queries = {each["Id"]: each for each in alarm.get("Metrics", ())}
        names = {
            id_: each["MetricStat"]["Metric"]["MetricName"]
            for id_, each in queries.items()
            if "MetricStat" in each
        }
        if names:
            (expression,) = (each["Expression"] for each in queries.values() if "Expression" in each)
            found[words] = names | {"": expression}
    return found


def test_alarms_take_a_metric_that_is_not_there_for_none(stack: Synthesized) -> None:
    """A sum in which one metric has no point has none itself: gathers that fail would go unheard.

    Only sources that were read may be missing, as they are written beside those that failed.
    """
    found = expressions(stack)

    assert len(found) == 3
    for queries in found.values():
        bare = re.findall(r"[a-z]\w*", re.sub(r"FILL\(\w+, 0\)", "", queries[""]))
        assert {queries[each] for each in bare} <= {"SourcesRead"}
    assert found["A gather failed or timed out, refusals apart"][""] == (
        "FILL(failed, 0) + FILL(timed_out, 0) - FILL(refused, 0)"
    )


def test_dashboard_adds_throttles_that_are_not_there_as_none(stack: Synthesized) -> None:
    """As the alarm does: a function that nobody called has no metric."""
    (dashboard,) = stack.properties("AWS::CloudWatch::Dashboard")

    assert "FILL(t0, 0) + FILL(t1, 0)" in stack.show(dashboard["DashboardBody"])


def test_alarms_are_told_and_quiet_without_gathers(stack: Synthesized) -> None:
    """Each tells the topic, whose address is the deployment's; no data is no alarm."""
    (subscription,) = stack.properties("AWS::SNS::Subscription")

    assert (subscription["Protocol"], subscription["Endpoint"]) == ("email", "operator@example.org")
    for alarm in alarms(stack).values():
        assert [stack.show(action) for action in alarm["AlarmActions"]] == ["<topic>"]
        assert alarm["TreatMissingData"] == "notBreaching"


def test_cloudwatch_may_tell_the_topic_and_only_by_tls(stack: Synthesized) -> None:
    """The topic takes alarms of this account and nothing over plain HTTP."""
    (policy,) = stack.properties("AWS::SNS::TopicPolicy")
    effects = {each["Effect"]: each for each in policy["PolicyDocument"]["Statement"]}

    assert effects["Deny"]["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
    assert effects["Allow"]["Principal"] == {"Service": "cloudwatch.amazonaws.com"}
    assert effects["Allow"]["Condition"].keys() == {"StringEquals"}


def test_nobody_is_told_where_no_address_is_given() -> None:
    """The topic is there for other subscribers."""
    assert not synthesized().of("AWS::SNS::Subscription")


def test_dashboard_and_alarms_read_metrics_that_functions_write(stack: Synthesized) -> None:
    """Each of our metrics is one of telemetry's, by service and this stage; most of them are shown."""
    (dashboard,) = stack.properties("AWS::CloudWatch::Dashboard")
    shown = re.findall(rf'\["{NAMESPACE}",("[^\]{{]*)', stack.show(dashboard["DashboardBody"]))
    told = [json.loads(f"[{each.rstrip(',')}]") for each in shown]
    watched = [
        query["MetricStat"]["Metric"]
        for alarm in alarms(stack).values()
        for query in alarm.get("Metrics", [])
        if query.get("MetricStat", {}).get("Metric", {}).get("Namespace") == NAMESPACE
    ]

    assert {tuple(each[1:5]) for each in told} == {("service", SERVICE, "stage", "test")}
    assert {each[0] for each in told} <= names_in_telemetry()
    assert names_in_telemetry() - {each[0] for each in told} <= {"SourcesFailed"}
    assert {each["MetricName"] for each in watched} == {"GathersRefused", "SourcesFailed", "SourcesRead"}


def test_dashboard_shows_room_and_cost(stack: Synthesized) -> None:
    """Throughput, latency, failures, concurrency, throttles and dollars are all on the one page."""
    (dashboard,) = stack.properties("AWS::CloudWatch::Dashboard")
    body = stack.show(dashboard["DashboardBody"])

    for metric in (
        "ConcurrentExecutions",
        "Throttles",
        "ExecutionsFailed",
        "GatherUsd",
        '"p99"',
        "FetchedBytes",
    ):
        assert metric in body
