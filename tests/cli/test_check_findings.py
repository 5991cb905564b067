"""What a check makes of what it has seen on AWS."""

import json
import re
import time
from collections.abc import Iterator
from copy import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest
from botocore.exceptions import ClientError
from click.testing import CliRunner

from pixel_gather.core.estimate import assumptions
from pixel_gather.core.samples import PIXELS
from pixel_gather_cli.commands.check import _print, _save, _settings_of, check_command
from pixel_gather_cli.commands.plan import plan_command
from pixel_gather_cli.deployment.failures import _KNOWN_CRASHES, _refused_shards
from pixel_gather_cli.deployment.findings import alarms, heartbeats, measure
from pixel_gather_cli.deployment.smoke import FINISH, PLAN, SHARD, Call, DeployedStack, Smoke, _calls_in

BEGUN: Final = datetime(2026, 11, 24, 15, tzinfo=UTC)
LINE: Final = (
    "REPORT RequestId: 8f507cfc-xmpl-4697-b07a-ac58fc914c95\tDuration: 1500.50 ms\tBilled Duration: 1900 ms\t"
    "Memory Size: 1024 MB\tMax Memory Used: 180 MB\tInit Duration: 392.91 ms\t\n"
)
"""As AWS documents it."""


def after(seconds: float) -> datetime:
    """Return a time after the beginning."""
    return BEGUN + timedelta(seconds=seconds)


class Account:
    """An account with two stages, whose names begin alike. CloudFormation tells 100 resources at a time.

    One topic was removed by an update, and another could not be made.
    """

    RESOURCES: Final = [
        ("AWS::IAM::Role", "RoleOf", "a-role", "CREATE_COMPLETE"),
        (
            "AWS::Lambda::Function",
            "FunctionsSubmit",
            "PixelGather-a-stage-of-20-FunctionsSubmit-1",
            "UPDATE_COMPLETE",
        ),
        ("AWS::SNS::Topic", "MonitoringAlarms6698", "arn:aws:sns:eu-central-1:1:alarms", "CREATE_COMPLETE"),
        ("AWS::SNS::Topic", "MonitoringAlarms1234", "arn:aws:sns:eu-central-1:1:former", "DELETE_COMPLETE"),
        ("AWS::SNS::Topic", "MonitoringAlarms5678", None, "CREATE_FAILED"),
    ]

    def client(self, _: str) -> Any:
        """Return a client of any service."""
        return self

    def stack_output(self, stack: str, name: str) -> str:
        """Return an output."""
        return f"{stack} {name}"

    def get_paginator(self, call: str) -> Any:
        """Return what pages are asked of."""
        if call == "list_functions":
            names = ("PixelGather-a-stage-of-20-FunctionsSubmit-1", "PixelGather-a-stage-of-20-chars-2")
            functions = [{"FunctionName": each, "FunctionArn": f"arn:{each}"} for each in names]
            return SimpleNamespace(paginate=lambda: [{"Functions": functions}])
        assert call == "list_stack_resources"
        pages = [
            {
                "StackResourceSummaries": [
                    {"ResourceType": kind, "LogicalResourceId": name, "ResourceStatus": status}
                    | ({} if id_ is None else {"PhysicalResourceId": id_})
                ]
            }
            for kind, name, id_, status in self.RESOURCES
        ]
        return SimpleNamespace(paginate=lambda **_: pages)


def test_functions_of_a_stack_are_those_that_cloudformation_names() -> None:
    """CloudFormation cuts long names of stacks, and another stage's name may begin alike."""
    stack = DeployedStack(Account(), "PixelGather-a-stage-of-20-chars")  # type: ignore[arg-type] # a part of it

    assert stack.functions.keys() == {"arn:PixelGather-a-stage-of-20-FunctionsSubmit-1"}
    assert stack.resources("AWS::SNS::Topic") == {"MonitoringAlarms6698": "arn:aws:sns:eu-central-1:1:alarms"}


def call(function: str, run_s: float, *, start_s: float | None, peak_mib: int = 180) -> Call:
    """Return a call."""
    memory_mib = 1024 if function == SHARD else 1769
    return Call(
        function=function,
        run_s=run_s,
        billed_s=run_s,
        memory_mib=memory_mib,
        peak_mib=peak_mib,
        start_s=start_s,
    )


