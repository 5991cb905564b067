"""One function with its role and its log."""

from collections.abc import Mapping
from typing import Final

from aws_cdk import Aws, Duration, RemovalPolicy, Size
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct
from msgspec import Struct

from infra.grant import acknowledge, allow

ONE_VCPU_MIB: Final = 1769
"""Memory that comes with one vCPU."""


class Sizing(Struct, frozen=True, kw_only=True):
    """What one function runs, and its resources."""

    package: str
    """Which package holds its code: submit, status, search, plan, shard or finish."""

    module: str
    """Its feature's folder and its module in ``handlers``, with a dot between them."""

    memory_mib: int
    """The function's memory. Its vCPUs are in proportion, see `ONE_VCPU_MIB`."""

    timeout: Duration
    disk: Size | None = None
    """Size of /tmp. None for the 512 MiB that every function has."""

    reserved_concurrency: int = 0
    """How many environments are reserved for this function in the account; 0 for none."""

    @property
    def n_threads(self) -> int:
        """How many threads compute at the same time: one per vCPU.

        Lambda shows two CPUs also to functions that get the time of one.
        """
        return max(round(self.memory_mib / ONE_VCPU_MIB), 1)


class Platform(Struct, frozen=True, kw_only=True):
    """The runtime and the architecture of the functions."""

    runtime: lambda_.Runtime
    architecture: lambda_.Architecture


class GatherFunction(Construct):
    """One function. Its role may write its own log, until more rights are granted."""

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
        self.module = sizing.module
        self.timeout = sizing.timeout
        self.memory_mib = sizing.memory_mib
        self.role = iam.Role(
            self,
            "Role",
            # IfExists: Lambda's documentation does not say that it sends the account when it assumes a role.
            assumed_by=iam.ServicePrincipal(
                "lambda.amazonaws.com",
                conditions={"StringEqualsIfExists": {"aws:SourceAccount": Aws.ACCOUNT_ID}},
            ),
            description=f"What {sizing.module} of Pixel Gather may do",
        )
        log = logs.LogGroup(self, "Log", removal_policy=RemovalPolicy.DESTROY)
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
            reserved_concurrent_executions=sizing.reserved_concurrency or None,
            environment={
                **environment,
                "PYTHON_CPU_COUNT": str(sizing.n_threads),
                "MALLOC_ARENA_MAX": "1",  # else each thread keeps freed memory, which the others cannot use
            },
            log_group=log,
            role=self.role,
            current_version_options=lambda_.VersionOptions(removal_policy=RemovalPolicy.RETAIN),
        )
        acknowledge(
            self.function, "L1", "3.13 is the Python that all packages are locked, compiled and tested for"
        )

    @property
    def version(self) -> lambda_.Version:
        """The version that this deployment publishes: its code and its settings, which never change.

        Former versions stay, because gathers that began with them go on with them.
        """
        return self.function.current_version
