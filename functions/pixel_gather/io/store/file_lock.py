"""Lets one process at a time work on a file of this machine. A process that has ended holds nobody back."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from pixel_gather.core.errors import BusyError
from pixel_gather.io.atomic_write import errors_of_writing

try:
    import fcntl
except ImportError:  # not made for Windows
    fcntl = None  # type: ignore[assignment] # looked at before use

CAN_LOCK: Final = fcntl is not None


@contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Hold a lock file beside a file.

    Some network file systems know no locks, and Windows has none of this kind; there it changes nothing.

    Raises:
        BusyError: Another process holds it.
        StoreError: The lock file cannot be written.
    """
    if not CAN_LOCK:
        yield
        return
    lock = path.with_name(f".{path.name}.lock")
    opened = _lock(lock, path)
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)  # while it is held, so that nobody holds a file without a name
        os.close(opened)


def _lock(lock: Path, path: Path) -> int:
    while True:
        with errors_of_writing(path):
            opened = os.open(lock, os.O_RDWR | os.O_CREAT, 0o644)
        if not try_lock(opened):
            os.close(opened)
            raise BusyError(f"{path}: another process writes this table: run again when it is done")
        with suppress(FileNotFoundError):
            if os.path.samestat(lock.stat(), os.fstat(opened)):
                return opened
        os.close(opened)  # the former holder has removed it meanwhile


def try_lock(opened: int) -> bool:
    """Lock an open file or folder without waiting. Return False if another process holds the lock.

    True also where the file system has no locks. Windows lacks this call; see `CAN_LOCK`.
    """
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # the file system knows no locks
        return True
    return True
