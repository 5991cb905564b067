"""The stack: connects its constructs."""

from collections.abc import Mapping, Sequence
from typing import Any

from aws_cdk import CfnOutput, Duration, Stack, Tags
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.buckets import Buckets
from infra.budget import TAG, Budget
from infra.function_rights import grant_data
from infra.functions import Functions, PackageCode
from infra.lambda_function import GatherFunction
from infra.monitoring import Monitoring
from infra.operator_policy import OperatorPolicy, ReaderPolicy, SchedulePolicy
from infra.rest_api import Api
from infra.schedules import Schedules
from infra.settings import Settings
from infra.state_machine import GatherStateMachine


class GatherStack(Stack):
    """One deployment of Pixel Gather."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: Settings,
        code: PackageCode,
        body_schemas: Mapping[str, Mapping[str, Any]],
    ) -> None:
        """Build the stack.

        ``code`` returns each function's package. The schemas, JSON Schema draft 4, are those of the bodies
        that the API checks, by name.
        """
        super().__init__(
            scope,
            construct_id,
            description="Pixel Gather: a window of every one of thousands of COGs, as one Zarr cube",
        )
        tags = {**settings.tags, "application": "pixel-gather", "stage": settings.stage, TAG: settings.stage}
        for key, value in tags.items():
            Tags.of(self).add(key, value)
        # What gathers and makes tables: buckets, functions and a state machine for each of the two.
        buckets = Buckets(
            self,
            "Buckets",
            output_prefix=settings.output_prefix,
            retain_arrays=settings.retain_arrays,
            names=(settings.array_bucket, settings.control_bucket),
            kms_key=settings.kms_key,
        )
        functions = Functions(self, "Functions", settings=settings, buckets=buckets, code=code)
        grant_data(functions, buckets, settings.source_buckets)
        gathers = GatherStateMachine(
            self,
            "StateMachine",
            plan=functions.plan,
            shards=functions.shards,
            finish=functions.finish,
            manifests=buckets.manifests,
        )
        tables = GatherStateMachine(
            self,
            "Tables",
            plan=functions.plan_table,
            shards=(functions.read_images,),
            finish=functions.plan_table,
            manifests=buckets.table_manifests,
            is_of_tables=True,
        )
        _connect(gathers, tables, functions)
        # Who starts jobs: callers of the API and schedules.
        api = Api(
            self,
            "Api",
            functions=functions.in_api,
            body_schemas=body_schemas,
            log_role=settings.api_log_role,
        )
        schedules = Schedules(
            self,
            "Schedules",
            tick=functions.tick,
            watch=functions.watch,
            schedules=settings.schedules,
        )
        # Who looks after them: alarms, the budget and people, by policies of their own.
        monitoring = Monitoring(
            self,
            "Monitoring",
            settings,
            state_machine=gathers.state_machine,
            tables=tables.state_machine,
            functions=functions,
            api=api.rest_api,
            schedules=schedules,
        )
        if functions.canary is not None and settings.canary_hours is not None:
            monitoring.call_canary(functions.canary, every=Duration.hours(settings.canary_hours))
        self._add_budget(functions.halt, settings, machines=(gathers, tables), monitoring=monitoring)
        operators = OperatorPolicy(
            self,
            "Operators",
            api=api.rest_api,
            machines=(gathers, tables),
            buckets=buckets,
            dashboard=monitoring.dashboard,
        )
        schedulers = SchedulePolicy(self, "Schedulers", schedules=schedules)
        readers = ReaderPolicy(self, "Readers", buckets=buckets)
        # What the command line reads of a deployment.
        outputs = {
            "ApiUrl": api.rest_api.url,
            "StateMachineArn": gathers.state_machine.state_machine_arn,
            "ArrayBucket": buckets.arrays.bucket_name,
            "ControlBucket": buckets.control.bucket_name,
            "DashboardName": monitoring.dashboard.dashboard_name,
            "OperatorPolicyArn": operators.policy.managed_policy_arn,
            "ReaderPolicyArn": readers.policy.managed_policy_arn,
            "SchedulePolicyArn": schedulers.policy.managed_policy_arn,
            "TableStateMachineArn": tables.state_machine.state_machine_arn,
            "ScheduleGroup": schedules.group_name,
            "ScheduleRoleArn": schedules.role.role_arn,
            "LostTicksArn": schedules.lost_ticks.queue_arn,
            "TickFunctionArn": functions.tick.function.function_arn,
            "CatalogHosts": ",".join(settings.catalog_hosts) or "none",
            "HttpsHosts": ",".join(settings.https_hosts) or "none",
            "Signing": ",".join(settings.signing) or "none",
            "SourceBuckets": ",".join(each.name for each in settings.source_buckets) or "none",
        }
        for name, value in outputs.items():
            CfnOutput(self, name, value=value)
        # All logs are kept equally long: those of functions, state machines and the API.
        for found in self.node.find_all():
            if isinstance(found, logs.CfnLogGroup):
                found.retention_in_days = settings.log_days

    def _add_budget(
        self,
        halt: GatherFunction | None,
        settings: Settings,
        *,
        machines: Sequence[GatherStateMachine],
        monitoring: Monitoring,
    ) -> None:
        """Have the deployment halted when the budget of a month is spent, if it has one."""
        if halt is None or settings.max_usd_per_month is None:
            return
        for machine in machines:
            machine.grant_limit(halt.role)
        budget = Budget(
            self,
            "Budget",
            usd=settings.max_usd_per_month,
            stage=settings.stage,
            halt=halt,
            email=settings.alarm_email,
        )
        monitoring.watch_budget(halt, usd=settings.max_usd_per_month, spent=budget.topic)


def _connect(gathers: GatherStateMachine, tables: GatherStateMachine, functions: Functions) -> None:
    """Let functions start, watch and stop jobs, and tell them of which state machines."""
    for each in (functions.rank, functions.answer_tables):
        tables.grant_submit(each.role)
    _tell(tables, "PIXEL_GATHER_STATE_MACHINE_ARN", functions.rank, functions.answer_tables)
    tables.grant_operate(functions.answer_tables.role)
    gathers.grant_submit(functions.submit.role)
    gathers.grant_operate(functions.status.role)
    gathers.grant_tick(functions.tick.role)
    gathers.grant_list(functions.watch.role)
    if functions.canary is not None:
        gathers.grant_submit(functions.canary.role)
    in_both = (functions.tick, functions.watch, functions.halt)
    of_gathers = (functions.submit, functions.status, functions.canary, *in_both)
    _tell(gathers, "PIXEL_GATHER_STATE_MACHINE_ARN", *of_gathers)
    _tell(tables, "PIXEL_GATHER_TABLE_STATE_MACHINE_ARN", *in_both)
    tables.grant_tick(functions.tick.role)
    tables.grant_list(functions.watch.role)


def _tell(machine: GatherStateMachine, name: str, *functions: GatherFunction | None) -> None:
    """Put the ARN of a state machine into the environment of functions. None is one that is not deployed."""
    for each in filter(None, functions):
        each.function.add_environment(name, machine.state_machine.state_machine_arn)
