"""Lists that users upload to a deployment's control bucket, named by their content."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from botocore.exceptions import ClientError

from pixel_gather.adapters.aws.aws_errors import code_of

YOUNG_FOR: Final = timedelta(days=1)
"""So long a list is not uploaded again. The control bucket removes it after four weeks, and a gather whose
plan failed may be redriven for two."""

_NOT_THERE: Final = frozenset({"404", "403", "NoSuchKey", "AccessDenied"})
"""S3 says 403 of a missing object to who may not list the bucket."""


def key_of_list(sha256: str, suffix: str) -> str:
    """Return where a list of this content lies in the control bucket."""
    return f"lists/{sha256}.{suffix}"


def is_uploaded(s3: Any, bucket: str, key: str) -> bool:
    """Tell whether a list is there, and young enough to outlive what reads it.

    Args:
        s3: Client of boto3.
        bucket: The control bucket.
        key: As `key_of_list` gives it.
    """
    try:
        told = s3.head_object(Bucket=bucket, Key=key)
    except ClientError as error:
        if code_of(error) in _NOT_THERE:
            return False
        raise
    age: timedelta = datetime.now(UTC) - told["LastModified"]
    return age < YOUNG_FOR
