"""One function with its role and its log."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from aws_cdk import Duration, RemovalPolicy, Size
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.acknowledge import acknowledge
from infra.rights import allow

LOG_RETENTION: Final = logs.RetentionDays.THREE_MONTHS


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizing:
    """What one function runs and what it is given."""

    package: str
    """Which package holds its code: submit, status, plan, shard or finish."""

    module: str
    """Module of ``handlers``."""

    memory_mib: int
    """A vCPU comes with 1,769."""

    timeout: Duration
    disk: Size | None = None
    """Of /tmp, where it is more than the 512 MiB that every function has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """What functions run on."""

    runtime: lambda_.Runtime
    architecture: lambda_.Architecture


class GatherFunction(Construct):
    """One function, whose role may at first write its own log and nothing else."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        sizing: Sizing,
        platform: Platform,
        code: lambda_.Code,
        environment: Mapping[str, str],
    ) -> None:
        super().__init__(scope, construct_id)
        self.timeout = sizing.timeout
        self.role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
            description=f"What {sizing.module} of Pixel Gather may do",
        )
        log = logs.LogGroup(self, "Log", retention=LOG_RETENTION, removal_policy=RemovalPolicy.DESTROY)
        allow(self.role, ["logs:CreateLogStream", "logs:PutLogEvents"], log.log_group_arn)
        self.function = lambda_.Function(
            self,
            "Function",
            code=code,
            handler=f"handlers.{sizing.module}.handler",
            runtime=platform.runtime,
            architecture=platform.architecture,
            memory_size=sizing.memory_mib,
            timeout=sizing.timeout,
            ephemeral_storage_size=sizing.disk,
            environment=environment,
            log_group=log,
            role=self.role,
        )
        acknowledge(
            self.function, "L1", "3.13 is the Python that all packages are locked, compiled and tested for"
        )
