"""Accepts findings of cdk-nag, each with a reason, next to the construct that the finding is about."""

from aws_cdk import Acknowledgment, Validations
from constructs import Construct


def acknowledge(construct: Construct, rule: str, reason: str) -> None:
    """Accept one finding about a construct and its children.

    A rule is such as ``S1``, or ``IAM5[Resource::*]`` for one of several findings.
    """
    Validations.of(construct).acknowledge(Acknowledgment(id=f"AwsSolutions-{rule}", reason=reason))
