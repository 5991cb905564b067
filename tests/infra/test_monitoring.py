"""The dashboard and the alarms use metrics that functions write, and alarms reach somebody."""

import json
import re
from typing import Any

import pytest
from ministack.services import eventbridge

from pixel_gather.core import metric_names
from pixel_gather.core.metric_names import NAMESPACE, SERVICE, SOURCES_FAILED_BY_STATUS, Metric
from pixel_gather.core.model.status import Status
from support.synthesized import ROOT, VARIANTS, WITH_ALL, Synthesized, synthesized


@pytest.fixture(scope="module")
def stack() -> Synthesized:
    """A stack with its own stage and an address for alarms."""
    return synthesized(stage="test", alarm_email="operator@example.org")


def alarms(stack: Synthesized) -> dict[str, dict[str, Any]]:
    """Return the alarms by the first words of their descriptions."""
    return {
        each["AlarmDescription"].partition(":")[0]: each
        for each in stack.properties("AWS::CloudWatch::Alarm")
    }


PLAIN = (
    ("Lambda throttles workers", ""),
    ("A worker", " came near its time-out"),
    ("Workers", " ran for $25 in a day"),
)
"""The alarms on one metric of a worker: their descriptions before and after its size."""


def names_of_metrics() -> set[str]:
    """Return the names of all metrics that functions may write."""
    single = {each.name for each in vars(metric_names).values() if isinstance(each, Metric)}
    return single | {each.name for each in SOURCES_FAILED_BY_STATUS.values()}


def test_metrics_have_one_name_each_and_every_failure_has_one() -> None:
    """Names are unique. Each status that is a failure has a metric, and no other status has one."""
    assert len(names_of_metrics()) == len(SOURCES_FAILED_BY_STATUS) + sum(
        isinstance(each, Metric) for each in vars(metric_names).values()
    )
    assert SOURCES_FAILED_BY_STATUS.keys() == {each for each in Status if each.is_failure}
    assert SOURCES_FAILED_BY_STATUS[Status.TIMED_OUT].name == "SourcesTimedOut"


@pytest.mark.long
def test_alarms_watch_what_an_operator_has_to_mend(stack: Synthesized) -> None:
    """There are alarms on sources, throttles, time-outs, errors, the API and dollars, and no others."""
    assert alarms(stack).keys() == {
        "5 % of sources gave no pixels",
        "Lambda throttles workers of 1,024 MiB",
        "Lambda throttles workers of 1,769 MiB",
        "Lambda throttles workers of tables",
        "A worker of 1,024 MiB came near its time-out",
        "A worker of 1,769 MiB came near its time-out",
        "A worker of tables came near its time-out",
        "10 % of tries by workers of 1,024 MiB fail",
        "10 % of tries by workers of 1,769 MiB fail",
        "10 % of tries by workers of tables fail",
        "Plan ended in an error, no refusal",
        "Finish ended in an error, no refusal",
        "PlanTable ended in an error, no refusal",
        "A schedule could not start its gather",
        "A tick was given up",
        "Scheduler could not call the function tick, and tries again",
        "Scheduler has given up a tick",
        "No gather of a schedule has succeeded for 3 of its periods",
        "The account runs 95% of the functions that it may, all applications together",
        "The API fails to answer",
        "Gathers cost $25 in a day by our model",
        "Workers of 1,024 MiB ran for $25 in a day",
        "Workers of 1,769 MiB ran for $25 in a day",
        "Workers of tables ran for $25 in a day",
    }


def test_canary_is_called_and_watched_where_it_is_asked_for() -> None:
    """Two in a row that fail or do not run are an alarm. Without the setting there is no canary."""
    stack = synthesized(**WITH_ALL)
    found = alarms(stack)["Gathers of the samples fail, give other pixels or do not run"]
    (rule,) = (each for each in stack.properties("AWS::Events::Rule") if "samples" in each["Description"])

    assert (rule["ScheduleExpression"], stack.show(rule["Targets"][0]["Arn"])) == (
        "rate(6 hours)",
        "<canary>",
    )
    assert (found["MetricName"], found["Statistic"], found["Threshold"]) == ("CanaryFailed", "Maximum", 1)
    assert (found["Period"], found["EvaluationPeriods"]) == (6 * 3600, 2)
    assert found["TreatMissingData"] == "missing"
    assert found["InsufficientDataActions"] == found["AlarmActions"]
    assert "canary" not in synthesized().functions()


