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
_PAGE_NBYTES: Final = os.sysconf("SC_PAGE_SIZE")


def _watch(parent: int, memory_mib: int) -> None:
    """Kill the function once its parent is gone, or once its processes hold too much memory."""
    while os.getppid() == parent:
        held_mib = sum(_private_nbytes(process) for process in _family(os.getpid())) >> 20
        if held_mib > memory_mib:
            os.write(2, f"Memory used: {held_mib} MB of {memory_mib} MB. Runtime killed.\n".encode())
            break
        time.sleep(_EVERY_S)
    for process in reversed([*_family(os.getpid())]):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def _family(process: int) -> Iterator[int]:
    yield process
    for children in Path(f"/proc/{process}/task").glob("*/children"):
        for child in _words(children):
            yield from _family(int(child))


def _private_nbytes(process: int) -> int:
    pages = _words(Path(f"/proc/{process}/statm"))
    return (int(pages[1]) - int(pages[2])) * _PAGE_NBYTES if pages else 0


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:  # the process has ended
        return []


def _main() -> None:
    memory_mib = int(os.environ["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"])
    threading.Thread(target=_watch, args=(os.getppid(), memory_mib), daemon=True).start()
    sys.path[:0] = [os.environ["LAMBDA_TASK_ROOT"], os.environ["LAMBDA_RUNTIME_DIR"]]
    from awslambdaric.__main__ import main  # noqa: PLC0415 # it is there from here on

    main(["awslambdaric", os.environ["_HANDLER"]])


if __name__ == "__main__":
    _main()
