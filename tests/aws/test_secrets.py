"""A secret is a text. Secrets Manager also keeps bytes."""

from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from pixel_gather.core.errors import DeploymentError
from pixel_gather.io.aws.secrets import secret_text


def answering(monkeypatch: pytest.MonkeyPatch, **answer: Any) -> None:
    """Let Secrets Manager answer so."""
    client = boto3.client("secretsmanager", region_name="eu-central-1")
    stub = Stubber(client)
    stub.add_response("get_secret_value", {"Name": "token", **answer}, {"SecretId": "token"})
    stub.activate()
    monkeypatch.setattr(boto3, "client", lambda _: client)


def test_a_text_is_taken_without_the_spaces_around_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """An editor may end it in a line feed."""
    answering(monkeypatch, SecretString="abc\n")

    assert secret_text("token") == "abc"


def test_bytes_are_refused_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """They would be no token."""
    answering(monkeypatch, SecretBinary=b"abc")

    with pytest.raises(DeploymentError, match="the secret token holds bytes: store its value as text"):
        secret_text("token")
