"""What is said where the answer is not AWS's."""

import pytest
from botocore.exceptions import ClientError

from pixel_gather.core.errors import (
    DeniedError,
    DeploymentError,
    GatherError,
    ThrottledError,
    UnreachableError,
)
from pixel_gather.io.aws.aws_errors import aws_errors_in_words


def test_an_answer_that_is_not_from_aws_is_told() -> None:
    """A proxy answers without a code and without a message."""
    with (
        pytest.raises(DeploymentError, match=r"^the answer to DescribeStacks is not from AWS: check "),
        aws_errors_in_words(),
    ):
        raise ClientError({"Error": {"Code": "", "Message": ""}}, "DescribeStacks")


def test_a_head_that_s3_answers_by_400_may_have_three_reasons() -> None:
    """The answer to a HEAD has no body that could say why."""
    said = r"^AWS refused HeadObject, and it gave no reason \(400\): .* may have expired .*Region.*SSE-C"
    with pytest.raises(DeniedError, match=said), aws_errors_in_words():
        raise ClientError({"Error": {"Code": "400", "Message": "Bad Request"}}, "HeadObject")


@pytest.mark.parametrize(
    ("code", "status", "kind"),
    [
        ("InternalServerException", 500, UnreachableError),
        ("InternalError", 500, UnreachableError),
        ("502", 502, UnreachableError),
        ("RequestTimeout", 400, UnreachableError),
        ("503", 503, ThrottledError),
        ("InvalidDefinition", 400, DeploymentError),
    ],
)
def test_an_error_on_the_side_of_aws_may_pass(code: str, status: int, kind: type[GatherError]) -> None:
    """No new deployment would mend it. An answer to a HEAD has its status as its code."""
    answer = {"Error": {"Code": code, "Message": "no"}, "ResponseMetadata": {"HTTPStatusCode": status}}

    with pytest.raises(GatherError) as caught, aws_errors_in_words():
        raise ClientError(answer, "HeadObject")

    assert type(caught.value) is kind
    assert ("try again" in str(caught.value)) is (kind is not DeploymentError)
