"""The rights of a state machine's role.

On AWS a machine acts with the rights of its role. ministack checks none. Here the role's policies are checked
where our machine invokes functions, reads manifests and starts the children of a Distributed Map.

Still different: the policies of buckets and functions are not checked. Rights to describe, stop and redrive
children, and to write logs and traces, are not checked either.
"""

# ruff: noqa: SLF001 # an addition reaches into ministack

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final

from ministack.core import iam_evaluator
from ministack.core.responses import get_account_id, get_region
from ministack.services import lambda_svc
from ministack.services import stepfunctions as sf

ROLE: Final[ContextVar[str]] = ContextVar("role")
"""ARN of the role of the execution that this thread works for."""

_call_lambda: Callable[[str, Any], Any] = sf._call_lambda
_s3_object_text: Callable[[str, str], str] = sf._s3_object_text


def apply() -> None:
    """Put the addition in place; `tasks` calls functions through it."""
    sf._s3_object_text = s3_object_text


def call_lambda(function: str, event: Any) -> Any:
    """Invoke a function if the role may."""
    _, config, _ = lambda_svc._get_func_record_for_ref(function)
    arn = function if function.startswith("arn:") else (config or {}).get("FunctionArn", function)
    require("lambda:InvokeFunction", arn, error="Lambda.AWSLambdaException")
    return _call_lambda(function, event)


def s3_object_text(bucket: str, key: str) -> str:
    """Read a manifest if the role may."""
    require("s3:GetObject", f"arn:aws:s3:::{bucket}/{key}", error="States.ItemReaderFailed")
    return _s3_object_text(bucket, key)


def require(action: str, resource: str, *, error: str) -> None:
    """Fail the state with this error unless the role allows the action."""
    principal = principal_of(ROLE.get(), session="states")
    if not allows(principal, action, resource):
        raise sf._ExecutionError(
            error,
            f"User: {principal} is not authorized to perform: {action} on resource: {resource} because no "
            "identity-based policy allows it, or one denies it",
        )


def principal_of(role_arn: str, *, session: str) -> str:
    """Return the ARN of a service that acts with a role."""
    return f"arn:aws:sts::{get_account_id()}:assumed-role/{role_arn.rpartition('/')[2]}/{session}"


def allows(principal: str, action: str, resource: str) -> bool:
    """Return whether the policies of an assumed role allow an action."""
    role, account = principal.split("/")[-2], get_account_id()
    asked = iam_evaluator.EvalContext(
        principal_arn=principal,
        principal_type="AssumedRole",
        principal_account=account,
        action=action,
        resource_arn=resource,
        region=get_region(),
    )
    verdict = iam_evaluator.evaluate(asked, iam_evaluator._gather_role_policies(role, account))
    return bool(verdict.decision == "Allow")
