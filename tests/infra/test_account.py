"""Lambda is asked for the account's concurrency unless it is set."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from infra import account
from infra.settings import Settings


class Clients:
    """Stands for a session: gives clients whose answers are stubbed."""

    def __init__(self) -> None:
        session = boto3.Session(
            aws_access_key_id="a",
            aws_secret_access_key="b",  # noqa: S106 # of nobody
            region_name="eu-central-1",
        )
        self._clients = {name: session.client(name) for name in ("lambda", "cloudformation")}
        self.stubs = {name: Stubber(each) for name, each in self._clients.items()}

    def client(self, name: str, **_: Any) -> Any:
        """Return a client."""
        self.stubs[name].activate()
        return self._clients[name]


def test_what_others_have_reserved_does_not_count() -> None:
    """Of 1,000, others have reserved 400, and this stack 20.

    The names of functions need not begin with that of a stack: CloudFormation cuts long ones. It lists 100
    resources at a time. A function that could not be made has no name.
    """
    stack, session = "PixelGather-a-stage-of-20-chars", Clients()
    limit = {"ConcurrentExecutions": 1000, "UnreservedConcurrentExecutions": 580}
    session.stubs["lambda"].add_response("get_account_settings", {"AccountLimit": limit})
    told = {"LastUpdatedTimestamp": datetime(2026, 11, 30, tzinfo=UTC), "ResourceStatus": "CREATE_COMPLETE"}
    pages: list[list[tuple[str, str, str]]] = [
        [("AWS::IAM::Role", "PixelGather-a-stage-of-20-FunctionsSubmitRole", "CREATE_COMPLETE")],
        [
            (
                "AWS::Lambda::Function",
                "PixelGather-a-stage-of-20-FunctionsSubmit-1",
                "UPDATE_COMPLETE",
            ),
            ("AWS::Lambda::Function", "removed", "DELETE_COMPLETE"),
            ("AWS::Lambda::Function", "PixelGather-a-stage-of-20-FunctionsPlan-2", "CREATE_COMPLETE"),
            ("AWS::Lambda::Function", "", "CREATE_FAILED"),
        ],
    ]
    for number, page in enumerate(pages):
        listed = [
            told
            | {"LogicalResourceId": "any", "ResourceType": kind, "ResourceStatus": status}
            | ({"PhysicalResourceId": name} if name else {})
            for kind, name, status in page
        ]
        more = {} if number else {"NextToken": "1"}
        asked = {"StackName": stack} | ({"NextToken": "1"} if number else {})
        session.stubs["cloudformation"].add_response(
            "list_stack_resources", {"StackResourceSummaries": listed, **more}, asked
        )
    for (_, name, _), reserved in zip(pages[1][:3:2], (20, None), strict=True):
        answer = {} if reserved is None else {"ReservedConcurrentExecutions": reserved}
        session.stubs["lambda"].add_response("get_function_concurrency", answer, {"FunctionName": name})

    assert account.concurrency(session, stack=stack) == 600


def test_before_the_first_deployment_nothing_is_reserved() -> None:
    """CloudFormation knows no such stack."""
    session = Clients()
    limit = {"ConcurrentExecutions": 10, "UnreservedConcurrentExecutions": 10}
    session.stubs["lambda"].add_response("get_account_settings", {"AccountLimit": limit})
    session.stubs["cloudformation"].add_client_error("list_stack_resources", "ValidationError")

    assert account.concurrency(session, stack="PixelGather-main") == 10


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "context", "stage"),
    [
        (["deploy"], {}, "main"),
        (["deploy"], {"stage": "test"}, "test"),
        (["deploy", "-c", "stage=other"], {"stage": "test"}, "other"),
    ],
)
def test_stack_that_is_deployed_is_asked_about(
    arguments: list[str], context: Any, stage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it has reserved counts as its own."""
    (tmp_path / "cdk.context.json").write_text(json.dumps(context))
    monkeypatch.setattr(account, "concurrency", lambda _, stack: len(stack.removeprefix("PixelGather-")))
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")

    assert account.main(arguments, folder=tmp_path) == f"account_concurrency={len(stage)}"


def test_an_account_without_room_is_told_before_synthesis(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others may have reserved all of a small account. The user has given no setting that could be wrong."""
    monkeypatch.setattr(account, "concurrency", lambda *_, **__: 0)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")

    with pytest.raises(
        SystemExit, match="run 0 functions at one time in this Region, and it needs 4: reserve"
    ):
        account.main(["deploy"], folder=tmp_path)


def test_region_of_aws_region_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The CDK deploys there, too, whatever the older variable says."""
    regions: list[str] = []

    def ask(session: boto3.Session, *, stack: str) -> int:
        regions.append(f"{session.region_name} {stack}")
        return 10

    monkeypatch.setattr(account, "concurrency", ask)
    monkeypatch.setenv("AWS_REGION", "eu-north-1")
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))

    account.main(["synth"], folder=tmp_path)

    assert regions == ["eu-north-1 PixelGather-main"]


@pytest.mark.parametrize(
    ("arguments", "context"),
    [
        (["deploy", "-c", "account_concurrency=50"], {}),
        (["diff", "--context", "account_concurrency=50", "--profile", "me"], {}),
        (["deploy", "-c", "stage=test"], {"account_concurrency": 50}),
    ],
)
def test_nobody_is_asked_where_it_is_said(arguments: list[str], context: Any, tmp_path: Path) -> None:
    """A setting by hand is used without a request."""
    (tmp_path / "cdk.context.json").write_text(json.dumps(context))

    assert account.main(arguments, folder=tmp_path) == ""


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ('{"stage": ', "cdk.context.json is no JSON: .*line 1"),
        ("[]", "a JSON object"),
        ('{"context": null}', "context"),
    ],
)
def test_file_of_settings_that_cannot_be_read_is_named(content: str, says: str, tmp_path: Path) -> None:
    """One sentence, and no traceback."""
    (tmp_path / "cdk.context.json").write_text(content)

    with pytest.raises(SystemExit, match=says):
        account.main(["synth"], folder=tmp_path)


def test_without_an_answer_a_sentence_says_what_is_assumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without credentials, right or profile, the deployment continues with an assumption."""
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))

    assert account.main(["deploy", "--profile", "nobody"], folder=tmp_path) == ""
    said = capsys.readouterr().err
    assert f"taken as {Settings().account_concurrency:,}" in said
    assert "-c account_concurrency=10" in said
