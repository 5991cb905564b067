"""Peak memory of processes, as Linux reports it."""

from pathlib import Path


def reset_peak() -> None:
    """Reset this process's peak, if the kernel allows it."""
    clear = Path("/proc/self/clear_refs")
    try:
        clear.write_text("5")
    except OSError:
        return


def peak_rss_mib(pid: int | str) -> float:
    """Return the peak resident memory of a process in MiB; 0 if it is gone or this is not Linux."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    lines = [line.split() for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(lines[0][1]) / 1024 if lines else 0.0
