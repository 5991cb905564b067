"""``pixel-gather emulate``: the real stack on this machine, without Docker or an account."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from msgspec import Struct

from pixel_gather.io.atomic_write import replacing
from pixel_gather_cli.progress import SIGN_EVERY_S, every
from pixel_gather_cli.request_options import file_here
from pixel_gather_cli.signals import ends_when_terminated

if TYPE_CHECKING:
    from pixel_gather_emulator.deploy import DeployedStack

_EXAMPLE: Final = (
    'pixel-gather submit --sources "$PIXEL_GATHER_SAMPLES" --bbox -109.1,36.9,-101.9,41.1 --watch'
)


@click.command("emulate", context_settings={"allow_interspersed_args": False})
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    metavar="N",
    help="Port on 127.0.0.1.  [default: a free one]",
)
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    metavar="N",
    help="Most workers of a function, and children of a map, at one time.  [default: the cores, at least 4]",
)
@click.option(
    "--source-bucket",
    "source_buckets",
    multiple=True,
    metavar="NAME",
    help="Another bucket that gathers may read. Create and fill it yourself.",
)
@click.option("--context", "-c", "given", multiple=True, metavar="KEY=VALUE", help="A setting for cdk.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of export lines.")
@click.option(
    "--env-file",
    type=click.Path(dir_okay=False),
    callback=file_here,
    help="Also write the environment to this file, as KEY=VALUE.",
)
def emulate_command(*, command: tuple[str, ...], given: tuple[str, ...], **options: Any) -> int:
    """Run Pixel Gather's AWS stack on this machine: S3, Step Functions, Lambda, API Gateway and IAM.

    It prints environment variables that direct the AWS tools and pixel-gather to the stack, and runs until
    Ctrl-C. With a COMMAND, it sets these variables, runs the COMMAND and ends with it. Everything is deleted
    at the end.

    It needs a clone of the project; pip does not install it.

    \b
    pixel-gather emulate -- bash
    pixel-gather emulate -- aws s3 ls s3://pixel-gather-samples/demo/
    """
    if command and shutil.which(command[0]) is None:
        raise click.ClickException(f"{command[0]}: no such command; nothing was deployed")
    env_file = options["env_file"]
    if env_file is not None and not env_file.parent.is_dir():
        raise click.ClickException(f"--env-file: there is no folder {env_file.parent}; nothing was deployed")
    deployed, failures = _emulator()
    return emulate(command, Options(context=_context(given), **options), deployed=deployed, failures=failures)


class Options(Struct, frozen=True, kw_only=True):
    """The options; see their help texts."""

    port: int = 0
    workers: int | None = None
    source_buckets: tuple[str, ...] = ()
    context: Mapping[str, str] = {}
    as_json: bool = False
    env_file: Path | None = None


def emulate(
    command: tuple[str, ...],
    options: Options,
    *,
    deployed: Callable[..., AbstractContextManager[Any]],
    failures: type[Exception],
) -> int:
    """Deploy, run the command or wait for Ctrl-C, and clean up; return the exit code."""
    steps = Steps()
    try:
        with (
            ends_when_terminated(),
            every(SIGN_EVERY_S, steps.goes_on),
            deployed(
                port=options.port,
                max_workers=options.workers,
                source_buckets=options.source_buckets,
                context=options.context,
                on_step=steps.begin,
            ) as there,
            _env_file(options.env_file, there.variables),
        ):
            steps.end()
            return _run(command, there) if command else _stay(there, as_json=options.as_json)
    except failures as error:
        raise click.ClickException(str(error)) from error


def _emulator() -> tuple[Any, type[Exception]]:
    try:
        from pixel_gather_emulator.deploy import deployed  # noqa: PLC0415 # not installed with the library
        from pixel_gather_emulator.emulator import EmulatorError  # noqa: PLC0415 # as above
    except ModuleNotFoundError as error:
        if error.name == "pixel_gather_emulator":
            said = (
                "pip installs no emulator, because it needs the functions and the stack of the project: "
                "clone the project, and run 'uv run pixel-gather emulate' in the clone"
            )
        else:
            said = f"the emulator needs {error.name}, which is not installed: run 'uv sync' in the clone"
        raise click.ClickException(said) from error
    return deployed, EmulatorError


def _context(given: tuple[str, ...]) -> dict[str, str]:
    for each in given:
        if "=" not in each:
            raise click.UsageError(f"--context {each}: give it as KEY=VALUE")
    return dict(each.split("=", 1) for each in given)


class Steps:
    """Says which step of the deployment begins, and every few seconds that it goes on."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._step: str | None = None

    def begin(self, step: str) -> None:
        """Say what begins."""
        self._step = step
        self._say(step)

    def goes_on(self) -> None:
        """Say that the step goes on, if there is one."""
        if self._step is not None:
            self._say(f"{self._step}: goes on")

    def end(self) -> None:
        """Say nothing more."""
        self._step = None

    def _say(self, text: str) -> None:
        click.echo(f"{time.monotonic() - self._started:5.1f} s  {text}", err=True)


@contextmanager
def _env_file(path: Path | None, variables: Mapping[str, str]) -> Generator[None]:
    """Keep a file of ``NAME=value`` lines until the context ends. It appears complete."""
    if path is None:
        yield
        return
    with replacing(path) as new:
        new.touch(mode=0o600)
        new.write_text("".join(f"{name}={shlex.quote(value)}\n" for name, value in variables.items()))
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def _run(command: tuple[str, ...], there: "DeployedStack") -> int:
    """Run a command in the foreground. It handles Ctrl-C itself."""
    try:
        running = subprocess.Popen(command, env=there.environment)  # noqa: S603 # the user's own words
    except OSError as error:
        raise click.ClickException(f"{command[0]}: {error.strerror}") from error
    earlier = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        code = running.wait()
    except SystemExit:
        running.terminate()
        running.wait()
        raise
    finally:
        signal.signal(signal.SIGINT, earlier)
    return code if code >= 0 else 128 - code


def _stay(there: "DeployedStack", *, as_json: bool) -> int:
    click.echo(_as_json(there) if as_json else _as_exports(there))
    sys.stdout.flush()
    click.echo(
        f"\nReady: {there.api_url}\nPaste these lines in another terminal, then for example\n  {_EXAMPLE}\n"
        "Ctrl-C here ends the emulation and deletes everything in it.",
        err=True,
    )
    try:
        there.emulator.wait()
    except KeyboardInterrupt:
        click.echo("ending", err=True)
    return 0


def _as_exports(there: "DeployedStack") -> str:
    exports = [f"export {name}={shlex.quote(value)}" for name, value in there.variables.items()]
    in_the_way = sorted(
        name
        for name in os.environ.keys() | {"AWS_PROFILE", "AWS_SESSION_TOKEN"}
        if name.startswith("AWS_") and name not in there.variables
    )
    return "\n".join([f"unset {' '.join(in_the_way)}", *exports])


def _as_json(there: "DeployedStack") -> str:
    return json.dumps(
        {
            "endpoint": there.endpoint,
            "region": there.region,
            "api_url": there.api_url,
            "state_machine_arn": there.state_machine_arn,
            "array_bucket": there.array_bucket,
            "control_bucket": there.control_bucket,
            "samples": there.samples.list_href,
            "environment": dict(there.variables),
        },
        indent=2,
    )
