"""A client of the deployed API that uses only boto3's signature and plain HTTP."""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import urllib3
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from pixel_gather.core.samples import N_SAMPLES, key_of, request_of, sample
from pixel_gather_emulator.deploy import DeployedStack

ENDED: Final = {"succeeded", "failed", "stopped", "timed_out"}
_LONGEST_CALL_S: Final = 300.0
"""A call waits until a worker of its function is free. AWS would have started another."""

UNDRAWN: Final = {"report": False}
"""Part of ``output`` of requests that are not about the report, which takes seconds to draw."""


@dataclass(frozen=True)
class Answered:
    """One answer of the API."""

    status: int
    content_type: str
    body: Any
    etag: str


def call(
    deployment: DeployedStack,
    method: str,
    path: str,
    body: Any = None,
    *,
    signed: bool = True,
    headers: Mapping[str, str] | None = None,
) -> Answered:
    """Send one request, signed with the operator's credentials."""
    content = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    request = AWSRequest(
        method=method,
        url=f"{deployment.api_url}{path}",
        data=content,
        headers={"Content-Type": "application/json", **(headers or {})},
    )
    if signed:
        emulator = deployment.emulator
        credentials = Credentials(emulator.access_key, emulator.secret_key)
        SigV4Auth(credentials, "execute-api", deployment.region).add_auth(request)
    pool = _connections(str(deployment.emulator.bundle))
    answer = pool.request(
        method, request.url, body=content, headers=dict(request.headers), timeout=_LONGEST_CALL_S
    )
    text = answer.data.decode()
    return Answered(
        status=answer.status,
        content_type=answer.headers.get("Content-Type", "").partition(";")[0],
        body=json.loads(text) if text else None,
        etag=answer.headers.get("ETag", ""),
    )


@cache
def _connections(bundle: str) -> urllib3.PoolManager:
    """Return connections that stay open. A new one costs more than a request, and tests send hundreds."""
    return urllib3.PoolManager(ca_certs=bundle, retries=False)


def wait_for(
    deployment: DeployedStack, id_: str, *, longest_s: float = 120, kind: str = "gathers"
) -> dict[str, Any]:
    """Poll a gather, or one of the ``tables``, through the API until it has ended."""
    until = time.monotonic() + longest_s
    while True:
        document: dict[str, Any] = call(deployment, "GET", f"/{kind}/{id_}").body
        if document["state"] in ENDED:
            return document
        assert time.monotonic() < until, document
        time.sleep(0.3)


def execution_arn(deployment: DeployedStack, id_: str) -> str:
    """Return the ARN of a gather's execution."""
    return f"{deployment.state_machine_arn.replace(':stateMachine:', ':execution:')}:{id_}"


def gathered(deployment: DeployedStack, request: dict[str, Any]) -> dict[str, Any]:
    """Submit a request and wait for its end."""
    answered = call(deployment, "POST", "/gathers", request)
    assert answered.status == 202, answered
    return wait_for(deployment, answered.body["id"])


def slow_request(deployment: DeployedStack, name: str) -> dict[str, Any]:
    """Put the samples, and return a gather that reads four of them a second, for as long as a test needs.

    Its plan opens 16 of them, at the same pace.
    """
    s3, bucket = deployment.client("s3"), deployment.control_bucket
    for index in range(N_SAMPLES):
        s3.put_object(Bucket=bucket, Key=key_of(index), Body=sample(index))
    request = request_of(bucket, name=name, report=False)
    return {
        **request,
        "sources": {"hrefs": request["sources"]["hrefs"] * 24},
        "limits": {"workers": 2, "requests_per_s": {f"s3://{bucket}": 4}},
    }


@contextmanager
def refused_writes(deployment: DeployedStack, keys: str, *, of: str = "") -> Iterator[None]:
    """Let the array bucket refuse some keys, as a policy or a full quota would, and take all others.

    Args:
        deployment: Whose array bucket.
        keys: One key, or several by ``*``.
        of: Whose writes: those of the functions with this word in their handler. Everybody's if not given.
    """
    functions = deployment.client("lambda").list_functions()["Functions"] if of else ()
    roles = [each["Role"] for each in functions if of in each["Handler"]]
    s3 = deployment.client("s3")
    kept = s3.get_bucket_policy(Bucket=deployment.array_bucket)["Policy"]
    policy = json.loads(kept)
    policy["Statement"].append(
        {
            "Effect": "Deny",
            "Principal": {"AWS": roles} if of else "*",
            "Action": "s3:PutObject",
            "Resource": f"arn:aws:s3:::{deployment.array_bucket}/{keys}",
        }
    )
    s3.put_bucket_policy(Bucket=deployment.array_bucket, Policy=json.dumps(policy))
    try:
        yield
    finally:
        s3.put_bucket_policy(Bucket=deployment.array_bucket, Policy=kept)
