"""The ``pixel-gather`` command: parse, call a use case, print.

Results go to standard output, everything else to standard error. Exit codes: 0 all gathered,
1 finished with sources that failed, 2 bad usage, refused, or a gather on AWS that failed, 130 interrupted.
"""

import sys
from typing import Any

import click

from pixel_gather.errors import GatherError
from pixel_gather.version import __version__
from pixel_gather_cli.cancel_command import cancel_command
from pixel_gather_cli.drill_command import drill_command
from pixel_gather_cli.emulate_command import emulate_command
from pixel_gather_cli.list_command import list_command
from pixel_gather_cli.ls_command import ls_command
from pixel_gather_cli.plan_command import plan_command
from pixel_gather_cli.redrive_command import redrive_command
from pixel_gather_cli.run_command import run_command
from pixel_gather_cli.status_command import status_command
from pixel_gather_cli.submit_command import submit_command
from pixel_gather_cli.watch_command import watch_command

REFUSED = 2
INTERRUPTED = 130


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="pixel-gather")
def command() -> None:
    """One small window out of every one of thousands of Cloud Optimized GeoTIFFs, as one Zarr cube.

    \b
    pixel-gather ls s3://bucket/landsat/ --glob '**/*_B4.TIF' > list.txt
    pixel-gather plan --sources list.txt --tile centre
    pixel-gather run --sources list.txt --tile centre --to cube.zarr
    pixel-gather submit --sources list.txt --tile centre --watch
    """


command.add_command(plan_command)
command.add_command(run_command)
command.add_command(ls_command)
command.add_command(drill_command)
command.add_command(submit_command)
command.add_command(status_command)
command.add_command(watch_command)
command.add_command(list_command)
command.add_command(cancel_command)
command.add_command(redrive_command)
command.add_command(emulate_command)


def main(arguments: list[str] | None = None) -> None:
    """Run the command and exit; an error that was foreseen is one line on standard error."""
    try:
        code: Any = command.main(args=arguments, standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(REFUSED)
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted; a run goes on where it stopped when it is run again", err=True)
        sys.exit(INTERRUPTED)
    except GatherError as error:
        click.echo(f"pixel-gather: {error}", err=True)
        sys.exit(REFUSED)
    except BrokenPipeError:
        sys.stderr.close()  # what reads our output has enough: no trace of it
        sys.exit(0)
    sys.exit(code if isinstance(code, int) else 0)
