"""What this process has used until now."""

import resource
import sys


def cpu_s() -> float:
    """Return user and system time of all threads."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def peak_rss_mib() -> float:
    """Return the most memory that was resident; macOS counts in bytes, Linux in KiB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)
