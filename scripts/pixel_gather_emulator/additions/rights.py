"""Rights: the resource that a call is checked for, and what a caller hears of an object that is missing.

AWS checks DescribeMapRun and UpdateMapRun for the Map Run that they name. ministack checks them for ``*``.
AWS checks calls on a schedule for the schedule in its group, ministack for one in the group ``default``.
A policy that allows them for the Map Runs of one machine or the schedules of one group, as ours does, would
then never apply.

S3 answers 403 and not 404 about a missing object to a caller without s3:ListBucket. ministack answers 404.

Still different: iam:PassRole is not checked.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from ministack.core import iam_actions
from ministack.services import s3

_extract: Callable[..., str] = iam_actions.extract_resource_arn
_additional_checks: Callable[..., list[tuple[str, str]]] = iam_actions.s3_additional_checks


def apply() -> None:
    """Put the additions in place."""
    iam_actions.extract_resource_arn = extract_resource_arn
    iam_actions.s3_additional_checks = s3_additional_checks


def s3_additional_checks(method: str, path: str, *rest: Any) -> list[tuple[str, str]]:
    """Return the actions and ARNs that a request needs the right to beside its own. The path is decoded."""
    checks = _additional_checks(method, path, *rest)
    bucket, _, key = path.lstrip("/").partition("/")
    there = s3._buckets.get(bucket, {}).get("objects", ())  # noqa: SLF001 # an addition reaches into ministack
    if method in {"GET", "HEAD"} and key and key not in there:
        checks.append(("s3:ListBucket", f"arn:aws:s3:::{bucket}"))
    return checks


def extract_resource_arn(service: str, method: str, path: str, headers: Any, body: bytes, *rest: Any) -> str:
    """Return the ARN that a call's right is checked against."""
    found = _extract(service, method, path, headers, body, *rest)
    if service == "states" and found == "*":
        return _map_run(body) or found
    if service == "scheduler" and ":schedule/default/" in found:
        group = _group(body, rest[0] if rest else {})
        return found.replace(":schedule/default/", f":schedule/{group}/")
    return found


def _group(body: bytes, query: Mapping[str, Any]) -> str:
    """Return the group that a call on a schedule names."""
    named = query.get("groupName")
    if named:
        return str(named[0] if isinstance(named, list) else named)
    try:
        return str(json.loads(body).get("GroupName", "default"))
    except (ValueError, AttributeError):
        return "default"


def _map_run(body: bytes) -> str | None:
    try:
        named = json.loads(body)["mapRunArn"]
    except (ValueError, KeyError, TypeError):
        return None
    return str(named)
