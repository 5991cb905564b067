"""Gather one small window out of each of thousands of Cloud Optimized GeoTIFFs into one Zarr array.

>>> from pixel_gather import gather  # doctest: +SKIP
>>> gathered = gather({"sources": "list.csv", "window": "centre"}, to="cube.zarr")  # doctest: +SKIP
>>> gathered.open()  # an xarray.Dataset  # doctest: +SKIP
"""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from pixel_gather.version import __version__

if TYPE_CHECKING:
    from pixel_gather.adapters.object_store.object_store import StoreSettings
    from pixel_gather.adapters.source_list.listing import ListedObject
    from pixel_gather.errors import (
        ArrayExistsError,
        BudgetError,
        DeniedError,
        GatherError,
        MissingExtraError,
        RequestError,
        StoreError,
    )
    from pixel_gather.headers.drill import DrilledPixel
    from pixel_gather.local.drill import drill, drill_async
    from pixel_gather.local.gather import (
        Gathered,
        Progress,
        Settings,
        dry_run,
        dry_run_async,
        gather,
        gather_async,
    )
    from pixel_gather.local.index import Indexed, index, index_async
    from pixel_gather.local.ls import ls
    from pixel_gather.model.status import Status
    from pixel_gather.plan.cube_plan import CubePlan
    from pixel_gather.report.report import Report
    from pixel_gather.request.request import GatherRequest

__all__ = [
    "ArrayExistsError",
    "BudgetError",
    "CubePlan",
    "DeniedError",
    "DrilledPixel",
    "GatherError",
    "GatherRequest",
    "Gathered",
    "Indexed",
    "ListedObject",
    "MissingExtraError",
    "Progress",
    "Report",
    "RequestError",
    "Settings",
    "Status",
    "StoreError",
    "StoreSettings",
    "__version__",
    "drill",
    "drill_async",
    "dry_run",
    "dry_run_async",
    "gather",
    "gather_async",
    "index",
    "index_async",
    "ls",
]

_MODULES: Final = {
    "pixel_gather.adapters.source_list.listing": ("ListedObject",),
    "pixel_gather.adapters.object_store.object_store": ("StoreSettings",),
    "pixel_gather.plan.cube_plan": ("CubePlan",),
    "pixel_gather.headers.drill": ("DrilledPixel",),
    "pixel_gather.local.drill": ("drill", "drill_async"),
    "pixel_gather.errors": (
        "ArrayExistsError",
        "BudgetError",
        "DeniedError",
        "GatherError",
        "MissingExtraError",
        "RequestError",
        "StoreError",
    ),
    "pixel_gather.local.gather": (
        "Gathered",
        "Progress",
        "Settings",
        "dry_run",
        "dry_run_async",
        "gather",
        "gather_async",
    ),
    "pixel_gather.local.index": ("Indexed", "index", "index_async"),
    "pixel_gather.local.ls": ("ls",),
    "pixel_gather.report.report": ("Report",),
    "pixel_gather.request.request": ("GatherRequest",),
    "pixel_gather.model.status": ("Status",),
}
"""Where each public name is defined; imported where it is used, for a worker needs none of it."""


def __getattr__(name: str) -> Any:
    """Import the module that defines a public name; all of its names are then there."""
    for module, names in _MODULES.items():
        if name in names:
            found = import_module(module)
            globals().update({each: getattr(found, each) for each in names})
            _forget_modules()
            return getattr(found, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _forget_modules() -> None:
    """Take away modules that importing has put under a public name, which means what is in them."""
    for name in __all__:
        if isinstance(globals().get(name), ModuleType):
            del globals()[name]


def __dir__() -> list[str]:
    """Return the public names, for completion by TAB."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
