"""The option ``-v``: the library's log on standard error."""

import logging
import sys

import click

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def verbose_option() -> click.Option:
    """Return a new option ``-v`` for a command."""
    return click.Option(
        ["-v", "--verbose"],
        is_flag=True,
        expose_value=False,
        callback=_log_to_stderr,
        help="Log to standard error.",
    )


def _log_to_stderr(context: click.Context, parameter: click.Parameter, value: bool) -> None:  # noqa: FBT001 # click's own
    del context, parameter
    if value:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter(_FORMAT))
        logger = logging.getLogger("pixel_gather")
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG)
