"""The schedules of the settings, and where others may be added."""

import json
from typing import Any

import pytest

from infra.cdk_context import SettingsError
from infra.settings import Settings
from pixel_gather.core.schedule import Schedule
from support.synthesized import VARIANTS, Synthesized, synthesized

WITH_ONE = VARIANTS["with a schedule, telling somebody"]
DAILY: dict[str, Any] = WITH_ONE["schedules"][0]
REQUEST: dict[str, Any] = DAILY["request"]


@pytest.fixture(scope="module")
def stack() -> Synthesized:
    """A stack with one schedule."""
    return synthesized(**WITH_ONE)


def test_schedule_calls_the_function_of_ticks_with_its_request(stack: Synthesized) -> None:
    """Scheduler replaces the tick's time. A call that fails is tried again within an hour."""
    (found,) = stack.properties("AWS::Scheduler::Schedule")
    target = found["Target"]

    assert (found["Name"], found["GroupName"]) == ("daily", "PixelGather-main")
    assert found["ScheduleExpression"] == "cron(0 6 * * ? *)"
    assert found["FlexibleTimeWindow"] == {"Mode": "OFF"}
    assert stack.show(target["Arn"]) == "<tick>"
    assert target["RetryPolicy"] == {"MaximumEventAgeInSeconds": 3600, "MaximumRetryAttempts": 3}
    event = json.loads(target["Input"])
    assert event["tick"] == "<aws.scheduler.scheduled-time>"
    assert Schedule.of_event(event) == Schedule(**DAILY)


def test_ticks_that_are_given_up_are_kept_and_heard_of(stack: Synthesized) -> None:
    """Scheduler puts what it cannot hand over into a queue, and Lambda what the function failed on."""
    (schedule,) = stack.properties("AWS::Scheduler::Schedule")
    (queue,) = stack.properties("AWS::SQS::Queue")
    (failing,) = stack.properties("AWS::Lambda::EventInvokeConfig")
    places = (schedule["Target"]["DeadLetterConfig"]["Arn"], failing["DestinationConfig"]["OnFailure"])
    made = stack.properties("AWS::CloudWatch::Alarm")
    alarms = {each["MetricName"]: each for each in made if "MetricName" in each}

    assert [stack.show(each) for each in (places[0], places[1]["Destination"])] == ["<queue>", "<queue>"]
    assert failing["MaximumRetryAttempts"] == 2
    assert queue["MessageRetentionPeriod"] == 14 * 24 * 3600
    assert queue["SqsManagedSseEnabled"] is True
    for name in ("TargetErrorCount", "InvocationDroppedCount"):
        assert alarms[name]["Dimensions"] == [{"Name": "ScheduleGroup", "Value": "PixelGather-main"}]
    for name in ("TargetErrorCount", "InvocationDroppedCount", "ApproximateNumberOfMessagesVisible"):
        assert (alarms[name]["Threshold"], len(alarms[name]["AlarmActions"])) == (1, 1)


def test_queue_of_lost_ticks_is_named_once_the_function_may_put_there(stack: Synthesized) -> None:
    """Lambda refuses a destination that the function's role may not use. The queue goes with the stack."""
    (failing,) = stack.properties("AWS::Lambda::EventInvokeConfig")
    (queue,) = stack.of("AWS::SQS::Queue").values()
    tick = stack.of("AWS::Lambda::Function")[failing["FunctionName"]["Ref"]]
    before = [stack.of("AWS::IAM::Policy").get(name) for name in tick["DependsOn"]]

    assert "sqs:SendMessage" in json.dumps(before)
    assert queue["DeletionPolicy"] == "Delete"


