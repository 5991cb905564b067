"""Lambda workers: their number, start and logs, the memory limit, and the type of an error at the start.

AWS                                                      ministack alone
a worker over its memory is killed: Runtime.ExitError    no limit
an error while starting keeps its own type               Runtime.Unknown
answers of the Runtime API are sent at once              40 ms late (Nagle's algorithm)
every worker has processors of its own                   all start at once on this machine, and many time out
a worker that does not start fails one call              it ends the other workers of its function, which work
a call's log has all lines that it wrote                 what comes late is in the log of a later call or none
an answer of over 6 MB is an error                       no limit

Still different: only `max_workers` workers of a function run at one time. Other calls wait for a free one.
So a function that calls itself may wait for ever. As many workers start at one time as there are cores. A
start may take two minutes. On AWS it is tried again after 10 s, and may never be done here.
Memory is read from /proc ten times a second, and not limited without /proc. Processors are not limited. All
workers share one /tmp without a limit. The runtime is this machine's Python.
"""

# ruff: noqa: SLF001 # an addition reaches into ministack

import contextlib
import json
import os
import queue
import select
import signal
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, Final

from ministack.core import lambda_runtime
from ministack.services import lambda_svc

from pixel_gather_emulator.additions.task_clock import uncounted

_LONGEST_START_S: Final = 120.0
_LARGEST_ANSWER_NBYTES: Final = 6_291_556
_POLL_S: Final = 0.1
_MOMENT_S: Final = 0.001
_PROC: Final = Path("/proc")
_released: Final = threading.Condition()
"""Notified each time a call gives its worker back."""

_starting: Final = threading.BoundedSemaphore(os.process_cpu_count() or 1)
"""Held while a worker starts."""

_taking: Final = threading.Lock()
"""Held while output is taken from the pipe of a worker."""

_MOST_TAKEN_NBYTES: Final = 65536

_spawn: Callable[..., None] = lambda_runtime.ProvidedWorker._spawn
_invoke: Callable[..., dict[str, Any]] = lambda_runtime.ProvidedWorker.invoke
_await_init: Callable[..., None] = lambda_runtime.ProvidedWorker._await_init
_build_handler_class: Callable[..., Any] = lambda_runtime.ProvidedWorker._build_handler_class


def apply(*, max_workers: int) -> None:
    """Put the additions in place.

    So many workers of one function run at the same time.
    """
    lambda_svc.acquire_worker = partial(acquire_worker, max_workers=max_workers)
    lambda_svc.release_worker = release_worker
    lambda_runtime._PROVIDED_INIT_TIMEOUT = _LONGEST_START_S
    lambda_runtime.ProvidedWorker._spawn = spawn
    lambda_runtime.ProvidedWorker.invoke = invoke
    lambda_runtime.ProvidedWorker._await_init = await_init
    lambda_runtime.ProvidedWorker._build_handler_class = build_handler_class
    lambda_runtime.ProvidedWorker._pump_output = pump_output
    lambda_runtime.ProvidedWorker._drain_stderr_bounded = written_lines
    if _PROC.is_dir():
        threading.Thread(target=_hold_to_memory, name="memory-limit", daemon=True).start()


def acquire_worker(*arguments: Any, max_workers: int, **options: Any) -> tuple[Any, str]:
    """Return a free worker of a function and how it was found. Wait while `max_workers` of them are busy."""
    with _released:
        while True:
            worker, found = lambda_runtime.acquire_worker(*arguments, max_concurrency=max_workers, **options)
            if worker is not None:
                return worker, found
            with uncounted():
                _released.wait()


def release_worker(worker: Any) -> None:
    """Give a worker back, and wake the calls that wait for one. None stands for a worker that is gone."""
    lambda_runtime.release_worker(worker)
    with _released:
        _released.notify_all()


def spawn(worker: Any, *arguments: Any, **options: Any) -> None:
    """Start a worker's process, once a core is free for it."""
    with uncounted():
        _starting.acquire()
    try:
        _spawn(worker, *arguments, **options)
    finally:
        _starting.release()


