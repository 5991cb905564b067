"""The options that let a deployment compute a table next to the data."""

from collections.abc import Callable
from typing import Any, Final

import click

from pixel_gather.core.errors import RequestError
from pixel_gather_cli.deployment.remote import DEFAULT_STACK, Target

_ACCOUNT: Final = ("region", "profile", "endpoint")


def place_options(deployed: str) -> tuple[Callable[[Any], Any], ...]:
    """Return the options, with the help of ``--deployed``."""
    return (
        click.option("--deployed", is_flag=True, help=deployed),
        click.option(
            "--stack", metavar="NAME", help=f"With --deployed: its stack.  [default: {DEFAULT_STACK}]"
        ),
        click.option("--api", metavar="URL", help="With --deployed: address of its API, instead of --stack."),
    )


def target_of_options(options: dict[str, Any]) -> Target | None:
    """Remove the options, and return the deployment that they name; None without ``--deployed``.

    The options of the account are left in.

    Raises:
        RequestError: A deployment is named and not asked for.
    """
    deployed, stack, api = (options.pop(name) for name in ("deployed", "stack", "api"))
    if deployed:
        return Target(stack=stack, api=api, **{name: options[name] for name in _ACCOUNT})
    for name, given in (("stack", stack), ("api", api)):
        if given is not None:
            raise RequestError("use it only with --deployed", field=f"--{name}")
    return None
