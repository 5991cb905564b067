"""Connects the API's functions to Step Functions and S3. The clients are made once."""

from typing import Any, Final

import boto3
from botocore.config import Config
from msgspec import Struct

from handlers.deployment.settings import Settings
from pixel_gather.io.aws.executions import Executions, SharedLooks

_QUICK: Final = Config(
    connect_timeout=3,
    read_timeout=8,  # API Gateway waits 29 s for the whole answer
    retries={"mode": "standard", "total_max_attempts": 3},
    signature_version="v4",
)
_S3: Final = _QUICK.merge(
    Config(
        signature_version="s3v4",
        # Without these, a presigned address names S3's global host and no Region.
        s3={"addressing_style": "virtual", "us_east_1_regional_endpoint": "regional"},
    )
)


class ControlPlane(Struct, frozen=True, kw_only=True):
    """The gathers of one deployment, and its S3."""

    settings: Settings
    executions: Executions
    s3: Any
    """Client of boto3."""


def open_control_plane(settings: Settings) -> ControlPlane:
    """Make the clients.

    Raises:
        SettingsError: The environment does not name the state machine.
    """
    s3 = boto3.client("s3", config=_S3)
    executions = Executions(
        settings.state_machine,
        stepfunctions=boto3.client("stepfunctions", config=_QUICK),
        s3=s3,
        control_bucket=settings.control_bucket,
        looks=SharedLooks(),
    )
    return ControlPlane(settings=settings, executions=executions, s3=s3)
