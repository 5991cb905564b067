"""A dashboard, alarms for the operator, and the topic that both alarms and failures go to."""

import json
import math
from collections.abc import Sequence
from typing import Final

from aws_cdk import Aws, Duration
from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from infra.functions import Functions
from infra.gather_metrics import PERIOD, GatherMetrics
from infra.lambda_function import GatherFunction
from infra.schedules import Schedules
from infra.settings import Settings
from infra.widgets import dashboard_rows
from pixel_gather.core.errors import REFUSALS
from pixel_gather.core.estimate.pricing import USD_PER_GB_S
from pixel_gather.core.metric_names import (
    CANARY_FAILED,
    SCHEDULE_LATENESS,
    SOURCES_FAILED,
    SOURCES_READ,
    SPENT_USD,
)
from pixel_gather.core.schedule import TICK_PREFIX

_FAILED_PERCENT: Final = 5
"""Percent of the sources read in 5 minutes."""

_NEAR_TIMEOUT: Final = 0.8
"""The share of its time-out that a worker may take."""

_THROTTLED_PERIODS: Final = 3
"""A burst is retried. 15 minutes of throttling mean that the account may run too few workers."""


_FAILED_TRIES_PERCENT: Final = 10
_FEWEST_FAILED_TRIES: Final = 3
"""In five minutes. One late shard of a small gather is retried. A gather of a minute has one period."""

_NEAR_QUOTA: Final = 0.95
"""Share of the account's concurrency. Gathers take nine tenths at most."""

_API_ERRORS: Final = 5
"""In 5 minutes. A single error may be a list that takes longer than 29 seconds to plan."""

_DAY: Final = Duration.days(1)
_HOUR: Final = Duration.hours(1)

_LATE_PAUSES: Final = 3
"""A schedule that fails once is on time again after two pauses."""

_HOURS_UNSEEN: Final = 3
"""An hour without data may be a deployment's. Three are a function that does not run."""

_NOTICE: Final = (
    "Gather or table <name>: <status> <error>. pixel-gather status <name> says why; pixel-gather redrive "
    "<name> runs again what failed."
)


