"""Make a catalog in this process, from STAC items, indexes or the headers of images."""

import os
import tempfile
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from contextlib import aclosing, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec
import obstore

from pixel_gather.adapters.catalog.catalog_search import open_catalog
from pixel_gather.adapters.catalog.catalog_writer import write_search_files
from pixel_gather.adapters.catalog.geoparquet import write_geoparquet
from pixel_gather.adapters.catalog.item_files import items_of_file
from pixel_gather.adapters.catalog.sentinel2_index import items_of_index
from pixel_gather.adapters.catalog.spooled_items import SpooledItems
from pixel_gather.adapters.event_loop import run
from pixel_gather.adapters.object_store.object_store import Objects, Store, StoreSettings, open_place
from pixel_gather.adapters.source_list.list_file import open_list_file
from pixel_gather.catalog.query import SceneQuery
from pixel_gather.errors import RequestError, SourceError, StoreError
from pixel_gather.headers.footprints import item_of_headers
from pixel_gather.headers.in_order import in_order
from pixel_gather.local.gather import Job, Settings, check_place, listed, opened_job, shown
from pixel_gather.model.source import Cost, Header, Source
from pixel_gather.request.href import IN_PROCESS, check_href
from pixel_gather.request.request import Sources

_MOST_NAMED: Final = 20
_N_AT_A_TIME: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeCatalog:
    """Result of making a catalog."""

    place: str
    n_scenes: int
    n_new: int
    """Scenes that were added or replaced."""

    n_left_out: int
    """Files that could not become scenes."""

    left_out: tuple[tuple[str, str], ...]
    """Href and reason of the first twenty of them."""

    nbytes: int


def make_catalog(
    items: Iterable[Mapping[str, Any]] | None = None,
    *,
    to: str | os.PathLike[str],
    items_file: str | os.PathLike[str] | None = None,
    sentinel2_index: str | os.PathLike[str] | None = None,
    sources: Any = None,
    collection: str = "images",
    add: bool = False,
    settings: Settings | None = None,
    on_progress: Callable[[int], None] = lambda _: None,
) -> MadeCatalog:
    """Make a catalog of scenes for `search`, or add scenes to one.

    Args:
        items: STAC items: dicts, or objects with ``to_dict``, such as those of `search` and pystac-client.
        to: The STAC-GeoParquet file to write, local or on S3. Two files for searches are written beside it.
        items_file: An item collection, a file with one item per line, STAC-GeoParquet, or a static catalog.
        sentinel2_index: The public Sentinel-2 index: CSV, gzipped or not.
        sources: As a request's ``sources``. Footprint, grid and bands are read from the headers.
        collection: Collection of the scenes made from headers.
        add: Keep the catalog's scenes. A new scene replaces the one with the same collection and id.
        settings: How this machine is used.
        on_progress: Called with the number of scenes so far.

    Raises:
        RequestError: Not exactly one input was given, or it contains no scene.
        StoreError: The catalog could not be written. An earlier one was not changed.
    """
    given = {"items": items, "items_file": items_file, "sentinel2_index": sentinel2_index, "sources": sources}
    named = [name for name, value in given.items() if value is not None]
    if len(named) != 1:
        raise RequestError(f"give one of {', '.join(given)}", field="catalog")
    settings = settings or Settings()
    place = check_place(os.fspath(to))
    folder, _, key = place.rpartition("/")
    store = open_place(folder, settings.stores)
    tally = _Tally(on_progress)
    with SpooledItems() as spooled:
        if add:
            spooled.add(run(_items_in(store, key)), name=key)
        n_before = spooled.n_items
        if sources is not None:
            checked = Sources.model_validate(sources)
            run(_add_from_headers(spooled, checked, collection=collection, settings=settings, tally=tally))
        else:
            described = _described(items, items_file, sentinel2_index, settings)
            spooled.add(tally.counted(described), name=named[0])
        n_new = spooled.n_items - n_before
        written = write_search_files(spooled, store, key)
        _write_parquet(spooled, store, key)
    return MadeCatalog(
        place=shown(place),
        n_scenes=written.n_scenes,
        n_new=n_new,
        n_left_out=tally.n_left_out,
        left_out=tuple(tally.left_out),
        nbytes=written.nbytes,
    )


def write_items(
    items: Iterable[Mapping[str, Any]], to: str | os.PathLike[str], *, stores: StoreSettings | None = None
) -> None:
    """Write items as STAC-GeoParquet, without the files for searches.

    Raises:
        StoreError: The file could not be written.
    """
    folder, _, key = check_place(os.fspath(to)).rpartition("/")
    with SpooledItems() as spooled:
        spooled.add(items, name="items")
        _write_parquet(spooled, open_place(folder, stores or StoreSettings()), key)


