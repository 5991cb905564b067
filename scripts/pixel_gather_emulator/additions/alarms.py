"""Alarms: metric math, dimensions, periods one after another, and data that is missing.

AWS                                                      ministack
an alarm may be on an expression of several metrics      its CloudFormation fails on it
it looks at the metric with its own dimensions           at all metrics of that name
it looks at each of its periods                          at all of them at once
TreatMissingData says what a period without data is      nothing changes

Still different: AWS looks a few periods further back where data are missing. Periods end now, not at full
minutes. Of metric math only numbers, ``+ - * /``, comparisons and ``IF`` are known. An alarm is looked at
when data are put. A description shows an expression as a metric.
"""

# ruff: noqa: SLF001 # an addition reaches into ministack

import ast
import operator
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ministack.services import cloudwatch
from ministack.services.cloudformation import provisioners

NAMESPACE: Final = "emulator/metric-math"

_OPERATIONS: Final[Mapping[type[ast.AST], Callable[[float, float], float]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.GtE: operator.ge,
}

_record: Callable[[str, Mapping[str, Any]], dict[str, Any]] = provisioners._cw_metric_alarm_record


def apply() -> None:
    """Put the addition in place."""
    provisioners._cw_metric_alarm_record = alarm_record
    cloudwatch._evaluate_alarm = evaluate_alarm


def alarm_record(name: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return ministack's record of an alarm."""
    if not properties.get("Metrics"):
        return _record(name, properties)
    (expression,) = (each["Expression"] for each in properties["Metrics"] if each.get("ReturnData", True))
    stands_in = {"MetricName": expression, "Namespace": NAMESPACE}
    queries = [each for each in properties["Metrics"] if "MetricStat" in each]
    return _record(name, {**properties, "Metrics": None, **stands_in}) | {"_queries": queries}


def evaluate_alarm(alarm: dict[str, Any]) -> None:
    """Give an alarm the state that its last periods have, and tell its actions of a new one."""
    queries = alarm.get("_queries") or [
        {
            "Id": "m",
            "MetricStat": {
                "Metric": {name: alarm.get(name) for name in ("Namespace", "MetricName", "Dimensions")},
                "Period": alarm["Period"],
                "Stat": alarm["Statistic"],
            },
        }
    ]
    expression = alarm["MetricName"] if alarm.get("_queries") else "m"
    now = time.time()
    values = [_value(expression, queries, now, back) for back in range(alarm["EvaluationPeriods"])]
    states = {state for value in values if (state := _state(value, alarm)) is not None}
    state = "OK" if "OK" in states else "ALARM" if states else "INSUFFICIENT_DATA"
    before = alarm["StateValue"]
    if state == before:
        return
    reason = f"{expression}: {values}"
    alarm |= {"StateValue": state, "StateReason": reason, "StateUpdatedTimestamp": int(now)}
    cloudwatch._record_history(alarm["AlarmName"], before, state, reason)
    cloudwatch._dispatch_alarm_actions(alarm, before, state, reason)


def _state(value: float | None, alarm: Mapping[str, Any]) -> str | None:
    """Return what one period says; None if it says nothing, as its data are missing."""
    if value is None:
        return {"breaching": "ALARM", "notBreaching": "OK"}.get(alarm["TreatMissingData"])
    assert alarm["ComparisonOperator"] == "GreaterThanOrEqualToThreshold"  # noqa: S101 # all of ours
    return "ALARM" if value >= alarm["Threshold"] else "OK"


def _value(expression: str, queries: Sequence[Mapping[str, Any]], now: float, back: int) -> float | None:
    """Return an expression's value in one of the last periods, or None if a metric has none there."""
    found: dict[str, float] = {}
    for each in queries:
        stat = each["MetricStat"]
        metric, period = stat["Metric"], float(stat["Period"])
        dimensions = {one["Name"]: one["Value"] for one in metric.get("Dimensions") or ()}
        key = (metric["Namespace"], metric["MetricName"], cloudwatch._dims_key(dimensions))
        stop = now - back * period
        points = [
            point
            for point in cloudwatch._metrics.get(key, ())
            if stop - period < point["Timestamp"] <= stop + (1.0 if back == 0 else 0.0)
        ]
        if not points:
            return None
        found[each["Id"]] = cloudwatch._calc_stats(points)[stat["Stat"]]
    return compute(expression, found)


def compute(expression: str, values: Mapping[str, float]) -> float:
    """Return the value of a metric math expression."""

    def of(node: ast.expr) -> float:
        match node:
            case ast.Constant(value=int() | float() as number):
                return float(number)
            case ast.Name(id=name):
                return values[name]
            case ast.BinOp(left=left, op=op, right=right):
                return _OPERATIONS[type(op)](of(left), of(right))
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return _OPERATIONS[type(op)](of(left), of(right))
            case ast.Call(func=ast.Name(id="IF"), args=[condition, then, otherwise]):
                return of(then) if of(condition) else of(otherwise)
        raise ValueError(f"the emulator knows no {ast.unparse(node)} in metric math")

    return of(ast.parse(expression, mode="eval").body)