class Monitoring(Construct):
    """Dashboard, alarms and their topic.

    An expression has no value where one of its metrics has none, and ``FILL`` does not fill a metric that was
    never written. So each alarm uses one metric, or two that are always written together.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        settings: Settings,
        *,
        state_machine: sfn.StateMachine,
        tables: sfn.StateMachine,
        functions: Functions,
        api: apigateway.RestApi,
        schedules: Schedules,
    ) -> None:
        super().__init__(scope, construct_id)
        self._metrics = metrics = GatherMetrics(settings.stage)
        self.topic = self._topic(settings.alarm_email)
        # Do jobs end, and do their sources give pixels?
        self._report_failures(state_machine, tables)
        self._alarm(
            "FailedSources",
            cloudwatch.MathExpression(
                expression="100 * failed / (failed + good)",
                using_metrics={"failed": metrics.sum(SOURCES_FAILED), "good": metrics.sum(SOURCES_READ)},
                label="sources failed, percent",
                period=PERIOD,
            ),
            threshold=_FAILED_PERCENT,
            description=f"{_FAILED_PERCENT} % of sources gave no pixels: the dashboard shows each status",
        )
        # Do the functions work?
        workers = [(each, f"{each.memory_mib:,} MiB") for each in functions.shards]
        workers.append((functions.read_images, "tables"))
        for worker, of in workers:
            self._watch_worker(worker, of)
        for name, function in (
            ("Plan", functions.plan),
            ("Finish", functions.finish),
            ("PlanTable", functions.plan_table),
        ):
            self._alarm(
                f"{name}Errors",
                function.function.metric_errors(period=PERIOD),
                description=f"{name} ended in an error, no refusal: its log says why, and it is tried again",
            )
        # Do schedules start their gathers?
        self._alarm(
            "TickErrors",
            functions.tick.function.metric_errors(period=PERIOD),
            description="A schedule could not start its gather: the log of the function tick says why",
        )
        self._watch_scheduler(schedules, metrics)
        # Does the account allow what runs, does the API answer, and what does all of it cost?
        self._alarm(
            "NearQuota",
            lambda_.Function.metric_all_concurrent_executions(statistic="Maximum", period=PERIOD),
            threshold=math.ceil(_NEAR_QUOTA * settings.account_concurrency),
            periods=_THROTTLED_PERIODS,
            description=f"The account runs {_NEAR_QUOTA:.0%} of the functions that it may, all applications "
            "together: raise its quota or lower max_workers",
        )
        self._alarm(
            "ApiErrors",
            api.metric_server_error(period=PERIOD, statistic="Sum"),
            threshold=_API_ERRORS,
            description="The API fails to answer: the logs of submit, status, search, dry_run, rank and "
            "answer_tables say why",
        )
        if settings.alarm_usd_per_day is not None:
            self._alarm_on_dollars(settings.alarm_usd_per_day, metrics=metrics, workers=workers)
        self.dashboard = cloudwatch.Dashboard(
            self,
            "Dashboard",
            widgets=dashboard_rows(
                metrics=metrics,
                state_machine=state_machine,
                tables=tables,
                workers=workers,
                throttles=[each.function.metric_throttles(period=PERIOD) for each in functions.every],
                search=functions.search,
                rank=functions.rank,
                api=api,
            ),
        )

    def call_canary(self, canary: GatherFunction, *, every: Duration) -> None:
        """Have the samples gathered every few hours, and watch whether their pixels are right.

        Two in a row have to be wrong: each comes at its own minute of a period. If they cease, that is told.
        """
        events.Rule(
            self,
            "CanaryRule",
            description="Has the samples gathered, for an alarm",
            schedule=events.Schedule.rate(every),
            targets=[targets.LambdaFunction(canary.function)],
        )
        self._alarm(
            "Canary",
            self._metrics.most(CANARY_FAILED, period=every),
            periods=2,
            is_missed=True,
            description="Gathers of the samples fail, give other pixels or do not run: the log of the "
            "function canary says why",
        )

    def watch_budget(self, halt: GatherFunction, *, usd: float, spent: sns.ITopic) -> None:
        """Have the deployment halted by a day that costs as much as a month may, and tell of each halt."""
        self._alarm(
            "MonthInADay",
            self._metrics.sum(SPENT_USD, period=_DAY),
            threshold=usd,
            description=f"Gathers of one day cost ${usd:,g} by our model, the budget of a month: all halts",
            topic=spent,
        )
        self._alarm(
            "BudgetSpent",
            halt.function.metric_invocations(period=PERIOD),
            description="The budget of the month is spent: nothing begins until the next one, or until "
            "scripts/deploy budget --resume",
        )
        self._alarm(
            "HaltErrors",
            halt.function.metric_errors(period=PERIOD),
            description="The function halt has failed: its log says why, and scripts/deploy budget "
            "--halt does the same",
        )

    def _watch_scheduler(self, schedules: Schedules, metrics: GatherMetrics) -> None:
        """Watch ticks that Scheduler cannot hand over, that were given up, or that are missing."""
        self._alarm(
            "LateSchedule",
            metrics.most(SCHEDULE_LATENESS, period=_HOUR),
            threshold=_LATE_PAUSES,
            periods=_HOURS_UNSEEN,
            is_missed=True,
            description=f"No gather of a schedule has succeeded for {_LATE_PAUSES} of its periods: the log "
            "of the function watch names it. Or that function does not run",
        )
        for metric, what in (
            ("TargetErrorCount", "Scheduler could not call the function tick, and tries again"),
            ("InvocationDroppedCount", "Scheduler has given up a tick: it lies in the queue of lost ticks"),
        ):
            self._alarm(
                f"Scheduler{metric.removesuffix('Count')}",
                cloudwatch.Metric(
                    namespace="AWS/Scheduler",
                    metric_name=metric,
                    dimensions_map={"ScheduleGroup": schedules.group_name},
                    statistic="Sum",
                    period=PERIOD,
                ),
                description=what,
            )
        self._alarm(
            "LostTicks",
            schedules.lost_ticks.metric_approximate_number_of_messages_visible(
                period=PERIOD, statistic="Maximum"
            ),
            description="A tick was given up: the message in the queue of lost ticks says why. The next tick "
            "looks for the same scenes. Purge the queue when the cause is mended",
        )

    def _watch_worker(self, worker: GatherFunction, of: str) -> None:
        """Watch one of the functions that fill shards, or that which measures scenes.

        A gather calls only one of the functions that fill shards. ``of`` tells them apart.
        """
        self._alarm(
            f"{worker.node.id}Throttles",
            worker.function.metric_throttles(period=PERIOD),
            periods=_THROTTLED_PERIODS,
            description=f"Lambda throttles workers of {of}: lower max_workers or raise the account's quota",
        )
        self._alarm(
            f"{worker.node.id}Slow",
            worker.function.metric_duration(period=PERIOD, statistic="Maximum"),
            threshold=_NEAR_TIMEOUT * worker.timeout.to_milliseconds(),
            description=f"A worker of {of} came near its time-out: sources are slow, or it has too many",
        )
        self._alarm(
            f"{worker.node.id}Errors",
            cloudwatch.MathExpression(
                expression=f"IF(errors >= {_FEWEST_FAILED_TRIES}, 100 * errors / invocations, 0)",
                using_metrics={
                    "errors": worker.function.metric_errors(period=PERIOD),
                    "invocations": worker.function.metric_invocations(period=PERIOD),
                },
                label=f"failed tries by workers of {of}, percent",
                period=PERIOD,
            ),
            threshold=_FAILED_TRIES_PERCENT,
            description=f"{_FAILED_TRIES_PERCENT} % of tries by workers of {of} fail: their log says why",
        )

    def _topic(self, email: str | None) -> sns.Topic:
        topic = sns.Topic(self, "Alarms", enforce_ssl=True)
        # IfExists: EventBridge's documentation does not say that it sends the account with a message.
        for service, operator in (("cloudwatch", "StringEquals"), ("events", "StringEqualsIfExists")):
            of_account = {operator: {"aws:SourceAccount": Aws.ACCOUNT_ID}}
            topic.grant_publish(iam.ServicePrincipal(f"{service}.amazonaws.com", conditions=of_account))
        if email is not None:
            topic.add_subscription(subscriptions.EmailSubscription(email))
        return topic

    def _report_failures(self, *state_machines: sfn.StateMachine) -> None:
        """Send the name of each gather or table that fails or times out. Refusals are not sent.

        Refusals of scheduled gathers are sent too: nobody waits for their answer.
        The Map's children are executions as well. They are not sent: the ARN of their state machine ends in
        the Map's label.
        """
        detail = {
            "stateMachineArn": [each.state_machine_arn for each in state_machines],
            "$or": [
                {"status": ["TIMED_OUT"]},
                {"status": ["FAILED"], "error": [{"exists": False}, {"anything-but": list(REFUSALS)}]},
                {"status": ["FAILED"], "name": [{"prefix": TICK_PREFIX}]},
            ],
        }
        events.CfnRule(
            self,
            "FailedGather",
            description="Sends the names of gathers and tables that failed or timed out to the topic",
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

    def _alarm_on_dollars(
        self, usd_per_day: float, *, metrics: GatherMetrics, workers: Sequence[tuple[GatherFunction, str]]
    ) -> None:
        """Watch the dollars that workers report, and the time that Lambda reports for each function.

        The first counts requests and state transitions as well. The second counts workers that were killed
        before they could report.
        """
        shown = f"${usd_per_day:,g} in a day"
        self._alarm(
            "DollarsSpent",
            metrics.sum(SPENT_USD, period=_DAY),
            threshold=usd_per_day,
            description=f"Gathers cost {shown} by our model: pixel-gather list shows them, cancel stops one",
        )
        for worker, of in workers:
            usd_per_ms = worker.memory_mib / 1024 * USD_PER_GB_S / 1000
            self._alarm(
                f"{worker.node.id}Dollars",
                worker.function.metric_duration(period=_DAY, statistic="Sum"),
                threshold=round(usd_per_day / usd_per_ms),
                description=f"Workers of {of} ran for {shown}: pixel-gather list shows gathers, and with "
                "--tables tables; cancel stops one",
            )

    def _alarm(
        self,
        name: str,
        metric: cloudwatch.IMetric,
        *,
        description: str,
        threshold: float = 1,
        periods: int = 1,
        is_missed: bool = False,
        topic: sns.ITopic | None = None,
    ) -> None:
        """Notify a topic when a metric reaches its threshold.

        So many periods in a row have to reach the threshold. If data are missed, it is also notified when
        they cease after there were some. A new alarm has no data yet, and waits for them. Otherwise missing
        data count as good.
        """
        missing = cloudwatch.TreatMissingData
        alarm = cloudwatch.Alarm(
            self,
            name,
            metric=metric,
            threshold=threshold,
            evaluation_periods=periods,
            treat_missing_data=missing.MISSING if is_missed else missing.NOT_BREACHING,
            alarm_description=description,
        )
        if is_missed:
            alarm.add_insufficient_data_action(actions.SnsAction(self.topic))
        alarm.add_alarm_action(actions.SnsAction(topic or self.topic))
