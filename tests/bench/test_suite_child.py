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


def program(source: str) -> tuple[str, ...]:
    """Return a command that runs Python source."""
    return (sys.executable, "-c", source)


def test_a_crash_is_told_with_what_the_process_said_last() -> None:
    """Whoever sees it need not run anything again to know why."""
    source = "import sys; sys.stderr.write('x' * 5000 + 'GDAL has lost its mind'); sys.exit(7)"

    with pytest.raises(
        RunCrashedError, match=r"(?s)^fast-4-1: .* exit code 7 .*\nx{1,2000}GDAL has lost"
    ) as caught:
        run_in_child(job_of("fast", 4), program=program(source))

    assert len(str(caught.value)) < 2200


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