def test_budget_of_a_month_halts_the_deployment_where_it_is_asked_for() -> None:
    """AWS Budgets and the dollars of a day tell one topic, which calls the function. Nobody else may."""
    stack = synthesized(**WITH_ALL)
    (budget,) = stack.properties("AWS::Budgets::Budget")
    (notice,) = budget["NotificationsWithSubscribers"]
    (topic,) = (name for name in stack.of("AWS::SNS::Topic") if name.startswith("Budget"))
    (called,) = (
        each for each in stack.properties("AWS::SNS::Subscription") if each["TopicArn"] == {"Ref": topic}
    )
    (policy,) = (
        each["PolicyDocument"]["Statement"]
        for each in stack.properties("AWS::SNS::TopicPolicy")
        if each["Topics"] == [{"Ref": topic}]
    )
    found = alarms(stack)
    day = found["Gathers of one day cost $50 by our model, the budget of a month"]
    spent, failed = found["The budget of the month is spent"], found["The function halt has failed"]
    tells = {
        each["Principal"]["Service"]: each["Condition"]
        for each in policy
        if each["Effect"] == "Allow" and "Service" in each["Principal"]
    }
    account = {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}

    assert budget["Budget"] == {
        "BudgetType": "COST",
        "TimeUnit": "MONTHLY",
        "BudgetLimit": {"Amount": 50, "Unit": "USD"},
        "CostFilters": {"TagKeyValue": ["user:pixel-gather$main"]},
    }
    assert notice["Notification"] == {
        "NotificationType": "ACTUAL",
        "ComparisonOperator": "GREATER_THAN",
        "Threshold": 100,
    }
    assert notice["Subscribers"] == [
        {"SubscriptionType": "SNS", "Address": {"Ref": topic}},
        {"SubscriptionType": "EMAIL", "Address": "operator@example.org"},
    ]
    assert (called["Protocol"], stack.show(called["Endpoint"])) == ("lambda", "<halt>")
    assert day["AlarmActions"] == [{"Ref": topic}]
    assert (day["MetricName"], day["Threshold"], day["Period"]) == ("SpentUsd", 50, 86_400)
    assert (spent["MetricName"], failed["MetricName"]) == ("Invocations", "Errors")
    assert {stack.show(each["Dimensions"][0]["Value"]) for each in (spent, failed)} == {"<halt>"}
    assert topic not in json.dumps([spent["AlarmActions"], failed["AlarmActions"]])
    assert tells["cloudwatch.amazonaws.com"] == {"StringEquals": account}
    assert tells["budgets.amazonaws.com"]["StringEquals"] == account
    source = tells["budgets.amazonaws.com"]["ArnLike"]["aws:SourceArn"]
    assert stack.show(source) == "arn:<partition>:budgets::<accountid>:*"
    assert {"Key": "pixel-gather", "Value": "main"} in stack.properties("AWS::S3::Bucket")[0]["Tags"]
    assert "halt" not in synthesized().functions()
    assert not synthesized().of("AWS::Budgets::Budget")


@pytest.mark.parametrize(
    ("size", "function"),
    [
        ("1,024 MiB", "small_gather_shard"),
        ("1,769 MiB", "gather_shard"),
        ("tables", "read_images"),
    ],
)
def test_each_function_of_workers_is_watched(stack: Synthesized, size: str, function: str) -> None:
    """Each worker function has its own alarms on throttles, time, errors and dollars."""
    found = alarms(stack)
    slow = found[f"A worker of {size} came near its time-out"]
    failing = found[f"10 % of tries by workers of {size} fail"]
    watched = [
        *(found[f"{words} of {size}{rest}"] for words, rest in PLAIN),
        *(each["MetricStat"]["Metric"] for each in failing["Metrics"] if "MetricStat" in each),
    ]

    assert [each["MetricName"] for each in watched] == [
        "Throttles",
        "Duration",
        "Duration",
        "Errors",
        "Invocations",
    ]
    assert {stack.show(each["Dimensions"][0]["Value"]) for each in watched} == {f"<{function}>"}
    assert slow["Threshold"] == 0.8 * 1000 * stack.functions()[function]["Timeout"]
    assert slow["Statistic"] == "Maximum"


