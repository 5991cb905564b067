"""Findings of cdk-nag that we have read and live with, each with its reason, beside what they are about."""

from aws_cdk import Acknowledgment, Validations
from constructs import Construct


def acknowledge(construct: Construct, rule: str, reason: str) -> None:
    """Accept one finding about a construct and all below it.

    Args:
        construct: What it is about.
        rule: Such as ``S1``, or ``IAM5[Resource::*]`` for a finding of a rule that has many.
        reason: Why it is all right here.
    """
    Validations.of(construct).acknowledge(Acknowledgment(id=f"AwsSolutions-{rule}", reason=reason))
