"""Each alarm of the template goes off once when its metrics say so, by the emulator's CloudWatch."""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pytest
from ministack.services import cloudwatch

from pixel_gather_emulator.additions import alarms
from support.synthesized import WITH_ALL, Synthesized, synthesized

BELOW: Final = 0.9
"""Share of a threshold that is no alarm yet."""

FAILING: Final[Mapping[str, Mapping[str, tuple[float, float]]]] = {
    "100 * failed / (failed + good)": {"failed": (4, 5), "good": (96, 95)},
    "IF(errors >= 3, 100 * errors / invocations, 0)": {"errors": (2, 3), "invocations": (20, 30)},
}
"""For each expression: each metric's value that is no alarm, and one that is."""

type Metric = Mapping[str, Any]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, str]]]:
    """What the actions of alarms were told: the alarm and its new state."""
    found: list[tuple[str, str]] = []

    def dispatch(alarm: Mapping[str, Any], _before: str, state: str, _reason: str) -> None:
        found.append((alarm["AlarmName"], state))

    monkeypatch.setattr(cloudwatch, "_dispatch_alarm_actions", dispatch)
    yield found
    cloudwatch._metrics.clear()
    cloudwatch._alarms.clear()


def resolved(stack: Synthesized, properties: dict[str, Any]) -> dict[str, Any]:
    """Return an alarm's properties with names for what the deployment chooses."""

    def of(value: Any) -> Any:
        match value:
            case {"Ref": _} | {"Fn::GetAtt": _}:
                return stack.show(value)
            case dict():
                return {name: of(each) for name, each in value.items()}
            case list():
                return [of(each) for each in value]
            case _:
                return value

    return dict(of(properties))


def put(metric: Metric, values: Sequence[float], period: float) -> None:
    """Publish one value in each of the last periods."""
    dimensions = {each["Name"]: each["Value"] for each in metric.get("Dimensions", ())}
    for back, value in enumerate(values):
        at = time.time() - back * period
        cloudwatch._store_datum(
            metric["Namespace"], metric["MetricName"], dimensions, at, "None", value, None, None, None
        )


def test_each_alarm_goes_off_once(told: list[tuple[str, str]]) -> None:
    """Below its threshold it is quiet. While it lasts it tells nobody again. Other functions do not count."""
    stack = synthesized(**WITH_ALL)
    for name, resource in stack.of("AWS::CloudWatch::Alarm").items():
        properties = resolved(stack, resource["Properties"])
        alarm = alarms.alarm_record(name, properties)
        n = alarm["EvaluationPeriods"]
        queries = [each for each in properties.get("Metrics", ()) if "MetricStat" in each]
        if queries:
            values = FAILING[alarm["MetricName"]]
            metrics = [(each["MetricStat"]["Metric"], *values[each["Id"]]) for each in queries]
            period = queries[0]["MetricStat"]["Period"]
        else:
            metrics = [(properties, BELOW * alarm["Threshold"], alarm["Threshold"])]
            period = alarm["Period"]

        def after(share: int, of: Sequence[tuple[Metric, float, float]], n: int, period: float) -> None:
            cloudwatch._metrics.clear()
            for metric, *each in of:
                put(metric, [each[share]] * n, period)

        told.clear()
        after(0, metrics, n, period)
        alarms.evaluate_alarm(alarm)
        assert told == [(name, "OK")]
        if n > 1:  # one period alone is no alarm
            after(0, metrics, n, period)
            put(metrics[0][0], [metrics[0][2]], period)
            alarms.evaluate_alarm(alarm)
            assert told == [(name, "OK")]
        after(1, metrics, n, period)
        alarms.evaluate_alarm(alarm)
        alarms.evaluate_alarm(alarm)
        assert told == [(name, "OK"), (name, "ALARM")]
        after(0, metrics, n, period)
        alarms.evaluate_alarm(alarm)
        assert told[2:] == [(name, "OK")]


def test_no_alarm_rings_after_a_first_deployment_without_cause(told: list[tuple[str, str]]) -> None:
    """Nothing has run, so no metric has data. Then the first ones are good. Only later is silence told."""
    stack = synthesized(**WITH_ALL)
    missed = {}
    for name, resource in stack.of("AWS::CloudWatch::Alarm").items():
        properties = resolved(stack, resource["Properties"])
        alarm = alarms.alarm_record(name, properties)
        told.clear()
        for _ in range(3):  # the first hours
            alarms.evaluate_alarm(alarm)
        assert told in ([], [(name, "OK")]), name
        if properties.get("InsufficientDataActions"):
            missed[properties["MetricName"]] = (name, alarm, properties)
            assert properties["InsufficientDataActions"] == properties["AlarmActions"]
        else:
            assert told == [(name, "OK")], name

    assert missed.keys() == {"ScheduleLateness", "CanaryFailed"}
    for name, alarm, properties in missed.values():
        told.clear()
        put(properties, [0.0], alarm["Period"])
        alarms.evaluate_alarm(alarm)
        cloudwatch._metrics.clear()
        alarms.evaluate_alarm(alarm)
        alarms.evaluate_alarm(alarm)
        assert told == [(name, "OK"), (name, "INSUFFICIENT_DATA")]


def test_first_value_after_a_deployment_may_ring(told: list[tuple[str, str]]) -> None:
    """Where data are missing, those that there are decide."""
    stack = synthesized(**WITH_ALL)
    ((name, properties),) = (
        (name, resolved(stack, each["Properties"]))
        for name, each in stack.of("AWS::CloudWatch::Alarm").items()
        if each["Properties"].get("MetricName") == "CanaryFailed"
    )
    alarm = alarms.alarm_record(name, properties)
    put(properties, [1.0], alarm["Period"])

    alarms.evaluate_alarm(alarm)

    assert told == [(name, "ALARM")]


def test_expressions_are_computed_as_cloudwatch_does() -> None:
    """Arithmetic, comparisons and IF. Anything else is refused, so no alarm is silently quiet."""
    values = {"a": 3.0, "b": 30.0}

    assert alarms.compute("IF(a >= 3, 100 * a / b, 0)", values) == 10
    assert alarms.compute("IF(a >= 4, 100 * a / b, 0)", values) == 0
    assert alarms.compute("a + b - 3", values) == 30
    with pytest.raises(ValueError, match="knows no FILL"):
        alarms.compute("FILL(a, 0)", values)
