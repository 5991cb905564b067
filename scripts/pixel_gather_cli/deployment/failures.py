"""Lets things fail on purpose in a deployment, and sees whether the stack takes it as it should."""

import io
import json
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final

from pixel_gather.core import samples
from pixel_gather.io.aws.aws_errors import aws_errors_in_words
from pixel_gather_cli.deployment.findings import Finding, check_needed
from pixel_gather_cli.deployment.smoke import SHARD, DeployedStack

_DENIED: Final = (3, 4, 5)
"""Shards that may not be written. They are more than the map tolerates."""

_SID: Final = "PixelGatherCheck"
_NOTICE_S: Final = 120.0
_SETTLES_S: Final = 60.0
"""A new policy may take so long to hold in all of S3."""

_OF_ALARMS: Final = "Monitoring"
"""Beginning of the topic's name in the template. The budget has a topic of its own."""

_KNOWN_CRASHES: Final = ("Lambda.Unknown", "Runtime.OutOfMemory", "Runtime.ExitError")
"""As `_CRASHED` in ``infra/state_machine_definition.py``; a test compares them."""

_LEAST_FILES: Final = 1024
"""Open files that a worker of the highest concurrency needs."""

_PROBE: Final = """
import json, os, resource, threading


def handler(event, context):
    if event.get("eats"):
        held = []
        while len(held) < 512:
            held.append(os.urandom(2**20))
        return {"held_mib": len(held)}
    threads = []
    for _ in range(64):
        thread = threading.Thread(target=threading.Event().wait, args=[1.0])
        thread.start()
        threads.append(thread)
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return {"shm": os.access("/dev/shm", os.W_OK), "files": files, "threads": len(threads)}
"""
_BOOTSTRAP: Final = """#!/bin/sh
exec "${PIXEL_GATHER_EMULATOR_PYTHON:-python3}" - <<'PYTHON'
import json, os, sys
from urllib.request import Request, urlopen

sys.path.insert(0, os.environ.get("LAMBDA_TASK_ROOT", "."))
import probe

api = f"http://{os.environ['AWS_LAMBDA_RUNTIME_API']}/2018-06-01/runtime/invocation"
while True:
    with urlopen(f"{api}/next") as asked:
        id_, event = asked.headers["Lambda-Runtime-Aws-Request-Id"], json.load(asked)
    answer = json.dumps(probe.handler(event, None)).encode()
    urlopen(Request(f"{api}/{id_}/response", data=answer, method="POST")).close()
PYTHON
"""
"""Runs the probe where Lambda's Python is missing: in the emulator."""


def fail_on_purpose(stack: DeployedStack) -> Iterator[Finding]:
    """Yield what becomes of a gather whose shards cannot be written, and of a worker without memory."""
    with aws_errors_in_words():
        yield from _failing_gather(stack)
        yield from _probe(stack)


def _failing_gather(stack: DeployedStack) -> Iterator[Finding]:
    name = f"{samples.PREFIX}fails-{datetime.now(UTC):%Y%m%dT%H%M%S}"
    stack.put_samples()
    request: dict[str, Any] = json.loads(
        json.dumps(samples.request_of(stack.control_bucket, name=name, report=False))
    )
    request["sources"]["hrefs"].append(f"s3://{stack.control_bucket}/{samples.FOLDER}missing.tif")
    with _notices(stack) as heard, _refused_shards(stack, name):
        arn = stack.start(request, name)
        ended = stack.wait(arn)
        is_told = stack.wait_until(lambda: any(name in each for each in heard()), longest_s=_NOTICE_S)
    _, children = stack.map_run(arn)
    failed = [each for each in children if each["status"] == "FAILED"]
    errors = {
        str(stack.stepfunctions.describe_execution(executionArn=each["executionArn"]).get("error"))
        for each in failed
    }
    yield check_needed(
        "a gather fails if more shards fail than are tolerated",
        assumed="States.ExceedToleratedFailureThreshold",
        measured=f"{ended.get('error')}; its children: {', '.join(sorted(errors))}",
        is_so=ended["status"] == "FAILED",
        otherwise=f"see pixel-gather status {name}",
    )
    yield check_needed(
        "the topic takes events of EventBridge",
        assumed="a notice with the name of the gather",
        measured="it came" if is_told else f"none in {_NOTICE_S:.0f} s",
        is_so=is_told,
        otherwise="remove the condition for events in _topic of infra/monitoring.py",
    )
    yield from _redriven(stack, arn)


def _redriven(stack: DeployedStack, arn: str) -> Iterator[Finding]:
    stack.stepfunctions.redrive_execution(executionArn=arn)
    ended = stack.wait(arn, n_redrives=1)
    is_whole = ended["status"] == "SUCCEEDED"
    yield check_needed(
        "a redrive runs the map again after its own failure",
        assumed="SUCCEEDED",
        measured=str(ended["status"]),
        is_so=is_whole,
        otherwise="submit the same request again: it always goes on",
    )
    if is_whole:
        statuses = json.loads(ended["output"])["status"]
        yield Finding(
            what="S3's answer about a missing object to a role that may not list",
            assumed="403: denied",
            measured=", ".join(f"{n} {name}" for name, n in statuses.items() if name != "ok"),
            to_do="" if statuses.get("denied") == 1 else "nothing breaks: read `missing` for `denied`",
        )


