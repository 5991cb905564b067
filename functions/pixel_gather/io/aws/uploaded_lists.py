"""Lists that users upload to the control bucket of a deployment. Their keys are digests of their content."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pixel_gather.io.aws.aws_errors import NOT_THERE, answer_unless

YOUNG_FOR: Final = timedelta(days=1)
"""A list that is younger is not uploaded again. The control bucket deletes it after four weeks, and a gather
can be redriven for two weeks."""


def key_of_list(sha256: str, suffix: str) -> str:
    """Return the key of a list with this digest in the control bucket."""
    return f"lists/{sha256}.{suffix}"


def is_uploaded(s3: Any, bucket: str, key: str) -> bool:
    """Tell whether a list has been uploaded, and is young enough to outlive the gather that reads it.

    Errors are those of `aws_errors_in_words`.
    """
    told = answer_unless(NOT_THERE, lambda: s3.head_object(Bucket=bucket, Key=key))
    return told is not None and bool(datetime.now(UTC) - told["LastModified"] < YOUNG_FOR)