def test_failed_tries_of_a_gather_of_a_minute_are_an_alarm(stack: Synthesized) -> None:
    """One period suffices, if at least three tries have failed in it. A single late shard is no alarm."""
    failing = alarms(stack)["10 % of tries by workers of 1,024 MiB fail"]
    (expression,) = (each["Expression"] for each in failing["Metrics"] if "Expression" in each)

    assert (failing["EvaluationPeriods"], failing["Threshold"]) == (1, 10)
    assert expression == "IF(errors >= 3, 100 * errors / invocations, 0)"


def test_bursts_and_single_errors_of_the_api_are_no_alarm(stack: Synthesized) -> None:
    """Throttles and a full account have to last for 15 minutes. Five errors of the API are told."""
    found = alarms(stack)
    throttles = [each for words, each in found.items() if words.startswith("Lambda throttles")]
    full = found["The account runs 95% of the functions that it may, all applications together"]
    failing = found["The API fails to answer"]

    assert {(each["Period"], each["EvaluationPeriods"]) for each in (*throttles, full)} == {(300, 3)}
    assert {each["Threshold"] for each in throttles} == {1}
    assert (full["Statistic"], full["Threshold"]) == ("Maximum", 950)
    assert (failing["Statistic"], failing["Threshold"], failing["EvaluationPeriods"]) == ("Sum", 5, 1)
    sources = found["5 % of sources gave no pixels"]
    assert (sources["Threshold"], sources["EvaluationPeriods"]) == (5, 1)


def test_errors_are_heard_of_the_api_and_of_each_step(stack: Synthesized) -> None:
    """Errors of plan, finish and tick are alarms, because nobody who asked sees them."""
    watched = {
        words: (each["MetricName"], stack.show(each["Dimensions"][0]["Value"]))
        for words, each in alarms(stack).items()
        if each.get("MetricName") in ("Errors", "5XXError")
    }

    assert watched == {
        "Plan ended in an error, no refusal": ("Errors", "<plan_gather>"),
        "Finish ended in an error, no refusal": ("Errors", "<finish_gather>"),
        "PlanTable ended in an error, no refusal": ("Errors", "<plan_table>"),
        "A schedule could not start its gather": ("Errors", "<tick>"),
        "The API fails to answer": ("5XXError", "PixelGather-test"),
    }


def test_a_day_that_costs_more_than_was_said_is_an_alarm() -> None:
    """The alarm counts the dollars that workers report, and the time that Lambda reports."""
    found = alarms(synthesized(account_concurrency=119, alarm_usd_per_day=7, worker_memory_mib=10_240))
    spent = found["Gathers cost $7 in a day by our model"]

    assert (spent["Namespace"], spent["MetricName"], spent["Statistic"]) == (NAMESPACE, "SpentUsd", "Sum")
    assert (spent["Threshold"], spent["Period"]) == (7, 86_400)
    for memory_mib in (1024, 10_240):
        ran = found[f"Workers of {memory_mib:,} MiB ran for $7 in a day"]
        assert (ran["MetricName"], ran["Statistic"], ran["Period"]) == ("Duration", "Sum", 86_400)
        assert ran["Threshold"] / 1000 * memory_mib / 1024 * 0.0000133334 == pytest.approx(7, rel=1e-6)
    assert not [
        each
        for each in alarms(synthesized(**VARIANTS["of a young account, with a key"]))
        if "in a day" in each
    ]


def test_failed_gather_is_named_to_the_topic(stack: Synthesized) -> None:
    """The notice has the gather's name. There is none for refusals and for children of the map."""
    (rule,) = (each for each in stack.properties("AWS::Events::Rule") if "EventPattern" in each)
    (target,) = rule["Targets"]
    pattern = rule["EventPattern"]
    timed_out, failed, scheduled = pattern["detail"]["$or"]
    transformed = target["InputTransformer"]
    notice = json.loads(transformed["InputTemplate"])

    assert (pattern["source"], pattern["detail-type"]) == (
        ["aws.states"],
        ["Step Functions Execution Status Change"],
    )
    assert [stack.show(each) for each in pattern["detail"]["stateMachineArn"]] == [
        "<machine>",
        "<tables>",
    ]
    assert timed_out == {"status": ["TIMED_OUT"]}
    assert failed["status"] == ["FAILED"]
    assert {"exists": False} in failed["error"]
    assert scheduled == {"status": ["FAILED"], "name": [{"prefix": "tick-"}]}
    assert stack.show(target["Arn"]) == "<topic>"
    assert transformed["InputPathsMap"]["name"] == "$.detail.name"
    assert {found.strip("<>") for found in re.findall(r"<\w+>", notice)} == transformed[
        "InputPathsMap"
    ].keys()
    assert "pixel-gather status <name>" in notice
    assert "pixel-gather redrive <name>" in notice


