"""Gather one small window out of each of thousands of Cloud Optimized GeoTIFFs into one Zarr array.

>>> from pixel_gather import gather  # doctest: +SKIP
>>> gathered = gather({"sources": "list.csv", "window": "centre"}, to="cube.zarr")  # doctest: +SKIP
>>> gathered.open()  # an xarray.Dataset  # doctest: +SKIP
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from pixel_gather.version import __version__

if TYPE_CHECKING:
    from pixel_gather.core.errors import (
        AppendRunningError,
        ArrayExistsError,
        BudgetError,
        BusyError,
        DeniedError,
        GatherError,
        MissingExtraError,
        RequestError,
        SceneNotFoundError,
        StoreError,
    )
    from pixel_gather.core.model.status import Status
    from pixel_gather.core.plan.cube_plan import CubePlan
    from pixel_gather.core.plan.cube_version import CubeVersion
    from pixel_gather.core.request.request import GatherRequest
    from pixel_gather.core.results.drift import Drift, Replayed, SourceDrift
    from pixel_gather.core.results.presence import Presence
    from pixel_gather.core.results.report import Report
    from pixel_gather.engine.compact import Compacted
    from pixel_gather.features.catalog.catalog import MadeCatalog, make_catalog, remove_scenes
    from pixel_gather.features.catalog.search import FoundScenes, search
    from pixel_gather.features.drill.drill import drill, drill_async
    from pixel_gather.features.drill.read_pixels import DrilledPixel
    from pixel_gather.features.export.export import export
    from pixel_gather.features.gather.gather import gather, gather_async, make_plan, make_plan_async
    from pixel_gather.features.gather.gathered import Gathered
    from pixel_gather.features.index.index import Indexed, index, index_async
    from pixel_gather.features.join.join import (
        Joined,
        JoinedMember,
        join,
        joined_members,
        joined_versions,
        open_joined,
    )
    from pixel_gather.features.ls.ls import ls
    from pixel_gather.features.rank.rank import rank
    from pixel_gather.features.rank.table import Ranking
    from pixel_gather.features.replay.replay import replay
    from pixel_gather.features.rows.rows import presence, rows_where
    from pixel_gather.features.verify.check_cube import Verified
    from pixel_gather.features.verify.verify import verify
    from pixel_gather.features.versions.versions import compact, forget, open_cube, versions
    from pixel_gather.features.view.view import ViewedCube, view
    from pixel_gather.features.virtual.virtual import Virtual, make_virtual, open_virtual
    from pixel_gather.in_process.progress import Progress
    from pixel_gather.in_process.settings import Settings
    from pixel_gather.io.lists.listing import ListedObject
    from pixel_gather.io.store.object_store import StoreSettings

__all__ = [
    "AppendRunningError",
    "ArrayExistsError",
    "BudgetError",
    "BusyError",
    "Compacted",
    "CubePlan",
    "CubeVersion",
    "DeniedError",
    "Drift",
    "DrilledPixel",
    "FoundScenes",
    "GatherError",
    "GatherRequest",
    "Gathered",
    "Indexed",
    "Joined",
    "JoinedMember",
    "ListedObject",
    "MadeCatalog",
    "MissingExtraError",
    "Presence",
    "Progress",
    "Ranking",
    "Replayed",
    "Report",
    "RequestError",
    "SceneNotFoundError",
    "Settings",
    "SourceDrift",
    "Status",
    "StoreError",
    "StoreSettings",
    "Verified",
    "ViewedCube",
    "Virtual",
    "__version__",
    "compact",
    "drill",
    "drill_async",
    "export",
    "forget",
    "gather",
    "gather_async",
    "index",
    "index_async",
    "join",
    "joined_members",
    "joined_versions",
    "ls",
    "make_catalog",
    "make_plan",
    "make_plan_async",
    "make_virtual",
    "open_cube",
    "open_joined",
    "open_virtual",
    "presence",
    "rank",
    "remove_scenes",
    "replay",
    "rows_where",
    "search",
    "verify",
    "versions",
    "view",
]

_MODULES: Final = {
    "pixel_gather.features.verify.check_cube": ("Verified",),
    "pixel_gather.engine.compact": ("Compacted",),
    "pixel_gather.io.store.object_store": ("StoreSettings",),
    "pixel_gather.io.lists.listing": ("ListedObject",),
    "pixel_gather.core.errors": (
        "AppendRunningError",
        "ArrayExistsError",
        "BudgetError",
        "BusyError",
        "DeniedError",
        "GatherError",
        "MissingExtraError",
        "RequestError",
        "SceneNotFoundError",
        "StoreError",
    ),
    "pixel_gather.features.drill.read_pixels": ("DrilledPixel",),
    "pixel_gather.features.catalog.catalog": ("MadeCatalog", "make_catalog", "remove_scenes"),
    "pixel_gather.features.drill.drill": ("drill", "drill_async"),
    "pixel_gather.features.export.export": ("export",),
    "pixel_gather.features.gather.gather": ("gather", "gather_async", "make_plan", "make_plan_async"),
    "pixel_gather.features.gather.gathered": ("Gathered",),
    "pixel_gather.features.index.index": ("Indexed", "index", "index_async"),
    "pixel_gather.features.join.join": (
        "Joined",
        "JoinedMember",
        "join",
        "joined_members",
        "joined_versions",
        "open_joined",
    ),
    "pixel_gather.features.ls.ls": ("ls",),
    "pixel_gather.in_process.progress": ("Progress",),
    "pixel_gather.features.rank.rank": ("rank",),
    "pixel_gather.features.replay.replay": ("replay",),
    "pixel_gather.features.rows.rows": ("presence", "rows_where"),
    "pixel_gather.features.catalog.search": ("FoundScenes", "search"),
    "pixel_gather.in_process.settings": ("Settings",),
    "pixel_gather.features.verify.verify": ("verify",),
    "pixel_gather.features.versions.versions": ("compact", "forget", "open_cube", "versions"),
    "pixel_gather.features.view.view": ("ViewedCube", "view"),
    "pixel_gather.features.virtual.virtual": ("Virtual", "make_virtual", "open_virtual"),
    "pixel_gather.core.model.status": ("Status",),
    "pixel_gather.core.plan.cube_plan": ("CubePlan",),
    "pixel_gather.core.plan.cube_version": ("CubeVersion",),
    "pixel_gather.features.rank.table": ("Ranking",),
    "pixel_gather.core.results.drift": ("Drift", "Replayed", "SourceDrift"),
    "pixel_gather.core.results.presence": ("Presence",),
    "pixel_gather.core.results.report": ("Report",),
    "pixel_gather.core.request.request": ("GatherRequest",),
}
"""The module that defines each public name. It is imported on first use: Lambda workers need none of them."""


def __getattr__(name: str) -> Any:
    """Import the module that defines a public name and keep the name here."""
    for module, names in _MODULES.items():
        if name in names:
            found = getattr(import_module(module), name)
            globals()[name] = found
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the public names, for completion by TAB."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
