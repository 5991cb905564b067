"""Runs the handler with AWS's runtime client. Ends it as Lambda would, or when the emulator ends.

Lambda kills a function whose processes use more than its memory. A resource limit cannot do this. It counts
8 MiB for the unused stack of every thread, and NumPy starts one per core. It also counts each of GDAL's
processes separately.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

_EVERY_S: Final = 0.05
_IDLE_EVERY_S: Final = 0.25
"""How often a function is looked at that has done nothing since the last look. There may be dozens."""

_IDLE_CPU_S: Final = 0.002
"""CPU time of a look, and not of work."""

_PAGE_NBYTES: Final = os.sysconf("SC_PAGE_SIZE")


def _watch(parent: int, memory_mib: int) -> None:
    """Kill the function once its parent is gone, or once its processes hold too much memory."""
    own = os.getpid()
    held_nbytes, worked_s = 0, 0.0
    while os.getppid() == parent:
        family = _family(own) if _has_children() else (own,)
        before, held_nbytes = held_nbytes, sum(_private_nbytes(process) for process in family)
        if held_nbytes >> 20 > memory_mib:
            os.write(2, f"Memory used: {held_nbytes >> 20} MB of {memory_mib} MB. Runtime killed.\n".encode())
            break
        since, worked_s = worked_s, time.process_time()
        is_idle = held_nbytes == before and worked_s - since < _IDLE_CPU_S
        time.sleep(_IDLE_EVERY_S if is_idle else _EVERY_S)
    for process in reversed([*_family(os.getpid())]):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def _has_children() -> bool:
    """Ask by one call. A dozen idle functions look twenty times a second, and most have no children."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _family(process: int) -> Iterator[int]:
    yield process
    for thread in _threads(process):
        for child in _words(f"/proc/{process}/task/{thread}/children"):
            yield from _family(int(child))


def _private_nbytes(process: int) -> int:
    pages = _words(f"/proc/{process}/statm")
    return (int(pages[1]) - int(pages[2])) * _PAGE_NBYTES if pages else 0


def _threads(process: int) -> list[str]:
    try:
        return os.listdir(f"/proc/{process}/task")  # noqa: PTH208 # the loop runs twenty times a second
    except OSError:  # the process has ended
        return []


def _words(path: str) -> list[str]:
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123 # as above
            return file.read().decode().split()
    except OSError:  # the process has ended
        return []


def _main() -> None:
    memory_mib = int(os.environ["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"])
    threading.Thread(target=_watch, args=(os.getppid(), memory_mib), daemon=True).start()
    package, runtime = Path(os.environ["LAMBDA_TASK_ROOT"]), Path(os.environ["LAMBDA_RUNTIME_DIR"])
    wheels = runtime.parent / (package / "wheels").read_text()
    sys.path[:0] = map(str, (package, wheels, runtime))
    from awslambdaric.__main__ import main  # noqa: PLC0415 # it is there from here on

    main(["awslambdaric", os.environ["_HANDLER"]])


if __name__ == "__main__":
    _main()