@pytest.mark.parametrize(
    ("machine", "told", "is_told"),
    [
        ("m", {"status": "FAILED", "error": "States.ExceedToleratedFailureThreshold"}, True),
        ("m", {"status": "FAILED"}, True),
        ("m", {"status": "TIMED_OUT", "error": None}, True),
        ("m", {"status": "FAILED", "error": "RequestError"}, False),
        ("m", {"status": "FAILED", "error": "BudgetError"}, False),
        ("m", {"status": "FAILED", "error": "BudgetError", "name": "tick-daily-20261122T060000Z"}, True),
        ("m", {"status": "SUCCEEDED", "error": None, "name": "tick-daily-20261122T060000Z"}, False),
        ("m/Shards", {"status": "FAILED", "error": "StoreError", "name": "tick-daily-2"}, False),
        ("m", {"status": "SUCCEEDED", "error": None}, False),
        ("m", {"status": "ABORTED", "error": "Stopped"}, False),
        ("m/Shards", {"status": "FAILED", "error": "StoreError"}, False),
    ],
)
def test_notice_is_of_gathers_that_failed_or_timed_out(
    stack: Synthesized, machine: str, told: dict[str, Any], *, is_told: bool
) -> None:
    """The rule's own pattern is tested with events in the emulator's EventBridge."""
    (rule,) = (each for each in stack.properties("AWS::Events::Rule") if "EventPattern" in each)
    pattern = json.loads(json.dumps(rule["EventPattern"]))
    pattern["detail"]["stateMachineArn"] = ["m"]
    event = {
        "Source": "aws.states",
        "DetailType": "Step Functions Execution Status Change",
        "Detail": json.dumps({"stateMachineArn": machine, "name": "g"} | told),
    }

    assert eventbridge._matches_pattern(json.dumps(pattern), event) is is_told


def expressions(stack: Synthesized) -> dict[str, dict[str, str]]:
    """Return the metric names by id of each alarm that calculates, and its expression under ``""``."""
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


def test_alarms_calculate_with_metrics_that_are_written_together_alone(stack: Synthesized) -> None:
    """An expression has no value if one of its metrics has none.

    FILL does not fill a metric that was never written.
    """
    found = expressions(stack)

    assert {frozenset(names.values()) - {names[""]} for names in found.values()} == {
        frozenset({"SourcesFailed", "SourcesRead"}),  # a shard writes both
        frozenset({"Errors", "Invocations"}),  # Lambda writes both
    }
    assert not any("FILL" in names[""] for names in found.values())


def test_dashboard_shows_throttles_of_every_function_by_itself(stack: Synthesized) -> None:
    """A function that was never called has no metric. The others are still shown."""
    (dashboard,) = stack.properties("AWS::CloudWatch::Dashboard")

    assert stack.show(dashboard["DashboardBody"]).count('"Throttles"') == len(stack.functions())


def test_alarms_are_told_and_quiet_without_gathers(stack: Synthesized) -> None:
    """Each alarm notifies the topic. Missing data raises no alarm, but for that on what runs every hour."""
    (subscription,) = stack.properties("AWS::SNS::Subscription")

    assert (subscription["Protocol"], subscription["Endpoint"]) == ("email", "operator@example.org")
    for alarm in alarms(stack).values():
        assert [stack.show(action) for action in alarm["AlarmActions"]] == ["<topic>"]
        is_hourly = alarm.get("MetricName") == "ScheduleLateness"
        assert alarm["TreatMissingData"] == ("missing" if is_hourly else "notBreaching")


