"""Memory and CPU time of this process, and a description of its machine."""

import os
import platform
import re
import resource
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path


def peak_rss_mib() -> float:
    """Return this process's peak memory. On other systems than Linux the parent's may be included."""
    if sys.platform == "linux":  # there getrusage includes the process before exec
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return int(status.partition("VmHWM:")[2].split(maxsplit=1)[0]) / 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def cpu_s() -> float:
    """Return the user and system time of this process and of its children that have ended."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in both)


@cache
def machine() -> str:
    """Describe the machine in words. Every measured speed depends on it."""
    n_cores = os.process_cpu_count() or 1
    cores = "1 core" if n_cores == 1 else f"{n_cores} cores"
    python = f"Python {platform.python_version()}"
    if "AWS_LAMBDA_FUNCTION_MEMORY_SIZE" in os.environ:
        kind = "emulated Lambda" if "AWS_ENDPOINT_URL" in os.environ else "AWS Lambda"
        memory = f"{int(os.environ['AWS_LAMBDA_FUNCTION_MEMORY_SIZE']):,} MiB"
        parts = [kind, os.environ.get("AWS_REGION", ""), memory, platform.machine(), cores, python]
    else:
        memory_mib = meminfo_mib("MemTotal")
        memory = "" if memory_mib is None else f"{memory_mib / 2**10:,.1f} GiB"
        parts = [cpu_name(), cores, memory, f"{platform.system()} {platform.release()}", python]
    return ", ".join(filter(None, parts))


def cpu_name() -> str:
    """Return the system's name for its processor."""
    with suppress(OSError):
        if found := re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text()):
            return found[1]
    return platform.processor() or platform.machine()


def meminfo_mib(name: str) -> float | None:
    """Return a value of ``/proc/meminfo``, such as ``MemTotal``; None if the system has no such file."""
    with suppress(OSError):
        if found := re.search(rf"{name}:\s+(\d+) kB", Path("/proc/meminfo").read_text()):
            return int(found[1]) / 1024
    return None
