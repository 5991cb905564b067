"""The budget of a month: when it is spent, a function halts the deployment.

AWS Budgets sees what AWS bills, some hours late. So an alarm on the dollars of a day by our model, see
`infra.monitoring`, tells the same topic.
"""

from typing import Any, Final

from aws_cdk import Aws, Stack
from aws_cdk import aws_budgets as budgets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from infra.lambda_function import GatherFunction

TAG: Final = "pixel-gather"
"""The tag by which the bill of one stage is told from all others. Its value is the stage."""


class Budget(Construct):
    """The budget, and the topic that calls the function."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        usd: float,
        stage: str,
        halt: GatherFunction,
        email: str | None,
    ) -> None:
        """Make both.

        ``usd`` are dollars of a month. AWS Budgets tells ``email`` of them, too.
        """
        super().__init__(scope, construct_id)
        self.topic = sns.Topic(self, "Spent", enforce_ssl=True)
        self.topic.add_subscription(subscriptions.LambdaSubscription(halt.function))
        budgets_of_account = Stack.of(self).format_arn(service="budgets", region="", resource="*")
        for service, source in (("budgets", budgets_of_account), ("cloudwatch", None)):
            conditions: dict[str, Any] = {"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}}
            if source is not None:
                conditions["ArnLike"] = {"aws:SourceArn": source}
            self.topic.grant_publish(iam.ServicePrincipal(f"{service}.amazonaws.com", conditions=conditions))
        told = [("SNS", self.topic.topic_arn), *([("EMAIL", email)] if email is not None else [])]
        made = budgets.CfnBudget(
            self,
            "Budget",
            budget=budgets.CfnBudget.BudgetDataProperty(
                budget_type="COST",
                time_unit="MONTHLY",
                budget_limit=budgets.CfnBudget.SpendProperty(amount=usd, unit="USD"),
                cost_filters={"TagKeyValue": [f"user:{TAG}${stage}"]},
            ),
            notifications_with_subscribers=[
                budgets.CfnBudget.NotificationWithSubscribersProperty(
                    notification=budgets.CfnBudget.NotificationProperty(
                        notification_type="ACTUAL", comparison_operator="GREATER_THAN", threshold=100
                    ),
                    subscribers=[
                        budgets.CfnBudget.SubscriberProperty(subscription_type=kind, address=address)
                        for kind, address in told
                    ],
                )
            ],
        )
        made.node.add_dependency(self.topic)  # AWS Budgets looks whether it may publish there