def test_cloudwatch_and_eventbridge_may_tell_the_topic_and_only_by_tls(stack: Synthesized) -> None:
    """The topic accepts alarms and events of this account only, and nothing over plain HTTP."""
    (policy,) = stack.properties("AWS::SNS::TopicPolicy")
    statements = policy["PolicyDocument"]["Statement"]
    (denied,) = (each for each in statements if each["Effect"] == "Deny")
    allowed = {each["Principal"]["Service"]: each for each in statements if each["Effect"] == "Allow"}

    assert denied["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
    assert allowed.keys() == {"cloudwatch.amazonaws.com", "events.amazonaws.com"}
    assert {tuple(each["Condition"]) for each in allowed.values()} == {
        ("StringEquals",),
        ("StringEqualsIfExists",),
    }
    for each in allowed.values():
        ((condition,),) = (value.items() for value in each["Condition"].values())
        assert condition == ("aws:SourceAccount", {"Ref": "AWS::AccountId"})


def test_each_alarm_has_a_line_in_the_runbook() -> None:
    """By the first words of its description. No line is of an alarm that is gone."""
    stack = synthesized(**WITH_ALL)
    page = (ROOT / "docs/operate.md").read_text().partition("## What to do at each alarm")[2]
    lines = [line.split(" | ")[0].removeprefix("| ") for line in page.partition("\n## ")[0].splitlines()]
    head = ("", "the alarm begins with", "---")
    rows = [re.escape(line).replace("…", ".+") for line in lines if line not in head]
    told = {words: [row for row in rows if re.match(row, words)] for words in alarms(stack)}

    assert {words for words, found in told.items() if len(found) != 1} == set()
    assert {row for found in told.values() for row in found} == set(rows)


def test_cost_page_counts_alarms_as_cloudwatch_bills_them(stack: Synthesized) -> None:
    """An alarm on an expression is billed for each of its metrics."""
    page = (ROOT / "docs/cost.md").read_text().replace("\n", " ")
    plain, most, without = (
        {
            name: sum("MetricStat" in query for query in alarm.get("Metrics", [])) or 1
            for name, alarm in alarms(each).items()
        }
        for each in (
            stack,
            synthesized(**WITH_ALL),
            synthesized(**VARIANTS["of a young account, with a key"]),
        )
    )
    added = most.keys() - plain.keys()
    of_canary = {name for name in added if name.startswith("Gathers of the samples")}
    of_dollars = most.keys() - without.keys()

    assert f"its {len(plain)} alarms and its dashboard" in page
    assert f"bills these alarms as {sum(plain.values())} metrics" in page
    assert (
        f"`canary_hours` adds {len(of_canary)} alarm, `max_usd_per_month` adds {len(added - of_canary)}, "
        f"and `alarm_usd_per_day: none` takes {len(of_dollars)} away"
    ) in page
    assert {most[name] for name in added | of_dollars} == {1}
    assert f"costs {len(names_of_metrics())} custom metrics" in page


def test_nobody_is_told_where_no_address_is_given() -> None:
    """The topic exists without a subscriber."""
    assert not synthesized().of("AWS::SNS::Subscription")


def test_dashboard_and_alarms_read_metrics_that_functions_write(stack: Synthesized) -> None:
    """Each custom metric has our namespace, service and stage. Most of them are shown."""
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
    assert {each[0] for each in told} <= names_of_metrics()
    assert names_of_metrics() - {each[0] for each in told} <= {
        "SourcesFailed",
        "ScheduleLateness",
        "CanaryFailed",
    }
    assert {each["MetricName"] for each in watched} == {"SourcesFailed", "SourcesRead"}


def test_dashboard_shows_room_and_cost(stack: Synthesized) -> None:
    """Throughput, latency, failures, concurrency, throttles and dollars are on one page."""
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


def test_dashboard_shows_searches_and_answers_of_the_api(stack: Synthesized) -> None:
    """How many, how long, and how many were refused or failed."""
    (dashboard,) = stack.properties("AWS::CloudWatch::Dashboard")
    body = stack.show(dashboard["DashboardBody"])

    for title in ("Searches", "Milliseconds a search", "Answers of the API"):
        assert f'"title":"{title}"' in body
    for metric in ("4XXError", "5XXError", "Count"):
        assert f'"AWS/ApiGateway","{metric}"' in body
