"""A dashboard of what gathers do, alarms on what an operator has to mend, and who is told."""

import json
from typing import Final

from aws_cdk import Aws, Duration
from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from infra.functions import Functions
from infra.gather_function import GatherFunction
from infra.gather_metrics import PERIOD, GatherMetrics
from infra.widgets import dashboard_rows
from pixel_gather.estimate.pricing import USD_PER_GB_S
from pixel_gather.telemetry import SOURCES_FAILED, SOURCES_READ, SPENT_USD

_FAILED_PERCENT: Final = 5
"""Of the sources of 5 minutes; a list with more gaps than that is an alarm worth looking at."""

_NEAR_TIMEOUT: Final = 0.8
"""Share of its time-out that a worker may take."""

_THROTTLED_PERIODS: Final = 3
"""A burst is retried and forgotten; 15 minutes of it mean that the account may run too few workers."""


_FAILED_TRIES_PERCENT: Final = 10
_FAILING_PERIODS: Final = 2
"""One late shard of a small gather is tried again and forgotten; ten minutes of it are not."""

_API_ERRORS: Final = 5
"""In 5 minutes. One may be a list that is too long to be planned in 29 seconds."""

_DAY: Final = Duration.days(1)

REFUSALS: Final = ("RequestError", "BudgetError", "ArrayExistsError")
"""What the state machine calls a gather that its plan refused."""

_NOTICE: Final = (
    "Gather <name>: <status> <error>. pixel-gather status <name> says why; pixel-gather redrive <name> runs "
    "again what failed."
)


