"""Fresh processes. Each does one job and answers, so that nothing is warm from the run before.

A job is a struct. It goes to the process as JSON, and the answer comes back as JSON. The process ends
with the one that started it, which holds its standard input open.
"""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from typing import IO, Any, Final, get_type_hints

import msgspec

from pixel_gather.core.errors import GatherError

_PROGRAM: Final = (sys.executable, "-m", "pixel_gather_bench.child")
_READY: Final = b"ready\n"
_TAIL: Final = 10_000
_LONGEST_LINE: Final = 300
_CRASHED: Final = 1
_ORPHANED: Final = 3


class RunCrashedError(GatherError):
    """A process ended without an answer. The message is one line, which ends with its last words."""

    code = "run_crashed"

    def __init__(self, message: str, *, said: str = "") -> None:
        """Keep the end of all that the process said."""
        last = said.rpartition("\n")[2][:_LONGEST_LINE]
        super().__init__(f"{message}: {last}" if last else message)
        self.said = said


def run_in_child[A](
    function: str,
    job: object,
    answer: type[A],
    *,
    name: str,
    environment: Mapping[str, str] | None = None,
    longest_s: float | None = None,
    program: Sequence[str] = _PROGRAM,
) -> A:
    """Do one job in a fresh process; see `run_together`."""
    [found] = run_together(
        function, {name: job}, answer, environment=environment, longest_s=longest_s, program=program
    )
    return found


def run_together[A](
    function: str,
    jobs: Mapping[str, object],
    answer: type[A],
    *,
    environment: Mapping[str, str] | None = None,
    longest_s: float | None = None,
    program: Sequence[str] = _PROGRAM,
) -> list[A]:
    """Do each job in a fresh process, all of them from the same moment on.

    Whatever is raised here, also by an interrupt, ends the processes first.

    Args:
        function: ``module:function``. It takes one annotated ``job`` and returns the answer, or a function
            that returns it. All processes call that second function at the same moment.
        jobs: By the name that errors call them.
        answer: What the answers are.
        environment: Variables beside those of this process.
        longest_s: A process that takes longer is killed.
        program: Takes the function as its last argument.

    Returns:
        The answers, in the order of the jobs.

    Raises:
        RunCrashedError: A process ended without an answer.
        GatherError: The function raised one.
    """
    with ExitStack() as stack:
        children = [
            stack.enter_context(_start_child(name, job, (*program, function), environment or {}))
            for name, job in jobs.items()
        ]
        if longest_s is not None:
            timers = [threading.Timer(longest_s, child.process.kill) for child in children]
            for timer in timers:
                timer.start()
                stack.callback(timer.cancel)
        waiting = [child for child in children if not child.has_answered()]
        for child in waiting:
            child.send(b"go\n")
        return [child.answer(answer) for child in children]


@dataclass(slots=True, kw_only=True)
class _Child:
    name: str
    process: subprocess.Popen[bytes]
    errors: IO[bytes]
    line: bytes = b""

    def send(self, line: bytes) -> None:
        assert self.process.stdin is not None  # noqa: S101 # it was started with a pipe
        with suppress(BrokenPipeError):  # it has ended, as its answer will show
            self.process.stdin.write(line)
            self.process.stdin.flush()

    def has_answered(self) -> bool:
        """Wait for a line, and return whether it is an answer."""
        assert self.process.stdout is not None  # noqa: S101 # as above
        self.line = self.process.stdout.readline()
        return self.line != _READY

    def answer[A](self, type_: type[A]) -> A:
        if self.line == _READY:
            self.has_answered()
        with suppress(msgspec.MsgspecError):
            given = msgspec.json.decode(self.line, type=dict[str, msgspec.Raw])
            if "refused" in given:
                raise GatherError(f"{self.name}: {msgspec.json.decode(given['refused'], type=str)}")
            return msgspec.json.decode(given["answer"], type=type_)
        raise RunCrashedError(f"{self.name}: {_how_it_ended(self.process.wait())}", said=_tail(self.errors))


@contextmanager
def _start_child(name: str, job: object, program: Sequence[str], more: Mapping[str, str]) -> Iterator[_Child]:
    environment = os.environ | dict(more)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # modules are compiled once, not at every start
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(  # noqa: S603 # our own module
            program,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,  # Ctrl-C in the terminal reaches the parent alone, which ends this one
        ) as process,
    ):
        child = _Child(name=name, process=process, errors=errors)
        try:
            child.send(msgspec.json.encode(job) + b"\n")
            yield child
        finally:
            process.kill()
            assert process.stdin is not None  # noqa: S101 # as above
            with suppress(BrokenPipeError):  # of what it did not read
                process.stdin.close()


def _how_it_ended(code: int) -> str:
    if code < 0:
        name = signal.Signals(-code).name
        hint = ", perhaps for lack of memory" if name == "SIGKILL" else ""
        return f"its process was ended by {name}{hint}"
    return f"its process ended with exit code {code} and no answer"


def _tail(errors: IO[bytes]) -> str:
    length = errors.seek(0, os.SEEK_END)
    errors.seek(max(length - _TAIL, 0))
    return errors.read().decode(errors="replace").strip()


def main() -> None:
    """Do the job that standard input describes, with the function that the last argument names."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print is no answer
    module, _, function = sys.argv[-1].partition(":")
    code = _CRASHED
    try:
        work = getattr(import_module(module), function)
        job = msgspec.json.decode(sys.stdin.buffer.readline(), type=get_type_hints(work)["job"])
        go = threading.Event()
        threading.Thread(target=_listen, args=(go,), daemon=True).start()
        answers.write(_do_job(work, job, answers, go))
        answers.flush()
        code = 0
    except BaseException:  # noqa: BLE001 # whatever it is, the parent tells of it
        traceback.print_exc()
    sys.stderr.flush()
    os._exit(code)  # the listening thread holds standard input's lock, which a usual exit waits for


def _do_job(work: Any, job: object, answers: IO[bytes], go: threading.Event) -> bytes:
    try:
        made = work(job)
        if callable(made):
            answers.write(_READY)
            answers.flush()
            go.wait()
            made = made()
    except GatherError as error:
        return msgspec.json.encode({"refused": str(error)}) + b"\n"
    return msgspec.json.encode({"answer": made}) + b"\n"


def _listen(go: threading.Event) -> None:
    """Wait for the parent's word, and end with the parent."""
    sys.stdin.buffer.readline()
    go.set()
    sys.stdin.buffer.read()
    os._exit(_ORPHANED)


if __name__ == "__main__":
    main()