class LateStepFunctions:
    """Step Functions a moment after a start and a redrive, and after the children of a Map Run have ended."""

    def __init__(self) -> None:
        self.n_listed, self.n_described = 0, 0

    def describe_execution(self, **_: Any) -> dict[str, Any]:
        """Know nothing at first, and then the end before the redrive."""
        self.n_described += 1
        if self.n_described == 1:
            raise ClientError({"Error": {"Code": "ExecutionDoesNotExist"}}, "DescribeExecution")
        return [
            {"status": "FAILED", "redriveCount": 0},
            {"status": "RUNNING", "redriveCount": 1},
            {"status": "SUCCEEDED", "redriveCount": 1},
        ][self.n_described - 2]

    def list_map_runs(self, **_: Any) -> dict[str, Any]:
        """Return the only one."""
        return {"mapRuns": [{"mapRunArn": "run"}]}

    def describe_map_run(self, **_: Any) -> dict[str, Any]:
        """Return the only one."""
        return {"mapRunArn": "run"}

    def get_paginator(self, _: str) -> Any:
        """List two children. The second one's end is told late."""
        self.n_listed += 1
        running, ended = {"status": "RUNNING"}, {"status": "SUCCEEDED", "stopDate": BEGUN}
        page = {"executions": [ended, running if self.n_listed == 1 else ended]}
        return SimpleNamespace(paginate=lambda **_: [page])


def late_stack() -> DeployedStack:
    """Return a deployment whose Step Functions tell late what has happened."""
    stack = DeployedStack.__new__(DeployedStack)
    stack.stepfunctions, stack.poll_s = LateStepFunctions(), 0.0
    return stack


def test_check_waits_for_the_ends_that_step_functions_tells_late() -> None:
    """DescribeExecution and ListExecutions are eventually consistent."""
    stack = late_stack()

    run, children = stack.map_run("arn")

    assert run == {"mapRunArn": "run"}
    assert [each["stopDate"] for each in children] == [BEGUN, BEGUN]
    assert stack.wait("arn", n_redrives=1)["status"] == "SUCCEEDED"


