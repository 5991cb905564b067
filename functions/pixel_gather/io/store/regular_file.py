"""Opens regular files of this machine. To open a named pipe that nobody writes to would wait for ever."""

import errno
import io
import os
import stat
from collections.abc import Callable
from typing import Final

_OTHERS: Final[tuple[tuple[Callable[[int], bool], str], ...]] = (
    (stat.S_ISDIR, "folder"),
    (stat.S_ISFIFO, "named pipe"),
    (stat.S_ISSOCK, "socket"),
    (stat.S_ISCHR, "device"),
    (stat.S_ISBLK, "device"),
)
_OPEN: Final = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")
"""What the shell has opened already: ``<(command)`` is such a pipe."""


def why_no_file(path: str) -> str | None:
    """Say what else stands at a path. None: a regular file, or nothing that can be looked at."""
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116 # before each range of a local source; Path.stat is slower
    except (OSError, ValueError):
        return None  # who opens it says why
    if stat.S_ISREG(mode):
        return None
    return next(
        (f"it is a {what}; only regular files are read" for is_it, what in _OTHERS if is_it(mode)), None
    )


def open_given_file(path: str) -> io.BufferedReader:
    """Open a file that a user has named, or what the shell has opened for it.

    Raises:
        OSError: It cannot be opened, or is no regular file.
    """
    why = why_no_file(path)
    if why is not None and not path.startswith(_OPEN) and not os.path.isdir(path):  # noqa: PTH112 # as above
        raise OSError(errno.EINVAL, why)
    return open(path, "rb")  # noqa: PTH123 # as above; a folder raises IsADirectoryError