def test_schedules_that_are_late_are_heard_of(stack: Synthesized) -> None:
    """A function looks once an hour. If it does not run, the alarm rings as well."""
    (rule,) = (each for each in stack.properties("AWS::Events::Rule") if "ScheduleExpression" in each)
    (target,) = rule["Targets"]
    made = stack.properties("AWS::CloudWatch::Alarm")
    (alarm,) = (each for each in made if each.get("MetricName") == "ScheduleLateness")
    may_call = stack.properties("AWS::Lambda::Permission")

    assert rule["ScheduleExpression"] == "rate(1 hour)"
    assert stack.show(target["Arn"]) == "<watch>"
    assert json.loads(target["Input"]) == {"group": "PixelGather-main"}
    assert [each for each in may_call if each["Principal"] == "events.amazonaws.com"]
    assert (alarm["Statistic"], alarm["Period"], alarm["Threshold"]) == ("Maximum", 3600, 3)
    assert (alarm["EvaluationPeriods"], alarm["TreatMissingData"]) == (3, "missing")
    assert alarm["InsufficientDataActions"] == alarm["AlarmActions"]
    assert len(alarm["AlarmActions"]) == 1


def test_group_is_there_without_schedules(stack: Synthesized) -> None:
    """Others can be added at any time. The outputs say where."""
    empty = synthesized()

    assert empty.properties("AWS::Scheduler::Schedule") == []
    assert [each["Name"] for each in empty.properties("AWS::Scheduler::ScheduleGroup")] == [
        "PixelGather-main"
    ]
    outputs = stack.template["Outputs"]
    assert outputs["ScheduleGroup"]["Value"] == "PixelGather-main"
    assert stack.show(outputs["TickFunctionArn"]["Value"]) == "<tick>"


def test_schedules_are_made_after_their_group_and_once_their_role_may_call_the_function() -> None:
    """They name the group by text, so nothing else tells the order. A rate ticks as soon as it is made."""
    stack = synthesized(**WITH_ONE)
    (schedule,) = stack.of("AWS::Scheduler::Schedule").values()
    policies = [name for name in schedule["DependsOn"] if name in stack.of("AWS::IAM::Policy")]

    (policy,) = (stack.of("AWS::IAM::Policy")[name]["Properties"] for name in policies)
    rights = {each["Action"] for each in policy["PolicyDocument"]["Statement"]}
    assert rights == {"lambda:InvokeFunction", "sqs:SendMessage"}
    (group,) = stack.of("AWS::Scheduler::ScheduleGroup")
    assert group in schedule["DependsOn"]


@pytest.mark.parametrize(
    ("schedules", "message"),
    [
        ([DAILY | {"every": "daily"}], r"schedules\[0\].*schedule.every"),
        ([{"name": "daily"}], r"schedules\[0\].*name, every, request"),
        ([DAILY | {"more": 1}], r"schedules\[0\]"),
        ([DAILY | {"request": "r"}], r"schedules\[0\].request"),
        (
            [DAILY, DAILY | {"request": REQUEST | {"output": {"append_to": "b"}}}],
            "the name of only one schedule",
        ),
        ([DAILY, DAILY | {"name": "other"}], "the cube of only one schedule"),
        (
            [DAILY | {"request": REQUEST | {"sources": {"stac": {"api": "https://c.org", "assets": ["a"]}}}}],
            "stac.api: the host c.org is not allowed here; the setting catalog_hosts",
        ),
        (
            [DAILY | {"request": REQUEST | {"sources": REQUEST["sources"] | {"sign": "planetary-computer"}}}],
            "request.sources.sign: this deployment does not sign by planetary-computer",
        ),
        (
            [DAILY | {"request": {"sources": {"catalog": {}}, "zones": "s3://control/f", "append_to": "b"}}],
            "request.zones: uploaded files are removed after a month",
        ),
    ],
)
def test_wrong_schedules_are_refused_before_anything_is_deployed(schedules: Any, message: str) -> None:
    """The message names the schedule and its field."""
    with pytest.raises(SettingsError, match=message):
        Settings.from_context(
            {"schedules": schedules, "catalog_hosts": ["stac.example.org"], "control_bucket": "control"}
        )


def test_a_schedule_may_sign_as_the_deployment_does() -> None:
    """The settings name the services by which sources are signed."""
    signed = DAILY | {"request": REQUEST | {"sources": REQUEST["sources"] | {"sign": "planetary-computer"}}}

    settings = Settings.from_context({**WITH_ONE, "schedules": [signed], "signing": ["planetary-computer"]})

    assert [each.name for each in settings.schedules] == ["daily"]
