"""What this process has used until now."""

import resource
import sys
from pathlib import Path


def peak_rss_mib() -> float:
    """Return the most memory that this process has held; elsewhere than on Linux, its parent's may count."""
    if sys.platform == "linux":  # where getrusage tells of the process before exec, too
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return int(status.partition("VmHWM:")[2].split(maxsplit=1)[0]) / 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def cpu_s() -> float:
    """Return the user and system time of this process and of its children that have ended."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in both)
