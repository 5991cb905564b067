"""Asks Lambda how many functions this deployment may run at the same time: ``account_concurrency``.

What other functions of the account have reserved does not count. What the deployment has reserved does.

``python -m infra.account deploy --profile me`` prints ``account_concurrency=10``. It prints nothing where the
setting is in cdk.context.json, in cdk.json or in the arguments. `scripts/deploy` passes it to the CDK, so
synthesis needs no request to AWS.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from infra.settings import LEAST_CONCURRENCY, Settings

_KEY: Final = "account_concurrency"
_QUICK: Final = Config(connect_timeout=3, read_timeout=5, retries={"total_max_attempts": 2})


def main(arguments: Sequence[str], *, folder: Path) -> str:
    """Return what to pass to the CDK after ``-c``, or an empty text."""
    options = _options(arguments)
    by_argument = any(each.startswith(f"{_KEY}=") for each in options.context)
    if by_argument or any(_KEY in each for each in _contexts(folder)):
        return ""
    try:
        # boto3 knows AWS_DEFAULT_REGION alone; the CDK asks AWS_REGION first
        session = boto3.Session(
            profile_name=options.profile, region_name=os.environ.get("AWS_REGION") or None
        )
        found = concurrency(session, stack=f"PixelGather-{_stage(options, folder)}")
    except (BotoCoreError, ClientError) as error:
        sys.stderr.write(
            f"Lambda does not say how many functions this account may run at one time ({error}): taken as "
            f"1,000. A young account may run 10: then say so by -c {_KEY}=10\n"
        )
        return ""
    if found < LEAST_CONCURRENCY:
        sys.exit(
            f"Lambda lets this deployment run {found} functions at one time in this Region, and it needs "
            f"{LEAST_CONCURRENCY}: reserve less for other functions, or ask AWS for a higher quota (Service "
            "Quotas, AWS Lambda, Concurrent executions)"
        )
    return f"{_KEY}={found}"


def concurrency(session: boto3.Session, *, stack: str) -> int:
    """Return how many functions a stack may run in the session's Region."""
    lambda_ = session.client("lambda", config=_QUICK)
    unreserved = int(lambda_.get_account_settings()["AccountLimit"]["UnreservedConcurrentExecutions"])
    names = _functions(session.client("cloudformation", config=_QUICK), stack)
    own = (lambda_.get_function_concurrency(FunctionName=each) for each in names)
    return unreserved + sum(int(each.get("ReservedConcurrentExecutions", 0)) for each in own)


def _functions(cloudformation: Any, stack: str) -> list[str]:
    """Return the names of a stack's functions; none if the stack is not there yet.

    A function's name may begin with a part of the stack's name only, so CloudFormation is asked.
    """
    pages = cloudformation.get_paginator("list_stack_resources").paginate(StackName=stack)
    try:
        found = [each for page in pages for each in page["StackResourceSummaries"]]
    except ClientError as error:
        if error.response["Error"]["Code"] != "ValidationError":
            raise
        return []
    return [
        each["PhysicalResourceId"]
        for each in found
        if each["ResourceType"] == "AWS::Lambda::Function"
        and each["ResourceStatus"] != "DELETE_COMPLETE"
        and "PhysicalResourceId" in each  # a function that could not be made has none
    ]


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(add_help=False, exit_on_error=False, allow_abbrev=False)
    parser.add_argument("--profile")
    parser.add_argument("-c", "--context", action="append", default=[])
    options, _ = parser.parse_known_args(arguments)
    return options


def _stage(options: argparse.Namespace, folder: Path) -> str:
    """Return the stage that is deployed: by the arguments, else by the files, else the default."""
    by_argument = (each.removeprefix("stage=") for each in options.context if each.startswith("stage="))
    by_file = (str(each["stage"]) for each in _contexts(folder) if "stage" in each)
    return next(by_argument, next(by_file, Settings().stage))


def _contexts(folder: Path) -> list[dict[str, Any]]:
    found = (folder / "cdk.context.json", folder / "cdk.json")
    given = [_read_context(each) for each in found if each.exists()]
    return [each for one in given for each in (one, one.get("context", {}))]


def _read_context(file: Path) -> dict[str, Any]:
    try:
        given = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        sys.exit(f"{file.name} is no JSON: {error}; mend it, or remove it")
    if not isinstance(given, dict) or not isinstance(given.get("context", {}), dict):
        sys.exit(
            f"{file.name} should be a JSON object, and its context, if it has one, an object of settings: "
            '{"context": {"stage": "test"}}'
        )
    return given


if __name__ == "__main__":
    sys.stdout.write(main(sys.argv[1:], folder=Path()))
