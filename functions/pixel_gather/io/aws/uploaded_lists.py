"""Lists that users upload to the control bucket of a deployment. Their keys are digests of their content."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from botocore.exceptions import ClientError

from pixel_gather.io.aws.aws_errors import code_of

YOUNG_FOR: Final = timedelta(days=1)
"""A list that is younger is not uploaded again. The control bucket deletes it after four weeks, and a gather
can be redriven for two weeks."""

_NOT_THERE: Final = frozenset({"404", "403", "NoSuchKey", "AccessDenied"})
"""S3 answers 403 for a missing object if the caller may not list the bucket."""


def key_of_list(sha256: str, suffix: str) -> str:
    """Return the key of a list with this digest in the control bucket."""
    return f"lists/{sha256}.{suffix}"


def is_uploaded(s3: Any, bucket: str, key: str) -> bool:
    """Tell whether a list has been uploaded, and is young enough to outlive the gather that reads it."""
    try:
        told = s3.head_object(Bucket=bucket, Key=key)
    except ClientError as error:
        if code_of(error) in _NOT_THERE:
            return False
        raise
    age: timedelta = datetime.now(UTC) - told["LastModified"]
    return age < YOUNG_FOR
