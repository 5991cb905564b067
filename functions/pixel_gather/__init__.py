"""Gather one small window out of each of thousands of Cloud Optimized GeoTIFFs into one Zarr array.

>>> from pixel_gather import gather  # doctest: +SKIP
>>> gathered = gather({"sources": "list.csv", "window": "centre"}, to="cube.zarr")  # doctest: +SKIP
>>> gathered.open()  # an xarray.Dataset  # doctest: +SKIP
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from pixel_gather.version import __version__

if TYPE_CHECKING:
    from pixel_gather.adapters.cube.check_cube import Verified
    from pixel_gather.adapters.object_store.object_store import StoreSettings
    from pixel_gather.adapters.source_list.listing import ListedObject
    from pixel_gather.errors import (
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
    from pixel_gather.headers.drill import DrilledPixel
    from pixel_gather.local.catalog import MadeCatalog, make_catalog, remove_scenes
    from pixel_gather.local.drill import drill, drill_async
    from pixel_gather.local.export import export
    from pixel_gather.local.gather import gather, gather_async, make_plan, make_plan_async
    from pixel_gather.local.gathered import Gathered
    from pixel_gather.local.index import Indexed, index, index_async
    from pixel_gather.local.join import (
        Joined,
        JoinedMember,
        join,
        joined_members,
        joined_versions,
        open_joined,
    )
    from pixel_gather.local.ls import ls
    from pixel_gather.local.progress import Progress
    from pixel_gather.local.rank import rank
    from pixel_gather.local.replay import replay
    from pixel_gather.local.rows import presence, rows_where
    from pixel_gather.local.search import FoundScenes, search
    from pixel_gather.local.settings import Settings
    from pixel_gather.local.verify import verify
    from pixel_gather.local.versions import compact, forget, open_cube, versions
    from pixel_gather.local.view import ViewedCube, view
    from pixel_gather.local.virtual import Virtual, make_virtual, open_virtual
    from pixel_gather.model.status import Status
    from pixel_gather.plan.cube_plan import CubePlan
    from pixel_gather.plan.cube_version import CubeVersion
    from pixel_gather.ranking.table import Ranking
    from pixel_gather.report.drift import Drift, Replayed, SourceDrift
    from pixel_gather.report.presence import Presence
    from pixel_gather.report.report import Report
    from pixel_gather.request.request import GatherRequest
    from pixel_gather.use_cases.compact import Compacted

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
    "pixel_gather.adapters.cube.check_cube": ("Verified",),
    "pixel_gather.use_cases.compact": ("Compacted",),
    "pixel_gather.adapters.object_store.object_store": ("StoreSettings",),
    "pixel_gather.adapters.source_list.listing": ("ListedObject",),
    "pixel_gather.errors": (
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
    "pixel_gather.headers.drill": ("DrilledPixel",),
    "pixel_gather.local.catalog": ("MadeCatalog", "make_catalog", "remove_scenes"),
    "pixel_gather.local.drill": ("drill", "drill_async"),
    "pixel_gather.local.export": ("export",),
    "pixel_gather.local.gather": ("gather", "gather_async", "make_plan", "make_plan_async"),
    "pixel_gather.local.gathered": ("Gathered",),
    "pixel_gather.local.index": ("Indexed", "index", "index_async"),
    "pixel_gather.local.join": (
        "Joined",
        "JoinedMember",
        "join",
        "joined_members",
        "joined_versions",
        "open_joined",
    ),
    "pixel_gather.local.ls": ("ls",),
    "pixel_gather.local.progress": ("Progress",),
    "pixel_gather.local.rank": ("rank",),
    "pixel_gather.local.replay": ("replay",),
    "pixel_gather.local.rows": ("presence", "rows_where"),
    "pixel_gather.local.search": ("FoundScenes", "search"),
    "pixel_gather.local.settings": ("Settings",),
    "pixel_gather.local.verify": ("verify",),
    "pixel_gather.local.versions": ("compact", "forget", "open_cube", "versions"),
    "pixel_gather.local.view": ("ViewedCube", "view"),
    "pixel_gather.local.virtual": ("Virtual", "make_virtual", "open_virtual"),
    "pixel_gather.model.status": ("Status",),
    "pixel_gather.plan.cube_plan": ("CubePlan",),
    "pixel_gather.plan.cube_version": ("CubeVersion",),
    "pixel_gather.ranking.table": ("Ranking",),
    "pixel_gather.report.drift": ("Drift", "Replayed", "SourceDrift"),
    "pixel_gather.report.presence": ("Presence",),
    "pixel_gather.report.report": ("Report",),
    "pixel_gather.request.request": ("GatherRequest",),
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
