"""The machine and the versions of packages. Every measured figure depends on them."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

from pixel_gather.core.process_usage import cpu_name, meminfo_mib
from pixel_gather.version import __version__

_PACKAGES: Final = ("boto3", "imagecodecs", "numpy", "obstore", "rasterio", "uvloop", "zarr")


def about_machine() -> dict[str, Any]:
    """Return ``cpu``, ``cores``, ``memory_mib``, ``system``, ``python`` and ``versions`` by package.

    Cores are those that this process may use; memory is None where the system does not tell.
    """
    return {
        "cpu": cpu_name(),
        "cores": os.process_cpu_count() or 1,
        "memory_mib": meminfo_mib("MemTotal"),
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": {"pixel-gather": __version__} | {name: _version(name) for name in _PACKAGES},
    }


def machine_in_words(about: dict[str, Any]) -> str:
    """Return the result of `about_machine`, from this or another machine, as one line."""
    memory_mib, cores, python = (about.get(name) for name in ("memory_mib", "cores", "python"))
    parts = (
        about.get("cpu"),
        f"{cores} cores" if cores else "",
        f"{memory_mib / 2**10:,.1f} GiB" if memory_mib else "",
        f"Python {python}" if python else "",
    )
    return ", ".join(filter(None, parts))


def free_memory_mib() -> float | None:
    """Return the free memory in MiB; None if the system does not tell."""
    return meminfo_mib("MemAvailable")


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
