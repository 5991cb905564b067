"""Fresh processes: their answers, how they end, and that none outlives the one that started it."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pixel_gather.core.errors import GatherError
from pixel_gather_bench.child import RunCrashedError, run_in_child, run_together

ENVIRONMENT = {"PYTHONPATH": os.pathsep.join(sys.path)}
"""A child finds this module as the test does."""


@dataclass(frozen=True)
class Job:
    """What the functions below are told."""

    text: str


@dataclass(frozen=True)
class Answer:
    """What they answer."""

    text: str
    moment_s: float = 0.0


def shout(job: Job) -> Answer:
    """Answer, after a line on standard output that is no answer."""
    print("a library's line")  # noqa: T201 # it must not be taken for the answer
    return Answer(job.text.upper())


def ready(job: Job) -> Callable[[], Answer]:
    """Take as long as the job says to be ready."""
    time.sleep(float(job.text))
    return lambda: Answer(job.text, time.monotonic())


def refuse(job: Job) -> Answer:
    """Refuse the job in a sentence."""
    raise GatherError(f"there is no {job.text}")


def fail(job: Job) -> Answer:
    """Fail with an error that nobody expects."""
    raise TypeError(job.text)


def program(source: str, *arguments: str) -> tuple[str, ...]:
    """Return a command that runs Python source."""
    return (sys.executable, "-c", source, *arguments)


def do(function: str, text: str = "", *, source: str | None = None) -> Answer:
    """Do a job with a function of this module, or with a program."""
    more: dict[str, Any] = {} if source is None else {"program": program(source)}
    return run_in_child(
        f"bench.test_child:{function}", Job(text), Answer, name="the job", environment=ENVIRONMENT, **more
    )


def test_an_answer_comes_back() -> None:
    """What a library prints is left out."""
    assert do("shout", "answer") == Answer("ANSWER")


@pytest.mark.long
def test_processes_begin_their_work_together() -> None:
    """The fast one waits until the slow one is ready."""
    jobs = {"fast": Job("0"), "slow": Job("0.3")}

    fast, slow = run_together("bench.test_child:ready", jobs, Answer, environment=ENVIRONMENT)

    assert (fast.text, slow.text) == ("0", "0.3")
    assert abs(fast.moment_s - slow.moment_s) < 0.25


@pytest.mark.long
def test_a_refusal_is_raised_here() -> None:
    """In the child's words, after the job's name."""
    with pytest.raises(GatherError, match=r"^the job: there is no bucket$"):
        do("refuse", "bucket")


@pytest.mark.long
def test_a_failure_is_told_by_its_last_line() -> None:
    """The line is the error, not what the interpreter says as it ends."""
    with pytest.raises(
        RunCrashedError, match=r"^the job: .* exit code 1 and no answer: TypeError: no dtype$"
    ):
        do("fail", "no dtype")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("import sys; sys.exit('out of luck')", "ended with exit code 1 and no answer: out of luck$"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "SIGKILL, perhaps for lack of memory$"),
        ("print('done')", "exit code 0 and no answer"),
        ("print('ready')", "exit code 0 and no answer"),
    ],
)
def test_a_process_that_ends_without_an_answer_is_a_crash(source: str, said: str) -> None:
    """One line says how it ended."""
    with pytest.raises(RunCrashedError, match=said):
        do("shout", source=source)


def test_a_crash_keeps_the_end_of_what_the_process_said() -> None:
    """Whoever sees it need not run anything again."""
    with pytest.raises(RunCrashedError, match=r"exit code 7 and no answer: lost its mind$") as caught:
        do("shout", source="import sys; sys.stderr.write('x' * 50_000 + '\\nlost its mind\\n'); sys.exit(7)")

    assert 5_000 < len(caught.value.said) < 11_000


def test_a_crash_ends_the_other_processes(tmp_path: Path) -> None:
    """No process stays behind."""
    source = "import sys, time; print('ready', flush=True); time.sleep(60 * (sys.argv[1] == 'never'))"

    with pytest.raises(RunCrashedError):
        run_together("", {"a": Job(""), "b": Job("")}, Answer, program=program(source, str(tmp_path)))

    assert not list(processes_with(str(tmp_path)))


def test_a_process_that_takes_too_long_is_killed() -> None:
    """So that one tool that hangs does not cost a night."""
    with pytest.raises(RunCrashedError, match="SIGKILL"):
        run_in_child(
            "", Job(""), Answer, name="it", longest_s=0.1, program=program("import time; time.sleep(60)")
        )


def test_an_interrupt_ends_the_process(tmp_path: Path) -> None:
    """Nothing goes on reading after Ctrl-C."""
    note = tmp_path / "pid"
    source = (
        f"import os, pathlib, time; pathlib.Path({str(note)!r}).write_text(str(os.getpid())); time.sleep(60)"
    )

    def interrupt_once_started() -> None:
        while not (note.exists() and note.read_text()):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt_once_started).start()
    with pytest.raises(KeyboardInterrupt):
        do("shout", source=source)

    with pytest.raises(ProcessLookupError):
        os.kill(int(note.read_text()), 0)


def test_a_child_ends_with_the_process_that_started_it() -> None:
    """A benchmark that is killed leaves no run behind: its end closes the child's standard input."""
    command = [sys.executable, "-m", "pixel_gather_bench.child", "bench.test_child:ready"]
    with subprocess.Popen(  # noqa: S603 # our own module
        command, stdin=subprocess.PIPE, env=os.environ | ENVIRONMENT
    ) as process:
        process.communicate(b'{"text": "60"}\n', timeout=30)

    assert process.returncode == 3


def processes_with(argument: str) -> Iterator[Path]:
    """Yield the processes of this machine that were started with an argument."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if argument.encode() in (process / "cmdline").read_bytes().split(b"\0"):
                yield process
