"""Secrets of a deployment, read from Secrets Manager when they are needed."""

import boto3

from pixel_gather.core.errors import DeploymentError
from pixel_gather.io.aws.aws_errors import aws_errors_in_words


def secret_text(name: str) -> str:
    """Return the text of a secret, without spaces around it.

    Raises:
        DeniedError: This role may not read it.
        DeploymentError: It holds bytes, and no text. Or AWS refused the call for another reason.
        ThrottledError, UnreachableError: As of every call of AWS's APIs.
    """
    with aws_errors_in_words():
        answer = boto3.client("secretsmanager").get_secret_value(SecretId=name)
    if "SecretString" not in answer:
        raise DeploymentError(f"the secret {name} holds bytes: store its value as text")
    return str(answer["SecretString"]).strip()
