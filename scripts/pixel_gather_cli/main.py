"""The ``pixel-gather`` command.

Results go to standard output, everything else to standard error.
"""

import errno
import logging
import os
import sys
import time
import traceback
from typing import Any, NoReturn

import click

from pixel_gather.core.errors import GatherError
from pixel_gather.version import __version__
from pixel_gather_cli.exit_codes import DEFECT, INTERRUPTED, PIPE_CLOSED, REFUSED
from pixel_gather_cli.lazy_commands import LazyCommands
from pixel_gather_cli.log_options import COMMAND, closing_logs
from pixel_gather_cli.signals import TerminatedError, answer_interrupts, ends_in_time, ends_when_terminated
from pixel_gather_cli.whole_output import write_whole_output

_log = logging.getLogger(COMMAND)

_FULL = (errno.ENOSPC, errno.EDQUOT)
_NO_MORE_FILES = (errno.EMFILE, errno.ENFILE)
_REPEAT = "Repeat the command: run, points and zones resume, others start over, unless they had just ended."

SUMMARIES = {
    "bench": "Measure how fast your files are read, by engine and by number of files read at a time.",
    "budget": "Show whether a deployment has spent its budget of the month, halt it, or let it go on.",
    "cancel": "Stop a gather or table on AWS.",
    "catalog": "Make a catalog of scenes, which search reads.",
    "check": "Gather 20 small files in a deployment, and compare what is seen with what is assumed.",
    "compact": "Free the space of chunks that later appends have replaced.",
    "completion": "Print a script that lets the shell complete commands, options and files.",
    "drill": "Read one pixel of every file in LIST: a list file, or - for standard input.",
    "emulate": (
        "Run Pixel Gather's AWS stack on this machine: S3, Step Functions, Lambda, API Gateway and IAM."
    ),
    "export": "Write a cube as an animation, pictures, GeoTIFFs, netCDF or a table.",
    "forget": "Remove former versions of a cube, which can then no longer be opened.",
    "index": ("Save the header of every file in LIST, so that gathers need not read it again."),
    "join": "Join many cubes into one array by their metadata. No pixel is read.",
    "limit": "Let a running gather or table have fewer workers, or more, from now on.",
    "list": "List the gathers on AWS, latest first, or the tables.",
    "ls": "List the files below a folder or s3://bucket/prefix, as a list file for other commands.",
    "plan": "Estimate a gather: shape, layout, requests, bytes, seconds and dollars.",
    "points": "Write the values of all images under the points in FEATURES as a table.",
    "presence": "Show for which days, months or other values a cube has rows.",
    "rank": "Rank scenes by what their pixels show in an area, each rank with its error.",
    "redrive": "Run what is missing of a gather or table that failed within 14 days.",
    "replay": "Gather again what a cube's receipt says, and show what has changed.",
    "report": "Compare finished gathers and benchmarks: a page, a table and all figures.",
    "retry": "Read the failed sources of a cube again, and put their pixels in their rows.",
    "run": "Gather in this process, to a folder or S3.",
    "schedule": "Keep cubes of a deployment up to date: search and append, at fixed times.",
    "search": "Find the scenes in an area and a time range.",
    "series": "Read one point or polygon through all images, and draw its values by time.",
    "status": "Show the progress, the cost and the result of a gather or table on AWS.",
    "submit": "Gather on AWS, next to the data.",
    "versions": "List the versions of a cube, and what each append has added.",
    "verify": "Read a cube or a table and compare it with its receipt.",
    "view": "Show a cube's pixels in a browser.",
    "virtual": "Write a cube that refers to the tiles of every file. No pixel is read or copied.",
    "watch": "Show a gather or table on AWS until it ends.",
    "zones": "Write statistics of all images in the polygons in FEATURES as a table.",
}
"""The commands, each with the first sentence of its help. A command's imports happen when it is used."""


@click.group(
    cls=LazyCommands,
    summaries=SUMMARIES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="pixel-gather")
def command() -> None:
    """Gather one small window of each of thousands of Cloud Optimized GeoTIFFs into one Zarr cube.

    \b
    pixel-gather ls s3://bucket/landsat/ --glob '**/*_B4.TIF' > list.txt
    pixel-gather plan --sources list.txt --tile centre
    pixel-gather run --sources list.txt --tile centre --to cube.zarr
    pixel-gather submit --sources list.txt --tile centre --watch

    Results go to standard output, everything else to standard error. NO_COLOR=1 turns colours off.
    Every command has -v, which logs to standard error, and --log-file FILE.

    \b
    Exit codes:
      0    all was gathered; also if ls, search, drill, series, points or zones found nothing
      1    finished, but some sources failed, or a verified or replayed cube differs
      2    bad usage, refused, or a gather on AWS that failed
      70   a defect of Pixel Gather
      130  interrupted
      141  the reader of the results has closed the pipe, as in: pixel-gather ls data | head
      143  ended by a signal
    """


def main(arguments: list[str] | None = None) -> None:
    """Run the command and exit. An expected error is one line on standard error."""
    started = time.monotonic()
    answer_interrupts()
    write_whole_output()
    with ends_in_time(_say_broken_off), closing_logs():
        try:
            _run(arguments, started=started)
        except SystemExit as ended:
            _log.info("ends with exit code %s", ended.code)
            raise


def _run(arguments: list[str] | None, *, started: float) -> NoReturn:
    try:
        with ends_when_terminated():
            code: Any = command.main(args=arguments, standalone_mode=False, obj=started)
    except click.ClickException as error:
        _log.error(error.format_message())
        error.show()
        sys.exit(REFUSED)
    except (click.Abort, KeyboardInterrupt):
        _say(f"interrupted. {_REPEAT}")
        sys.exit(INTERRUPTED)
    except TerminatedError:
        _say(f"ended by SIGTERM or SIGHUP. {_REPEAT}")
        raise
    except GatherError as error:
        _say(f"pixel-gather: {error}")
        sys.exit(REFUSED)
    except SystemExit as ended:  # click's own: 1 when a pipe is closed. Commands return their exit code
        sys.exit(PIPE_CLOSED if ended.code == 1 else ended.code)
    except OSError as error:
        if (refused := _why_of_machine(error)) is None:
            _exit_with_defect()
        _say(f"pixel-gather: {refused}")
        sys.exit(REFUSED)
    except Exception:  # noqa: BLE001 # Python's exit code 1 means here that some sources failed
        _exit_with_defect()
    sys.exit(code if isinstance(code, int) else 0)


def _why_of_machine(error: OSError) -> str | None:
    """Return what is wrong with the machine and what to do; None if the error is a defect."""
    if error.errno in _FULL:
        return f"results could not be written: {error.strerror}"
    if error.errno in _NO_MORE_FILES:
        return "too many files are open: allow more by ulimit -n 1024, then repeat the command"
    try:
        os.getcwd()  # noqa: PTH109 # a question, no path
    except FileNotFoundError:
        return "the current folder was removed: change to another folder, then repeat the command"
    return None


def _say_broken_off() -> None:
    show_cursor = "\x1b[?25h" if sys.stderr.isatty() else ""  # a bar hides it
    _say(f"{show_cursor}broken off. {_REPEAT}")


def _say(error: str) -> None:
    _log.error(error)
    click.echo(error, err=True)


def _exit_with_defect() -> NoReturn:
    _log.critical("a defect", exc_info=True)
    traceback.print_exc()
    click.echo(
        "pixel-gather: this is a defect in Pixel Gather. Please report it with the lines above.", err=True
    )
    sys.exit(DEFECT)
