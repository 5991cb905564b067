"""The state machine: its flow, its retries, and the parts that a plan decides."""

import json
import re
import subprocess
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import Any, Final

import pytest

from pixel_gather.core import errors
from pixel_gather.core.estimate.worker_limits import MOST_TASKS_PER_CHILD
from support.synthesized import Synthesized

WORKERS: Final = ("small_gather_shard", "gather_shard")
"""The worker functions, by the size in the plan's answer."""


@pytest.fixture(scope="module")
def definition(stack: Synthesized) -> dict[str, Any]:
    """The state machine's definition."""
    return stack.definition()


def tasks_of(states: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every Task, also those inside Maps and branches."""
    for name, state in states.items():
        if state["Type"] == "Task":
            yield name, state
        for branch in state.get("Branches", ()):
            yield from tasks_of(branch["States"])
        if state["Type"] == "Map":
            yield from tasks_of(state["ItemProcessor"]["States"])


INLINE: Final = ("FillShard", "StartFinish")
"""Tasks of a small gather. What fails in them goes to the Map."""

CRASHES: Final = ("Lambda.Unknown", "Runtime.ExitError", "Runtime.OutOfMemory")

REQUEST: Final = {"sources": ["s3://scenes/a.tif"], "window": "centre"}
PLANNED: Final = {
    "verdict": "planned",
    "n_missing": 2,
    "gather": {"name": "a"},
    "execution": "a-1",
    "manifest": {"bucket": "control", "key": "a/manifest.json"},
    "workers": 7,
    "worker_size": 1,
    "shard_limit_s": 60,
    "late_shard_s": 240,
    "failed_shards": 2.5,
    "tolerated_failure_percentage": 10,
}
"""A small answer of plan."""

ITEM: Final = [{"index": 4}, {"index": 5}]
"""An item of a manifest: the shards of one child."""


def filled(template: Any, given: Any, context: Any = None) -> Any:
    """Return a template as Step Functions fills it.

    Paths are replaced by values of the input or the context.
    """
    if not isinstance(template, dict):
        return template
    return {
        name.removesuffix(".$"): looked_up(value, given, context)
        if name.endswith(".$")
        else filled(value, given, context)
        for name, value in template.items()
    }


def looked_up(path: str, given: Any, context: Any = None) -> Any:
    """Return the value at a path, such as ``$.a.b``, or ``$$.a`` of the context, or an item of an array."""
    if chosen := re.fullmatch(r"States\.ArrayGetItem\(States\.Array\((.+)\), (\$\S+)\)", path):
        return re.findall(r"'([^']+)'", chosen[1])[looked_up(chosen[2], given, context)]
    root, *names = path.split(".")
    return reduce(lambda value, name: value[name], names, context if root == "$$" else given)


def called_with(task: dict[str, Any], given: Any, context: Any = None) -> tuple[str, Any]:
    """Return the function that a Task calls, and its event."""
    parameters = filled(task["Parameters"], given, context)
    return parameters["FunctionName"].strip("<>"), parameters["Payload"]


@pytest.fixture
def shards(definition: dict[str, Any]) -> dict[str, Any]:
    """The only Map."""
    (found,) = (state for state in definition["States"].values() if state["Type"] == "Map")
    return dict(found)


def test_input_is_the_plain_request(definition: dict[str, Any]) -> None:
    """The execution's input reaches plan unchanged, with the execution's name and start."""
    plan = definition["States"][definition["StartAt"]]

    execution = {"Input": REQUEST, "Name": "by-hand", "StartTime": "2026-11-30T06:00:00Z"}

    assert called_with(plan, REQUEST, {"Execution": execution}) == (
        "plan_gather",
        {"request": REQUEST, "execution": "by-hand", "started_at": "2026-11-30T06:00:00Z"},
    )
    assert looked_up(plan["OutputPath"], {"Payload": PLANNED, "StatusCode": 200}) == PLANNED


def test_refused_request_ends_in_a_failure_with_plans_own_words(definition: dict[str, Any]) -> None:
    """A refusal fails with plan's error and cause. A complete gather succeeds with its result."""
    states = definition["States"]
    verdict = states[states[definition["StartAt"]]["Next"]]
    choices = [choice for choice in verdict["Choices"] if "StringEquals" in choice]
    ways = {choice["StringEquals"]: states[choice["Next"]] for choice in choices}

    assert {choice["Variable"] for choice in choices} == {"$.verdict"}
    assert ways.keys() == {"refused", "complete", "waiting"}
    assert (ways["waiting"]["Type"], ways["waiting"]["SecondsPath"]) == ("Wait", "$.wait_s")
    assert ways["waiting"]["Next"] == definition["StartAt"]
    assert ways["refused"]["Type"] == "Fail"
    assert (ways["refused"]["ErrorPath"], ways["refused"]["CausePath"]) == ("$.error", "$.cause")
    assert (ways["complete"]["Type"], ways["complete"]["OutputPath"]) == ("Succeed", "$.result")
    assert states[verdict["Default"]]["Type"] == "Map"


def chosen(verdict: dict[str, Any], given: dict[str, Any]) -> str:
    """Return where a Choice leads. As in Step Functions, a rule on a missing field fails: KeyError."""
    for rule in verdict["Choices"]:
        name = rule["Variable"].removeprefix("$.")
        if rule["IsPresent"] == (name in given) if "IsPresent" in rule else given[name] in rule.values():
            return str(rule["Next"])
    return str(verdict["Default"])


@pytest.mark.parametrize(
    ("name", "given", "way"),
    [
        ("machine", {"verdict": "refused", "error": "RequestError", "cause": "wrong"}, "Refused"),
        ("machine", {"verdict": "complete", "result": {}}, "AlreadyComplete"),
        ("machine", {"verdict": "waiting", "wait_s": 20, "cause": "another append"}, "WaitForOtherAppend"),
        ("machine", {"verdict": "planned", "gather": "a/1", "failed_shards": 0, "n_missing": 0}, "Finish"),
        ("machine", PLANNED, "GatherShards"),
        ("machine", PLANNED | {"items": [ITEM]}, "GatherInline"),
        ("tables", {"verdict": "refused", "error": "RequestError", "cause": "wrong"}, "Refused"),
        ("tables", {"verdict": "complete", "result": {}}, "Written"),
        ("tables", PLANNED | {"n_missing": 0}, "DecideNextRound"),
        ("tables", PLANNED, "ReadImages"),
    ],
)
def test_each_verdict_has_its_way(stack: Synthesized, name: str, given: dict[str, Any], way: str) -> None:
    """No rule asks for a field that the verdict lacks, as the execution would then fail."""
    assert chosen(stack.definition(name)["States"]["Verdict"], given) == way


def test_an_append_may_wait_until_its_time_out(definition: dict[str, Any]) -> None:
    """An execution ends at 25,000 events. After an hour, a pause of the plan takes 75 s at least."""
    states, n_events, at = definition["States"], 0, "Plan"
    for _ in range(3):
        n_events += {"Task": 5, "Choice": 2, "Wait": 2}[states[at]["Type"]]
        at = chosen(states[at], {"verdict": "waiting"}) if at == "Verdict" else states[at]["Next"]
    payload = states["Plan"]["Parameters"]["Payload"]
    rounds = 3600 / 15 + (definition["TimeoutSeconds"] - 3600) / 75

    assert at == "Plan"
    assert payload["started_at.$"] == "$$.Execution.StartTime"
    assert n_events * rounds < 25_000


def test_gather_of_which_no_shard_is_missing_goes_straight_to_finish(definition: dict[str, Any]) -> None:
    """Without missing shards the Map is skipped, as after a failure of Finish alone."""
    states = definition["States"]
    verdict = states[states[definition["StartAt"]]["Next"]]
    (nothing_to_do,) = (choice for choice in verdict["Choices"] if "NumericEquals" in choice)

    after = states[nothing_to_do["Next"]]
    assert looked_up(nothing_to_do["Variable"], PLANNED | {"n_missing": 0}) == nothing_to_do["NumericEquals"]
    assert looked_up(nothing_to_do["Variable"], PLANNED) != nothing_to_do["NumericEquals"]
    assert nothing_to_do["Next"] == states[verdict["Default"]]["Next"]
    assert called_with(after, PLANNED, {"Execution": {"Name": "a"}})[0] == "finish_gather"


def test_map_takes_manifest_concurrency_and_tolerance_from_the_plan(shards: dict[str, Any]) -> None:
    """Each item is a STANDARD child. The plan sets the concurrency and the tolerated failures."""
    reader = shards["ItemReader"]

    assert shards["ItemProcessor"]["ProcessorConfig"] == {"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"}
    assert reader["Resource"].endswith(":states:::s3:getObject")
    assert filled(reader["Parameters"], PLANNED) == {"Bucket": "control", "Key": "a/manifest.json"}
    assert looked_up(shards["MaxConcurrencyPath"], PLANNED) == 7
    assert looked_up(shards["ToleratedFailurePercentagePath"], PLANNED) == 10
    assert not {"MaxConcurrency", "ToleratedFailurePercentage", "ToleratedFailureCount"} & shards.keys()


@pytest.mark.parametrize("size", [0, 1])
def test_child_is_told_its_item_and_its_limit_and_leaves_no_output(shards: dict[str, Any], size: int) -> None:
    """Both tries call the function of the plan's size, each with its own limit.

    A child has no output, because its results are sidecars.
    """
    states = shards["ItemProcessor"]["States"]
    first = states[shards["ItemProcessor"]["StartAt"]]
    late, largest = (states[caught["Next"]] for caught in first["Catch"])
    planned = PLANNED | {"worker_size": size}
    given = filled(shards["ItemSelector"], planned, {"Map": {"Item": {"Value": ITEM}}})
    payload = {"gather": {"name": "a"}, "execution": "a-1", "tasks": ITEM}

    assert called_with(first, given) == (WORKERS[size], payload | {"limit_s": 60})
    assert called_with(late, given) == (WORKERS[size], payload | {"late_s": 240})
    assert called_with(largest, given) == (WORKERS[-1], payload | {"late_s": 240})
    assert looked_up(first["TimeoutSecondsPath"], given) == 60
    assert all(state["OutputPath"] is None and state["End"] is True for state in states.values())
    assert shards["ResultPath"] is None


@pytest.mark.parametrize("name", ["machine", "tables"])
def test_running_gathers_keep_the_versions_of_their_functions(stack: Synthesized, name: str) -> None:
    """States name published versions. Those of former deployments stay."""
    versions = stack.of("AWS::Lambda::Version")
    text = json.dumps(stack.machine(name)["DefinitionString"])
    called = re.findall(r'"Ref": "(\w+)"', text)
    by_arn = [each for each in re.findall(r'"Fn::GetAtt": \["(\w+)", "Arn"\]', text) if "Function" in each]

    assert len([each for each in called if each in versions]) >= 5
    assert by_arn == []
    assert {each["DeletionPolicy"] for each in versions.values()} == {"Retain"}
    assert {each["UpdateReplacePolicy"] for each in versions.values()} == {"Retain"}


@pytest.fixture
def inline(definition: dict[str, Any]) -> dict[str, Any]:
    """The states of a small gather."""
    states = definition["States"]
    verdict = states[states[definition["StartAt"]]["Next"]]
    (small,) = (choice for choice in verdict["Choices"] if "IsPresent" in choice)
    assert (small["Variable"], small["IsPresent"]) == ("$.items", True)
    return dict(states[small["Next"]])


@pytest.mark.parametrize("size", [0, 1])
def test_small_gather_has_a_worker_for_each_item_and_no_map_run(
    inline: dict[str, Any], shards: dict[str, Any], size: int
) -> None:
    """Each item gets the event of a first try. Nothing is passed on but the plan's answer."""
    (filled_,) = (branch["States"] for branch in inline["Branches"] if "FillShards" in branch["States"])
    each = filled_["FillShards"]
    (task,) = each["ItemProcessor"]["States"].values()
    planned = PLANNED | {"worker_size": size, "items": [ITEM]}
    given = filled(each["ItemSelector"], planned, {"Map": {"Item": {"Value": ITEM}}})

    assert each["ItemProcessor"]["ProcessorConfig"]["Mode"] == "INLINE"
    assert looked_up(each["ItemsPath"], planned) == [ITEM]
    payload = {"gather": {"name": "a"}, "execution": "a-1", "tasks": ITEM, "limit_s": 60}
    assert called_with(task, given) == (WORKERS[size], payload)
    assert looked_up(task["TimeoutSecondsPath"], given) == 60
    assert (inline["ResultPath"], each["ResultPath"], task["OutputPath"]) == (None, None, None)
    assert inline["Next"] == shards["Next"]


def test_what_fails_of_a_small_gather_goes_to_the_map(
    definition: dict[str, Any], inline: dict[str, Any], shards: dict[str, Any]
) -> None:
    """The Map has a second try, the largest worker, its tolerance, and can be redriven."""
    (caught,) = inline["Catch"]
    task = dict(tasks_of(definition["States"]))["FillShard"]
    retriers = retriers_of(task)

    assert caught["ErrorEquals"] == ["States.ALL"]
    assert caught["ResultPath"] is None
    assert definition["States"][caught["Next"]] == shards
    assert "Retry" not in inline
    assert "Catch" not in task
    assert not retriers.keys() & {*CRASHES, "States.Timeout", "Sandbox.Timedout", "ShardLateError"}
    # all items share one history of 25,000 events
    assert 40 * 3 * sum(each["MaxAttempts"] for each in task["Retry"]) < 25_000 / 4


def test_finish_starts_while_a_small_gather_is_filled(inline: dict[str, Any]) -> None:
    """It is told the gather and the execution. Whatever happens to this call, the gather goes on."""
    (states,) = (branch["States"] for branch in inline["Branches"] if "StartFinish" in branch["States"])
    start = states["StartFinish"]
    (caught,) = start["Catch"]

    told = {"gather": {"name": "a"}, "execution": "a-1", "is_early": True}
    assert called_with(start, PLANNED) == ("finish_gather", told)
    assert caught["ErrorEquals"] == ["States.ALL"]
    assert states[caught["Next"]]["Type"] == "Pass"
    assert start["TimeoutSeconds"] <= 30
    assert start["OutputPath"] is None


def test_map_is_never_retried_or_caught(shards: dict[str, Any]) -> None:
    """A Retry would run all shards again. A Catch would leave nothing to redrive."""
    assert not {"Retry", "Catch", "ResultWriter", "ItemBatcher"} & shards.keys()


def test_late_shard_gets_a_fresh_worker_at_once(shards: dict[str, Any]) -> None:
    """The first try has the plan's limit. A second try with the same input may take longer."""
    states = shards["ItemProcessor"]["States"]
    first = states[shards["ItemProcessor"]["StartAt"]]
    caught, _ = first["Catch"]

    assert "TimeoutSeconds" not in first
    assert set(caught["ErrorEquals"]) == {"ShardLateError", "States.Timeout", "Sandbox.Timedout"}
    assert caught["ResultPath"] is None
    assert states[caught["Next"]]["Type"] == "Task"


def test_what_killed_its_worker_gets_one_of_the_largest_size(shards: dict[str, Any]) -> None:
    """A killed worker is not tried again in its size. One of the largest is tried again, and that is all."""
    states = shards["ItemProcessor"]["States"]
    first = states[shards["ItemProcessor"]["StartAt"]]
    second = states[first["Catch"][0]["Next"]]
    ends = [(each["ErrorEquals"], each["Next"]) for each in (first["Catch"][1], *second["Catch"])]
    largest = states[ends[0][1]]

    assert len(states) == 3
    assert ends[0] == ends[1]
    assert set(ends[0][0]) == set(CRASHES)
    assert not {error for task in (first, second) for error in retriers_of(task)} & set(CRASHES)
    assert largest["Parameters"]["FunctionName"] == f"<{WORKERS[-1]}>"
    assert "Catch" not in largest


def test_second_try_goes_on_with_what_it_had_no_time_for(definition: dict[str, Any]) -> None:
    """The second try is repeated at once, as often as a child may have shards.

    Each time fills at least one.
    """
    tasks = dict(tasks_of(definition["States"]))
    again, _ = (
        retriers_of(tasks[name])["ShardsLeftError"] for name in ("GatherLateShard", "GatherInLargest")
    )

    assert (again["MaxAttempts"], again["IntervalSeconds"], again["BackoffRate"]) == (
        MOST_TASKS_PER_CHILD,
        1,
        1,
    )


def test_finish_is_told_what_it_needs_and_its_result_is_the_gathers(
    definition: dict[str, Any], shards: dict[str, Any]
) -> None:
    """Finish gets the gather and the tolerance. Its answer is the execution's output."""
    finish = definition["States"][shards["Next"]]

    told = {"gather": {"name": "a"}, "execution": "a-1", "failed_shards": 2.5}
    assert called_with(finish, PLANNED, {"Execution": {"Name": "a-1"}}) == ("finish_gather", told)
    assert looked_up(finish["OutputPath"], {"Payload": {"digest": "1"}}) == {"digest": "1"}
    assert finish["End"] is True


def retriers_of(task: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return a Task's retriers by error."""
    return {error: retrier for retrier in task["Retry"] for error in retrier["ErrorEquals"]}


def test_tasks_retry_what_another_try_mends_and_nothing_else(definition: dict[str, Any]) -> None:
    """Each error has one retrier, with full jitter and a longest pause."""
    tasks = dict(tasks_of(definition["States"]))

    assert len(tasks) == 5 + len(INLINE)
    for name in tasks.keys() - set(INLINE):
        task = tasks[name]
        retriers = retriers_of(task)
        is_later_try = name in {"GatherLateShard", "GatherInLargest"}
        assert (retriers.pop("ShardsLeftError", None) is not None) == is_later_try
        caught = {error for catcher in task.get("Catch", []) for error in catcher["ErrorEquals"]}
        assert bool(caught) == (name in {"GatherShard", "GatherLateShard"})
        assert not caught & retriers.keys()
        named = [error for each in task["Retry"] for error in each["ErrorEquals"]]
        assert len(retriers) == len(set(named) - {"ShardsLeftError"})
        assert retriers.keys() | (caught - {"ShardLateError"}) == {
            "Lambda.TooManyRequestsException",
            "Lambda.ServiceException",
            "Lambda.AWSLambdaException",
            "Lambda.SdkClientException",
            "Lambda.ClientExecutionTimeoutException",
            "Lambda.Unknown",
            "Runtime.ExitError",
            "Runtime.OutOfMemory",
            "Sandbox.Timedout",
            "States.Timeout",
            "BusyError",
            "StoreError",
            "ThrottledError",
            "UnreachableError",
        }
        assert {name for name in retriers if "." not in name} <= {
            each.__name__ for each in vars(errors).values() if isinstance(each, type)
        }
        assert all(1 <= retriers[name]["MaxAttempts"] <= 5 for name in retriers if "TooMany" not in name)
        assert retriers["StoreError"]["MaxAttempts"] == 4
        assert {each["JitterStrategy"] for each in task["Retry"]} == {"FULL"}
        assert all(each["MaxDelaySeconds"] <= 120 for each in task["Retry"])


def test_tasks_wait_out_throttling_for_most_of_a_gathers_time(definition: dict[str, Any]) -> None:
    """Throttled tasks wait for hours, within the events that a history can hold."""
    for name, task in tasks_of(definition["States"]):
        if name in INLINE:
            continue  # what is throttled goes to the Map
        throttled = retriers_of(task)["Lambda.TooManyRequestsException"]
        waits_s = throttled["MaxAttempts"] * throttled["MaxDelaySeconds"] / 2

        assert 24 * 3600 <= waits_s <= definition["TimeoutSeconds"]
        assert 4 * throttled["MaxAttempts"] < 25_000


def test_crashes_are_tried_again_twice(definition: dict[str, Any]) -> None:
    """A fresh environment may have enough memory where a used one had not."""
    for name, task in tasks_of(definition["States"]):
        for error in CRASHES if name in {"Plan", "Finish", "GatherInLargest"} else ():
            assert retriers_of(task)[error]["MaxAttempts"] == 2


@pytest.mark.parametrize(("name", "tries"), [("Plan", 1), ("GatherLateShard", 1), ("Finish", 1)])
def test_time_outs_of_a_quarter_of_an_hour_are_not_repeated_for_long(
    name: str, tries: int, definition: dict[str, Any]
) -> None:
    """A long time-out is retried once at most, because the next try would take as long."""
    task = dict(tasks_of(definition["States"]))[name]

    for error in ("Sandbox.Timedout", "States.Timeout"):
        assert retriers_of(task)[error]["MaxAttempts"] == tries


def test_tasks_wait_a_little_longer_than_their_functions(
    stack: Synthesized, definition: dict[str, Any]
) -> None:
    """The function's own time-out is reported. The Task's only catches a missing answer."""
    functions = stack.functions()

    for name, task in tasks_of(definition["States"]):
        if name in {"GatherShard", *INLINE}:
            continue  # the plan says how long, or nobody waits for it
        named = task["Parameters"].get("FunctionName")
        for function in WORKERS if named is None else (named.strip("<>"),):
            assert 0 < task["TimeoutSeconds"] - functions[function]["Timeout"] <= 120
    assert definition["TimeoutSeconds"] <= 14 * 24 * 3600


def test_definition_is_jsonpath_all_over(definition: dict[str, Any]) -> None:
    """No state uses JSONata, so that the definition runs in the emulator."""
    assert "QueryLanguage" not in json.dumps(definition)
    assert "{%" not in json.dumps(definition)


def test_machine_logs_errors_without_payloads_and_is_traced(stack: Synthesized) -> None:
    """Errors go to a log group that expires.

    Requests are not logged, because they may name private buckets.
    """
    machine = stack.machine()

    assert machine["LoggingConfiguration"]["Level"] == "ERROR"
    assert not machine["LoggingConfiguration"].get("IncludeExecutionData")
    assert machine["TracingConfiguration"] == {"Enabled": True}
    assert machine.get("StateMachineType", "STANDARD") == "STANDARD"


@pytest.mark.long
def test_definition_is_valid_amazon_states_language(
    definition: dict[str, Any], node_commands: Path, tmp_path: Path
) -> None:
    """The language's validator reports nothing."""
    arn = "arn:aws:lambda:eu-central-1:123456789012:function:"
    text = json.dumps(definition).replace("<partition>", "aws")
    for name in ("plan_gather", "gather_shard", "small_gather_shard", "finish_gather"):
        text = text.replace(f"<{name}>", arn + name)
    path = tmp_path / "definition.json"
    path.write_text(text)

    done = subprocess.run(  # noqa: S603 # our own command
        [node_commands / "asl-validator", "--json-path", path], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_tables_run_the_same_workflow_in_rounds(stack: Synthesized, definition: dict[str, Any]) -> None:
    """They have functions of their own.

    The one that begins a table and the one that decides a round give the same kind of answer.
    """
    tables = stack.definition("tables")
    states = tables["States"]
    begin = states[tables["StartAt"]]
    (name,) = (name for name, state in states.items() if state["Type"] == "Map")
    decide = states[states[name]["Next"]]
    first = states[name]["ItemProcessor"]["States"]["ReadSome"]
    kept = ("Retry", "Catch", "TimeoutSecondsPath", "OutputPath")
    of_gathers = dict(tasks_of(definition["States"]))["GatherShard"]

    execution = {"Input": REQUEST, "Name": "a", "StartTime": "2026-11-30T06:00:00Z"}
    assert called_with(begin, REQUEST, {"Execution": execution})[0] == "plan_table"
    assert called_with(decide, PLANNED, {"Execution": {"Name": "a"}})[0] == "plan_table"
    assert decide["Next"] == begin["Next"]
    assert states[begin["Next"]]["Default"] == name
    given = {"gather": "a/0", "execution": "a", "tasks": ITEM, "limit_s": 60, "size": 0}
    assert called_with(first, given)[0] == "read_images"
    renamed = json.dumps({field: first[field] for field in kept})
    for ours, theirs in (("ReadLateOnes", "GatherLateShard"), ("ReadInLargest", "GatherInLargest")):
        renamed = renamed.replace(ours, theirs)
    assert json.loads(renamed) == {field: of_gathers[field] for field in kept}
