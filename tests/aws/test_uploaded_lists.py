"""Lists that have already been uploaded to the control bucket."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from pixel_gather.core.errors import DeploymentError
from pixel_gather.io.aws.uploaded_lists import is_uploaded, key_of_list


@dataclass
class Bucket:
    """An S3 client that has one list of a given age, or refuses with a given code."""

    age: timedelta | None = None
    code: str = "404"

    def head_object(self, **asked: str) -> dict[str, Any]:
        """Describe the list."""
        assert asked == {"Bucket": "control", "Key": "lists/ab.csv"}
        if self.age is None:
            raise ClientError({"Error": {"Code": self.code}}, "HeadObject")
        return {"LastModified": datetime.now(UTC) - self.age}


@pytest.mark.parametrize(
    ("bucket", "expected"),
    [
        (Bucket(timedelta(0)), True),
        (Bucket(timedelta(hours=23)), True),
        (Bucket(timedelta(hours=25)), False),
        (Bucket(timedelta(days=27)), False),
        (Bucket(), False),
        (Bucket(code="403"), False),
    ],
)
def test_a_list_is_uploaded_again_unless_it_is_young(bucket: Bucket, *, expected: bool) -> None:
    """A list of 27 days is uploaded again, because it may expire before its gather is planned."""
    assert is_uploaded(bucket, "control", key_of_list("ab", "csv")) is expected


def test_a_bucket_that_refuses_otherwise_is_an_error() -> None:
    """A missing bucket is an error and not a missing list."""
    with pytest.raises(DeploymentError, match="AWS refused HeadObject"):
        is_uploaded(Bucket(code="NoSuchBucket"), "control", "lists/ab.csv")