@contextmanager
def _refused_shards(stack: DeployedStack, name: str) -> Iterator[None]:
    """Let the bucket refuse some shards of one cube. A statement that an earlier check left is removed."""
    bucket = stack.array_bucket
    policy = json.loads(stack.s3.get_bucket_policy(Bucket=bucket)["Policy"])
    kept = [each for each in policy["Statement"] if each.get("Sid") != _SID]
    arn = f"arn:{stack.machine.split(':')[1]}:s3:::{bucket}"
    denied = {
        "Sid": _SID,
        "Effect": "Deny",
        "Principal": "*",
        "Action": "s3:PutObject",
        "Resource": [f"{arn}/*{name}.zarr/band_1/c/{index}/*" for index in _DENIED],
    }
    _put_policy(stack, policy | {"Statement": [*kept, denied]})
    try:
        yield
    finally:
        _put_policy(stack, policy | {"Statement": kept})


def _put_policy(stack: DeployedStack, policy: dict[str, Any]) -> None:
    stack.s3.put_bucket_policy(Bucket=stack.array_bucket, Policy=json.dumps(policy))
    if not stack.is_emulated:
        time.sleep(_SETTLES_S)


@contextmanager
def _notices(stack: DeployedStack) -> Iterator[Any]:
    """Listen to the stack's topic by a queue of our own. Yields a function that returns what has come."""
    sns, sqs = stack.account.client("sns"), stack.account.client("sqs")
    topics = stack.resources("AWS::SNS::Topic")
    (topic,) = (arn for name, arn in topics.items() if name.startswith(_OF_ALARMS))
    url = sqs.create_queue(QueueName=f"{stack.stack}-check-{int(time.time())}")["QueueUrl"]
    try:
        arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        allowed = {
            "Effect": "Allow",
            "Principal": {"Service": "sns.amazonaws.com"},
            "Action": "sqs:SendMessage",
            "Resource": arn,
            "Condition": {"ArnEquals": {"aws:SourceArn": topic}},
        }
        policy = json.dumps({"Version": "2012-10-17", "Statement": [allowed]})
        sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": policy})
        subscribed = sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn, ReturnSubscriptionArn=True)[
            "SubscriptionArn"
        ]
        try:
            yield lambda: [
                each["Body"]
                for each in sqs.receive_message(QueueUrl=url, WaitTimeSeconds=1).get("Messages", ())
            ]
        finally:
            sns.unsubscribe(SubscriptionArn=subscribed)
    finally:
        sqs.delete_queue(QueueUrl=url)


def _probe(stack: DeployedStack) -> Iterator[Finding]:
    """Run a small function with the worker's role: what it may open, and how it dies without memory."""
    # A function of few lines, on the machine and with the role of a worker.
    worker = next(each for each in stack.functions.values() if each["Handler"].split(".")[-2] == SHARD)
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("probe.py", _PROBE)
        executable = zipfile.ZipInfo("bootstrap")
        executable.external_attr = 0o755 << 16
        archive.writestr(executable, _BOOTSTRAP)
    name = f"{stack.stack}-check-{int(time.time())}"
    stack.lambda_.create_function(
        FunctionName=name,
        Runtime=worker["Runtime"],
        Architectures=worker["Architectures"],
        Role=worker["Role"],
        Handler="probe.handler",
        Code={"ZipFile": content.getvalue()},
        MemorySize=128,
        Timeout=60,
    )
    # It tells what it has, then it takes more memory than it may. It does not outlive the check.
    try:
        stack.lambda_.get_waiter("function_active_v2").wait(FunctionName=name)
        machine = _invoke(stack, name, {})
        eaten = _invoke(stack, name, {"eats": True})
    finally:
        stack.lambda_.delete_function(FunctionName=name)
    # Is that what the stack assumes?
    yield check_needed(
        "what a worker may use",
        assumed=f"{_LEAST_FILES:,} open files and 64 threads; no /dev/shm is needed",
        measured=f"{machine.get('files')} open files, {machine.get('threads')} threads, "
        f"{'with' if machine.get('shm') else 'without'} /dev/shm",
        is_so=int(machine.get("files", 0)) >= _LEAST_FILES,
        otherwise="lower worker_concurrency",
    )
    error = str(eaten.get("errorType", "none"))
    yield check_needed(
        "error of a worker that is killed for lack of memory",
        assumed=" or ".join(_KNOWN_CRASHES),
        measured=error,
        is_so=error in _KNOWN_CRASHES,
        otherwise="add its name to _CRASHED in infra/state_machine_definition.py",
    )


def _invoke(stack: DeployedStack, name: str, event: dict[str, Any]) -> dict[str, Any]:
    answer = stack.lambda_.invoke(FunctionName=name, Payload=json.dumps(event).encode())
    found: dict[str, Any] = json.loads(answer["Payload"].read())
    return found
