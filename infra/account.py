"""Asks Lambda how many functions the account may run at the same time: the setting ``account_concurrency``.

``python -m infra.account deploy --profile me`` prints ``account_concurrency=10``. It prints nothing where the
setting is in cdk.context.json, in cdk.json or in the arguments. `scripts/deploy` passes it to the CDK, so
synthesis needs no request to AWS.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

_KEY: Final = "account_concurrency"
_QUICK: Final = Config(connect_timeout=3, read_timeout=5, retries={"total_max_attempts": 2})


def main(arguments: Sequence[str], *, folder: Path) -> str:
    """Return what to pass to the CDK after ``-c``, or an empty text.

    Args:
        arguments: The CDK's command line.
        folder: The folder of cdk.json.
    """
    options = _options(arguments)
    if any(each.startswith(f"{_KEY}=") for each in options.context) or _is_in_context(folder):
        return ""
    try:
        session = boto3.Session(profile_name=options.profile)
        return f"{_KEY}={concurrency(session.client('lambda', config=_QUICK))}"
    except (BotoCoreError, ClientError) as error:
        sys.stderr.write(
            f"Lambda does not say how many functions this account may run at one time ({error}): taken as "
            f"1,000. A young account may run 10: then say so by -c {_KEY}=10\n"
        )
        return ""


def concurrency(lambda_: Any) -> int:
    """Return how many functions the account may run in the client's Region."""
    return int(lambda_.get_account_settings()["AccountLimit"]["ConcurrentExecutions"])


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(add_help=False, exit_on_error=False, allow_abbrev=False)
    parser.add_argument("--profile")
    parser.add_argument("-c", "--context", action="append", default=[])
    options, _ = parser.parse_known_args(arguments)
    return options


def _is_in_context(folder: Path) -> bool:
    found = (folder / "cdk.context.json", folder / "cdk.json")
    given = [json.loads(each.read_text(encoding="utf-8")) for each in found if each.exists()]
    return any(_KEY in each or _KEY in each.get("context", {}) for each in given)


if __name__ == "__main__":
    sys.stdout.write(main(sys.argv[1:], folder=Path()))
