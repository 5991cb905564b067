"""Make a catalog in this process, from wherever scenes are described, or from the headers of images."""

import os
import tempfile
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec
import obstore

from pixel_gather.adapters.catalog.catalog_format import Origin
from pixel_gather.adapters.catalog.catalog_writer import write_search_files
from pixel_gather.adapters.catalog.geoparquet import write_geoparquet
from pixel_gather.adapters.catalog.item_files import items_of_file
from pixel_gather.adapters.catalog.json_http import JsonClient
from pixel_gather.adapters.catalog.search_cmr import CmrSearch, cmr_items
from pixel_gather.adapters.catalog.search_own_catalog import open_catalog
from pixel_gather.adapters.catalog.sentinel2_index import items_of_index
from pixel_gather.adapters.catalog.spooled_items import SpooledItems
from pixel_gather.adapters.event_loop import run
from pixel_gather.adapters.object_store.object_store import Objects, Store, StoreSettings, open_place
from pixel_gather.adapters.source_list.list_file import STDIN, open_list_file
from pixel_gather.catalog.search_criteria import SearchCriteria
from pixel_gather.errors import RequestError, SourceError, StoreError
from pixel_gather.headers.footprints import item_of_headers
from pixel_gather.headers.in_order import in_order
from pixel_gather.local.job import Job, listed, opened_job
from pixel_gather.local.places import check_place, shown
from pixel_gather.local.search import items_of_api
from pixel_gather.local.settings import Settings
from pixel_gather.model.plurals import counted
from pixel_gather.model.source import Cost, Header, Source
from pixel_gather.request.href_policy import IN_PROCESS, check_href
from pixel_gather.request.request import parse_sources
from pixel_gather.request.web_address import CMR, same_host_only, without_query

_MOST_NAMED: Final = 20
_N_AT_A_TIME: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeCatalog:
    """A catalog that was written."""

    place: str
    n_scenes: int
    n_new: int
    """Scenes that were not in the catalog before, or are described anew."""

    n_left_out: int
    """Files of which no scene could be made."""

    left_out: tuple[tuple[str, str], ...]
    """Href and reason of the first twenty."""

    nbytes: int


def make_catalog(
    items: Iterable[Mapping[str, Any]] | None = None,
    *,
    to: str | os.PathLike[str],
    stac: str | None = None,
    cmr: str | None = None,
    items_file: str | os.PathLike[str] | None = None,
    sentinel2_index: str | os.PathLike[str] | None = None,
    sources: Any = None,
    search: Mapping[str, Any] | None = None,
    collection: str = "images",
    add: bool = False,
    settings: Settings | None = None,
    on_progress: Callable[[int], None] = lambda _: None,
) -> MadeCatalog:
    """Make a catalog of scenes, for `search`, or add scenes to one.

    Args:
        items: STAC items: dicts, or objects with ``to_dict``, such as those of `search` and pystac-client.
        to: The STAC-GeoParquet file to write, here or on S3. Two files for searches are written beside it.
        stac: Address of a STAC API's landing page. A query in it, such as a key, is sent along and not kept.
        cmr: Short name of a collection in NASA's CMR.
        items_file: A collection of items, one item a line, STAC-GeoParquet, or a static catalog.
        sentinel2_index: The public Sentinel-2 index, CSV, gzipped or not.
        sources: As a request's ``sources``: footprint, grid and bands are read from the headers.
        search: What is looked for by ``stac`` and ``cmr``: the keyword arguments of `SearchCriteria.of`.
        collection: Name of the collection for scenes made from headers.
        add: Keep what the catalog holds. A new scene replaces one of the same collection and id.
        settings: How this machine is used.
        on_progress: Called with the number of scenes so far.

    Raises:
        RequestError: Nothing, or more than one thing, was given; or it holds no scene.
        StoreError: The catalog could not be written; an earlier one is as it was.
    """
    given = {
        "items": items,
        "stac": stac,
        "cmr": cmr,
        "items_file": items_file,
        "sentinel2_index": sentinel2_index,
        "sources": sources,
    }
    named = [name for name, value in given.items() if value is not None]
    if len(named) != 1:
        raise RequestError(f"give one of {', '.join(given)}", field="catalog")
    SearchCriteria.of(**dict(search or {}))
    place = None if items is not None else _whole_place(named[0], given[named[0]])
    kept_place = place if stac is None else without_query(stac)
    origin = Origin(kind=named[0], place=kept_place, search=dict(search or {}), collection=collection)
    return _made([origin], items=items, stac=stac, to=to, add=add, settings=settings, on_progress=on_progress)


def refresh_catalog(
    *,
    to: str | os.PathLike[str],
    settings: Settings | None = None,
    on_progress: Callable[[int], None] = lambda _: None,
) -> MadeCatalog:
    """Make a catalog again from everything that it was made from; the arguments are those of `make_catalog`.

    What its sources no longer name is gone afterwards.

    Raises:
        RequestError: It was made from items that a program gave, which cannot be asked for again.
        StoreError: There is no catalog.
    """
    store, key = _opened(to, settings or Settings())
    origins = run(open_catalog(store, key, place=os.fspath(to))).header.origins
    if not origins or any(origin.kind == "items" for origin in origins):
        raise RequestError(
            "a program gave its items, which cannot be asked for again: make the catalog anew",
            field="refresh",
        )
    return _made(origins, items=None, stac=None, to=to, add=False, settings=settings, on_progress=on_progress)


