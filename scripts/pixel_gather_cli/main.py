"""The ``pixel-gather`` command: parse, call a use case, print.

Results go to standard output, everything else to standard error. Exit codes: 0 all gathered,
1 finished with sources that failed, 2 bad usage, refused, or a gather on AWS that failed, 70 a defect of this
program, 130 interrupted, 143 told to end by a signal.
"""

import sys
import traceback
from typing import Any

import click

from pixel_gather.errors import GatherError
from pixel_gather.version import __version__
from pixel_gather_cli.lazy_commands import LazyCommands
from pixel_gather_cli.termination import TerminatedError, answer_interrupts, ends_when_terminated

REFUSED = 2
INTERRUPTED = 130
DEFECT = 70
_ONCE_MORE = "the same run again goes on where it stopped, all else starts anew"

SUMMARIES = {
    "bench": "Measure how fast your files are read, by what engine and how many at a time.",
    "cancel": "Stop a gather on AWS.",
    "catalog": "Make a catalog of scenes, which search answers from in a millisecond.",
    "drill": "Read one pixel of every file in LIST: a list file, or - for standard input.",
    "emulate": (
        "Run Pixel Gather's AWS stack on this machine: S3, Step Functions, Lambda, API Gateway and IAM."
    ),
    "index": (
        "Open every file in LIST and keep what its header tells, so that gathers need not read it again."
    ),
    "list": "List the gathers on AWS, the latest first, for 90 days after they ended.",
    "ls": "List what lies below a folder or s3://bucket/prefix, as a list file for plan, run and drill.",
    "plan": "Say what a gather will take: shape, layout, requests, bytes, seconds and dollars.",
    "redrive": "Run again what is missing of a gather that failed, timed out or was stopped within 14 days.",
    "report": "Lay finished gathers and benchmarks side by side: a page, a table and all figures.",
    "run": "Gather in this process, to a folder or S3.",
    "search": "Find the scenes that lie in an area and a time.",
    "status": "Say how far a gather on AWS is, what it has cost, and what became of it.",
    "submit": "Gather on AWS, beside the data.",
    "watch": "Show a gather on AWS until it ends.",
}
"""The commands, each with the first sentence of its help; what a command needs is imported with it."""


@click.group(
    cls=LazyCommands,
    summaries=SUMMARIES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="pixel-gather")
def command() -> None:
    """One small window out of every one of thousands of Cloud Optimized GeoTIFFs, as one Zarr cube.

    \b
    pixel-gather ls s3://bucket/landsat/ --glob '**/*_B4.TIF' > list.txt
    pixel-gather plan --sources list.txt --tile centre
    pixel-gather run --sources list.txt --tile centre --to cube.zarr
    pixel-gather submit --sources list.txt --tile centre --watch
    """


def main(arguments: list[str] | None = None) -> None:
    """Run the command and exit; an error that was foreseen is one line on standard error."""
    answer_interrupts()
    try:
        with ends_when_terminated():
            code: Any = command.main(args=arguments, standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(REFUSED)
    except (click.Abort, KeyboardInterrupt):
        click.echo(f"interrupted; {_ONCE_MORE}", err=True)
        sys.exit(INTERRUPTED)
    except TerminatedError:
        click.echo(f"told to end (SIGTERM or SIGHUP); {_ONCE_MORE}", err=True)
        raise
    except GatherError as error:
        click.echo(f"pixel-gather: {error}", err=True)
        sys.exit(REFUSED)
    except BrokenPipeError:
        sys.stderr.close()  # what reads our output has enough: no trace of it
        sys.exit(0)
    except Exception:  # noqa: BLE001 # Python's own exit code would say that some sources failed
        traceback.print_exc()
        click.echo(
            "pixel-gather: this is a defect of Pixel Gather; please report it with the lines above", err=True
        )
        sys.exit(DEFECT)
    sys.exit(code if isinstance(code, int) else 0)
