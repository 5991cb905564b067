"""Grants rights to roles and policies, each wildcard with a reason."""

from collections.abc import Mapping, Sequence
from typing import Any

from aws_cdk import Stack
from aws_cdk import aws_iam as iam

from infra.acknowledge import acknowledge


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
