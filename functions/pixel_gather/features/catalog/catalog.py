"""Make a catalog in this process, from wherever scenes are described, or from the headers of images."""

import os
import tempfile
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, closing, contextmanager
from dataclasses import dataclass, field
from inspect import signature
from typing import Any, Final, Literal

import msgspec
import obstore
from msgspec import Struct

from pixel_gather.core.errors import RequestError, SourceError, StoreError
from pixel_gather.core.in_order import in_order
from pixel_gather.core.model.plurals import counted
from pixel_gather.core.model.source import Cost, Header, Source
from pixel_gather.core.ports import SourceAccess
from pixel_gather.core.request.check_arguments import check_arguments
from pixel_gather.core.request.given_items import as_dict
from pixel_gather.core.request.href_policy import IN_PROCESS, checked_href, place_text
from pixel_gather.core.request.request import parse_sources
from pixel_gather.core.request.web_address import CMR, same_host_only, without_query
from pixel_gather.core.request.wrong_values import show_value
from pixel_gather.core.scenes.item import hash_of, scene_key
from pixel_gather.core.scenes.scenes_from_headers import item_of_headers
from pixel_gather.core.scenes.search_criteria import NoSceneError, SearchCriteria, check_properties, is_wanted
from pixel_gather.core.scenes.skipped_items import SkippedItems
from pixel_gather.core.scenes.whole_hrefs import with_whole_hrefs
from pixel_gather.features.catalog.catalog_writer import (
    PresentVersion,
    WrittenCatalog,
    present_etag,
    replace_version,
    write_search_files,
)
from pixel_gather.features.catalog.search import items_of_api
from pixel_gather.in_process.cleanup import folders_removed_on_failure
from pixel_gather.in_process.job import Job, listed, opened_job
from pixel_gather.in_process.places import (
    check_parquet_place,
    check_place,
    holds_file,
    href_here,
    show_place,
)
from pixel_gather.in_process.settings import Settings
from pixel_gather.io.event_loop import run
from pixel_gather.io.scenes.catalog_format import Origin
from pixel_gather.io.scenes.geoparquet import items_of_geoparquet, write_geoparquet
from pixel_gather.io.scenes.item_files import items_of_file
from pixel_gather.io.scenes.search_cmr import cmr_items
from pixel_gather.io.scenes.search_own_catalog import ReplacedError, open_catalog
from pixel_gather.io.scenes.sentinel2_index import items_of_index
from pixel_gather.io.scenes.spooled_items import SpooledItems
from pixel_gather.io.store.json_http import JsonClient
from pixel_gather.io.store.object_store import Objects, Store, folder_and_key, open_place
from pixel_gather.io.store.open_list_file import STDIN, open_list_file
from pixel_gather.io.store.store_error_status import said_of_place
from pixel_gather.io.store.store_settings import StoreSettings

_N_AT_A_TIME: Final = 1000

type SceneKind = Literal["items", "stac", "cmr", "items_file", "sentinel2_index", "sources"]
"""What scenes of a catalog are made from."""

type _Mode = Literal["make", "add", "refresh"]


class MadeCatalog(Struct, frozen=True, kw_only=True):
    """A catalog that was written."""

    place: str
    n_scenes: int
    n_new: int
    """Scenes that were not in the catalog before, or are described anew."""

    n_left_out: int
    """Files and items of which no scene could be made."""

    left_out: tuple[tuple[str, str], ...]
    """Href or id, and reason, of the first twenty."""

    nbytes: int

    n_kept: int = 0
    """After a refresh: scenes that are as they were, because their files or items cannot be used today."""

    n_removed: int = 0
    notes: tuple[str, ...] = ()
    """Remarks on the lists whose headers were read, such as bands that are scenes by themselves, on searches
    whose conditions name a property that no item has, on items that share an id, on a catalog that was
    replaced, and on properties of several types."""


