"""Runs commands that end when their caller ends, in whatever way.

A small process runs the command. Its standard input is a pipe from the caller, which stays empty. When the
pipe closes, the command and all processes that it started are killed.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Protocol

_TAIL: Final = 6000


class CommandError(Exception):
    """A command failed. The message ends with its output."""


class RunCommand(Protocol):
    """Runs a command to its end."""

    def __call__(self, command: Sequence[str], environment: Mapping[str, str], *, cwd: Path) -> str:
        """Return the command's standard output, or raise CommandError."""
        ...


@contextmanager
def tied_commands() -> Generator[RunCommand]:
    """Yield a function that runs commands, also in threads. Commands that still run at the end are killed."""
    running: list[subprocess.Popen[str]] = []
    is_over = False

    def run(command: Sequence[str], environment: Mapping[str, str], *, cwd: Path) -> str:
        started = subprocess.Popen(  # noqa: S603 # our own words
            [sys.executable, "-m", "pixel_gather_emulator.end_with_caller", *command],
            env=environment,
            cwd=cwd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # a Ctrl-C in the terminal reaches the caller alone
        )
        running.append(started)
        if is_over:
            _let_go(started)
        with started:
            said = _read_both(started)
        if started.returncode:
            raise CommandError(f"`{' '.join(command)}` failed:\n{''.join(said).strip()[-_TAIL:]}")
        return said[0]

    try:
        yield run
    finally:
        is_over = True
        for started in running:
            _let_go(started)


def _read_both(started: subprocess.Popen[str]) -> tuple[str, str]:
    """Read both outputs and keep the input open. `Popen.communicate` would close the input first."""
    streams = (started.stdout, started.stderr)
    with ThreadPoolExecutor(max_workers=len(streams)) as pool:
        output, errors = pool.map(lambda stream: stream.read() if stream else "", streams)
    return output, errors


def _let_go(started: subprocess.Popen[str]) -> None:
    if started.stdin is not None:
        started.stdin.close()


def kill_group(group: int) -> None:
    """Kill every process of a group, if there is one."""
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def wait_until_input_closes() -> None:
    """Return once the other end of standard input is closed."""
    while os.read(sys.stdin.fileno(), 4096):
        pass


def main() -> None:
    """Run the command in the arguments and exit with its code."""
    command = subprocess.Popen(  # noqa: S603 # our own words
        sys.argv[1:], stdin=subprocess.DEVNULL, start_new_session=True
    )

    def follow() -> None:
        wait_until_input_closes()
        kill_group(command.pid)

    threading.Thread(target=follow, daemon=True).start()
    code = command.wait()
    sys.exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main()
