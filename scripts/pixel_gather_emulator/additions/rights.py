"""The resource that a right to call Step Functions is checked for.

AWS checks DescribeMapRun and UpdateMapRun for the Map Run that they name. ministack checks them for ``*``.
A policy that allows them for the Map Runs of one machine, as ours does, would then never apply.
"""

import json
from collections.abc import Callable
from typing import Any

from ministack.core import iam_actions

_extract: Callable[..., str] = iam_actions.extract_resource_arn


def apply() -> None:
    """Put the addition in place."""
    iam_actions.extract_resource_arn = extract_resource_arn


def extract_resource_arn(service: str, method: str, path: str, headers: Any, body: bytes, *rest: Any) -> str:
    """Return the ARN that a call's right is checked against."""
    found = _extract(service, method, path, headers, body, *rest)
    if service == "states" and found == "*":
        return _map_run(body) or found
    return found


def _map_run(body: bytes) -> str | None:
    try:
        named = json.loads(body)["mapRunArn"]
    except (ValueError, KeyError, TypeError):
        return None
    return str(named)