@dataclass(slots=True)
class _Tally:
    """Counts scenes, and files that gave none."""

    on_progress: Callable[[int], None]
    n: int = 0
    notes: list[str] = field(default_factory=list)
    skipped: SkippedItems = field(default_factory=SkippedItems)
    in_part: list[Mapping[str, Any]] = field(default_factory=list)
    """Scenes some of whose files cannot be read."""

    names_in_part: set[str] = field(default_factory=set)
    """Names of such scenes."""

    def counted(self, items: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
        for item in items:
            self.n += 1
            if self.n % _N_AT_A_TIME == 0:
                self.on_progress(self.n)
            yield item
        self.on_progress(self.n)


@check_arguments
def make_catalog(
    scenes: Any,
    *,
    to: str | os.PathLike[str],
    kind: SceneKind = "items",
    search: Mapping[str, Any] | None = None,
    collection: str = "images",
    add: bool = False,
    settings: Settings | None = None,
    on_progress: Callable[[int], None] = lambda _: None,
) -> MadeCatalog:
    """Make a catalog of scenes, for `search`, or add scenes to one.

    Args:
        scenes: STAC items: dicts, or objects with ``to_dict``, such as those of `search` and pystac-client.
            Or the place of scenes of another ``kind``.
        to: The STAC-GeoParquet file to write, here or on S3. Two files for searches are written beside it.
        kind: What ``scenes`` is. ``items``: STAC items. ``stac``: the address of a STAC API's landing page.
            A query in it, such as a key, is sent along and not kept. ``cmr``: the short name of a collection
            in NASA's CMR. ``items_file``: a collection of items, one item a line, STAC-GeoParquet, or a
            static catalog. ``sentinel2_index``: the public Sentinel-2 index, CSV, gzipped or not.
            ``sources``: as a request's ``sources``; footprint, grid and bands are read from the headers.
        search: What is looked for by ``stac`` and ``cmr``: the keyword arguments of `SearchCriteria.of`.
        collection: Name of the collection for scenes made from headers.
        add: Keep what the catalog holds. A new scene replaces one of the same collection and id.
        settings: How this machine is used.
        on_progress: Called with the number of scenes so far.

    Raises:
        RequestError: ``kind`` is none of these, it holds no scene, ``search`` is given for another
            kind than stac and cmr, ``to`` is the name of another format, or ``to`` is a file that is no
            catalog. Without ``add``, also: a condition of ``search`` names a property that no item has.
        StoreError: The catalog could not be written; an earlier one is as it was.
    """
    _criteria({} if search is None else search)
    if search and kind not in ("stac", "cmr"):
        raise RequestError("only the kinds stac and cmr take a search: leave it out", field="search")
    place = None if kind == "items" else _whole_place(kind, scenes)
    kept_place = without_query(scenes) if kind == "stac" else place
    origin = Origin(kind=kind, place=kept_place, search=dict(search or {}), collection=collection)
    return _made(
        [origin],
        given=scenes,
        to=to,
        mode="add" if add else "make",
        settings=settings,
        on_progress=on_progress,
    )


def _criteria(search: Mapping[str, Any]) -> SearchCriteria:
    known = signature(SearchCriteria.of).parameters
    unknown = search.keys() - known if isinstance(search, Mapping) else {}
    if not isinstance(search, Mapping) or unknown:
        said = f"there is no {min(unknown, key=str)}" if unknown else "it must be an object"
        raise RequestError(f"{said}; write some of {', '.join(known)}", field="search")
    return SearchCriteria.of(**search)


def refresh_catalog(
    *,
    to: str | os.PathLike[str],
    settings: Settings | None = None,
    on_progress: Callable[[int], None] = lambda _: None,
) -> MadeCatalog:
    """Make a catalog again from everything that it was made from; the arguments are those of `make_catalog`.

    What its sources no longer name is gone afterwards. What they name and cannot be read today stays as it
    was. A search that finds nothing, as no item has a property that it names, is told by a note.

    Raises:
        RequestError: It was made from items that a program gave, which cannot be asked for again.
        StoreError: There is no catalog.
    """
    with _opened_place(to, settings or Settings()) as (store, key):
        origins = run(open_catalog(store, key, place=os.fspath(to))).header.origins
    if not origins or any(origin.kind == "items" for origin in origins):
        raise RequestError(
            "a program gave its items, which cannot be asked for again: make the catalog anew",
            field="refresh",
        )
    return _made(origins, given=None, to=to, mode="refresh", settings=settings, on_progress=on_progress)


@check_arguments
def remove_scenes(
    *, to: str | os.PathLike[str], search: Mapping[str, Any], settings: Settings | None = None
) -> MadeCatalog:
    """Remove scenes from a catalog. A refresh brings back those that its sources still name.

    Args:
        to: The catalog.
        search: Which scenes, by the keyword arguments of `SearchCriteria.of`: ``{"ids": ["a", "b"]}``, or
            ``{"where": "eo:cloud_cover>90", "datetime": "../2020"}``. Those that meet all of it are removed.
        settings: How this machine is used.

    Raises:
        RequestError: It does not say which scenes, all of them are meant, or a condition names a property
            that none of them has.
        StoreError: There is no catalog, or it could not be written.
    """
    wanted = _criteria(search)
    if wanted == SearchCriteria(most=wanted.most):
        raise RequestError(
            "say which scenes: by ids, collections, a place, times or conditions", field="search"
        )
    place = place_text(to, "to")
    with _opened_place(to, settings or Settings()) as (store, key):
        run(open_catalog(store, key, place=place, most_in_memory=0))

    def stays(item: Mapping[str, Any]) -> bool:
        return not is_wanted(item, scene_key(item, name="item"), wanted)

    with SpooledItems() as spooled:
        while True:
            present = run(_copy_kept_scenes(store, key, place, spooled, keep=stays))
            before = present.header
            n_before = 0 if before is None else before.n_scenes
            if n_before and not spooled.n_items:
                raise RequestError(
                    f"nothing would be left of {counted(n_before, 'scene')}; to remove all, delete the "
                    "catalog's files",
                    field="search",
                )
            if before is not None and spooled.n_items == n_before:
                check_properties(wanted, before.properties, of="scene of the catalog")
            origins = () if before is None else before.origins
            written = replace_version(spooled, store, key, origins=origins, present=present)
            if written is not None:
                break
        _write_parquet(spooled, store, key, place=place, etag=written.etag)
    return MadeCatalog(
        place=show_place(check_place(place)),
        n_scenes=written.n_scenes,
        n_new=0,
        n_left_out=0,
        left_out=(),
        nbytes=written.nbytes,
        n_removed=n_before - written.n_scenes,
    )


def _made(
    origins: Sequence[Origin],
    *,
    given: Any,
    to: str | os.PathLike[str],
    mode: _Mode,
    settings: Settings | None,
    on_progress: Callable[[int], None],
) -> MadeCatalog:
    """Write a catalog of the scenes of ``origins``.

    ``given`` is what a program gave, with items, keys and rows that no origin keeps; None to ask again.
    """
    settings = settings or Settings()
    place = place_text(to, "to")
    tally = _Tally(on_progress)
    with _opened_place(to, settings) as (store, key), SpooledItems() as spooled:
        # Look for the Parquet file first: another writer may finish meanwhile, and writes it last.
        if holds_file(store, place, key) and run(present_etag(store, key)) is None:
            raise RequestError(f"{place} exists and is no catalog: choose another name", field="to")
        for origin in origins:
            if origin.kind == "sources":
                run(_add_from_headers(spooled, origin, given, settings=settings, tally=tally))
            else:
                described = _items_described_by(origin, given, settings, tally.skipped)
                _add_described(spooled, origin, described, tally=tally, may_lack=mode != "make")
        if mode != "refresh":
            spooled.add(tally.in_part, name="headers")
        n_new, n_kept = spooled.n_items, 0
        if mode == "make":
            _check_any(spooled, tally)
            if run(present_etag(store, key)) is not None:
                tally.notes.append("the catalog that was there is replaced; add would keep its scenes")
            written = write_search_files(spooled, store, key, origins=origins)
        elif mode == "add":
            written = _add_items(spooled, tally, store, key, place=place, origins=origins)
        else:
            written, n_kept = _refresh_catalog(spooled, tally, store, key, place=place, origins=origins)
        if written.n_replaced:
            repeated = counted(written.n_replaced, "item")
            tally.notes.append(f"{repeated} left out for a later one with the same collection and id")
        of_several_types = _write_parquet(spooled, store, key, place=place, etag=written.etag)
        if of_several_types:
            tally.notes.append(
                f"text in the Parquet file, as their values have several types: {', '.join(of_several_types)}"
            )
    return MadeCatalog(
        place=show_place(check_place(place)),
        n_scenes=written.n_scenes,
        n_new=n_new - written.n_replaced,
        n_left_out=tally.skipped.n,
        left_out=tuple(tally.skipped.first),
        notes=tuple(tally.notes),
        nbytes=written.nbytes,
        n_kept=n_kept,
    )


def _add_described(
    spooled: SpooledItems,
    origin: Origin,
    described: Iterable[Mapping[str, Any]],
    *,
    tally: _Tally,
    may_lack: bool,
) -> None:
    """Take the items of one origin. If ``may_lack``, a property that none of them has is told by a note."""
    try:
        spooled.add(tally.counted(described), name="item", skipped=tally.skipped)
    except NoSceneError as error:
        if not may_lack:
            raise
        tally.notes.append(f"{origin.place} gives no scene: {error.message}")


def _add_items(
    spooled: SpooledItems, tally: _Tally, store: Store, key: str, *, place: str, origins: Sequence[Origin]
) -> WrittenCatalog:
    """Write the new items and those of the catalog; again if somebody else was faster."""
    _check_any(spooled, tally)
    while True:
        present = run(_copy_kept_scenes(store, key, place, spooled))
        before = () if present.header is None else present.header.origins
        texts = (msgspec.json.encode(each, order="deterministic") for each in (*before, *origins))
        merged = [msgspec.json.decode(each, type=Origin) for each in dict.fromkeys(texts)]
        written = replace_version(spooled, store, key, origins=merged, present=present)
        if written is not None:
            return written


def _refresh_catalog(
    spooled: SpooledItems, tally: _Tally, store: Store, key: str, *, place: str, origins: Sequence[Origin]
) -> tuple[WrittenCatalog, int]:
    """Write the new items, and scenes of the catalog that cannot be read today. Return how many these are."""
    n_new = spooled.n_items
    while True:
        kept: set[int] = set()

        def keeps(item: Mapping[str, Any], kept: set[int] = kept) -> bool:
            is_kept = tally.skipped.may_be(item)
            kept |= {hash_of(item)} if is_kept else set()
            return is_kept

        present = run(_copy_kept_scenes(store, key, place, spooled, keep=keeps))
        n_kept = spooled.n_items - n_new
        spooled.add((each for each in tally.in_part if hash_of(each) not in kept), name="headers")
        _check_any(spooled, tally)
        written = replace_version(spooled, store, key, origins=origins, present=present)
        if written is not None:
            return written, n_kept


def _check_any(spooled: SpooledItems, tally: _Tally) -> None:
    """Refuse to write nothing, and say why there is nothing."""
    if not spooled.n_items and tally.skipped.n:
        name, reason = tally.skipped.first[0]
        n = tally.skipped.n
        thing = "file" if tally.skipped.hrefs else "item"
        raise RequestError(
            f"no scene could be made of {counted(n, thing)}; the first: {name}: {reason}", field="catalog"
        )


@contextmanager
def _opened_place(to: str | os.PathLike[str], settings: Settings) -> Iterator[tuple[Store, str]]:
    """Yield the client and the key of a catalog's Parquet file. A failure leaves no new empty folder."""
    folder, key = folder_and_key(check_parquet_place(to, what="a catalog"))
    with folders_removed_on_failure(folder):
        yield open_place(folder, settings.stores), key


def _whole_place(kind: str, place: Any) -> Any:
    """Return where scenes come from so that it means the same from any folder."""
    if kind in ("items_file", "sentinel2_index"):
        return href_here(place, "catalog")
    if kind == "sources":
        named = parse_sources(place).model_dump(mode="json", exclude_none=True)
        for field in ("list", "prefix"):
            if named.get(field, STDIN) != STDIN:
                is_folder = named[field].endswith("/")
                named[field] = href_here(named[field].rstrip("/"), "catalog") + "/" * is_folder
        return named
    return place


def write_items(
    items: Iterable[Mapping[str, Any]], to: str | os.PathLike[str], *, stores: StoreSettings | None = None
) -> None:
    """Write items as STAC-GeoParquet, without the files that a search reads.

    Raises:
        RequestError: A file that is no STAC-GeoParquet is there.
        StoreError: It could not be written.
    """
    place, stores = check_place(to), stores or StoreSettings()
    folder, key = folder_and_key(place)
    store = open_place(folder, stores)
    if holds_file(store, place, key) and not _holds_items(place, Objects(stores)):
        raise RequestError(f"{to} exists and is no STAC-GeoParquet: choose another name", field="to")
    with SpooledItems() as spooled:
        spooled.add(items, name="items")
        _put_parquet(spooled, store, key)


def _holds_items(place: str, objects: Objects) -> bool:
    try:
        name, file = open_list_file(place, objects=objects, what="file")
        with closing(file):
            next(items_of_geoparquet(file, name=name, skipped=SkippedItems()), None)
    except RequestError:
        return False
    return True


async def _copy_kept_scenes(
    store: Store,
    key: str,
    place: str,
    spooled: SpooledItems,
    *,
    keep: Callable[[Mapping[str, Any]], bool] = lambda _: True,
) -> PresentVersion:
    """Take what a catalog holds and is kept, a few groups at a time; return which version that is."""
    while (etag := await present_etag(store, key)) is not None:
        spooled.begin_existing()
        opened = await open_catalog(store, key, place=place, most_in_memory=0)
        try:
            async for group in opened.all_items():
                spooled.add(filter(keep, group), name=key)
        except ReplacedError:
            pass  # begin again with the newest version
        else:
            return PresentVersion(etag=etag, header=opened.header)
    spooled.begin_existing()
    return PresentVersion(etag=None)


def _as_item(given: Any) -> Mapping[str, Any]:
    if (found := as_dict(given)) is None:
        raise RequestError(
            f"{show_value(given)} is no STAC item: of a list of files, say that the kind is sources",
            field="scenes",
        )
    return found


def _items_described_by(
    origin: Origin, given: Any, settings: Settings, skipped: SkippedItems
) -> Iterator[Mapping[str, Any]]:
    """Return the items of whatever names items."""
    if origin.kind == "items":
        items = map(_as_item, [given] if isinstance(given, str | os.PathLike) else given or ())
        return with_whole_hrefs(items, None)
    wanted = SearchCriteria.of(**origin.search)
    if origin.kind == "stac":
        # an address that is given may hold a key, which is not kept
        return items_of_api(wanted, given or origin.place, skipped)
    if origin.kind == "cmr":
        client = JsonClient(same_host_only(CMR, field="cmr"))
        return cmr_items(wanted, client, collection={"short_name": origin.place}, skipped=skipped, root=CMR)
    objects = Objects(settings.stores)
    if origin.kind == "sentinel2_index":
        return _index_lines(origin.place, objects, skipped)
    return items_of_file(
        origin.place,
        objects=objects,
        check_linked=lambda linked: checked_href(linked, "catalog", policy=IN_PROCESS),
        skipped=skipped,
    )


def _index_lines(href: str, objects: Objects, skipped: SkippedItems) -> Iterator[dict[str, Any]]:
    name, file = open_list_file(href, objects=objects, what="index")
    with closing(file):
        yield from items_of_index(file, name=name, skipped=skipped)


async def _add_from_headers(
    spooled: SpooledItems, origin: Origin, given: Any, *, settings: Settings, tally: _Tally
) -> None:
    collection = origin.collection
    # rows of a program are not kept
    async with opened_job(parse_sources(origin.place if given is None else given), settings) as job:
        tally.notes += job.table.notes
        with closing(listed(job.table)) as in_list:
            each = open_headers(in_list, access=job.sources, most_ahead=job.most_ahead)
            async with aclosing(each) as headers:
                scene: list[tuple[Source, Header]] = []
                async for source, header in headers:
                    if isinstance(header, str):
                        tally.skipped.add_file(source.href, header)
                        tally.names_in_part.add(source.scene or source.href)
                        continue
                    if scene and not (source.scene and scene[0][0].scene == source.scene):
                        _add_scene(spooled, scene, collection, job, tally)
                        scene = []
                    scene.append((source, header))
                if scene:
                    _add_scene(spooled, scene, collection, job, tally)


def _add_scene(
    spooled: SpooledItems,
    scene: list[tuple[Source, Header]],
    collection: str,
    job: Job,
    tally: _Tally,
) -> None:
    source = scene[0][0]
    item = item_of_headers(scene, collection=collection, projector=job.projector)
    if isinstance(item, str):
        tally.skipped.add_file(source.href, item)
        return
    counted_items = tally.counted((item,))
    if source.scene in tally.names_in_part:
        tally.in_part.extend(counted_items)
    else:
        spooled.add(counted_items, name="headers", skipped=tally.skipped)


def open_headers(
    sources: Iterable[Source], *, access: SourceAccess, most_ahead: int
) -> AsyncGenerator[tuple[Source, Header | str]]:
    """Open every source, as many at a time as pays, and yield its header or why there is none."""

    async def open_one(source: Source) -> tuple[Source, Header | str]:
        cost = Cost()
        try:
            async with access.limiter.permit(source.href, weight=1) as permit:
                opened = await access.open_(source.href, overview=None, cost=cost)
                permit.record_read(n_requests=cost.needed_requests)
        except SourceError as error:
            return source, error.reason
        return source, opened.header

    return in_order(sources, open_one, most_ahead=most_ahead)


def _write_parquet(spooled: SpooledItems, store: Store, key: str, *, place: str, etag: str) -> list[str]:
    """Write the Parquet file of a version. If a newer version was written meanwhile, write that one's file.

    Returns what `write_geoparquet` returns.
    """
    of_several_types = _put_parquet(spooled, store, key)
    while (now := run(present_etag(store, key))) not in (etag, None):
        with SpooledItems() as newest:
            etag = run(_copy_kept_scenes(store, key, place, newest)).etag or now
            of_several_types = _put_parquet(newest, store, key)
    return of_several_types


def _put_parquet(spooled: SpooledItems, store: Store, key: str) -> list[str]:
    _, which = spooled.read_in_order()
    with tempfile.TemporaryFile(prefix="pixel-gather-catalog-") as file:
        of_several_types = write_geoparquet(spooled, which, file)
        file.seek(0)
        try:
            obstore.put(store, key, file)
        except (obstore.exceptions.BaseError, OSError) as error:
            raise StoreError(f"{key} could not be written: {said_of_place(error)}") from error
    return of_several_types
