"""A process that has read from a store ends with its own exit code."""

import subprocess
import sys
from pathlib import Path

import pytest

READ = """\
import asyncio, atexit, sys, threading, time
from pixel_gather.io.store.object_store import open_place
from pixel_gather.io.store.store_settings import StoreSettings

ends = threading.Event()
atexit.register(ends.set)  # runs before the product's own, which was registered before

async def read():
    loop = asyncio.get_running_loop()
    wake = loop._write_to_self

    def wake_and_linger():
        wake()
        ends.wait()
        for _ in range(20):
            time.sleep(0.001)  # each waits for the GIL, as `socket.send` does

    loop._write_to_self = wake_and_linger
    answer = await open_place(sys.argv[1], StoreSettings()).get_async("file")
    print(bytes(await answer.bytes_async()).decode())

asyncio.run(read())
"""
STAY = """\
import _thread, threading
import pixel_gather.io.store.object_store
is_there, never = threading.Event(), threading.Event()
_thread.start_new_thread(lambda: (is_there.set(), never.wait()), ())
is_there.wait()
print("done")
"""


def _output(program: str, *arguments: str) -> tuple[int, str]:
    words = [sys.executable, "-c", program, *arguments]
    ended = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)  # noqa: S603 # our own words
    return ended.returncode, ended.stdout


@pytest.mark.slow
def test_a_thread_that_hands_over_the_last_answer_does_not_abort_the_process(tmp_path: Path) -> None:
    """The process waits until the store's thread has left Python."""
    (tmp_path / "file").write_text("all of it")

    assert _output(READ, tmp_path.as_uri()) == (0, "all of it\n")


@pytest.mark.slow
def test_a_thread_that_never_leaves_python_does_not_keep_the_process() -> None:
    """The wait has an end: other libraries have threads that stay."""
    assert _output(STAY) == (0, "done\n")
