"""The options ``-v`` and ``--log-file`` of every command: the log on standard error, and in a file."""

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final

import click

from pixel_gather.core.errors import RequestError
from pixel_gather.version import __version__

LIBRARY: Final = "pixel_gather"
COMMAND: Final = "pixel_gather_cli"
"""Names of the loggers. The command's own log goes only to the file: the terminal shows its messages."""

_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_OPENED: Final[list[logging.Handler]] = []

_log: Final = logging.getLogger(COMMAND)
_log.addHandler(logging.NullHandler())


def log_options(command: click.Command) -> list[click.Option]:
    """Return new options for a command. One that shows more by ``-v`` has that option already."""
    verbose = click.Option(
        ["-v", "--verbose"], is_flag=True, expose_value=False, callback=log_if, help="Log to standard error."
    )
    log_file = click.Option(
        ["--log-file"],
        expose_value=False,
        callback=lambda _context, _parameter, path: None if path is None else _log_to_file(path),
        help="Append the log to FILE, one JSON object a line.",
        metavar="FILE",
        type=click.Path(),
    )
    return [*([] if any(each.name == "verbose" for each in command.params) else [verbose]), log_file]


def log_if(_context: click.Context, _parameter: click.Parameter, is_wanted: bool) -> bool:  # noqa: FBT001 # click's own
    """Log to standard error if that is wanted: the callback of ``--verbose``."""
    if is_wanted:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter(_FORMAT))
        _add(handler, LIBRARY)
    return is_wanted


@contextmanager
def closing_logs() -> Iterator[None]:
    """Close the logs that the options opened. Otherwise the next command here would write there."""
    try:
        yield
    finally:
        while _OPENED:
            handler = _OPENED.pop()
            for name in (LIBRARY, COMMAND):
                logging.getLogger(name).removeHandler(handler)
            handler.close()


def _log_to_file(path: str) -> None:
    from pixel_gather.core.request.href_policy import path_here  # noqa: PLC0415 # msgspec, which --help spares

    try:
        handler = logging.FileHandler(path_here(path, "--log-file", said="the log is"), encoding="utf-8")
    except OSError as error:
        raise RequestError(f"{path} cannot be written: {error.strerror}", field="--log-file") from error
    handler.setFormatter(_JsonLines())
    _add(handler, LIBRARY, COMMAND)
    _log.info("%s, version %s, begins", click.get_current_context().command_path, __version__)


def _add(handler: logging.Handler, *names: str) -> None:
    _OPENED.append(handler)
    for name in names:
        logging.getLogger(name).addHandler(handler)
        logging.getLogger(name).setLevel(logging.DEBUG)


class _JsonLines(logging.Formatter):
    """Writes a record as one JSON object, with the names that the Lambda functions' logs have."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line."""
        found = {
            "level": record.levelname,
            "location": f"{record.funcName}:{record.lineno}",
            "message": record.getMessage(),
            "timestamp": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "logger": record.name,
        }
        if record.exc_info:
            found["exception"] = self.formatException(record.exc_info)
        return json.dumps(found, ensure_ascii=False)
