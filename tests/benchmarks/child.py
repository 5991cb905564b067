"""Starts a module of this folder in a process of its own: for one answer, or as a server for a while."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def run_module(module: str, *arguments: str, given: Any = None, more: Mapping[str, str] | None = None) -> Any:
    """Return what a module prints in its last line, as JSON.

    Args:
        module: Of this folder.
        arguments: Of the command line.
        given: Written to its standard input as JSON.
        more: Environment variables, beside those of this process.

    Raises:
        subprocess.CalledProcessError: It failed. Its standard error is this process's.
    """
    done = subprocess.run(  # noqa: S603 # our own module
        _command(module, arguments),
        env=_environment(more),
        input=json.dumps(given).encode(),
        stdout=subprocess.PIPE,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])  # some libraries print


@contextmanager
def serving_module(module: str, *arguments: str) -> Iterator[list[int]]:
    """Run a server until the block ends; yields the ports that it prints.

    The server ends with its standard input, so it never outlives this process.
    """
    with subprocess.Popen(  # noqa: S603 # our own module
        _command(module, arguments), env=_environment(None), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        if process.stdin is None or process.stdout is None:
            raise AssertionError
        yield [int(port) for port in process.stdout.readline().split()]
        process.stdin.close()


def _command(module: str, arguments: tuple[str, ...]) -> list[str]:
    return [sys.executable, "-m", f"benchmarks.{module}", *arguments]


def _environment(more: Mapping[str, str] | None) -> dict[str, str]:
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])} | dict(more or {})
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # libraries are compiled once, not at every start
    return environment
