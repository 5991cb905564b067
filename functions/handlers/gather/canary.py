"""Lambda entry point: gather the samples and say whether their pixels are right. An alarm watches that.

EventBridge calls it every few hours. The event has the time of the call (``time``), which names the gather. A
call that comes twice waits for one gather.
"""

import json
import time
from collections.abc import Callable
from typing import Any, Final

import boto3
from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext
from msgspec import Struct

from handlers.deployment.settings import Settings
from pixel_gather.core import samples
from pixel_gather.core.metric_names import CANARY_FAILED
from pixel_gather.io.aws.executions import Executions
from pixel_gather.io.aws.metrics import EmfMetrics

_POLL_S: Final = 2.0
_KEPT_S: Final = 30.0
"""Left of the function's time when it gives up, so that it can still say so."""


class Canary(Struct, frozen=True):
    """Gathers the samples of one deployment."""

    executions: Executions
    poll_s: float = _POLL_S

    def sing(self, when: str, *, left_s: Callable[[], float]) -> str | None:
        """Gather the samples and return what is wrong, or None."""
        executions, bucket = self.executions, self.executions.control_bucket
        for index in range(samples.N_SAMPLES):
            executions.s3.put_object(Bucket=bucket, Key=samples.key_of(index), Body=samples.sample(index))
        name = samples.PREFIX + "".join(letter for letter in when if letter.isalnum())
        executions.start(samples.request_of(bucket, name=name, report=False), name=name)
        while (found := executions.find(name)) is None or found["status"] == "RUNNING":
            if left_s() < _KEPT_S:
                return f"{name} has not ended"
            time.sleep(self.poll_s)
        if found["status"] != "SUCCEEDED":
            return f"{name} {found['status']}: {found.get('error')} {found.get('cause')}"
        pixels = json.loads(found["output"])["digest"]
        return None if pixels == samples.PIXELS else f"{name} has other pixels: {pixels}"


settings = Settings.from_environment()
logger = Logger()
metrics = EmfMetrics(stage=settings.stage)
canary = Canary(
    Executions(
        settings.state_machine,
        stepfunctions=boto3.client("stepfunctions"),
        s3=boto3.client("s3"),
        control_bucket=settings.control_bucket,
    )
)


@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Gather the samples, and write whether something is wrong."""
    wrong = canary.sing(event["time"], left_s=lambda: context.get_remaining_time_in_millis() / 1000)
    metrics.write({CANARY_FAILED: [0 if wrong is None else 1]})
    logger.info("canary", extra={"wrong": wrong})
    return {"wrong": wrong}