def _made(
    origins: Sequence[Origin],
    *,
    items: Iterable[Any] | None,
    stac: str | None,
    to: str | os.PathLike[str],
    add: bool,
    settings: Settings | None,
    on_progress: Callable[[int], None],
) -> MadeCatalog:
    settings = settings or Settings()
    store, key = _opened(to, settings)
    tally = _Tally(on_progress)
    with SpooledItems() as spooled:
        before = run(_copied(store, key, os.fspath(to), spooled)) if add else ()
        n_before = spooled.n_items
        for origin in origins:
            if origin.kind == "sources":
                run(_add_from_headers(spooled, origin, settings=settings, tally=tally))
            else:
                spooled.add(tally.counted(_described(origin, items, stac, settings)), name=origin.kind)
        n_new = spooled.n_items - n_before
        if not spooled.n_items and tally.left_out:
            href, reason = tally.left_out[0]
            raise RequestError(
                f"no scene could be made of {counted(tally.n_left_out, 'file')}; the first: {href}: {reason}",
                field="catalog",
            )
        everything = tuple(dict.fromkeys(map(_as_text, (*before, *origins))))
        written = write_search_files(spooled, store, key, origins=[_of_text(each) for each in everything])
        _write_parquet(spooled, store, key)
    return MadeCatalog(
        place=shown(check_place(os.fspath(to))),
        n_scenes=written.n_scenes,
        n_new=n_new,
        n_left_out=tally.n_left_out,
        left_out=tuple(tally.left_out),
        nbytes=written.nbytes,
    )


def _as_text(origin: Origin) -> bytes:
    return msgspec.json.encode(origin, order="deterministic")


def _of_text(content: bytes) -> Origin:
    return msgspec.json.decode(content, type=Origin)


def _opened(to: str | os.PathLike[str], settings: Settings) -> tuple[Store, str]:
    folder, _, key = check_place(os.fspath(to)).rpartition("/")
    return open_place(folder, settings.stores), key


def _whole_place(kind: str, place: Any) -> Any:
    """Return where scenes come from so that it means the same from any folder."""
    base = IN_PROCESS.within(str(Path.cwd()))
    try:
        if kind in ("items_file", "sentinel2_index"):
            return check_href(os.fspath(place), policy=base)
        if kind == "sources":
            named = parse_sources(place).model_dump(mode="json", exclude_none=True)
            for field in ("list", "prefix"):
                if named.get(field, STDIN) != STDIN:
                    is_folder = named[field].endswith("/")
                    named[field] = check_href(named[field].rstrip("/"), policy=base) + "/" * is_folder
            return named
    except ValueError as error:
        if isinstance(error, RequestError):
            raise
        raise RequestError(str(error), field="catalog") from error
    return place


def write_items(
    items: Iterable[Mapping[str, Any]], to: str | os.PathLike[str], *, stores: StoreSettings | None = None
) -> None:
    """Write items as STAC-GeoParquet, without the files that a search reads.

    Raises:
        StoreError: It could not be written.
    """
    folder, _, key = check_place(os.fspath(to)).rpartition("/")
    with SpooledItems() as spooled:
        spooled.add(items, name="items")
        _write_parquet(spooled, open_place(folder, stores or StoreSettings()), key)


@dataclass(slots=True)
class _Tally:
    """Counts scenes, and files that gave none."""

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


async def _copied(store: Store, key: str, place: str, spooled: SpooledItems) -> tuple[Origin, ...]:
    """Take what a catalog holds, a few groups at a time; return where it came from."""
    try:
        opened = await open_catalog(store, key, place=place)
    except StoreError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return ()  # there is none yet
        raise
    async for group in opened.all_items():
        spooled.add(group, name=key)
    return opened.header.origins


def _described(
    origin: Origin, items: Iterable[Any] | None, stac: str | None, settings: Settings
) -> Iterator[Mapping[str, Any]]:
    """Return the items of whatever names items."""
    if origin.kind == "items":
        return (each if isinstance(each, Mapping) else each.to_dict() for each in items or ())
    wanted = SearchCriteria.of(**origin.search)
    if origin.kind == "stac":
        return items_of_api(wanted, stac or origin.place)  # the former may hold a key, which is not kept
    if origin.kind == "cmr":
        asked = CmrSearch(short_name=origin.place, area=wanted.area, times=wanted.times, most=wanted.most)
        return cmr_items(asked, JsonClient(same_host_only(CMR, field="cmr")))
    objects = Objects(settings.stores)
    if origin.kind == "sentinel2_index":
        return _index_lines(origin.place, objects)

    def read_document(linked: str) -> Any:
        try:
            _, file = open_list_file(check_href(linked, policy=IN_PROCESS), objects=objects, what="catalog")
            with closing(file):
                return msgspec.json.decode(file.read())
        except (ValueError, msgspec.DecodeError) as error:
            raise RequestError(f"{linked[:200]} cannot be read: {error}", field="catalog") from error

    return items_of_file(origin.place, objects=objects, read_document=read_document)


def _index_lines(href: str, objects: Objects) -> Iterator[dict[str, Any]]:
    name, file = open_list_file(href, objects=objects, what="index")
    with closing(file):
        yield from items_of_index(file, name=name)


async def _add_from_headers(
    spooled: SpooledItems, origin: Origin, *, settings: Settings, tally: _Tally
) -> None:
    collection = origin.collection
    async with opened_job(parse_sources(origin.place), settings) as job:
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
    """Open every source, as many at a time as pays, and yield its header or why there is none."""

    async def open_one(source: Source) -> tuple[Source, Header | str]:
        try:
            async with job.limiter.permit(source.href, weight=1):
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
