"""Several fresh processes that begin together, and what becomes of one that dies."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import IO, Any, Final

from pixel_gather.errors import GatherError
from pixel_gather_bench.blocks.job import BlockJob

_COMMAND: Final = (sys.executable, "-m", "pixel_gather_bench.blocks.child")


def run_together(jobs: Sequence[BlockJob], *, command: Sequence[str] = _COMMAND) -> list[dict[str, Any]]:
    """Run each job in a process of its own, all from the same moment on.

    Returns:
        Their answers, in the order of ``jobs``.

    Raises:
        GatherError: One of them refused or died; the others are stopped.
    """
    with ExitStack() as stack:
        children = [stack.enter_context(_started(job, command)) for job in jobs]
        for child in children:
            child.answer()  # it is ready
        for child in children:
            child.say("go\n")
        return [json.loads(child.answer()) for child in children]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Child:
    job: BlockJob
    process: subprocess.Popen[str]
    errors: IO[str]

    def say(self, line: str) -> None:
        assert self.process.stdin is not None  # noqa: S101 # it was started with a pipe
        with suppress(BrokenPipeError):  # it has died, as its answer will show
            self.process.stdin.write(line)
            self.process.stdin.flush()

    def answer(self) -> str:
        assert self.process.stdout is not None  # noqa: S101 # as above
        line = self.process.stdout.readline()
        if not line:
            raise GatherError(self._last_words())
        if line.startswith('{"refused"'):
            raise GatherError(f"{self._who()}: {json.loads(line)['refused']}")
        return line

    def _last_words(self) -> str:
        code = self.process.wait()
        self.errors.seek(0)
        said = self.errors.read().strip().rpartition("\n")[2] or "it said nothing"
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        return f"{self._who()} {how}: {said}; try fewer --workers, smaller --sizes or a lower --total-mb"

    def _who(self) -> str:
        setting = self.job.setting
        return (
            f"worker {self.job.worker + 1} of {setting.n_workers} ({self.job.phase}, {setting.codec}, blocks "
            f"of {setting.block_mb:.2f} MB)"
        )


@contextmanager
def _started(job: BlockJob, command: Sequence[str]) -> Iterator[_Child]:
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8") as errors,
        subprocess.Popen(  # noqa: S603 # our own module
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process,
    ):
        child = _Child(job=job, process=process, errors=errors)
        try:
            child.say(f"{job.to_line()}\n")
            yield child
        except BaseException:  # a sibling has died, or the user has had enough
            process.kill()
            raise
        finally:
            assert process.stdin is not None  # noqa: S101 # as above
            with suppress(BrokenPipeError):  # with what could not be sent to one that has died
                process.stdin.close()
