"""The buckets: private, encrypted, and kept for as long as they should be."""

import pytest

from pixel_gather.adapters.aws.uploaded_lists import YOUNG_FOR
from support.synthesized import Synthesized, synthesized

REDRIVE_WINDOW_DAYS = 14


@pytest.fixture(scope="module")
def stack() -> Synthesized:
    """The stack as it is by default."""
    return synthesized()


def bucket(stack: Synthesized, name: str) -> dict[str, object]:
    """Return the arrays' bucket or the control bucket, as a whole resource."""
    (found,) = [
        each for id_, each in stack.of("AWS::S3::Bucket").items() if stack.show({"Ref": id_}) == f"<{name}>"
    ]
    return found


def test_buckets_are_private_and_encrypted(stack: Synthesized) -> None:
    """No public access, no ACLs, encryption by default."""
    for properties in stack.properties("AWS::S3::Bucket"):
        assert set(properties["PublicAccessBlockConfiguration"].values()) == {True}
        assert properties["OwnershipControls"] == {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]}
        assert properties["BucketEncryption"] == {
            "ServerSideEncryptionConfiguration": [
                {"ServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}
            ]
        }


def test_buckets_refuse_whatever_is_not_tls(stack: Synthesized) -> None:
    """Both policies deny everything over plain HTTP and old TLS, and allow nobody anything."""
    policies = stack.properties("AWS::S3::BucketPolicy")

    assert {stack.show(each["Bucket"]) for each in policies} == {"<arrays>", "<control>"}
    for policy in policies:
        statements = policy["PolicyDocument"]["Statement"]
        assert {each["Effect"] for each in statements} == {"Deny"}
        assert {each["Action"] for each in statements} == {"s3:*"}
        assert {str(each["Condition"]) for each in statements} == {
            str({"Bool": {"aws:SecureTransport": "false"}}),
            str({"NumericLessThan": {"s3:TlsVersion": 1.2}}),
        }


def test_arrays_are_versioned_and_outlive_the_stack(stack: Synthesized) -> None:
    """A cube that is overwritten or whose stack is removed can be had back; only old versions expire."""
    arrays = bucket(stack, "arrays")
    (rule,) = arrays["Properties"]["LifecycleConfiguration"]["Rules"]  # type: ignore[index] # a template

    assert arrays["Properties"]["VersioningConfiguration"] == {"Status": "Enabled"}  # type: ignore[index] # as above
    assert arrays["DeletionPolicy"] == "Retain"
    assert "ExpirationInDays" not in rule
    assert rule["NoncurrentVersionExpiration"]["NoncurrentDays"] >= 7


def test_control_files_expire_after_the_last_redrive(stack: Synthesized) -> None:
    """All of it goes, and nothing that a gather which can still be redriven would miss."""
    control = bucket(stack, "control")
    (rule,) = control["Properties"]["LifecycleConfiguration"]["Rules"]  # type: ignore[index] # a template

    assert rule["Status"] == "Enabled"
    assert rule["ExpirationInDays"] > REDRIVE_WINDOW_DAYS + YOUNG_FOR.days
    assert "Prefix" not in rule
    assert control["DeletionPolicy"] == "Delete"


def test_arrays_go_with_the_stack_where_the_deployment_says_so() -> None:
    """A deployment for a test need not leave a bucket behind."""
    assert bucket(synthesized(retain_arrays=False), "arrays")["DeletionPolicy"] == "Delete"
