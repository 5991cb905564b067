"""What a child that decodes files of others may use: its environment, and limits that it sets on itself.

It sets them before it reads the first byte of a file. Linux enforces all of them. A file may make a decoder
hang, allocate without end or run injected code. It then has no memory, no time, no files, no sockets and no
credentials.
"""

import errno
import math
import os
import resource
import sys
from pathlib import Path
from typing import Final

_ENOUGH_FOR_GDAL: Final = 3
_MIB: Final = 2**20
_NEEDED_TO_START: Final = ("LD_LIBRARY_PATH", "PATH", "SYSTEMROOT")


def clean_environment() -> dict[str, str]:
    """Return the environment of a child: no credentials, no proxies, no options of the caller."""
    kept = {name: os.environ[name] for name in _NEEDED_TO_START if name in os.environ}
    path = os.pathsep.join(entry for entry in sys.path if entry)
    return {**kept, "PYTHONPATH": path, "LC_ALL": "C.UTF-8", "HOME": os.devnull}


def limit_memory(memory_mib: int) -> None:
    """Let this process allocate this much more than it has mapped now."""
    statm = Path("/proc/self/statm")
    if not statm.exists():  # not Linux: macOS does not enforce RLIMIT_AS
        return
    mapped_nbytes = int(statm.read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    limit = mapped_nbytes + memory_mib * _MIB
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def limit_cpu(seconds: float) -> None:
    """Let this process use this much more CPU time. Then the kernel ends it."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = math.ceil(used.ru_utime + used.ru_stime + seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.RLIM_INFINITY))


def lock_files() -> None:
    """Forbid opening files and sockets, and writing files.

    The channel to the parent and PROJ's database stay open.
    """
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    null = os.open(os.devnull, os.O_RDONLY)
    highest = max(null, _ENOUGH_FOR_GDAL, *_open_files())
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1, highest + 1))
    while True:
        try:
            os.dup(null)  # fills the gaps below the limit
        except OSError as error:
            if error.errno == errno.EMFILE:
                return
            raise


def _open_files() -> list[int]:
    folder = Path("/proc/self/fd")
    return [int(entry.name) for entry in folder.iterdir()] if folder.exists() else list(range(16))
