"""A cancelled task waits for its thread."""

import asyncio
import os
import subprocess
import sys
import threading
import time
from functools import partial

import pytest

from pixel_gather.core.in_thread import _threads, in_thread, threads_worked_s
from support.in_loop import in_loop


@in_loop
async def test_in_thread_waits_for_its_thread_when_cancelled() -> None:
    """After one cancellation or two, no thread writes to the array."""
    may_end, events = threading.Event(), list[str]()

    def work() -> None:
        may_end.wait(5)
        events.append("thread ended")

    task = asyncio.create_task(in_thread(work))
    await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.sleep(0.01)
    task.cancel()
    asyncio.get_running_loop().call_later(0.02, may_end.set)
    with pytest.raises(asyncio.CancelledError):
        await task
    events.append("task ended")

    assert events == ["thread ended", "task ended"]


@in_loop
async def test_in_thread_does_several_works_at_a_time_and_returns_their_results() -> None:
    """Each caller gets its own result, also where one of them gave up."""
    given_up = asyncio.create_task(in_thread(lambda: 100))
    await asyncio.sleep(0)
    given_up.cancel()
    assert await asyncio.gather(*(in_thread(partial(int, n)) for n in range(20))) == list(range(20))


@in_loop
async def test_work_that_goes_first_is_done_before_what_waits() -> None:
    """While all threads are busy, later work that goes first overtakes the others."""
    begun, may_end, done = threading.Semaphore(0), threading.Event(), list[str]()

    def block() -> None:
        begun.release()
        may_end.wait(5)

    blocking = [in_thread(block) for _ in range(_threads().n)]
    busy = asyncio.gather(*blocking)
    await asyncio.sleep(0)
    for _ in blocking:
        await asyncio.to_thread(begun.acquire, timeout=5)
    later = [in_thread(partial(done.append, "decoded")) for _ in range(3)]
    first = [in_thread(partial(done.append, "compressed"), goes_first=True) for _ in range(2)]
    waiting = asyncio.gather(*later, *first)
    await asyncio.sleep(0)
    may_end.set()
    await asyncio.gather(busy, waiting)

    assert sorted(done[:2]) == ["compressed", "compressed"]
    assert done[2:] == ["decoded"] * 3


def test_threads_tell_how_long_they_have_worked() -> None:
    """The mean of all threads. Waiting for work does not count."""

    async def works(seconds: float) -> None:
        await in_thread(partial(time.sleep, seconds))

    async def waits(seconds: float) -> None:
        await in_thread(lambda: None)
        await asyncio.sleep(seconds)
        await in_thread(lambda: None)

    told_s = [threads_worked_s() * _threads().n]
    for work in (works(0.1), waits(1)):
        asyncio.run(work)
        told_s.append(threads_worked_s() * _threads().n)

    assert told_s[1] - told_s[0] >= 0.1
    assert told_s[2] - told_s[1] < 1


def test_in_thread_passes_errors_on() -> None:
    """The caller gets the error of the thread."""

    def work() -> None:
        raise ValueError("bad tile")

    with pytest.raises(ValueError, match="bad tile"):
        asyncio.run(in_thread(work))


@pytest.mark.parametrize("n", [1, 3])
def test_threads_are_as_many_as_python_is_told_that_there_are_cpus(n: int) -> None:
    """Lambda shows more CPUs than a function may use. The stack sets their number by this variable."""
    module = in_thread.__module__
    told = f"from {module} import _threads; print(_threads().n)"

    done = subprocess.run(  # noqa: S603 # our own words
        [sys.executable, "-c", told],
        env=os.environ | {"PYTHON_CPU_COUNT": str(n)},
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.strip() == str(n)
