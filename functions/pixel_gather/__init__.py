"""Gather one small window out of each of thousands of Cloud Optimized GeoTIFFs into one Zarr array.

>>> from pixel_gather import gather  # doctest: +SKIP
>>> gather({"sources": "list.csv", "window": "centre"}, to="cube.zarr")  # doctest: +SKIP
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

__all__ = [
    "Gathered",
    "Indexed",
    "Progress",
    "Settings",
    "dry_run",
    "dry_run_async",
    "gather",
    "gather_async",
    "index",
    "index_async",
]


def __getattr__(name: str) -> Any:
    """Import what runs a gather in process only where it is used: a worker needs none of it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from pixel_gather.local import gather as gathers  # noqa: PLC0415 # see above
    from pixel_gather.local import index as indexes  # noqa: PLC0415 # see above

    return getattr(gathers if hasattr(gathers, name) else indexes, name)
