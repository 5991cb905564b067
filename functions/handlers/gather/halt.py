"""Lambda entry point: the month's budget is spent, so let nothing begin and what runs have one worker.

AWS Budgets calls it through a topic, and so does the alarm on the dollars of a day. What they say does not
matter. A second call does the same again.
"""

from typing import Any

import boto3
from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.deployment.settings import Settings
from pixel_gather.io.aws.executions import Executions
from pixel_gather.io.aws.halt import Switch

settings = Settings.from_environment()
logger = Logger()
_clients: dict[str, Any] = {name: boto3.client(name) for name in ("stepfunctions", "s3")}
switch = Switch(
    gathers=Executions(settings.state_machine, control_bucket=settings.control_bucket, **_clients),
    tables=Executions(
        settings.table_state_machine, control_bucket=settings.control_bucket, kind="table", **_clients
    ),
)


@logger.inject_lambda_context(clear_state=True)
def handler(_event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Halt the deployment."""
    limited = switch.halt(left_s=lambda: context.get_remaining_time_in_millis() / 1000)
    logger.warning("halted", extra={"limited": limited})
    return {"limited": limited}
