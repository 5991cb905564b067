"""The command cleans up on SIGTERM."""

import asyncio
import errno
import io
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from pixel_gather.io.event_loop import run
from pixel_gather_cli.main import command, main
from pixel_gather_cli.signals import _LAST_STEPS_S, _PATIENCE_S, ends_when_terminated
from support.images import write_image
from support.local_server import Answer, Asked, serving


@contextmanager
def ignored(number: signal.Signals) -> Iterator[None]:
    """Ignore a signal, as in a process that was started in the background or by ``nohup``."""
    before = signal.signal(number, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(number, before)


def test_sigterm_leaves_through_the_context_and_is_as_before_afterwards() -> None:
    """All contexts are closed, the exit code is the usual one, and the earlier handler is restored."""
    before = signal.getsignal(signal.SIGTERM)
    closed = io.StringIO()

    with pytest.raises(SystemExit) as caught, ends_when_terminated(), closed:
        os.kill(os.getpid(), signal.SIGTERM)

    assert caught.value.code == 143
    assert closed.closed
    assert signal.getsignal(signal.SIGTERM) == before


def test_sigterm_lets_an_event_loop_finish_its_step_and_clean_up() -> None:
    """An exception between two steps of a loop loses what other tasks wait for, and the run never ends."""
    done: list[str] = []

    async def work() -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.01)  # noqa: ASYNC251 # Python calls the handler here at the latest
            done.append("step")
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0)
            done.append("clean-up")

    earlier = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(SystemExit) as caught, ends_when_terminated():
            run(work())
    finally:
        signal.signal(signal.SIGINT, earlier)

    assert caught.value.code == 143
    assert done == ["step", "clean-up"]


def test_an_interrupt_during_the_first_imports_shows_no_traceback() -> None:
    """The process ends at once, as there is nothing to clean up. Later, `main` answers the signal."""
    program = (
        "import runpy, signal, sys\n"
        "class Interrupts:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'pixel_gather_cli.main':\n"
        "            signal.raise_signal(signal.SIGINT)\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "sys.meta_path.insert(0, Interrupts())\n"
        "runpy.run_module('pixel_gather_cli', run_name='__main__')\n"
    )

    ended = subprocess.run(  # noqa: S603 # our own words
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, env=dict(os.environ)
    )

    assert (ended.returncode, ended.stderr) == (-signal.SIGINT, "")


