"""Lambda is asked for the account's concurrency unless it is set."""

import json
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from infra import account
from infra.settings import Settings


def test_lambda_says_what_the_account_may_run() -> None:
    """The account's limit is used, not what is free at the moment."""
    client = boto3.client(
        "lambda",
        region_name="eu-central-1",
        aws_access_key_id="a",
        aws_secret_access_key="b",  # noqa: S106 # of nobody
    )
    with Stubber(client) as stubber:
        limit = {"ConcurrentExecutions": 10, "UnreservedConcurrentExecutions": 10}
        stubber.add_response("get_account_settings", {"AccountLimit": limit})

        assert account.concurrency(client) == 10


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


def test_without_an_answer_a_sentence_says_what_is_assumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without credentials, right or profile, the deployment continues with an assumption."""
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))

    assert account.main(["deploy", "--profile", "nobody"], folder=tmp_path) == ""
    said = capsys.readouterr().err
    assert f"taken as {Settings().account_concurrency:,}" in said
    assert "-c account_concurrency=10" in said
