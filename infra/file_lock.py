"""A lock between processes that may set up the same files at the same time."""

import fcntl
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def file_lock(path: Path) -> Generator[None]:
    """Hold the lock of a file until the context ends. The file is made where it is missing.

    The lock of a process that dies is released.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
