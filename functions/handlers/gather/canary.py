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

    state_machine_arn: str
    control_bucket: str
    stepfunctions: Any
    """boto3's client of Step Functions."""

    s3: Any
    """boto3's client of S3."""

    poll_s: float = _POLL_S

    def sing(self, when: str, *, left_s: Callable[[], float]) -> str | None:
        """Gather the samples and return what is wrong, or None."""
        for index in range(samples.N_SAMPLES):
            key = samples.key_of(index)
            self.s3.put_object(Bucket=self.control_bucket, Key=key, Body=samples.sample(index))
        name = samples.PREFIX + "".join(letter for letter in when if letter.isalnum())
        request = samples.request_of(self.control_bucket, name=name, report=False)
        executions = Executions(
            self.state_machine_arn,
            stepfunctions=self.stepfunctions,
            s3=self.s3,
            control_bucket=self.control_bucket,
        )
        executions.start(request, name=name)
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
    settings.state_machine, settings.control_bucket, boto3.client("stepfunctions"), boto3.client("s3")
)


@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Gather the samples, and write whether something is wrong."""
    wrong = canary.sing(event["time"], left_s=lambda: context.get_remaining_time_in_millis() / 1000)
    metrics.write({CANARY_FAILED: [0 if wrong is None else 1]})
    logger.info("canary", extra={"wrong": wrong})
    return {"wrong": wrong}