@pytest.mark.parametrize(("account", "pauses"), [("123456789012", [60.0, 60.0]), ("000000000000", [])])
def test_check_waits_until_a_policy_holds(
    account: str, pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """S3 needs a moment until a bucket's policy holds everywhere. The emulator does not."""
    stack, slept = late_stack(), list[float]()
    own = {"Version": "2012-10-17", "Statement": [{"Effect": "Deny", "Sid": "OnlyTls"}]}
    policies: list[dict[str, Any]] = [own]
    stack.machine, stack.array_bucket = f"arn:aws:states:eu-central-1:{account}:stateMachine:m", "arrays"
    stack.s3 = SimpleNamespace(
        get_bucket_policy=lambda **_: {"Policy": json.dumps(policies[-1])},
        put_bucket_policy=lambda **given: policies.append(json.loads(given["Policy"])),
    )
    monkeypatch.setattr(time, "sleep", slept.append)

    with _refused_shards(stack, "name"):
        assert [each["Effect"] for each in policies[-1]["Statement"]] == ["Deny", "Deny"]

    assert policies[-1] == own
    assert slept == pauses


def smoke() -> Smoke:
    """Return a gather of two shards on cold functions."""
    return Smoke(
        name="canary-1",
        execution={
            "startDate": BEGUN,
            "stopDate": after(7.6),
            "output": json.dumps({"digest": PIXELS, "requests": 40, "retries": 0, "cube": "s3://cubes/c"}),
        },
        states_s={"Plan": 2.0, "Finish": 3.0},
        n_transitions=5,
        map_run={"startDate": after(2.5), "stopDate": after(4.8), "toleratedFailurePercentage": 10.0},
        children=[{"startDate": after(at), "stopDate": after(at + 2.0)} for at in (2.6, 2.7)],
        functions=["arn:aws:lambda:eu-west-1:1:function:plan:3"],
        calls=[
            call(PLAN, 0.5, start_s=0.4),
            call(FINISH, 2.0, start_s=0.6),
            call(SHARD, 1.2, start_s=0.5),
            call(SHARD, 1.2, start_s=0.5),
        ],
        summary={"usd": 0.003, "seconds": 5.0},
    )


def measured(seen: Smoke) -> Any:
    """Return what a gather tells."""
    return measure(seen, opened_s=[0.02, 0.03, 0.5], account_concurrency=1000)


def test_report_of_lambda_is_read_as_it_is_documented() -> None:
    """The seconds of a cold start are there, and are none if the environment was warm."""
    cold, warm = Call.of_line(LINE, SHARD), Call.of_line(LINE.partition("\tInit")[0], SHARD)

    assert cold is not None
    assert warm is not None
    assert cold == ("8f507cfc-xmpl-4697-b07a-ac58fc914c95", replace(warm[1], start_s=392.91 / 1000))
    assert (warm[1].run_s, warm[1].billed_s, warm[1].memory_mib, warm[1].peak_mib) == (1.5005, 1.9, 1024, 180)
    assert Call.of_line("START RequestId: 8f507cfc", SHARD) is None


def test_calls_for_other_gathers_do_not_count() -> None:
    """Reports name requests, not gathers. The function's own lines say which requests are of the gather."""
    id_ = LINE.partition("RequestId: ")[2].partition("\t")[0]
    other = LINE.replace(id_, "00000000-0000-0000-0000-000000000000")

    def paginate(*, filterPattern: str, **_: Any) -> list[Any]:  # noqa: N803 # as boto3 names it
        own = [json.dumps({"gather": "a", "function_request_id": id_})]
        lines = [other, LINE] if filterPattern == "REPORT" else own
        return [{"events": [{"message": each} for each in lines]}]

    logs = SimpleNamespace(get_paginator=lambda _name: SimpleNamespace(paginate=paginate))
    stack: Any = SimpleNamespace(logs=logs)

    assert len(list(_calls_in(stack, "group", SHARD, "a", after(0)))) == 1


def test_figures_of_the_model_are_measured_from_outside() -> None:
    """A start is what a state takes beside its function. A child is what it takes beside its worker."""
    assert measured(smoke()).values == {
        "ACCOUNT": 1000,
        "COLD_START": pytest.approx(1.25),
        "CHILD": pytest.approx(0.3),
        "STEPS": pytest.approx(0.3),
        "MAP_RUN": pytest.approx(0.2),
        "FIRST_BYTE": pytest.approx(0.03),
    }


def test_figure_that_cannot_be_seen_is_left_out() -> None:
    """Warm functions tell nothing of a start, and lost log lines nothing of a child."""
    warm = replace(smoke(), calls=[replace(each, start_s=None) for each in smoke().calls[:3]])

    found = measured(warm)

    assert found.values.keys() == {"ACCOUNT", "MAP_RUN", "STEPS", "FIRST_BYTE"}
    assert [each.measured for each in found.findings if each.what == "COLD_START"] == [
        "not seen: no function started cold"
    ]


def test_findings_say_what_is_wrong_and_what_to_do() -> None:
    """Other pixels, a tolerance that is not taken and functions without versions do not work."""
    output = json.dumps(json.loads(smoke().execution["output"]) | {"digest": "0", "retries": 3})
    bad = replace(
        smoke(),
        execution={**smoke().execution, "output": output, "stopDate": after(90.0)},
        map_run={**smoke().map_run, "toleratedFailurePercentage": 0.0},
        functions=["arn:aws:lambda:eu-west-1:1:function:plan"],
        calls=[*smoke().calls, call(SHARD, 90.0, start_s=None, peak_mib=1000)],
    )

    good, found = measured(smoke()).findings, measured(bad).findings

    assert not [each.what for each in good if each.is_wrong]
    assert {each.what for each in good if each.to_do} == {"CHILD"}
    assert {each.what for each in found if each.is_wrong} == {
        "pixels of 20 samples",
        "the map takes its tolerance from the plan",
        "a gather keeps the versions of its functions",
    }
    to_do = {each.what for each in found if each.to_do and not each.is_wrong}
    assert {
        "seconds, with the report",
        "memory of gather_shard",
        "S3_GETS, in its first second",
    } <= to_do


def test_page_of_the_first_day_explains_each_figure() -> None:
    """The rows whose names are in capitals, first those that a check measures."""
    page = (Path(__file__).parents[2] / "docs/first-day.md").read_text(encoding="utf-8")
    table = page.partition("## Figures of the model")[2].partition("\n## ")[0]
    names = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    shown = [each.what.partition(",")[0] for each in measured(smoke()).findings]

    assert names == [each for each in shown if each.isupper()]
    assert tuple(names[:6]) == assumptions.MEASURABLE


@pytest.mark.parametrize(("is_emulated", "head"), [(True, "measured in the emulator"), (False, "measured ")])
def test_table_is_headed_by_where_its_figures_are_from(
    capsys: pytest.CaptureFixture[str], *, is_emulated: bool, head: str
) -> None:
    """Nobody takes figures of the emulator for those of AWS."""
    _print(measured(smoke()).findings, is_emulated=is_emulated)

    said = capsys.readouterr().out
    assert head in said
    assert ("figures of the emulator" in said, "in the emulator" in said) == (is_emulated, is_emulated)
    assert "pixels of 20 samples" in said


def test_alarms_that_have_no_data_yet_are_named() -> None:
    """They cannot tell that what they watch ceases. Other alarms are quiet without data."""
    watching = {"InsufficientDataActions": ["topic"]}
    found = heartbeats(
        [
            {"AlarmName": "canary", "StateValue": "INSUFFICIENT_DATA", **watching},
            {"AlarmName": "late", "StateValue": "OK", **watching},
            {"AlarmName": "other", "StateValue": "INSUFFICIENT_DATA"},
        ]
    )

    assert found.measured == "1 of 2 alarms have data"
    assert found.to_do.endswith("None yet: canary (docs/first-day.md)")
    assert not heartbeats([{"AlarmName": "late", "StateValue": "OK", **watching}]).to_do


def test_alarms_of_a_day_are_told_with_their_states() -> None:
    """An alarm without data is looked at again."""
    found = alarms(
        [{"Period": 300, "StateValue": "OK"}, {"Period": 86400, "StateValue": "INSUFFICIENT_DATA"}]
    )

    assert found.measured == "1 of 2 alarms, in the state INSUFFICIENT_DATA"
    assert found.to_do == "check again tomorrow"
    assert not alarms([{"Period": 86400, "StateValue": "OK"}]).to_do


def test_errors_of_killed_workers_are_those_of_the_state_machine() -> None:
    """The check knows the names that the state machine catches."""
    from infra.state_machine_definition import _CRASHED  # noqa: PLC0415 # aws_cdk takes seconds

    assert list(_KNOWN_CRASHES) == _CRASHED


@pytest.fixture
def assumed() -> Iterator[None]:
    """Put back the figures that a test changes."""
    kept = {name: getattr(assumptions, name) for name in assumptions.MEASURABLE}
    before = {name: (figure.value, figure.source) for name, figure in kept.items()}
    yield
    for name, figure in kept.items():
        figure.value, figure.source = before[name]


@pytest.mark.usefixtures("assumed")
def test_plan_uses_the_figures_that_a_check_has_saved(tmp_path: Path) -> None:
    """The file keeps its other settings. A slower start makes a longer forecast, which names its source."""
    settings = tmp_path / "cdk.context.json"
    settings.write_text('{"max_usd": 5}')

    def planned(*options: str) -> dict[str, Any]:
        source = str(Path(__file__).parents[1] / "data" / "demo" / "sources.csv")
        given = ["--sources", source, "--tile", "centre", "--json", *options]
        answer = CliRunner().invoke(plan_command, given, catch_exceptions=False)
        found: dict[str, Any] = json.loads(answer.stdout)
        return dict(found["estimate"])

    before = planned()
    _save(settings, _settings_of(settings) | {"measured": {"COLD_START": 11.0}})
    after_ = planned("--measured", str(settings))

    assert json.loads(settings.read_text()) == {"max_usd": 5, "measured": {"COLD_START": 11.0}}
    # the plan and the workers start one after another, and finish beside the workers
    assert after_["seconds"] == pytest.approx(before["seconds"] + 20)
    assert "11 s (measured in this account by a gather of samples)" in json.dumps(after_)


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("broken.json", "is no JSON object: "),
        ("list.json", "is no JSON object: "),
        ("none/c.json", "no folder"),
    ],
)
def test_a_file_that_cannot_take_figures_is_told_before_the_gather(
    tmp_path: Path, file: str, said: str
) -> None:
    """Nobody waits minutes for figures that are then lost. There is no Region, so AWS is not asked."""
    contents = {"broken.json": '{"max_usd": 5,}', "list.json": "[]"}
    for name, content in contents.items():
        (tmp_path / name).write_text(content)

    ended = CliRunner(env={"AWS_REGION": None, "AWS_DEFAULT_REGION": None}).invoke(
        check_command, ["--save", str(tmp_path / file)]
    )

    assert ended.exit_code == 2
    assert said in ended.output
    assert {name: (tmp_path / name).read_text() for name in contents} == contents
