"""Processes that are forks of one that has imported what they need, which takes a second of CPU each time."""

import multiprocessing
import os
import sys
from collections.abc import Mapping, Sequence
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from subprocess import CompletedProcess
from tempfile import TemporaryDirectory
from typing import Final

from pixel_gather_cli.main import main

_PRELOADED: Final = [
    "boto3",
    "faults.stopped",
    "pixel_gather_cli.commands.submit",
    "pixel_gather_cli.deployment.api_deployment",
    "pixel_gather_cli.deployment.direct_deployment",
    __name__,
]
"""Modules that all forks have. The first who asks starts the one process, also for whoever comes later."""

_PATIENCE_S: Final = 300.0


def forking() -> ForkServerContext:
    """Return the context of processes that are forks of the one process, which runs from now on.

    Python 3.13 does not tell that process where modules are, and goes on without those that it does not find.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED)
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    try:
        forkserver.ensure_running()
    finally:
        del os.environ["PYTHONPATH"]
        if before is not None:
            os.environ["PYTHONPATH"] = before
    return context


def start_command(
    arguments: Sequence[str],
    *,
    environment: Mapping[str, str],
    out: Path,
    err: Path,
    read: Path = Path(os.devnull),
) -> ForkServerProcess:
    """Start ``pixel-gather`` with these arguments, a complete environment, and files as its terminal."""
    process = forking().Process(
        target=_run, args=([*arguments], dict(environment), read, out, err), daemon=True
    )
    process.start()
    return process


def run_command(*arguments: str, environment: Mapping[str, str], typed: str = "") -> CompletedProcess[str]:
    """Run a command to its end. It reads what was typed."""
    with TemporaryDirectory() as folder:
        read, out, err = (Path(folder, name) for name in ("typed", "out", "err"))
        read.write_text(typed)
        process = start_command(arguments, environment=environment, out=out, err=err, read=read)
        process.join(_PATIENCE_S)
        process.kill()
        process.join()
        assert process.exitcode is not None
        return CompletedProcess(arguments, process.exitcode, out.read_text(), err.read_text())


def _run(arguments: list[str], environment: dict[str, str], read: Path, out: Path, err: Path) -> None:
    os.dup2(os.open(read, os.O_RDONLY), 0)
    sys.stdin = os.fdopen(0)
    for number, path in ((1, out), (2, err)):
        os.dup2(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND), number)
    os.environ.clear()
    os.environ.update(environment)
    main(arguments)
