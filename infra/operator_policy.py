"""What people and programs that run gathers need: the whole API, or Step Functions by ``--direct``."""

from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.buckets import Buckets
from infra.fan_out import FanOut
from infra.rights import allow


class OperatorPolicy(Construct):
    """A managed policy to attach to users and roles; it lets nobody pass a role or touch a cube."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        api: apigateway.RestApi,
        fan_out: FanOut,
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
        fan_out.grant_submit(self.policy)
        fan_out.grant_operate(self.policy)
        buckets.lists.grant_get(self.policy)
        buckets.lists.grant_put(self.policy)
        buckets.summaries.grant_get(self.policy)
