"""The process of one run, as the suite sees it."""

import os
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from bench.suites import job_of
from pixel_gather_bench.suite.child import RunCrashedError, run_in_child
from pixel_gather_bench.suite.job import ENGINES, EngineName


def program(source: str) -> tuple[str, ...]:
    """Return a command that runs Python source."""
    return (sys.executable, "-c", source)


def test_a_crash_is_told_with_what_the_process_said_last() -> None:
    """One line says why, and all of it goes along: whoever sees it need not run anything again."""
    source = "import sys; sys.stderr.write('x' * 50_000 + '\\nGDAL has lost its mind\\n'); sys.exit(7)"

    with pytest.raises(
        RunCrashedError, match=r"^fast-4-1: .* exit code 7 and no record: GDAL has lost its mind$"
    ) as caught:
        run_in_child(job_of("fast", 4), program=program(source))

    assert 5_000 < len(caught.value.said) < 11_000


def test_a_run_that_fails_says_why_and_nothing_of_the_interpreters_end() -> None:
    """The last line is the error, not that the interpreter could not end in order."""
    job = replace(job_of("fast", 1), target=replace(job_of("fast", 1).target, dtype="no dtype"))

    with pytest.raises(RunCrashedError, match=r"exit code 1 and no record: TypeError: .*no dtype"):
        run_in_child(job)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_run_in_a_process_of_its_own_finds_its_engine(engine: EngineName) -> None:
    """Every engine has a module that the process imports by its name: sources that are missing fail alone."""
    record = run_in_child(job_of(engine, 1))

    assert len(record.failures) == 4


def test_a_killed_process_is_told_by_its_signal() -> None:
    """What kills for lack of memory leaves no words."""
    source = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"

    with pytest.raises(RunCrashedError, match="SIGKILL, perhaps for lack of memory"):
        run_in_child(job_of("rasterio", 4), program=program(source))


def test_an_answer_that_is_no_record_is_a_crash() -> None:
    """A process that ends well without a record has not done its work."""
    with pytest.raises(RunCrashedError, match="no record"):
        run_in_child(job_of("fast", 1), program=program("print('done')"))


def test_an_interrupt_ends_the_process(tmp_path: Path) -> None:
    """Nothing goes on reading after Ctrl-C."""
    note = tmp_path / "pid"
    source = (
        f"import os, pathlib, time; pathlib.Path({str(note)!r}).write_text(str(os.getpid())); time.sleep(60)"
    )

    def interrupt_once_started() -> None:
        while not (note.exists() and note.read_text()):
            time.sleep(0.01)
        os.kill(os.getpid(), 2)

    threading.Thread(target=interrupt_once_started).start()
    with pytest.raises(KeyboardInterrupt):
        run_in_child(job_of("fast", 1), program=program(source))

    with pytest.raises(ProcessLookupError):
        os.kill(int(note.read_text()), 0)


def test_one_run_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    """A suite that is killed leaves no run behind: closing standard input ends it amid its work."""
    fifo = tmp_path / "never.tif"
    os.mkfifo(fifo)  # opening it waits for ever
    job = replace(job_of("rasterio", 1), hrefs=(f"file://{fifo}",))
    import msgspec  # noqa: PLC0415 # only here

    with subprocess.Popen(
        [sys.executable, "-m", "pixel_gather_bench.suite.one_run"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        process.communicate(msgspec.json.encode(job) + b"\n", timeout=30)

    assert process.returncode == 3