class Monitoring(Construct):
    """Dashboard, alarms and their topic.

    Where one metric of an expression has no point, neither has the expression, and ``FILL`` fills none that
    has never been written. So each alarm is on one metric, or on two that are always written together.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        metrics: GatherMetrics,
        state_machine: sfn.StateMachine,
        functions: Functions,
        api: apigateway.RestApi,
        email: str | None,
        usd_per_day: float | None,
    ) -> None:
        super().__init__(scope, construct_id)
        self.topic = self._topic(email)
        shard = functions.shard
        self._tell_of_failed_gathers(state_machine)
        self._alarm(
            "FailedSources",
            cloudwatch.MathExpression(
                expression="100 * failed / (failed + good)",
                using_metrics={"failed": metrics.sum(SOURCES_FAILED), "good": metrics.sum(SOURCES_READ)},
                label="sources failed, percent",
                period=PERIOD,
            ),
            threshold=_FAILED_PERCENT,
            description=f"{_FAILED_PERCENT} % of sources gave no pixels: the dashboard tells how they failed",
        )
        self._alarm(
            "Throttles",
            shard.function.metric_throttles(period=PERIOD),
            threshold=1,
            periods=_THROTTLED_PERIODS,
            description="Lambda turns workers away: lower max_workers or raise the account's concurrency",
        )
        self._alarm(
            "SlowShards",
            shard.function.metric_duration(period=PERIOD, statistic="Maximum"),
            threshold=_NEAR_TIMEOUT * shard.timeout.to_milliseconds(),
            description="A worker came near its time-out: sources answer slowly, or shards are too large",
        )
        self._alarm(
            "WorkerErrors",
            cloudwatch.MathExpression(
                expression="100 * errors / invocations",
                using_metrics={
                    "errors": shard.function.metric_errors(period=PERIOD),
                    "invocations": shard.function.metric_invocations(period=PERIOD),
                },
                label="tries of shards that failed, percent",
                period=PERIOD,
            ),
            threshold=_FAILED_TRIES_PERCENT,
            periods=_FAILING_PERIODS,
            description=f"{_FAILED_TRIES_PERCENT} % of tries fail: the log of gather_shard says why",
        )
        for name, function in (("Plan", functions.plan), ("Finish", functions.finish)):
            self._alarm(
                f"{name}Errors",
                function.function.metric_errors(period=PERIOD),
                threshold=1,
                description=f"{name} ended in an error, no refusal: its log says why, and it is tried again",
            )
        self._alarm(
            "ApiErrors",
            api.metric_server_error(period=PERIOD, statistic="Sum"),
            threshold=_API_ERRORS,
            description="The API fails to answer: the logs of submit, status, search and dry_run say why",
        )
        if usd_per_day is not None:
            self._alarm_on_dollars(usd_per_day, metrics=metrics, shard=shard)
        self.dashboard = cloudwatch.Dashboard(
            self,
            "Dashboard",
            widgets=dashboard_rows(
                metrics=metrics,
                state_machine=state_machine,
                shard=shard,
                throttles=[each.function.metric_throttles(period=PERIOD) for each in functions.every],
            ),
        )

    def _topic(self, email: str | None) -> sns.Topic:
        topic = sns.Topic(self, "Alarms", enforce_ssl=True)
        # IfExists: EventBridge's documentation does not say that it tells topics the account.
        for service, operator in (("cloudwatch", "StringEquals"), ("events", "StringEqualsIfExists")):
            topic.add_to_resource_policy(
                iam.PolicyStatement(
                    principals=[iam.ServicePrincipal(f"{service}.amazonaws.com")],
                    actions=["sns:Publish"],
                    resources=[topic.topic_arn],
                    conditions={operator: {"aws:SourceAccount": Aws.ACCOUNT_ID}},
                )
            )
        if email is not None:
            topic.add_subscription(subscriptions.EmailSubscription(email))
        return topic

    def _tell_of_failed_gathers(self, state_machine: sfn.StateMachine) -> None:
        """Name each gather that fails or times out to the topic; refusals are told to who asked.

        The Map's children are executions, too, of a state machine whose ARN has the Map's label behind it.
        """
        detail = {
            "stateMachineArn": [state_machine.state_machine_arn],
            "$or": [
                {"status": ["TIMED_OUT"]},
                {"status": ["FAILED"], "error": [{"exists": False}, {"anything-but": list(REFUSALS)}]},
            ],
        }
        events.CfnRule(
            self,
            "FailedGather",
            description="Tells who runs Pixel Gather of gathers that failed or timed out",
            event_pattern={
                "source": ["aws.states"],
                "detail-type": ["Step Functions Execution Status Change"],
                "detail": detail,
            },
            targets=[
                events.CfnRule.TargetProperty(
                    arn=self.topic.topic_arn,
                    id="Topic",
                    input_transformer=events.CfnRule.InputTransformerProperty(
                        input_paths_map={name: f"$.detail.{name}" for name in ("name", "status", "error")},
                        input_template=json.dumps(_NOTICE),
                    ),
                )
            ],
        )

    def _alarm_on_dollars(self, usd_per_day: float, *, metrics: GatherMetrics, shard: GatherFunction) -> None:
        """Watch what workers say that they spend, and how long Lambda says that they ran.

        The first counts requests and transitions, too; the second sees workers that were killed and said
        nothing.
        """
        shown = f"${usd_per_day:,g} in a day"
        self._alarm(
            "DollarsSpent",
            metrics.sum(SPENT_USD, period=_DAY),
            threshold=usd_per_day,
            description=f"Gathers cost {shown} by our model: pixel-gather list shows them, cancel stops one",
        )
        usd_per_ms = shard.memory_mib / 1024 * USD_PER_GB_S / 1000
        self._alarm(
            "DollarsOfLambda",
            shard.function.metric_duration(period=_DAY, statistic="Sum"),
            threshold=round(usd_per_day / usd_per_ms),
            description=f"Workers ran for {shown}: pixel-gather list shows gathers, cancel stops one",
        )

    def _alarm(
        self, name: str, metric: cloudwatch.IMetric, *, threshold: float, description: str, periods: int = 1
    ) -> None:
        """Tell the topic when a metric reaches its threshold; no gathers, no alarm."""
        alarm = cloudwatch.Alarm(
            self,
            name,
            metric=metric,
            threshold=threshold,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
            evaluation_periods=periods,
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
            alarm_description=description,
        )
        alarm.add_alarm_action(actions.SnsAction(self.topic))
