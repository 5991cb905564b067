"""Grants rights to roles and policies, each wildcard with a reason, and accepts findings of cdk-nag."""

from collections.abc import Mapping, Sequence
from typing import Any

from aws_cdk import Acknowledgment, Stack, Validations
from aws_cdk import aws_iam as iam
from constructs import Construct


def acknowledge(construct: Construct, rule: str, reason: str) -> None:
    """Accept one finding about a construct and its children.

    A rule is such as ``S1``, or ``IAM5[Resource::*]`` for one of several findings.
    """
    Validations.of(construct).acknowledge(Acknowledgment(id=f"AwsSolutions-{rule}", reason=reason))


def allow(
    holder: iam.Role | iam.Policy | iam.ManagedPolicy,
    actions: Sequence[str],
    resource: str,
    *,
    wildcard: str | None = None,
    conditions: Mapping[str, Any] | None = None,
) -> None:
    """Allow actions on one resource.

    Wildcards of the ARN stand for resources, never for a service or an account. ``wildcard`` says why there
    are some.
    """
    statement = iam.PolicyStatement(actions=list(actions), resources=[resource], conditions=conditions)
    if isinstance(holder, iam.Role):
        holder.add_to_policy(statement)
    else:
        holder.add_statements(statement)
    if wildcard is not None:
        shown = _shown(Stack.of(holder).resolve(resource))
        acknowledge(holder, f"IAM5[Resource::{shown}]", wildcard)


def _shown(resolved: Any) -> str:
    """Return an ARN as cdk-nag names it in a finding, with references in angle brackets."""
    match resolved:
        case {"Ref": name}:
            return f"<{name}>"
        case {"Fn::GetAtt": [name, attribute]}:
            return f"<{name}.{attribute}>"
        case {"Fn::Join": [separator, parts]}:
            return str(separator).join(_shown(part) for part in parts)
        case _:
            return str(resolved)