def invoke(worker: Any, *arguments: Any, **options: Any) -> dict[str, Any]:
    """Serve one call. If the worker does not start, or answers too much, only this call fails.

    ministack ends all workers of the function where it sees an exception.
    """
    try:
        answer = _invoke(worker, *arguments, **options)
    except Exception as failure:  # noqa: BLE001 # as ministack does
        return _failed(str(failure), getattr(failure, "error_type", "") or "Runtime.Unknown", log="")
    if len(json.dumps(answer.get("result"))) > _LARGEST_ANSWER_NBYTES:
        said = (
            f"Response payload size exceeded maximum allowed payload size ({_LARGEST_ANSWER_NBYTES} bytes)."
        )
        return _failed(said, "Function.ResponseSizeTooLarge", log=answer["log"])
    return answer


def _failed(said: str, kind: str, *, log: str) -> dict[str, Any]:
    payload = {"errorMessage": said, "errorType": kind}
    return {"status": "error", "error": said, "error_payload": payload, "log": log}


def build_handler_class(worker: Any, *arguments: Any) -> Any:
    """Return ministack's Runtime API, which answers without delay."""
    handler = _build_handler_class(worker, *arguments)
    handler.disable_nagle_algorithm = True
    return handler


def await_init(worker: Any, *arguments: Any) -> None:
    """Wait for a worker to start. Raise its error with its own type."""
    try:
        _await_init(worker, *arguments)
    except lambda_runtime.ProvidedInitTimeout:
        raise
    except RuntimeError as failure:
        reported = worker._init_error if isinstance(worker._init_error, dict) else {}
        raise lambda_runtime.ProvidedRuntimeError(
            reported.get("errorMessage", str(failure)), reported.get("errorType", "Runtime.ExitError")
        ) from failure


def pump_output(_: Any, stream: Any, lines: queue.Queue[str]) -> None:
    """Take what a worker writes until its process ends, so that its pipe never fills."""
    output = select.poll()
    output.register(stream, select.POLLIN)
    begun = b""
    with stream:
        while True:
            output.poll()
            with _taking:
                taken = os.read(stream.fileno(), _MOST_TAKEN_NBYTES)
                *ended, begun = (begun + taken).split(b"\n")
                for line in ended if taken else [begun] * bool(begun):
                    if lines.full():  # a worker that is never called writes the oldest ones in vain
                        lines.get_nowait()
                    lines.put_nowait(line.decode(errors="replace").rstrip("\r"))
            if not taken:
                return


def written_lines(worker: Any, **_: float) -> str:
    """Return the lines that a worker has written. None of them is still in its pipe."""
    while True:
        with _taking:
            process = worker._proc
            if process is None or process.stdout.closed or not _has_output(process.stdout):
                said: str = worker._drain_stderr()
                return said
        time.sleep(_MOMENT_S)


def _has_output(stream: Any) -> bool:
    output = select.poll()
    output.register(stream, select.POLLIN)
    return any(events & select.POLLIN for _, events in output.poll(0))


def _hold_to_memory() -> None:
    while True:
        time.sleep(_POLL_S)
        with lambda_runtime._lock:
            workers = [worker for pool in lambda_runtime._workers.values() for worker in pool]
        limits = {
            worker._proc.pid: worker.config["MemorySize"] * 2**20
            for worker in workers
            if worker.in_use and worker._proc is not None
        }
        for pid, limit in limits.items():
            family = [pid, *descendants(pid, _PROC)]
            if memory_nbytes(family, _PROC) > limit:
                _kill(family)


def descendants(pid: int, proc: Path) -> list[int]:
    """Return the children of a process, theirs and so on, read from a /proc."""
    found: list[int] = []
    threads: list[str] = []
    with contextlib.suppress(OSError):  # it has ended
        threads = os.listdir(f"{proc}/{pid}/task")  # noqa: PTH208 # ten times a second, for each worker
    for thread in threads:
        path = f"{proc}/{pid}/task/{thread}/children"
        with contextlib.suppress(OSError), open(path, "rb", buffering=0) as file:  # noqa: PTH123 # as above
            found += map(int, file.read().split())
    return [one for child in found for one in (child, *descendants(child, proc))]


def memory_nbytes(pids: Iterable[int], proc: Path) -> int:
    """Return the private memory of each process, plus the largest shared part of any one."""
    own, shared = 0, 0
    for pid in pids:
        with contextlib.suppress(OSError):
            _, resident, of_files, *_ = map(int, (proc / str(pid) / "statm").read_text().split())
            own, shared = own + resident - of_files, max(shared, of_files)
    return (own + shared) * os.sysconf("SC_PAGE_SIZE")


def _kill(pids: Iterable[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
