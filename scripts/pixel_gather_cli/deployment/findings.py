"""The findings of a check: what the model and the stack assume, what was seen, and what to do. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean, median
from typing import Any, Final

from msgspec import Struct

from pixel_gather.core import samples
from pixel_gather.core.estimate import assumptions, pricing
from pixel_gather.core.estimate.assumptions import Figure
from pixel_gather.core.estimate.worker_limits import PYTHON_MIB
from pixel_gather_cli.deployment.smoke import FINISH, PLAN, SHARD, Smoke

_NEAR: Final = 1.5
"""How far a figure may be from the assumed one, as a factor, before there is something to do."""

_MOST_MEMORY: Final = 0.9
_TOLERATED_PERCENT: Final = 10.0
_VERSION: Final = re.compile(r":\d+$")


class Finding(Struct, frozen=True, kw_only=True):
    """One row of the table."""

    what: str
    assumed: str
    measured: str
    to_do: str = ""
    """Empty if it is as assumed, or could not be seen."""

    is_wrong: bool = False
    """Whether the deployment does not work as it has to."""


def check_needed(what: str, *, assumed: str, measured: str, is_so: bool, otherwise: str) -> Finding:
    """Return a finding of something without which the deployment does not work, and what to do otherwise."""
    to_do = "" if is_so else otherwise
    return Finding(what=what, assumed=assumed, measured=measured, to_do=to_do, is_wrong=not is_so)


class MeasuredFigures(Struct, frozen=True, kw_only=True):
    """What one gather of the samples tells of the model's figures."""

    values: Mapping[str, float]
    """By names of `assumptions.MEASURABLE`. A figure that could not be seen is missing."""

    findings: Sequence[Finding]


def measure(smoke: Smoke, *, opened_s: Sequence[float], account_concurrency: int) -> MeasuredFigures:
    """Compare a gather of the samples with what the model assumes."""
    values = dict(_values(smoke, opened_s)) | {"ACCOUNT": float(account_concurrency)}
    findings = [
        _pixels(smoke),
        *(_figure(name, getattr(assumptions, name), values.get(name)) for name in assumptions.MEASURABLE),
        _children_per_s(smoke),
        *_memory(smoke),
        _prefix_rate(smoke),
        _seconds(smoke),
        *_dollars(smoke),
        _tolerance(smoke),
        _versions(smoke),
    ]
    return MeasuredFigures(
        values={name: round(value, 4) for name, value in values.items()}, findings=findings
    )


def _values(smoke: Smoke, opened_s: Sequence[float]) -> Iterator[tuple[str, float]]:
    cold = [each for each in smoke.calls if each.start_s is not None]
    plan, finish = smoke.calls_of(PLAN), smoke.calls_of(FINISH)
    # A state takes longer than its function runs: by the start, which has parts that Lambda does not report.
    starts = [
        smoke.states_s[state] - calls[0].run_s
        for state, calls in (("Plan", plan), ("Finish", finish))
        if len(calls) == 1 and calls[0] in cold
    ]
    if starts:
        yield "COLD_START", fmean(starts)
    shards = smoke.calls_of(SHARD)
    if len(shards) == len(smoke.children):
        lived_s = [(each["stopDate"] - each["startDate"]).total_seconds() for each in smoke.children]
        worked_s = [each.run_s + (each.start_s or 0.0) for each in shards]
        yield "CHILD", max(fmean(lived_s) - fmean(worked_s), 0.0)
    whole_s = (smoke.execution["stopDate"] - smoke.execution["startDate"]).total_seconds()
    map_s = (smoke.map_run["stopDate"] - smoke.map_run["startDate"]).total_seconds()
    if smoke.children:
        first = min(each["startDate"] for each in smoke.children)
        last = max(each["stopDate"] for each in smoke.children)
        yield "MAP_RUN", max(map_s - (last - first).total_seconds(), 0.0)
    beside_s = smoke.states_s["Plan"] + smoke.states_s["Finish"]
    yield "STEPS", max(whole_s - beside_s - map_s, 0.0)
    if opened_s:
        yield "FIRST_BYTE", median(opened_s)


def _figure(name: str, figure: Figure, value: float | None) -> Finding:
    assumed = f"{figure.value:g} {figure.unit}"
    if value is None:
        return Finding(what=name, assumed=assumed, measured="not seen: no function started cold")
    is_near = figure.value / _NEAR <= value <= figure.value * _NEAR
    to_do = "" if is_near else "--save FILE gives it to plans"
    return Finding(what=name, assumed=assumed, measured=f"{value:.3g} {figure.unit}", to_do=to_do)


def _pixels(smoke: Smoke) -> Finding:
    found = smoke.result["digest"]
    is_same = found == samples.PIXELS
    return check_needed(
        f"pixels of {samples.N_SAMPLES} samples",
        assumed=samples.PIXELS,
        measured="the same" if is_same else found,
        is_so=is_same,
        otherwise="use no cube of this deployment; pixel-gather verify its cube, and report it",
    )


def _children_per_s(smoke: Smoke) -> Finding:
    begun = sorted(each["startDate"] for each in smoke.children)
    seconds = (begun[-1] - begun[0]).total_seconds()
    rate = f"{(len(begun) - 1) / seconds:,.0f} a second" if seconds else "all at once"
    return Finding(
        what="CHILDREN",
        assumed=f"{assumptions.CHILDREN.value:g} {assumptions.CHILDREN.unit}",
        measured=f"{rate}, of {len(begun)}; too few to tell the limit",
    )