def test_a_process_has_less_than_two_seconds_after_a_signal() -> None:
    """How long processes take in all depends on the machine, so other tests measure no time."""
    assert _PATIENCE_S + _LAST_STEPS_S < 2


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_signal_during_finalization_is_not_forgotten() -> None:
    """Python drops what is raised in ``__del__``. The context ends with the exit code all the same."""

    class Finalized:
        def __del__(self) -> None:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.01)

    with pytest.raises(SystemExit) as caught, ends_when_terminated():
        Finalized()

    assert caught.value.code == 143


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_run_that_is_told_to_end_says_so_and_leaves_no_temporary_file(
    number: signal.Signals, tmp_path: Path
) -> None:
    """The message says how to continue, and the exit code is that of shells."""
    temporary, cube = tmp_path / "tmp", tmp_path / "cube"
    temporary.mkdir()
    stopping = threading.Event()

    def slowly(asked: Asked) -> Answer:
        stopping.wait(0.0 if asked.range_ is None else 0.2)
        return Answer(status=404)

    with serving(slowly) as server:
        list_file = tmp_path / "list.txt"
        list_file.write_text("".join(f"{server.root}/{n}.tif\n" for n in range(2000)))
        seen = len(server.asked)
        run = subprocess.Popen(  # noqa: S603 # ours
            [sys.executable, "-m", "pixel_gather_cli", "index", str(list_file), "--to", str(cube)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=dict(os.environ) | {"TMPDIR": str(temporary)},
        )
        while len(server.asked) < seen + 20:
            assert run.poll() is None, run.communicate()
            time.sleep(0.01)
        assert list(temporary.iterdir())
        run.send_signal(number)
        _, said = run.communicate(timeout=30)
        stopping.set()

    assert run.returncode == (143 if number == signal.SIGTERM else 130)
    assert (
        said.strip()
        .splitlines()[-1]
        .endswith("run, points and zones resume, others start over, unless they had just ended.")
    )
    assert "Traceback" not in said
    assert list(temporary.iterdir()) == []


def test_a_defect_is_not_mistaken_for_sources_that_failed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A traceback does not exit with 1, which means failed sources here."""

    def broken(*_: object, **__: object) -> None:
        raise KeyError("bug")

    monkeypatch.setattr(command, "main", broken)

    with pytest.raises(SystemExit) as ended:
        main(["ls", "."])

    said = capsys.readouterr().err
    assert ended.value.code == 70
    assert "KeyError: 'bug'" in said
    assert "defect in Pixel Gather" in said


def test_too_few_open_files_are_no_defect(tmp_path: Path) -> None:
    """One line says what to do. Python itself, and a gather, need some 75."""
    write_image(tmp_path / "a.tif", np.ones((64, 64), "int16"), west=0, nodata=None)
    (tmp_path / "list.txt").write_text("a.tif\n")
    run = [sys.executable, "-m", "pixel_gather_cli", "run", "--sources", "list.txt", "--tile", "centre"]
    limited = ["sh", "-c", 'ulimit -n 40; exec "$@"', "sh", *run, "--to", "cube.zarr"]

    ended = subprocess.run(  # noqa: S603 # our own words
        limited, cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert ended.returncode == 2
    assert ended.stderr.splitlines()[-1] == (
        "pixel-gather: too many files are open: allow more by ulimit -n 1024, then repeat the command"
    )
    assert "Traceback" not in ended.stderr


def test_a_current_folder_that_was_removed_is_no_defect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Paths cannot be told from there."""
    (gone := tmp_path / "gone").mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()

    with pytest.raises(SystemExit) as ended:
        main(["ls", str(tmp_path)])
    monkeypatch.chdir(tmp_path)

    assert ended.value.code == 2
    assert capsys.readouterr().err == (
        "pixel-gather: the current folder was removed: change to another folder, then repeat the command\n"
    )


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), 141, ""),
        (
            OSError(errno.ENOSPC, "No space left on device"),
            2,
            "pixel-gather: results could not be written: No space left on device\n",
        ),
    ],
)
@pytest.mark.parametrize("arguments", [["--help"], ["ls", "."], ["completion", "bash"]])
def test_results_that_nobody_takes_are_no_defect(
    arguments: list[str], error: OSError, code: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that has seen enough, as ``head``, and a full disk. Exit code 1 would mean failed sources."""

    class Gone(io.StringIO):
        def write(self, _: str) -> int:
            raise error

    heard = io.StringIO()
    monkeypatch.setattr(sys, "stdout", Gone())
    monkeypatch.setattr(sys, "stderr", heard)

    with pytest.raises(SystemExit) as ended:
        main(arguments)

    assert ended.value.code == code
    assert heard.getvalue() == said


def test_hangup_that_is_ignored_stays_so() -> None:
    """A command that was started by ``nohup`` outlives its terminal."""
    with ignored(signal.SIGHUP):
        with ends_when_terminated():
            os.kill(os.getpid(), signal.SIGHUP)

        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN


def test_command_started_in_the_background_and_its_children_answer_interrupts() -> None:
    """A shell starts background jobs with SIGINT ignored. The command and its children still end on it."""
    code = "import signal; print(signal.getsignal(signal.SIGINT) == signal.default_int_handler)"
    with ignored(signal.SIGINT):
        with pytest.raises(SystemExit):
            main(["--version"])
        said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603 # our own code

        assert signal.getsignal(signal.SIGINT) == signal.default_int_handler
        assert said.stdout == "True\n"
