"""A dashboard of what gathers do, alarms on what an operator has to mend, and who is told."""

from collections.abc import Sequence
from typing import Final

from aws_cdk import Aws
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from infra.gather_function import GatherFunction
from infra.gather_metrics import PERIOD, GatherMetrics
from infra.widgets import dashboard_rows
from pixel_gather.telemetry import GATHERS_REFUSED, SOURCES_FAILED, SOURCES_READ

_FAILED_PERCENT: Final = 5
"""Of the sources of 5 minutes; a list with more gaps than that is an alarm worth looking at."""

_NEAR_TIMEOUT: Final = 0.8
"""Share of its time-out that a worker may take."""

_THROTTLED_PERIODS: Final = 3
"""A burst is retried and forgotten; 15 minutes of it mean that the account may run too few workers."""


class Monitoring(Construct):
    """Dashboard, alarms and their topic.

    Where one metric of an expression has no point, neither has the expression: those that are only written
    when there is something to count are filled with 0.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        metrics: GatherMetrics,
        state_machine: sfn.StateMachine,
        functions: Sequence[GatherFunction],
        shard: GatherFunction,
        email: str | None,
    ) -> None:
        super().__init__(scope, construct_id)
        self.topic = self._topic(email)
        throttles = cloudwatch.MathExpression(
            expression=" + ".join(f"FILL(t{index}, 0)" for index in range(len(functions))),
            using_metrics={
                f"t{index}": each.function.metric_throttles(period=PERIOD)
                for index, each in enumerate(functions)
            },
            label="throttled invocations",
            period=PERIOD,
        )
        self._alarm(
            "FailedGather",
            cloudwatch.MathExpression(
                expression="FILL(failed, 0) + FILL(timed_out, 0) - FILL(refused, 0)",
                using_metrics={
                    "failed": state_machine.metric_failed(period=PERIOD),
                    "timed_out": state_machine.metric_timed_out(period=PERIOD),
                    "refused": metrics.sum(GATHERS_REFUSED),
                },
                label="gathers failed or timed out",
                period=PERIOD,
            ),
            threshold=1,
            description="A gather failed or timed out, refusals apart: pixel-gather status ID says why",
        )
        self._alarm(
            "FailedSources",
            cloudwatch.MathExpression(
                expression="100 * FILL(failed, 0) / (FILL(failed, 0) + good)",
                using_metrics={"failed": metrics.sum(SOURCES_FAILED), "good": metrics.sum(SOURCES_READ)},
                label="sources failed, percent",
                period=PERIOD,
            ),
            threshold=_FAILED_PERCENT,
            description=f"{_FAILED_PERCENT} % of sources gave no pixels: the dashboard tells how they failed",
        )
        self._alarm(
            "Throttles",
            throttles,
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
        self.dashboard = cloudwatch.Dashboard(
            self,
            "Dashboard",
            widgets=dashboard_rows(
                metrics=metrics, state_machine=state_machine, shard=shard, throttles=throttles
            ),
        )

    def _topic(self, email: str | None) -> sns.Topic:
        topic = sns.Topic(self, "Alarms", enforce_ssl=True)
        topic.add_to_resource_policy(
            iam.PolicyStatement(
                principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
                actions=["sns:Publish"],
                resources=[topic.topic_arn],
                conditions={"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}},
            )
        )
        if email is not None:
            topic.add_subscription(subscriptions.EmailSubscription(email))
        return topic

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
