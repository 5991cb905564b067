"""Grants the right to read sources, and the catalog, to the roles of functions."""

from collections.abc import Sequence
from typing import Any

from aws_cdk import ArnFormat, Stack
from aws_cdk import aws_iam as iam

from infra.grant import allow
from infra.settings import SourceBucket


def grant_sources(role: iam.Role, sources: Sequence[SourceBucket], *, may_list: bool) -> None:
    """Allow reading the objects of the buckets that sources and lists may be in.

    Buckets that are read without credentials need no right.
    """
    for source in sources:
        if source.unsigned:
            continue
        arn = Stack.of(role).format_arn(service="s3", region="", account="", resource=source.name)
        allow(
            role,
            ["s3:GetObject"],
            f"{arn}/*",
            wildcard="requests name the objects; the deployment names their buckets",
        )
        if may_list:
            allow(role, ["s3:ListBucket"], arn)
        if source.kms_key is not None:
            allow(role, ["kms:Decrypt"], source.kms_key, conditions=_by_s3_alone(role, source))


def grant_catalog(role: iam.Role, href: str, sources: Sequence[SourceBucket]) -> None:
    """Allow reading the files that a search reads, which lie beside the catalog's Parquet file."""
    bucket, _, key = href.removeprefix("s3://").partition("/")
    source = next((each for each in sources if each.name == bucket), SourceBucket(name=bucket))
    if source.unsigned:
        return
    stem = Stack.of(role).format_arn(
        service="s3", region="", account="", resource=f"{bucket}/{key.removesuffix('.parquet')}"
    )
    allow(role, ["s3:GetObject"], f"{stem}.columns")
    allow(
        role,
        ["s3:GetObject"],
        f"{stem}.*.items",
        wildcard="each version of the catalog names its items by their digest",
    )
    if source.kms_key is not None:
        allow(role, ["kms:Decrypt"], source.kms_key, conditions=_by_s3_alone(role, source))


def grant_listing(role: iam.Role, sources: Sequence[SourceBucket]) -> None:
    """Allow listing the buckets whose folders searches may list."""
    for source in sources:
        if source.expand and not source.unsigned:
            allow(
                role,
                ["s3:ListBucket"],
                Stack.of(role).format_arn(service="s3", region="", account="", resource=source.name),
            )


def grant_secret(role: iam.Role, name: str) -> None:
    """Allow reading one secret by its name, also if a customer's key encrypts it.

    The key decrypts nothing but this secret for the role. Its own policy has to leave the decision to IAM.
    """
    stack = Stack.of(role)
    arn = stack.format_arn(
        service="secretsmanager",
        resource="secret",
        resource_name=f"{name}-??????",
        arn_format=ArnFormat.COLON_RESOURCE_NAME,
    )
    allow(
        role,
        ["secretsmanager:GetSecretValue"],
        arn,
        wildcard="Secrets Manager ends each ARN in six characters of its own",
    )
    allow(
        role,
        ["kms:Decrypt"],
        stack.format_arn(service="kms", resource="key", resource_name="*"),
        wildcard="the secret says which key encrypts it; the conditions name the secret",
        conditions={
            "StringEquals": {"kms:ViaService": f"secretsmanager.{stack.region}.{stack.url_suffix}"},
            "ArnLike": {"kms:EncryptionContext:SecretARN": arn},
        },
    )


def _by_s3_alone(role: iam.Role, source: SourceBucket) -> dict[str, Any]:
    via = f"s3.{source.key_region}.{Stack.of(role).url_suffix}"
    return {"StringEquals": {"kms:ViaService": via}}
