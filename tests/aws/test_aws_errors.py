"""What is said where the answer is not AWS's."""

import pytest
from botocore.exceptions import ClientError

from pixel_gather.core.errors import DeploymentError
from pixel_gather.io.aws.aws_errors import aws_errors_in_words


def test_an_answer_that_is_not_from_aws_is_told() -> None:
    """A proxy answers without a code and without a message."""
    with (
        pytest.raises(DeploymentError, match=r"^the answer to DescribeStacks is not from AWS: check "),
        aws_errors_in_words(),
    ):
        raise ClientError({"Error": {"Code": "", "Message": ""}}, "DescribeStacks")
