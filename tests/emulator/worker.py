"""The Lambda functions of the emulator's tests. Their events say what they do."""

import os
import time
from typing import Any

import boto3


class BusyError(Exception):
    """An error that is tried again."""


class WrongError(Exception):
    """An error that is not tried again."""


if "FAILS_TO_START" in os.environ:
    raise BusyError("at start")

S3 = boto3.client("s3")


def manifest(event: dict[str, Any], _context: object) -> Any:
    """Answer as a plan does. The items are already in the object that the input names."""
    return event["request"]["answer"]


def shard(event: dict[str, Any], _context: object) -> Any:
    """Do what the task says, and write a mark for every try."""
    task = event["task"]
    mark = f"tries/{event['gather']}/{task['name']}/{time.time_ns()}"
    S3.put_object(Bucket=os.environ["BUCKET"], Key=mark, Body=b"")
    if "seconds" in task:
        time.sleep(task["seconds"])
    while "waits_for" in task and not _is_there(task["waits_for"]):
        time.sleep(0.1)
    if "memory_mib" in task:
        held = b"x" * (task["memory_mib"] * 2**20)
        time.sleep(1)
        del held
    if "reads" in task:
        return S3.get_object(**task["reads"])["Body"].read().decode()
    if "fails_until" in task and not _is_there(task["fails_until"]):
        raise {"BusyError": BusyError, "WrongError": WrongError}[task["error"]]("not yet")
    return {"pid": os.getpid(), "text": "x" * task.get("answer_nbytes", 0)}


def _is_there(key: str) -> bool:
    found = S3.list_objects_v2(Bucket=os.environ["BUCKET"], Prefix=key, MaxKeys=1)
    return bool(found["KeyCount"])
