"""The buckets are private and encrypted, and their objects are kept as long as needed."""

import pytest

from pixel_gather.io.aws.uploaded_lists import YOUNG_FOR
from support.synthesized import VARIANTS, Synthesized, synthesized

REDRIVE_WINDOW_DAYS = 14


def bucket(stack: Synthesized, name: str) -> dict[str, object]:
    """Return the whole resource of the array bucket or the control bucket."""
    (found,) = [
        each for id_, each in stack.of("AWS::S3::Bucket").items() if stack.show({"Ref": id_}) == f"<{name}>"
    ]
    return found


def test_buckets_are_private_and_encrypted(stack: Synthesized) -> None:
    """There is no public access and no ACL. Encryption is on by default."""
    for properties in stack.properties("AWS::S3::Bucket"):
        assert set(properties["PublicAccessBlockConfiguration"].values()) == {True}
        assert properties["OwnershipControls"] == {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]}
        assert properties["BucketEncryption"] == {
            "ServerSideEncryptionConfiguration": [
                {"ServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}
            ]
        }


def test_buckets_refuse_whatever_is_not_tls(stack: Synthesized) -> None:
    """Both policies deny plain HTTP and old TLS, and allow nothing."""
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
    """Overwritten cubes, and cubes of a removed stack, can be restored. Only old versions expire.

    Kept statistics of rankings expire, too: they can be measured again. So do cubes of the canary.
    """
    arrays = bucket(stack, "arrays")
    rule, of_statistics, of_canaries = arrays["Properties"]["LifecycleConfiguration"]["Rules"]  # type: ignore[index] # a template

    assert arrays["Properties"]["VersioningConfiguration"] == {"Status": "Enabled"}  # type: ignore[index] # as above
    assert arrays["DeletionPolicy"] == "Retain"
    assert "ExpirationInDays" not in rule
    assert rule["NoncurrentVersionExpiration"]["NoncurrentDays"] == 30
    assert rule["ExpiredObjectDeleteMarker"] is True
    assert of_statistics["Prefix"].endswith("tables/statistics/")
    assert of_statistics["ExpirationInDays"] == 90
    assert (of_canaries["Prefix"], of_canaries["ExpirationInDays"]) == ("pixel-gather-canary-", 7)


def test_control_files_expire_after_the_last_redrive(stack: Synthesized) -> None:
    """All control files expire, but not while their gather can be redriven."""
    control = bucket(stack, "control")
    (rule,) = control["Properties"]["LifecycleConfiguration"]["Rules"]  # type: ignore[index] # a template

    assert rule["Status"] == "Enabled"
    assert rule["ExpirationInDays"] > REDRIVE_WINDOW_DAYS + YOUNG_FOR.days
    assert "Prefix" not in rule
    assert control["DeletionPolicy"] == "Retain"


@pytest.mark.parametrize("name", ["arrays", "control"])
def test_parts_of_unfinished_uploads_are_not_billed_for_long(stack: Synthesized, name: str) -> None:
    """Nobody sees the parts that a killed worker leaves. No upload takes a week."""
    first, *_ = bucket(stack, name)["Properties"]["LifecycleConfiguration"]["Rules"]  # type: ignore[index] # a template

    assert "Prefix" not in first
    assert first["AbortIncompleteMultipartUpload"] == {"DaysAfterInitiation": 7}


@pytest.mark.long
def test_arrays_go_with_the_stack_where_the_deployment_says_so() -> None:
    """A deployment for a test can remove its bucket."""
    stack = synthesized(**VARIANTS["with a schedule, telling somebody"])

    assert {bucket(stack, name)["DeletionPolicy"] for name in ("arrays", "control")} == {"Delete"}