@dataclass(slots=True)
class _Tally:
    """Counts scenes, and files that could not become scenes."""

    on_progress: Callable[[int], None]
    n: int = 0
    n_left_out: int = 0
    left_out: list[tuple[str, str]] = field(default_factory=list)

    def counted(self, items: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
        for item in items:
            self.n += 1
            if self.n % _N_AT_A_TIME == 0:
                self.on_progress(self.n)
            yield item
        self.on_progress(self.n)

    def leave_out(self, href: str, reason: str) -> None:
        self.n_left_out += 1
        if len(self.left_out) < _MOST_NAMED:
            self.left_out.append((href, reason))


async def _items_in(store: Store, key: str) -> list[dict[str, Any]]:
    """Return the items of a catalog; an empty list if there is no catalog yet."""
    try:
        opened = await open_catalog(store, key)
    except StoreError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return []
        raise
    return [item async for _, item in opened.scenes(SceneQuery())]


def _described(
    items: Iterable[Any] | None, items_file: Any, sentinel2_index: Any, settings: Settings
) -> Iterator[Mapping[str, Any]]:
    if items is not None:
        return (each if isinstance(each, Mapping) else each.to_dict() for each in items)
    policy = IN_PROCESS.within(str(Path.cwd()))
    objects = Objects(settings.stores)
    try:
        href = check_href(os.fspath(items_file or sentinel2_index), policy=policy)
    except ValueError as error:
        raise RequestError(str(error), field="catalog") from error
    if sentinel2_index is not None:
        return _index_lines(href, objects)

    def read_document(linked: str) -> Any:
        try:
            _, file = open_list_file(check_href(linked, policy=policy), objects=objects, what="catalog")
            with closing(file):
                return msgspec.json.decode(file.read())
        except (ValueError, msgspec.DecodeError) as error:
            raise RequestError(f"{linked[:200]} cannot be read: {error}", field="catalog") from error

    return items_of_file(href, objects=objects, read_document=read_document)


def _index_lines(href: str, objects: Objects) -> Iterator[dict[str, Any]]:
    name, file = open_list_file(href, objects=objects, what="index")
    with closing(file):
        yield from items_of_index(file, name=name)


async def _add_from_headers(
    spooled: SpooledItems, sources: Sources, *, collection: str, settings: Settings, tally: _Tally
) -> None:
    async with opened_job(sources, settings) as job:
        with closing(listed(job.table)) as in_list:
            each = _headers(in_list, job)
            async with aclosing(each) as headers:
                scene: list[tuple[Source, Header]] = []
                async for source, header in headers:
                    if isinstance(header, str):
                        tally.leave_out(source.href, header)
                        continue
                    if scene and not (source.scene and scene[0][0].scene == source.scene):
                        _add_scene(spooled, scene, collection, job, tally)
                        scene = []
                    scene.append((source, header))
                if scene:
                    _add_scene(spooled, scene, collection, job, tally)


def _add_scene(
    spooled: SpooledItems, scene: list[tuple[Source, Header]], collection: str, job: Job, tally: _Tally
) -> None:
    item = item_of_headers(scene, collection=collection, projector=job.projector)
    if isinstance(item, str):
        tally.leave_out(scene[0][0].href, item)
        return
    spooled.add(tally.counted((item,)), name="headers")


async def _headers(sources: Iterable[Source], job: Job) -> AsyncGenerator[tuple[Source, Header | str]]:
    """Open all sources concurrently. Yield each header, or the reason why there is none."""

    async def open_one(source: Source) -> tuple[Source, Header | str]:
        try:
            async with job.slots.slot(source.href, weight=1):
                opened = await job.reader.open_(source.href, overview=None, cost=Cost())
        except SourceError as error:
            return source, error.reason
        return source, opened.header

    async with aclosing(in_order(sources, open_one, most_ahead=job.most_ahead)) as opened:
        async for each in opened:
            yield each


def _write_parquet(spooled: SpooledItems, store: Store, key: str) -> None:
    _, which = spooled.ordered()
    with tempfile.TemporaryFile(prefix="pixel-gather-catalog-") as file:
        write_geoparquet(spooled, which, file)
        file.seek(0)
        try:
            obstore.put(store, key, file)
        except (obstore.exceptions.BaseError, OSError) as error:
            said = str(error).partition("\n")[0]
            raise StoreError(f"{key} could not be written: {said}") from error
