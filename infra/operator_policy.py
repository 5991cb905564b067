"""Policies for users and roles: for people who run gathers and tables, who schedule, and who read cubes.

No other rights are needed: tests/e2e runs as users that have only these policies.
"""

from collections.abc import Sequence

from aws_cdk import ArnFormat, Stack
from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.buckets import Buckets
from infra.grant import allow
from infra.schedules import Schedules
from infra.state_machine import GatherStateMachine


class OperatorPolicy(Construct):
    """Allows running gathers and tables by the API, by Step Functions or by its console.

    Allows no access to cubes. The policy's description stays: to change it would replace the policy, and so
    take it from everybody who has it.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        api: apigateway.RestApi,
        machines: Sequence[GatherStateMachine],
        buckets: Buckets,
        dashboard: cloudwatch.Dashboard,
    ) -> None:
        super().__init__(scope, construct_id)
        self.policy = iam.ManagedPolicy(self, "Policy", description="Submit, watch, stop and redrive gathers")
        _grant_sight(self.policy, dashboard)
        allow(
            self.policy,
            ["execute-api:Invoke"],
            api.arn_for_execute_api(stage=api.deployment_stage.stage_name),
            wildcard="every method and path of this stage of this API",
        )
        _grant_outputs(self.policy, naming="the API")
        for machine in machines:  # of gathers, and of tables
            machine.grant_submit(self.policy)
            machine.grant_operate(self.policy)
            machine.grant_console(self.policy)
        buckets.lists.grant_get(self.policy)
        buckets.lists.grant_put(self.policy)
        buckets.summaries.grant_get(self.policy)
        buckets.halted.grant_get(self.policy)  # to redrive without the API
        buckets.cancelled.grant_put(self.policy)  # to cancel without the API


def _grant_outputs(policy: iam.ManagedPolicy, *, naming: str) -> None:
    """Allow reading the outputs of the stack, which name what is called."""
    stack = Stack.of(policy)
    allow(
        policy,
        ["cloudformation:DescribeStacks"],
        stack.format_arn(service="cloudformation", resource="stack", resource_name=f"{stack.stack_name}/*"),
        wildcard=f"this stack alone, whose ARN ends in an unknown id; its outputs name {naming}",
    )


def _grant_sight(policy: iam.ManagedPolicy, dashboard: cloudwatch.Dashboard) -> None:
    """Allow seeing the dashboard, the alarms and the logs of this stack."""
    stack = Stack.of(policy)
    allow(
        policy,
        ["cloudwatch:GetDashboard"],
        # CDK's dashboard_arn lacks the name where CloudFormation chooses it
        stack.format_arn(
            service="cloudwatch", region="", resource="dashboard", resource_name=dashboard.dashboard_name
        ),
    )
    allow(
        policy,
        [
            "cloudwatch:DescribeAlarms",
            "cloudwatch:GetMetricData",
            "cloudwatch:ListMetrics",
            "logs:DescribeLogGroups",
            "logs:GetQueryResults",
            "logs:StopQuery",
        ],
        "*",
        wildcard="metrics, alarms and queries are the account's; IAM knows no resource for them",
    )
    for prefix in ("", "/aws/vendedlogs/states/"):
        allow(
            policy,
            ["logs:FilterLogEvents", "logs:GetLogEvents", "logs:StartQuery"],
            stack.format_arn(
                service="logs",
                resource="log-group",
                resource_name=f"{prefix}{stack.stack_name}*",
                arn_format=ArnFormat.COLON_RESOURCE_NAME,
            ),
            wildcard="the stack's log groups, whose names begin with its own; CloudFormation ends them",
        )


class SchedulePolicy(Construct):
    """Allows adding schedules to the stack's group, and removing them. A schedule can only start gathers.

    It is a policy of its own, because a schedule costs money for as long as nobody removes it.
    """

    def __init__(self, scope: Construct, construct_id: str, *, schedules: Schedules) -> None:
        super().__init__(scope, construct_id)
        self.policy = iam.ManagedPolicy(self, "Policy", description="Add and remove schedules of gathers")
        schedules.grant(self.policy, *(f"scheduler:{verb}Schedule" for verb in ("Create", "Get", "Delete")))
        allow(
            self.policy,
            ["iam:PassRole"],
            schedules.role.role_arn,
            conditions={"StringEquals": {"iam:PassedToService": "scheduler.amazonaws.com"}},
        )
        _grant_outputs(self.policy, naming="the group")


class ReaderPolicy(Construct):
    """Allows listing and reading cubes, their reports and tables, and nothing else."""

    def __init__(self, scope: Construct, construct_id: str, *, buckets: Buckets) -> None:
        super().__init__(scope, construct_id)
        self.policy = iam.ManagedPolicy(self, "Policy", description="Read cubes of Pixel Gather")
        buckets.cubes.grant_get(self.policy)
        buckets.cubes.grant_list(self.policy)