def _memory(smoke: Smoke) -> Iterator[Finding]:
    for function in (PLAN, SHARD, FINISH):
        calls = smoke.calls_of(function)
        if not calls:
            continue
        peak = max(each.peak_mib for each in calls)
        size = calls[0].memory_mib
        is_near = peak > _MOST_MEMORY * size or (function == SHARD and peak > PYTHON_MIB)
        yield Finding(
            what=f"memory of {function}",
            assumed=f"{PYTHON_MIB} MiB beside a shard, of {size:,}" if function == SHARD else f"{size:,} MiB",
            measured=f"{peak:,} MiB at most" if peak else "not seen: Lambda does not say",
            to_do="raise PYTHON_MIB in core/estimate/worker_limits.py" if is_near else "",
        )


def _prefix_rate(smoke: Smoke) -> Finding:
    n, refused = smoke.result["requests"], smoke.result["retries"]
    return Finding(
        what="S3_GETS, in its first second",
        assumed=f"{assumptions.S3_GETS.value:,g} {assumptions.S3_GETS.unit}",
        measured=f"{n} requests, {refused} of them repeated; too few to tell the limit",
        to_do="lower limits.workers for new prefixes" if refused else "",
    )


def _seconds(smoke: Smoke) -> Finding:
    found = (smoke.execution["stopDate"] - smoke.execution["startDate"]).total_seconds()
    forecast = smoke.summary["seconds"] + assumptions.DRAWING.value
    return Finding(
        what="seconds, with the report",
        assumed=f"{forecast:,.1f}",
        measured=f"{found:,.1f}",
        to_do="" if found <= forecast * _NEAR else "see which figure above differs",
    )


def _dollars(smoke: Smoke) -> Iterator[Finding]:
    """Compare the forecast with prices times what Lambda, Step Functions and the workers counted."""
    n_gets = smoke.result["requests"] + pricing.GETS_PER_TASK * len(smoke.children) + pricing.GETS_BESIDE
    n_puts = pricing.n_puts(n_tasks=len(smoke.children), n_arrays=1, n_rows=samples.N_SAMPLES, n_columns=0)
    lambda_usd = sum(
        each.billed_s * each.memory_mib / 1024 * pricing.USD_PER_GB_S + pricing.USD_PER_INVOCATION
        for each in smoke.calls
    )
    n_transitions = smoke.n_transitions + pricing.TRANSITIONS_PER_CHILD * len(smoke.children)
    usd = {
        "Lambda, by its own reports": lambda_usd,
        "Step Functions, by its history": n_transitions * pricing.USD_PER_TRANSITION,
        "S3, by the workers' counts": n_gets * pricing.USD_PER_GET + n_puts * pricing.USD_PER_PUT,
    }
    for what, each in usd.items():
        yield Finding(what=f"dollars of {what}", assumed="", measured=f"{each:.5f}")
    forecast, found = float(smoke.summary["usd"]), sum(usd.values())
    is_near = found <= forecast * _NEAR
    yield Finding(
        what="dollars",
        assumed=f"{forecast:.5f}",
        measured=f"{found:.5f}",
        to_do="" if is_near else "compare with Cost Explorer tomorrow, by the tag application",
    )


def _tolerance(smoke: Smoke) -> Finding:
    found = float(smoke.map_run["toleratedFailurePercentage"])
    return check_needed(
        "the map takes its tolerance from the plan",
        assumed=f"{_TOLERATED_PERCENT:g} %",
        measured=f"{found:g} %",
        is_so=found == _TOLERATED_PERCENT,
        otherwise="give a fixed ToleratedFailurePercentage in infra/state_machine_definition.py",
    )


def _versions(smoke: Smoke) -> Finding:
    loose = [each for each in smoke.functions if not _VERSION.search(each)]
    return check_needed(
        "a gather keeps the versions of its functions",
        assumed="published versions",
        measured=f"{len(smoke.functions)} published versions" if not loose else ", ".join(loose),
        is_so=not loose,
        otherwise="deploy only while no gather runs",
    )


def alarms(found: Sequence[Mapping[str, Any]]) -> Finding:
    """Say which alarms on periods of a day there are, and their states."""
    daily = [each for each in found if each.get("Period") == 24 * 3600]  # a day
    states = sorted({each["StateValue"] for each in daily})
    return Finding(
        what="alarms on periods of a day",
        assumed="taken, and OK a day after a gather",
        measured=f"{len(daily)} of {len(found)} alarms, in the state {' and '.join(states) or 'none'}",
        to_do="check again tomorrow" if "INSUFFICIENT_DATA" in states else "",
    )


def heartbeats(found: Sequence[Mapping[str, Any]]) -> Finding:
    """Say whether what runs every few hours has begun. Until then its alarms cannot tell that it ceases."""
    beating = [each for each in found if each.get("InsufficientDataActions")]
    silent = [each["AlarmName"] for each in beating if each["StateValue"] == "INSUFFICIENT_DATA"]
    return Finding(
        what="what runs every few hours has begun",
        assumed="data an hour after the deployment, or after the hours of the canary",
        measured=f"{len(beating) - len(silent)} of {len(beating)} alarms have data",
        to_do=f"check again then. None yet: {', '.join(silent)} (docs/first-day.md)" if silent else "",
    )


def architectures(functions: Sequence[Mapping[str, Any]]) -> Finding:
    """Say on which processors the functions ran, with all imports that the gather needs."""
    found = sorted({name for each in functions for name in each["Architectures"]})
    return Finding(
        what="all packages of a gather can be imported",
        assumed="arm64",
        measured=f"{', '.join(found)}: plan, worker and finish have run",
    )
