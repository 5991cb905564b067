"""A lock between processes, for what several might set up at once: tests, deployments, an emulator."""

import fcntl
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def file_lock(path: Path) -> Generator[None]:
    """Hold the lock of a file, which is made where it is missing, until the context ends.

    A process that dies lets go of it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
