"""Grants the right to read sources, and the catalog, to the roles of functions."""

from collections.abc import Sequence

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
        arn = _bucket_arn(role, source.name)
        allow(
            role,
            ["s3:GetObject"],
            f"{arn}/*",
            wildcard="requests name the objects; the deployment names their buckets",
        )
        if may_list:
            allow(role, ["s3:ListBucket"], arn)
        _grant_decrypt(role, source)


def grant_catalog(role: iam.Role, href: str, sources: Sequence[SourceBucket]) -> None:
    """Allow reading the files that a search reads, which lie beside the catalog's Parquet file."""
    bucket, _, key = href.removeprefix("s3://").partition("/")
    source = next((each for each in sources if each.name == bucket), SourceBucket(name=bucket))
    if source.unsigned:
        return
    stem = f"{_bucket_arn(role, bucket)}/{key.removesuffix('.parquet')}"
    allow(role, ["s3:GetObject"], f"{stem}.columns")
    allow(
        role,
        ["s3:GetObject"],
        f"{stem}.*.items",
        wildcard="each version of the catalog names its items by their digest",
    )
    _grant_decrypt(role, source)


def grant_listing(role: iam.Role, sources: Sequence[SourceBucket]) -> None:
    """Allow listing the buckets whose folders searches may list."""
    for source in sources:
        if source.expand and not source.unsigned:
            allow(role, ["s3:ListBucket"], _bucket_arn(role, source.name))


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


def _bucket_arn(role: iam.Role, bucket: str) -> str:
    return Stack.of(role).format_arn(service="s3", region="", account="", resource=bucket)


def _grant_decrypt(role: iam.Role, source: SourceBucket) -> None:
    """Allow using the key that a bucket's objects are encrypted with, if there is one. Through S3 alone."""
    if source.kms_key is not None:
        via = {"kms:ViaService": f"s3.{source.key_region}.{Stack.of(role).url_suffix}"}
        allow(role, ["kms:Decrypt"], source.kms_key, conditions={"StringEquals": via})
