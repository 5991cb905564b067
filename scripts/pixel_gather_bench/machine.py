"""The machine and the versions that every figure of a benchmark depends on."""

import os
import platform
import re
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from pixel_gather.version import __version__

_PACKAGES: Final = ("boto3", "imagecodecs", "numpy", "obstore", "rasterio", "uvloop", "zarr")


def about_machine() -> dict[str, Any]:
    """Return ``cpu``, ``cores``, ``memory_mib``, ``system``, ``python`` and ``versions`` by package.

    Cores are those that this process may use; memory is None where the system does not tell.
    """
    return {
        "cpu": _cpu(),
        "cores": os.process_cpu_count() or 1,
        "memory_mib": _meminfo_mib("MemTotal"),
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": {"pixel-gather": __version__} | {name: _version(name) for name in _PACKAGES},
    }


def free_memory_mib() -> float | None:
    """Return what programs can still be given without swapping; None where the system does not tell."""
    return _meminfo_mib("MemAvailable")


def _cpu() -> str:
    with suppress(OSError):
        if found := re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text()):
            return found[1]
    return platform.processor() or platform.machine()


def _meminfo_mib(name: str) -> float | None:
    with suppress(OSError):
        if found := re.search(rf"{name}:\s+(\d+) kB", Path("/proc/meminfo").read_text()):
            return int(found[1]) / 1024
    return None


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
