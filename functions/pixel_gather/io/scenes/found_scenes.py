"""The scenes that a search found, and which processing of each counts."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import replace
from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec import Struct

from pixel_gather.core.errors import RequestError
from pixel_gather.core.extras import check_extra
from pixel_gather.core.model.plurals import counted
from pixel_gather.core.model.shown import shown
from pixel_gather.core.scenes.catalog_query import SceneQuery
from pixel_gather.core.scenes.duplicates import without_duplicates
from pixel_gather.core.scenes.item import scene_key
from pixel_gather.core.scenes.scene_sources import Address, SceneSource, asset_choices, sources_of
from pixel_gather.core.scenes.search_criteria import SearchCriteria, check_properties, too_many
from pixel_gather.io.scenes.search_own_catalog import Catalog, ReplacedError, open_catalog
from pixel_gather.io.store.object_store import Store

if TYPE_CHECKING:
    import pandas as pd

type Item = Mapping[str, Any]
_COLUMNS: Final = ("id", "collection", "time", "west", "south", "east", "north")
type Duplicates = Literal["latest", "all", "fail"]


class FoundScenes(Struct, frozen=True, kw_only=True):
    """What a search found: newest first from a catalog, in the server's order from a STAC API."""

    items: tuple[Item, ...]
    """STAC items."""

    dropped: tuple[tuple[Item, Item], ...] = ()
    """Earlier processings of a scene, each with the one that counts."""

    etag: str | None = None
    """Version of the catalog; None of a STAC API."""

    n_gets: int = 0
    """Requests for the catalog's files."""

    n_skipped: int = 0
    """Items that were left out because they cannot be used."""

    skipped: tuple[tuple[str, str], ...] = ()
    """Name and reason of the first twenty of them."""

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Item]:
        return iter(self.items)

    def __repr__(self) -> str:
        said = [f"{each['id']} {each['properties'].get('datetime')}" for each in self.items]
        return shown(f"FoundScenes: {counted(len(self), 'scene')}", said, most=10)

    def to_dataframe(self) -> "pd.DataFrame":
        """Return one row a scene: ``id``, ``collection``, ``time``, the sides of its box, and its properties.

        ``time`` is when it was taken, or began to be, in UTC. Properties that are lists or objects are left
        out.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        check_extra("xarray", "data frames", packages=("pandas",))
        import pandas as pd  # noqa: PLC0415 # an extra, and 0.4 s

        found = pd.DataFrame([_as_row(each) for each in self.items], columns=None if self.items else _COLUMNS)
        return found.assign(time=pd.to_datetime(found["time"], unit="us", utc=True))

    def to_dict(self) -> dict[str, Any]:
        """Return the scenes as a FeatureCollection, which a gather takes as ``sources.stac.items``."""
        return {"type": "FeatureCollection", "features": list(self.items)}

    def sources(
        self, assets: Mapping[str, str] | Sequence[str], *, address: Address = "asset"
    ) -> Iterator[SceneSource]:
        """Yield one source for each wanted asset of each scene, as a gather reads them.

        Raises:
            RequestError: No assets are named, or two as one band.
        """
        if isinstance(assets, str) or not isinstance(assets, Iterable):
            raise RequestError("write a list of names, such as ['red', 'nir']", field="assets")
        choices = asset_choices(assets if isinstance(assets, Mapping) else tuple(assets))
        for item in self.items:
            yield from sources_of(item, choices, address=address)


def _as_row(item: Item) -> dict[str, Any]:
    key = scene_key(item, name="item")
    fixed = (key.id, key.collection, key.start_us, *key.box)
    others = {
        name: value
        for name, value in item["properties"].items()
        if name not in _COLUMNS and not isinstance(value, Mapping | list | tuple)
    }
    return dict(zip(_COLUMNS, fixed, strict=True)) | others


async def catalog_scenes(
    wanted: SearchCriteria,
    store: Store,
    key: str,
    *,
    place: str,
    take: Callable[[Item], Item] = lambda item: item,
) -> FoundScenes:
    """Return what a catalog finds.

    Raises:
        NoSceneError: Nothing is found, and a condition names a property that no scene has.
        BudgetError: More scenes are found than wanted at most.
        StoreError: There is no catalog, or it cannot be read.
    """
    opened = await open_catalog(store, key, place=place)
    try:
        return await _scenes_of(opened, wanted, take)
    except ReplacedError:  # it was replaced twice since it was opened
        return await _scenes_of(await open_catalog(store, key, place=place), wanted, take)


async def _scenes_of(opened: Catalog, wanted: SearchCriteria, take: Callable[[Item], Item]) -> FoundScenes:
    items: list[Item] = []
    async for _, item in opened.scenes(SceneQuery.of(wanted)):
        if len(items) == wanted.most:
            raise too_many(wanted)
        items.append(take(item))
    if not items:
        check_properties(wanted, opened.header.properties, of="scene of the catalog")
    return FoundScenes(items=tuple(items), etag=opened.etag, n_gets=opened.n_gets)


def with_latest(found: FoundScenes, duplicates: Duplicates, *, by: Sequence[str] = ()) -> FoundScenes:
    """Return what was found with one processing of each scene, or all of them.

    Raises:
        RequestError: There are duplicates, and ``duplicates`` is ``fail``.
    """
    if duplicates == "all":
        return found
    kept = without_duplicates(found.items, by=by)
    if kept.dropped and duplicates == "fail":
        one, other = kept.dropped[0]
        raise RequestError(
            f"{one['id']} and {other['id']} are the same scene, processed twice; keep the latest, or all",
            field="duplicates",
        )
    return replace(found, items=kept.items, dropped=kept.dropped)
