"""What a child that decodes files of others may use: its environment, and limits that it sets on itself.

A file may make a decoder hang, allocate without end or run injected code. So the child has no credentials and
can open no file or socket. Its memory is limited, and so is its CPU time for each request. It sets the limits
before it reads the first byte of a file. Linux enforces all of them. macOS does not limit memory.
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
    limit = _cap_limit(resource.RLIMIT_AS, mapped_nbytes + memory_mib * _MIB)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def limit_cpu(seconds: float) -> None:
    """Let this process use this much more CPU time. Then the kernel ends it. Each call sets a new limit."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = _cap_limit(resource.RLIMIT_CPU, math.ceil(used.ru_utime + used.ru_stime + seconds) + 1)
    resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def lock_files() -> None:
    """Forbid this process to open files and sockets, and to write files.

    What is open already stays open: the channel to the parent, and PROJ's database in GDAL's child.
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


def _cap_limit(kind: int, wanted: int) -> int:
    """Return a limit that is not above the user's own: a process may not raise that one."""
    hard = resource.getrlimit(kind)[1]
    return wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)


def _open_files() -> list[int]:
    folder = Path("/proc/self/fd")
    return [int(entry.name) for entry in folder.iterdir()] if folder.exists() else list(range(16))
