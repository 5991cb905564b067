"""The event loop runs anywhere, on batch threads."""

import asyncio
import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest

from pixel_gather.io.event_loop import run

needs_policies = pytest.mark.skipif(
    not hasattr(os, "SCHED_BATCH"), reason="only Linux has scheduling policies"
)


async def _policies() -> tuple[int, int]:
    """Return this thread's policy and that of a thread started from it."""
    return os.sched_getscheduler(0), await asyncio.to_thread(os.sched_getscheduler, 0)


@needs_policies
def test_run_makes_its_threads_batch_threads_and_leaves_the_caller_as_it_was() -> None:
    """Other threads do not interrupt a decoder, and the user's own threads stay as they were."""
    before = os.sched_getscheduler(0)

    during = run(_policies())

    assert during == (os.SCHED_BATCH, os.SCHED_BATCH)
    assert os.sched_getscheduler(0) == before


@needs_policies
def test_run_keeps_a_policy_that_was_chosen_on_purpose() -> None:
    """A gather that was started with an idle policy keeps it."""
    seen: list[tuple[int, int]] = []

    def be_idle() -> None:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        seen.append(run(_policies()))

    thread = threading.Thread(target=be_idle)  # the policy is a thread's own
    thread.start()
    thread.join()

    assert seen == [(os.SCHED_IDLE, os.SCHED_IDLE)]


@needs_policies
@pytest.mark.parametrize("error", [PermissionError, OSError, AttributeError])
@pytest.mark.parametrize("call", ["sched_getscheduler", "sched_setscheduler"])
def test_run_does_without_policies_where_a_sandbox_forbids_them(
    call: str, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some sandboxes forbid reading or changing the policy, and some systems have none."""

    def forbidden(*_: object) -> int:
        raise error("not here")

    monkeypatch.setattr(os, call, forbidden)

    assert run(asyncio.sleep(0, "done")) == "done"


def test_run_works_beside_a_running_loop() -> None:
    """The loop of a notebook waits while ours runs in another thread."""

    async def from_within() -> str:
        return run(asyncio.sleep(0, "done"))

    assert asyncio.run(from_within()) == "done"


def test_an_interrupt_of_a_notebook_ends_the_work_at_once() -> None:
    """The interrupt reaches the main thread only. All that was opened is closed."""
    closed = threading.Event()

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            closed.set()
            raise

    async def cell() -> None:
        earlier = signal.signal(signal.SIGINT, signal.default_int_handler)  # as IPython has it
        timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        try:
            run(work())
        finally:
            timer.join()
            signal.signal(signal.SIGINT, earlier)

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(cell())

    assert closed.is_set()


def test_run_beside_a_running_loop_raises_what_the_work_raises() -> None:
    """The error is passed on unchanged."""

    async def fail() -> None:
        raise KeyError("bug")

    async def cell() -> None:
        run(fail())

    with pytest.raises(KeyError, match="bug"):
        asyncio.run(cell())


@pytest.fixture
def pythons_interrupts() -> Iterator[None]:
    """Have Python's own handler answer SIGINT, as in a user's program."""
    earlier = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, earlier)


@pytest.mark.usefixtures("pythons_interrupts")
def test_work_cleans_up_however_often_it_is_interrupted() -> None:
    """People press Ctrl-C twice. The second one neither breaks the clean-up nor stays unheard."""
    cleaned = threading.Event()

    async def work() -> None:
        try:
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(60)
        finally:
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.to_thread(time.sleep, 0.01)
            cleaned.set()

    with pytest.raises(KeyboardInterrupt):
        run(work())
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert cleaned.is_set()


@pytest.mark.usefixtures("pythons_interrupts")
def test_an_interrupt_after_the_work_is_raised() -> None:
    """Work that ends just as it is interrupted, or that ignores being cancelled, hides no interrupt."""

    async def work() -> None:
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        run(work())


@pytest.mark.usefixtures("pythons_interrupts")
def test_a_late_second_interrupt_breaks_off_a_clean_up_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody has to wait for a clean-up without end."""
    monkeypatch.setattr("pixel_gather.io.event_loop._PATIENCE_S", 0.0)
    has_waited = False

    async def work() -> None:
        nonlocal has_waited
        try:
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(60)
        finally:
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(60)
            has_waited = True

    with pytest.raises(KeyboardInterrupt):
        run(work())
    assert not has_waited
