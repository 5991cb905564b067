"""Gather one small window out of each of thousands of Cloud Optimized GeoTIFFs into one Zarr array.

>>> from pixel_gather import gather  # doctest: +SKIP
>>> gathered = gather({"sources": "list.csv", "window": "centre"}, to="cube.zarr")  # doctest: +SKIP
>>> gathered.open()  # an xarray.Dataset  # doctest: +SKIP
"""

import re
from importlib import import_module
from pathlib import Path
from typing import Any

from pixel_gather.version import __version__ as __version__


def __getattr__(name: str) -> Any:
    """Import the module that defines a public name and keep the name here.

    The public names are in ``__init__.pyi``, for type checkers as well. Modules are imported on first use:
    Lambda workers need none of them.
    """
    if name.startswith("__") and name != "__all__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    listed = re.findall(r"from (\S+) import (\w+) as", Path(__file__).with_suffix(".pyi").read_text("utf-8"))
    modules = {public: module for module, public in listed}
    if name == "__all__":
        return sorted(modules)
    if name not in modules:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(modules[name]), name)
    return found


def __dir__() -> list[str]:
    """Return the public names, for completion by TAB."""
    return sorted({*__getattr__("__all__"), *(name for name in globals() if name.startswith("__"))})
