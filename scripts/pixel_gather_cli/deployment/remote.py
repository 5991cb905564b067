"""Finds the deployment that a command's options name, and opens it: by its API, or directly.

boto3 is imported only when a deployment is opened. That keeps `--help` quick.
"""

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Self

import click
from msgspec import Struct

from pixel_gather.core.errors import RequestError
from pixel_gather.core.extras import check_extra
from pixel_gather_cli.deployment.deployment import RemoteDeployment
from pixel_gather_cli.with_options import with_options

if TYPE_CHECKING:
    from pixel_gather_cli.deployment.api_deployment import ApiDeployment
    from pixel_gather_cli.deployment.aws_account import AwsAccount


DEFAULT_STACK: Final = "PixelGather-main"
_REGION = click.option("--region", metavar="REGION", help="AWS Region of the deployment.")
_PROFILE = click.option("--profile", metavar="NAME", help="AWS profile.")
_ENDPOINT = click.option("--endpoint", metavar="URL", help="Endpoint for all AWS services, instead of AWS's.")
_STACK = click.option("--stack", metavar="NAME", help=f"Stack of the deployment.  [default: {DEFAULT_STACK}]")

remote_options = with_options(
    _STACK,
    click.option("--api", metavar="URL", help="Address of its API, instead of --stack."),
    click.option("--direct", is_flag=True, help="Call Step Functions directly, without the API."),
    click.option("--state-machine", metavar="ARN", help="With --direct, instead of the stack's."),
    click.option("--control-bucket", metavar="NAME", help="With --direct, instead of the stack's."),
    _REGION,
    _PROFILE,
    _ENDPOINT,
)
"""Adds the options that name a deployment."""

stack_options = with_options(_STACK, _REGION, _PROFILE, _ENDPOINT)
"""Adds the options that name a stack."""

deployer_options = with_options(
    click.option(
        "--stack",
        metavar="NAME",
        default=lambda: os.environ.get("PIXEL_GATHER_STACK", DEFAULT_STACK),
        help=f"Stack of the deployment.  [default: {DEFAULT_STACK}]",
    ),
    _REGION,
    click.option(
        "--profile", metavar="NAME", help="AWS profile, which may do what the one that deploys may."
    ),
    _ENDPOINT,
)
"""Adds the options of commands for whoever has deployed: they look into the stack itself."""


class Target(Struct, frozen=True, kw_only=True):
    """The deployment that the options name. None: the environment decides."""

    stack: str | None = None
    api: str | None = None
    direct: bool = False
    state_machine: str | None = None
    control_bucket: str | None = None
    region: str | None = None
    profile: str | None = None
    endpoint: str | None = None

    def __post_init__(self) -> None:
        """Refuse options that contradict each other."""
        if self.direct and self.api is not None:
            raise click.UsageError("give --api or --direct, not both")
        if not self.direct and (self.state_machine or self.control_bucket):
            raise click.UsageError("use --state-machine and --control-bucket only with --direct")
        if self.api is not None and self.stack is not None:
            raise click.UsageError("give --api or --stack, not both")

    @classmethod
    def taken_from(cls, options: dict[str, Any]) -> Self:
        """Remove the options of `remote_options` from a command's options and return them."""
        return cls(**{name: options.pop(name) for name in cls.__struct_fields__})


def open_deployment(target: Target) -> RemoteDeployment:
    """Find a deployment and open it. No request is sent to the deployment yet.

    An option overrides the environment. The stack is looked up only if the address is not given.

    Raises:
        DeploymentError: There is no such stack, or it is not a stack of Pixel Gather.
        DeniedError: There are no credentials, or they may not describe the stack.
    """
    if not target.direct:
        return open_api(target, "gathers on AWS")
    account, stack, given = find_stack(target, "gathers on AWS")
    from pixel_gather_cli.deployment.direct_deployment import DirectDeployment  # noqa: PLC0415 # keeps --help quick

    return DirectDeployment(
        account=account,
        state_machine_arn=target.state_machine
        or given.get("PIXEL_GATHER_STATE_MACHINE")
        or account.stack_output(stack, "StateMachineArn"),
        control_bucket=target.control_bucket
        or given.get("PIXEL_GATHER_CONTROL_BUCKET")
        or account.stack_output(stack, "ControlBucket"),
    )


def open_api(target: Target, what: str = "rankings on AWS") -> "ApiDeployment":
    """Find a deployment and open its API. No request is sent to it yet."""
    account, stack, given = find_stack(target, what)
    from pixel_gather_cli.deployment.api_deployment import ApiDeployment  # noqa: PLC0415 # keeps --help quick

    url = target.api or given.get("PIXEL_GATHER_API") or account.stack_output(stack, "ApiUrl")
    return ApiDeployment(url, account=account)


def find_stack(target: Target, what: str) -> tuple["AwsAccount", str, Mapping[str, str]]:
    """Return account, name of the stack, and the variables that speak of this stack."""
    check_extra("aws", what)
    from pixel_gather_cli.deployment.aws_account import AwsAccount  # noqa: PLC0415 # keeps --help quick

    account = AwsAccount(region=target.region, profile=target.profile, endpoint=target.endpoint)
    stack = target.stack or os.environ.get("PIXEL_GATHER_STACK") or DEFAULT_STACK
    return account, stack, {} if target.stack is not None else os.environ


_ACCOUNT: Final = ("region", "profile", "endpoint")
_OF_THIS_MACHINE: Final = ("unsigned", "requester_pays", "concurrency", "header_bytes")


def place_options(deployed: str) -> tuple[Callable[[Any], Any], ...]:
    """Return the options, with the help of ``--deployed``."""
    return (
        click.option("--deployed", is_flag=True, help=deployed),
        click.option(
            "--stack", metavar="NAME", help=f"With --deployed: its stack.  [default: {DEFAULT_STACK}]"
        ),
        click.option("--api", metavar="URL", help="With --deployed: address of its API, instead of --stack."),
    )


def target_of_options(options: dict[str, Any]) -> Target | None:
    """Remove the options, and return the deployment that they name; None without ``--deployed``.

    The options of the account are left in.

    Raises:
        RequestError: An option is for this machine beside ``--deployed``, or for a deployment without it.
    """
    deployed, stack, api = (options.pop(name) for name in ("deployed", "stack", "api"))
    if deployed:
        for name in _OF_THIS_MACHINE:
            if options[name]:
                raise RequestError(
                    "it is for reading on this machine, and a deployment has its own settings: leave it out",
                    field=f"--{name.replace('_', '-')}",
                )
        return Target(stack=stack, api=api, **{name: options[name] for name in _ACCOUNT})
    for name, given in (("stack", stack), ("api", api)):
        if given is not None:
            raise RequestError("use it only with --deployed", field=f"--{name}")
    return None
