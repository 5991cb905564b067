"""Secrets of a deployment, read from Secrets Manager when they are needed."""

import boto3

from pixel_gather.io.aws.aws_errors import aws_errors_in_words


def secret_text(name: str) -> str:
    """Return the text of a secret, without spaces around it.

    Raises:
        DeniedError: This role may not read it.
        ThrottledError, UnreachableError, DeploymentError: As of every call of AWS's APIs.
    """
    with aws_errors_in_words():
        answer = boto3.client("secretsmanager").get_secret_value(SecretId=name)
    return str(answer["SecretString"]).strip()
