"""Schedules: at each tick, one function starts the gather that brings a cube up to date.

The schedules of the settings and those that `pixel-gather schedule` adds lie in one group. They share one
role, which may only call the function of ticks. A tick that Scheduler or Lambda gives up is kept in a queue.
Once an hour, another function writes how late the schedules are.
"""

import json
from collections.abc import Sequence
from typing import Final

from aws_cdk import Aws, Duration, Stack
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.grant import acknowledge, allow
from infra.lambda_function import GatherFunction
from pixel_gather.core.schedule import FROM_SETTINGS, LONGEST_DELAY_S, N_RETRIES, Schedule

_KEPT: Final = Duration.days(14)
"""SQS keeps no message longer."""


class Schedules(Construct):
    """The group, its role, and the schedules of the settings."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        tick: GatherFunction,
        watch: GatherFunction,
        schedules: Sequence[Schedule],
    ) -> None:
        super().__init__(scope, construct_id)
        # All schedules, those of the settings and those made by hand, share a group and a role.
        stack = Stack.of(self)
        self.group_name = stack.stack_name
        group = scheduler.CfnScheduleGroup(self, "Group", name=self.group_name)
        self.role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal(
                "scheduler.amazonaws.com",
                conditions={
                    "StringEquals": {
                        "aws:SourceAccount": Aws.ACCOUNT_ID,
                        "aws:SourceArn": stack.format_arn(
                            service="scheduler", resource="schedule-group", resource_name=self.group_name
                        ),
                    }
                },
            ),
            description="What schedules of Pixel Gather may do: call the function of ticks",
        )
        allow(self.role, ["lambda:InvokeFunction"], tick.function.function_arn)
        # Ticks that cannot be delivered go to a queue. Every hour, watch tells how late the schedules are.
        self.lost_ticks = self._queue(tick)
        self._call_hourly(watch)
        # The schedules of the settings.
        for each in schedules:
            made = scheduler.CfnSchedule(
                self,
                f"Of-{each.name}",
                name=each.name,
                group_name=self.group_name,
                description=FROM_SETTINGS,
                schedule_expression=each.every,
                flexible_time_window=scheduler.CfnSchedule.FlexibleTimeWindowProperty(mode="OFF"),
                target=scheduler.CfnSchedule.TargetProperty(
                    arn=tick.function.function_arn,
                    role_arn=self.role.role_arn,
                    input=json.dumps(each.event()),
                    dead_letter_config=scheduler.CfnSchedule.DeadLetterConfigProperty(
                        arn=self.lost_ticks.queue_arn
                    ),
                    retry_policy=scheduler.CfnSchedule.RetryPolicyProperty(
                        maximum_event_age_in_seconds=LONGEST_DELAY_S, maximum_retry_attempts=N_RETRIES
                    ),
                ),
            )
            made.add_dependency(group)
            made.node.add_dependency(self.role)  # and on its rights: a rate ticks as soon as it is made

    def _call_hourly(self, watch: GatherFunction) -> None:
        """Let EventBridge call the function that looks at the schedules, which may see them."""
        group = events.RuleTargetInput.from_object({"group": self.group_name})
        events.Rule(
            self,
            "Hourly",
            description="Has the lateness of schedules written, for an alarm",
            schedule=events.Schedule.rate(Duration.hours(1)),
            targets=[targets.LambdaFunction(watch.function, event=group)],
        )
        self.grant(watch.role, "scheduler:GetSchedule")

    def grant(self, holder: iam.Role | iam.ManagedPolicy, *actions: str) -> None:
        """Allow actions on the schedules of the group, and listing schedules."""
        group = f"{self.group_name}/*"
        arn = Stack.of(self).format_arn(service="scheduler", resource="schedule", resource_name=group)
        allow(holder, actions, arn, wildcard="schedules to come, of the stack's own group alone")
        allow(
            holder,
            ["scheduler:ListSchedules"],
            "*",
            wildcard="the list of schedules is the account's; IAM knows no resource for it",
        )

    def _queue(self, tick: GatherFunction) -> sqs.Queue:
        """Make the queue of ticks that were given up. Scheduler and Lambda both put ticks there.

        Scheduler only hands a tick over. If the function then fails, Lambda tries it again and gives it up.
        """
        queue = sqs.Queue(
            self,
            "LostTicks",
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            retention_period=_KEPT,
        )
        acknowledge(queue, "SQS3", "it is the queue for what failed")
        for role in (self.role, tick.role):
            allow(role, ["sqs:SendMessage"], queue.queue_arn)
        # Lambda looks whether the role may put there. It may: the function is made after its role's rights.
        lambda_.CfnEventInvokeConfig(
            self,
            "TicksThatFail",
            function_name=tick.function.function_name,
            qualifier="$LATEST",
            maximum_retry_attempts=2,
            destination_config=lambda_.CfnEventInvokeConfig.DestinationConfigProperty(
                on_failure=lambda_.CfnEventInvokeConfig.OnFailureProperty(destination=queue.queue_arn)
            ),
        )
        return queue
