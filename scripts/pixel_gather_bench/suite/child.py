"""Starts the process of one run and waits for its record, through an interrupt or a crash of it."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Final

import msgspec

from pixel_gather.errors import GatherError
from pixel_gather_bench.suite.job import Job
from pixel_gather_bench.suite.record import Record

_TAIL: Final = 10_000
_LONGEST_LINE: Final = 300
_PROGRAM: Final = (sys.executable, "-m", "pixel_gather_bench.suite.one_run")


class RunCrashedError(GatherError):
    """The process of one run ended without a record; the message, one line, ends with its last words."""

    code = "run_crashed"

    def __init__(self, message: str, *, said: str = "") -> None:
        """Keep the end of all that the process said."""
        last = said.rpartition("\n")[2][:_LONGEST_LINE]
        super().__init__(f"{message}: {last}" if last else message)
        self.said = said


def run_in_child(job: Job, *, program: tuple[str, ...] = _PROGRAM) -> Record:
    """Do a job in a fresh process.

    Whatever raises here, an interrupt above all, ends the process first.

    Args:
        job: What to do.
        program: Takes the job's JSON as the first line of its standard input, which stays open.

    Raises:
        RunCrashedError: It ended without a record.
    """
    with tempfile.TemporaryFile() as errors, _started(program, errors) as process:
        assert process.stdin is not None  # noqa: S101 # both are pipes
        assert process.stdout is not None  # noqa: S101 # as above
        with suppress(BrokenPipeError):
            process.stdin.write(msgspec.json.encode(job) + b"\n")
            process.stdin.flush()
        answer = process.stdout.read()
        code = process.wait()
        if code == 0:
            with suppress(msgspec.MsgspecError):
                return msgspec.json.decode(answer, type=Record)
        raise RunCrashedError(f"{job.name}: {_how_it_ended(code)}", said=_last_words(errors))


@contextmanager
def _started(program: tuple[str, ...], errors: IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    environment = dict(os.environ)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # modules are compiled once, not at every start
    with subprocess.Popen(  # noqa: S603 # our own module
        program,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        start_new_session=True,  # a Ctrl-C in the terminal reaches the suite alone, which ends this
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _how_it_ended(code: int) -> str:
    if code < 0:
        name = signal.Signals(-code).name
        hint = ", perhaps for lack of memory" if name == "SIGKILL" else ""
        return f"its process was ended by {name}{hint}"
    return f"its process ended with exit code {code} and no record"


def _last_words(errors: IO[bytes]) -> str:
    length = errors.seek(0, os.SEEK_END)
    errors.seek(max(length - _TAIL, 0))
    return errors.read().decode(errors="replace").strip()
