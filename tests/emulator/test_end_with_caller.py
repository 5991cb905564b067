"""Commands that end with their caller."""

import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pixel_gather_emulator.end_with_caller import CommandError, tied_commands


def wait_until(is_so: Callable[[], bool]) -> None:
    """Wait until a condition is met. The test's own time-out is the limit."""
    while not is_so():
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    """Return whether a process exists."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def python(code: str) -> list[str]:
    """Return a command that runs code."""
    return [sys.executable, "-c", code]


def test_tied_command_gives_back_what_it_said(tmp_path: Path) -> None:
    """Standard output is returned, of any length."""
    with tied_commands() as run:
        said = run(
            python("import sys; print('x' * 10**6); sys.stderr.write('y' * 10**6)"), os.environ, cwd=tmp_path
        )

    assert said == "x" * 10**6 + "\n"


def test_tied_command_that_fails_says_why(tmp_path: Path) -> None:
    """The message has the command and its last output."""
    with tied_commands() as run, pytest.raises(CommandError, match=r"(?s)-c.*failed:.*no such luck"):
        run(python("raise SystemExit('no such luck')"), os.environ, cwd=tmp_path)


def test_tied_command_is_killed_when_its_caller_leaves(tmp_path: Path) -> None:
    """The command and its children are killed at once, and the call raises an error."""
    pids, failures = tmp_path / "pids", []
    code = (
        "import os, subprocess, sys, time, pathlib\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"pathlib.Path({str(pids)!r} + '.new').write_text(f'{{os.getpid()}} {{child.pid}}')\n"
        f"os.rename({str(pids)!r} + '.new', {str(pids)!r})\n"
        "time.sleep(600)"
    )
    with tied_commands() as run:

        def call() -> None:
            try:
                run(python(code), os.environ, cwd=tmp_path)
            except CommandError as failure:
                failures.append(failure)

        calling = threading.Thread(target=call)
        calling.start()
        wait_until(pids.exists)
    calling.join()

    for pid in map(int, pids.read_text().split()):
        wait_until(lambda pid=pid: not is_alive(pid))  # type: ignore[misc] # mypy cannot infer a default's lambda
    assert len(failures) == 1
