"""Policies for users and roles: one for people who run gathers, one for people who read cubes.

No other rights are needed: tests/e2e runs as users that have only these policies.
"""

from aws_cdk import Stack
from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.access import allow
from infra.buckets import Buckets
from infra.state_machine import GatherStateMachine


class OperatorPolicy(Construct):
    """Allows running gathers by the API, by Step Functions or by its console. Allows no access to cubes."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        api: apigateway.RestApi,
        gathers: GatherStateMachine,
        buckets: Buckets,
    ) -> None:
        super().__init__(scope, construct_id)
        self.policy = iam.ManagedPolicy(self, "Policy", description="Submit, watch, stop and redrive gathers")
        allow(
            self.policy,
            ["execute-api:Invoke"],
            api.arn_for_execute_api(stage=api.deployment_stage.stage_name),
            wildcard="every method and path of this stage of this API",
        )
        stack = Stack.of(self)
        allow(
            self.policy,
            ["cloudformation:DescribeStacks"],
            stack.format_arn(
                service="cloudformation", resource="stack", resource_name=f"{stack.stack_name}/*"
            ),
            wildcard="this stack alone, whose ARN ends in an unknown id; its outputs name the API",
        )
        gathers.grant_submit(self.policy)
        gathers.grant_operate(self.policy)
        gathers.grant_console(self.policy)
        buckets.lists.grant_get(self.policy)
        buckets.lists.grant_put(self.policy)
        buckets.summaries.grant_get(self.policy)


class ReaderPolicy(Construct):
    """Allows listing and reading cubes and their reports, and nothing else."""

    def __init__(self, scope: Construct, construct_id: str, *, buckets: Buckets) -> None:
        super().__init__(scope, construct_id)
        self.policy = iam.ManagedPolicy(self, "Policy", description="Read cubes of Pixel Gather")
        buckets.cubes.grant_get(self.policy)
        buckets.cubes.grant_list(self.policy)
