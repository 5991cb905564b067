"""The metrics that the functions of a deployed stack publish are those that its alarms look at."""

import json
import time

import pytest

from e2e.api import UNDRAWN, gathered
from pixel_gather.core.metric_names import NAMESPACE, SOURCES_FAILED, SOURCES_READ, SPENT_USD
from pixel_gather_emulator.deploy import DeployedStack

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.mark.long
def test_workers_publish_the_metrics_that_alarms_look_at(deployment: DeployedStack) -> None:
    """A gather's log has them in the embedded format, with the very dimensions of the alarm on dollars."""
    begun = int(time.time() * 1000)
    request = {"sources": deployment.samples.list_href, "window": "centre"}
    document = gathered(deployment, {**request, "output": {"name": "for-alarms", **UNDRAWN}})
    described = deployment.client("cloudwatch").describe_alarms()["MetricAlarms"]
    of_day, of_month = (each for each in described if each["MetricName"] == SPENT_USD.name)
    functions = deployment.client("lambda").list_functions()["Functions"]
    groups = {each["LoggingConfig"]["LogGroup"] for each in functions if "gather_shard" in each["Handler"]}
    logs = deployment.client("logs")
    lines = [
        json.loads(event["message"])
        for group in groups
        for event in logs.filter_log_events(logGroupName=group, startTime=begun)["events"]
        if '"_aws"' in event["message"]
    ]
    published = {
        metric["Name"]: {name: line[name] for name in directive["Dimensions"][0]}
        for line in lines
        for directive in line["_aws"]["CloudWatchMetrics"]
        for metric in directive["Metrics"]
        if directive["Namespace"] == NAMESPACE
    }

    assert document["state"] == "succeeded"
    assert {SPENT_USD.name, SOURCES_READ.name, SOURCES_FAILED.name} <= published.keys()
    for alarm in (of_day, of_month):
        assert published[SPENT_USD.name] == {each["Name"]: each["Value"] for each in alarm["Dimensions"]}
