"""A deployment reached by its state machine and bucket, without the API."""

import base64
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from pixel_gather.core.errors import GatherNotFoundError, RequestError
from pixel_gather.core.request.naming import execution_name, with_random_name
from pixel_gather.core.request.request import GatherRequest
from pixel_gather.io.aws.aws_errors import aws_errors_in_words
from pixel_gather.io.aws.executions import Executions
from pixel_gather.io.aws.uploaded_lists import is_uploaded, key_of_list
from pixel_gather_cli.deployment.aws_account import AwsAccount
from pixel_gather_cli.deployment.deployment import Kind, LocalList

_OF_TABLES: Final = ("points-", "zones-", "ranking-")
"""What the ids of tables begin with."""


class DirectDeployment:
    """Implements `pixel_gather_cli.deployment.deployment.RemoteDeployment` on Step Functions and S3."""

    def __init__(self, *, account: AwsAccount, state_machine_arn: str, control_bucket: str) -> None:
        self._bucket = control_bucket
        self._s3 = account.client("s3")
        self._executions = Executions(
            state_machine_arn,
            stepfunctions=account.client("stepfunctions"),
            s3=self._s3,
            control_bucket=control_bucket,
        )

    def submit(self, request: GatherRequest, *, force: bool) -> dict[str, Any]:
        """Start a gather, or find the one with the same request."""
        wanted = with_random_name(request) if force else request
        name = execution_name(wanted, day=datetime.now(UTC).date().isoformat())
        is_append = wanted.output.append_to is not None
        return self._executions.submit(wanted.to_json(), name=name, again=is_append)

    def keep_list(self, listed: LocalList) -> str:
        """Upload a list file unless a recent copy is there."""
        key = key_of_list(listed.sha256, listed.suffix)
        checksum = base64.b64encode(bytes.fromhex(listed.sha256)).decode()
        with aws_errors_in_words():
            if not is_uploaded(self._s3, self._bucket, key):
                self._s3.put_object(Bucket=self._bucket, Key=key, Body=listed.file, ChecksumSHA256=checksum)
        return f"s3://{self._bucket}/{key}"

    def status(self, id_: str) -> dict[str, Any]:
        """Describe one gather."""
        return _about(id_, self._executions.status)

    def list_(self, *, limit: int, token: str | None, state: str | None, kind: Kind) -> dict[str, Any]:
        """Return one page of gathers.

        Raises:
            RequestError: Tables are asked for. They have a state machine of their own.
        """
        if kind != "gather":
            raise RequestError("tables are listed by the API: leave it out", field="--direct")
        return self._executions.list_(limit=limit, token=token, state=state)

    def stop(self, id_: str) -> dict[str, Any]:
        """Stop a gather."""
        return _about(id_, self._executions.stop)

    def limit(self, id_: str, workers: int) -> dict[str, Any]:
        """Change the workers of a running gather."""
        return _about(id_, self._executions.limit, workers)

    def redrive(self, id_: str) -> dict[str, Any]:
        """Run the missing parts."""
        return _about(id_, self._executions.redrive)


def _about(id_: str, do: Callable[..., dict[str, Any]], *rest: int) -> dict[str, Any]:
    """Do something with a gather. Tables have a state machine of their own, so their ids need the API."""
    try:
        return do(id_, *rest)
    except GatherNotFoundError as error:
        if not id_.startswith(_OF_TABLES):
            raise
        raise RequestError(
            f"{id_} is a table or a ranking, which needs the API: leave it out", field="--direct"
        ) from error
