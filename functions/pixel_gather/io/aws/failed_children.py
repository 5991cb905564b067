"""Why children of a Map Run failed, and what to do about it. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from pixel_gather.io.aws.execution_json import json_object, said_by_function

MOST_SHOWN: Final = 3
"""Failed children that a status describes. One request each; most gathers fail for one reason."""

_LONGEST_CAUSE: Final = 500

_CRASHED: Final = (
    "the worker was killed, most likely for lack of memory, in the largest size too: make the shards smaller "
    "by chunk and shard_rows of output.layout or by a smaller window, or deploy with a larger "
    "worker_memory_mib"
)
_LATE: Final = (
    "the sources or the store answer too slowly: redrive later, make the shards smaller by chunk and "
    "shard_rows of output.layout, or leave the slow sources out"
)
_BUSY: Final = "AWS or the store was busy for long: redrive later, or lower limits.workers"
_DENIED: Final = (
    "a right is missing: the bucket's policy, its key's policy or a service control policy refuses the "
    "worker's role; mend that and redrive"
)
_UNKNOWN: Final = (
    "the log of the workers has the whole error: docs/operate.md says how to find it; redrive if the cause "
    "was a passing one"
)
_ADVICE: Final = {
    "Lambda.Unknown": _CRASHED,
    "Runtime.ExitError": _CRASHED,
    "Runtime.OutOfMemory": _CRASHED,
    "Sandbox.Timedout": _LATE,
    "States.Timeout": _LATE,
    "ShardLateError": _LATE,
    "ShardsLeftError": _LATE,
    "BusyError": _BUSY,
    "ThrottledError": _BUSY,
    "UnreachableError": _BUSY,
    "Lambda.TooManyRequestsException": _BUSY,
    "Lambda.ServiceException": _BUSY,
    "Lambda.AWSLambdaException": _BUSY,
    "Lambda.SdkClientException": _BUSY,
    "Lambda.ClientExecutionTimeoutException": _BUSY,
}
_SIGNS_OF_DENIAL: Final = ("accessdenied", "access denied", "forbidden", "not authorized", "(403)")
"""In lower case. Causes of Lambda hold the id of a request, and an id may hold the digits 403."""


def describe_failure(child: Mapping[str, Any]) -> dict[str, Any]:
    """Describe a child of a Map Run that failed, which is an answer of DescribeExecution.

    Returns:
        ``shards`` with the indexes that it had to fill, ``error``, ``cause`` and ``advice``. Some of its
        shards may be filled.
    """
    error = child.get("error") or "States.TaskFailed"
    cause = said_by_function(child.get("cause") or "")[:_LONGEST_CAUSE]
    given = json_object(child.get("input")) or {}
    return {
        "shards": [each["index"] for each in given.get("tasks", ())],
        "error": error,
        "cause": cause or "AWS does not say why",
        "advice": _advice(error, cause),
    }


def _advice(error: str, cause: str) -> str:
    if any(sign in cause.lower() for sign in _SIGNS_OF_DENIAL):
        return _DENIED
    return _ADVICE.get(error, _UNKNOWN)
