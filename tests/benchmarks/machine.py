"""The machine and the versions that figures depend on."""

import os
import platform
import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

_ABOUT: Final = ("pixel-gather", "obstore", "imagecodecs", "numpy", "rasterio", "uvloop")


def about() -> dict[str, Any]:
    """Return the machine and the versions that figures depend on."""
    cpu = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    facts: dict[str, Any] = {
        "cpu": cpu[1] if cpu else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "system": platform.platform(),
        "python": platform.python_version(),
    }
    for name in _ABOUT:
        try:
            facts[name] = version(name)
        except PackageNotFoundError:
            facts[name] = None
    return facts
