"""The state machine that runs gathers, its role, and the rights to use it.

Its input is a plain request, both from the API and from the console.
"""

from collections.abc import Sequence

from aws_cdk import ArnFormat, Aws, RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from infra.buckets import Area
from infra.grant import acknowledge, allow
from infra.lambda_function import GatherFunction
from infra.state_machine_definition import MAP_LABEL, OF_GATHERS, OF_TABLES, StateDefinition


class GatherStateMachine(Construct):
    """The state machine, its role and its log."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        plan: GatherFunction,
        shards: Sequence[GatherFunction],
        finish: GatherFunction,
        manifests: Area,
        is_of_tables: bool = False,
    ) -> None:
        """Make the machine.

        See `StateDefinition`. The Map reads the manifests. A machine of tables may have several rounds.
        """
        super().__init__(scope, construct_id)
        role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal(
                "states.amazonaws.com",
                conditions={"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}},
            ),
            description="Pixel Gather's state machine" + (" of tables" if is_of_tables else ""),
        )
        for function in dict.fromkeys((plan, *shards, finish)):
            allow(
                role,
                ["lambda:InvokeFunction"],
                f"{function.function.function_arn}:*",
                wildcard="versions of this function: that of this deployment, and those of running gathers",
            )
        manifests.grant_get(role)
        log = logs.LogGroup(
            self,
            "Log",
            # With this prefix the log needs no entry in CloudWatch's resource policy, which is small.
            log_group_name=f"/aws/vendedlogs/states/{Stack.of(self).stack_name}"
            + ("/tables" if is_of_tables else ""),  # no stack's name has a slash
            removal_policy=RemovalPolicy.DESTROY,
        )
        definition = StateDefinition(
            self,
            "Definition",
            plan=plan,
            shards=shards,
            finish=finish,
            names=OF_TABLES if is_of_tables else OF_GATHERS,
            has_rounds=is_of_tables,
        )
        self.state_machine = sfn.StateMachine(
            self,
            "StateMachine",
            # As text. For a chain of states, CDK grants the right to every version of each function.
            definition_body=sfn.DefinitionBody.from_string(
                Stack.of(self).to_json_string(definition.document)
            ),
            role=role,
            logs=sfn.LogOptions(destination=log, level=sfn.LogLevel.ERROR),
            tracing_enabled=True,
        )
        self._grant_children(role)
        acknowledge(
            role,
            "IAM5[Resource::*]",
            "X-Ray and the log delivery that Step Functions sets up have no resources to name",
        )
        acknowledge(
            self.state_machine,
            "SF1",
            "errors are logged; 1,000 children have 5,000 events, which their histories keep",
        )

    def grant_submit(self, holder: iam.Role | iam.ManagedPolicy) -> None:
        """Allow starting gathers, and looking up whether one of the same name exists."""
        allow(holder, ["states:StartExecution"], self.state_machine.state_machine_arn)
        self._grant_gathers(holder, "states:DescribeExecution")

    def grant_tick(self, holder: iam.Role) -> None:
        """Allow starting gathers, and listing those that run."""
        self.grant_submit(holder)
        self.grant_list(holder)

    def grant_list(self, holder: iam.Role | iam.ManagedPolicy) -> None:
        """Allow listing gathers."""
        allow(holder, ["states:ListExecutions"], self.state_machine.state_machine_arn)

    def grant_limit(self, holder: iam.Role) -> None:
        """Allow listing gathers, and changing how many workers they have."""
        self.grant_list(holder)
        self._grant_gathers(holder, "states:DescribeExecution", "states:ListMapRuns")
        self._grant_map_runs(holder, "states:DescribeMapRun", "states:UpdateMapRun")

    def grant_operate(self, holder: iam.Role | iam.ManagedPolicy) -> None:
        """Allow listing, describing, stopping and redriving gathers, and seeing why children failed."""
        self.grant_list(holder)
        self._grant_gathers(
            holder,
            "states:DescribeExecution",
            "states:ListMapRuns",
            "states:RedriveExecution",
            "states:StopExecution",
        )
        # to list a Map Run's children, and to change how many run at one time
        self._grant_map_runs(holder, "states:DescribeMapRun", "states:ListExecutions", "states:UpdateMapRun")
        self._grant_children_of_gathers(holder, "states:DescribeExecution")

    def grant_console(self, holder: iam.ManagedPolicy) -> None:
        """Allow what Step Functions' console needs in addition: state machines and histories."""
        allow(holder, ["states:DescribeStateMachine"], self.state_machine.state_machine_arn)
        self._grant_gathers(holder, "states:GetExecutionHistory")
        self._grant_children_of_gathers(holder, "states:GetExecutionHistory")
        allow(
            holder,
            ["states:ListStateMachines"],
            "*",
            wildcard="the list of state machines is the account's; IAM knows no resource for it",
        )

    def _grant_map_runs(self, holder: iam.Role | iam.ManagedPolicy, *actions: str) -> None:
        allow(
            holder,
            actions,
            self._arn("mapRun", f"/{MAP_LABEL}:*"),
            wildcard="Map runs are named by Step Functions when they start",
        )

    def _grant_children_of_gathers(self, holder: iam.Role | iam.ManagedPolicy, *actions: str) -> None:
        allow(
            holder,
            actions,
            self._arn("execution", f"/{MAP_LABEL}:*"),
            wildcard="the Map's children are named by Step Functions when they start",
        )

    def _grant_gathers(self, holder: iam.Role | iam.ManagedPolicy, *actions: str) -> None:
        allow(
            holder,
            actions,
            self._arn("execution", ":*"),
            wildcard="gathers to come, of this state machine alone",
        )

    def _grant_children(self, role: iam.Role) -> None:
        """Let the Map run its children. This policy is made after the machine, whose ARN it names."""
        policy = iam.Policy(self, "ChildrenPolicy", roles=[role])
        allow(policy, ["states:StartExecution"], self.state_machine.state_machine_arn)
        for rest in (":*", f"/{MAP_LABEL}:*"):  # AWS's examples use both forms
            allow(
                policy,
                ["states:DescribeExecution", "states:RedriveExecution", "states:StopExecution"],
                self._arn("execution", rest),
                wildcard="the Map's children are named by Step Functions when they start",
            )

    def _arn(self, kind: str, rest: str) -> str:
        return Stack.of(self).format_arn(
            service="states",
            resource=kind,
            resource_name=f"{self.state_machine.state_machine_name}{rest}",
            arn_format=ArnFormat.COLON_RESOURCE_NAME,
        )
