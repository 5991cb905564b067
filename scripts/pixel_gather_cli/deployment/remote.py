"""What the commands ask of a deployment, and how they find it: by its API, or directly.

boto3's parts are imported only when a deployment is really asked, so that `--help` stays quick.
"""

import io
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

import click

from pixel_gather.extras import check_extra
from pixel_gather.request.request import GatherRequest

if TYPE_CHECKING:
    from pixel_gather_cli.deployment.aws_account import AwsAccount

DEFAULT_STACK: Final = "PixelGather-main"
_OPTIONS = (
    click.option("--stack", metavar="NAME", help=f"Stack of the deployment.  [default: {DEFAULT_STACK}]"),
    click.option("--api", metavar="URL", help="Address of its API instead."),
    click.option("--direct", is_flag=True, help="Ask Step Functions itself, without the API."),
    click.option("--state-machine", metavar="ARN", help="With --direct, instead of the stack's."),
    click.option("--control-bucket", metavar="NAME", help="With --direct, instead of the stack's."),
    click.option("--region", metavar="REGION", help="AWS Region of the deployment."),
    click.option("--profile", metavar="NAME", help="AWS profile."),
    click.option("--endpoint", metavar="URL", help="Endpoint of every AWS service, other than AWS's."),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalList:
    """A list file of this machine."""

    file: io.BufferedIOBase
    """Open at its start; belongs to the caller."""

    nbytes: int
    sha256: str
    """64 hexadecimal digits."""

    suffix: str
    """Tells the format, without a dot."""


class Deployment(Protocol):
    """A deployment that gathers; every answer is plain JSON, every refusal a `GatherError`."""

    def submit(self, request: GatherRequest, *, force: bool) -> dict[str, Any]:
        """Start a gather or find the one of the same request; ``id``, ``is_new``, ``state``, ``links``."""

    def keep_list(self, listed: LocalList) -> str:
        """Upload a list file, unless it is there and young, and return its href."""

    def status(self, id_: str) -> dict[str, Any]:
        """Describe one gather."""

    def list_(self, *, limit: int, token: str | None, state: str | None) -> dict[str, Any]:
        """Return one page: ``gathers``, the latest first, and the token of the ``next`` or None."""

    def stop(self, id_: str) -> dict[str, Any]:
        """Stop a gather; return its ``id`` and ``state``."""

    def redrive(self, id_: str) -> dict[str, Any]:
        """Run what is missing of a gather that failed or was stopped; return its ``id`` and ``state``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Which deployment was meant, as the options say it; None is left to the environment."""

    stack: str | None = None
    api: str | None = None
    direct: bool = False
    state_machine: str | None = None
    control_bucket: str | None = None
    region: str | None = None
    profile: str | None = None
    endpoint: str | None = None

    def __post_init__(self) -> None:
        """Refuse options of which one would be ignored."""
        if self.direct and self.api is not None:
            raise click.UsageError("give --api or --direct, not both")
        if not self.direct and (self.state_machine or self.control_bucket):
            raise click.UsageError("--state-machine and --control-bucket go with --direct")
        if self.api is not None and self.stack is not None:
            raise click.UsageError("give --api or --stack, not both")

    @classmethod
    def taken_from(cls, options: dict[str, Any]) -> Self:
        """Take the options of `remote_options` out of a command's."""
        return cls(**{name: options.pop(name) for name in cls.__slots__})


def remote_options[Command: Callable[..., Any]](command: Command) -> Command:
    """Add which deployment is asked."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def open_deployment(target: Target, *, environment: Mapping[str, str] = os.environ) -> Deployment:
    """Find a deployment and open it; nothing is asked of it yet.

    An option comes before the environment, and a stack's name is looked up only where the address itself
    is not given.

    Raises:
        DeploymentError: There is no such stack, or it is none of this library's.
        DeniedError: Credentials are missing, or may not look the stack up.
    """
    check_extra("aws", "gathers on AWS")
    from pixel_gather_cli.deployment.aws_account import AwsAccount  # noqa: PLC0415 # see above

    account = AwsAccount(region=target.region, profile=target.profile, endpoint=target.endpoint)
    stack = target.stack or environment.get("PIXEL_GATHER_STACK") or DEFAULT_STACK
    given = {} if target.stack is not None else environment
    if target.direct:
        return _direct(target, account, stack, given)
    from pixel_gather_cli.deployment.api_deployment import ApiDeployment  # noqa: PLC0415 # see above

    url = target.api or given.get("PIXEL_GATHER_API") or account.stack_output(stack, "ApiUrl")
    return ApiDeployment(url, account=account, api_key=environment.get("PIXEL_GATHER_API_KEY"))


def _direct(target: Target, account: "AwsAccount", stack: str, given: Mapping[str, str]) -> Deployment:
    from pixel_gather_cli.deployment.direct_deployment import DirectDeployment  # noqa: PLC0415 # see above

    return DirectDeployment(
        account=account,
        state_machine_arn=target.state_machine
        or given.get("PIXEL_GATHER_STATE_MACHINE")
        or account.stack_output(stack, "StateMachineArn"),
        control_bucket=target.control_bucket
        or given.get("PIXEL_GATHER_CONTROL_BUCKET")
        or account.stack_output(stack, "ControlBucket"),
    )
