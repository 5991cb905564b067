"""Alarms on metric math.

On AWS an alarm's ``Metrics`` may be an expression of several metrics. ministack's CloudFormation fails on it.
Here it becomes an alarm on a metric that nothing writes. It can be described and is never raised.
"""

# ruff: noqa: SLF001 # an addition reaches into ministack

from collections.abc import Callable, Mapping
from typing import Any, Final

from ministack.services.cloudformation import provisioners

NAMESPACE: Final = "emulator/metric-math"

_record: Callable[[str, Mapping[str, Any]], dict[str, Any]] = provisioners._cw_metric_alarm_record


def apply() -> None:
    """Put the addition in place."""
    provisioners._cw_metric_alarm_record = alarm_record


def alarm_record(name: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return ministack's record of an alarm."""
    if not properties.get("Metrics"):
        return _record(name, properties)
    (expression,) = (each["Expression"] for each in properties["Metrics"] if each.get("ReturnData", True))
    stands_in = {"MetricName": expression, "Namespace": NAMESPACE}
    return _record(name, {**properties, "Metrics": None, **stands_in})
