"""The scenes that a request asks a catalog or a STAC API for, as the list of a gather's sources."""

from collections.abc import Callable, Container, Iterator, Sequence
from copy import replace
from typing import Final

import msgspec
from msgspec import Struct

from pixel_gather.core.area import Box
from pixel_gather.core.errors import RequestError
from pixel_gather.core.model.band_meaning import NO_MEANING, BandMeaning
from pixel_gather.core.model.plurals import counted
from pixel_gather.core.model.source import LeftOut, SearchCost, Source
from pixel_gather.core.model.window import WindowRule
from pixel_gather.core.ports import Projector
from pixel_gather.core.request.href_policy import HrefPolicy, check_href
from pixel_gather.core.request.sources import Sources
from pixel_gather.core.request.web_address import CheckUrl
from pixel_gather.core.scenes.scene_sources import (
    AssetChoice,
    SceneSource,
    asset_choices,
    band_numbers,
    meaning_in,
    row_of,
    sources_of,
)
from pixel_gather.core.scenes.search_criteria import NoSceneError, SearchCriteria
from pixel_gather.io.lists.list_columns import check_name, check_value
from pixel_gather.io.lists.source_list import SourceList
from pixel_gather.io.scenes.found_scenes import FoundScenes, Item
from pixel_gather.io.scenes.search_for_request import SceneSearcher, Searched
from pixel_gather.io.store.object_store import Objects
from pixel_gather.io.store.open_list_file import Check, no_deadline

LONLAT: Final = "EPSG:4326"


class _Told(Struct, frozen=True):
    """What a search tells besides the sources; complete once they have been read."""

    notes: list[str] = []
    left_out: list[LeftOut] = []
    cost: SearchCost = msgspec.field(default_factory=SearchCost)
    meanings: dict[str, BandMeaning] = {}

    def add_meanings(self, item: Item, choices: tuple[AssetChoice, ...]) -> None:
        """Take what is said of bands that no earlier item has said anything of."""
        for choice in choices:
            if choice.band not in self.meanings and (said := meaning_in(item, choice)) != NO_MEANING:
                self.meanings[choice.band] = said


class SceneFinder(Struct, frozen=True, kw_only=True):
    """Finds the scenes of a request, and makes them a list; belongs to one gather."""

    window: WindowRule | None
    """The request's window; None where there is none, as for an index of headers."""

    projector: Projector
    objects: Objects
    policy: HrefPolicy
    """Which sources may be read."""

    catalog_policy: HrefPolicy
    """Where a catalog may lie."""

    check_api: Callable[[str], CheckUrl]
    """Makes the check that every address of a STAC API has to pass."""

    check: Check = no_deadline
    keeps: Callable[[Box], bool] | None = None
    """Tells by its box whether a scene is wanted; None for all that are found."""

    def __call__(self, sources: Sources) -> SourceList:
        """Return the list of a request's ``sources.stac`` or ``sources.catalog``.

        The search itself runs when the list is read.
        """
        asked = sources.searched
        assert asked is not None  # noqa: S101 # named_sources has looked
        field = "sources.catalog" if sources.stac is None else "sources.stac"
        choices = asset_choices(asked.assets, field=f"{field}.assets")
        for choice in choices:
            try:
                check_name(choice.band, what="band")
            except ValueError as error:
                raise RequestError(str(error), field=f"{field}.assets") from error
        told = _Told()
        return SourceList(
            name=field,
            is_typed=True,
            sources=self._sources(asked, choices, field, told),
            notes=told.notes,
            left_out=told.left_out,
            search_cost=told.cost,
            band_numbers=band_numbers(choices),
            band_meanings=told.meanings,
        )

    def _sources(
        self,
        asked: Searched,
        choices: tuple[AssetChoice, ...],
        field: str,
        told: _Told,
    ) -> Iterator[Source]:
        found = _named_in(field, lambda: self._found(asked, choices, told))
        told.notes.extend((*_warn_of_duplicates(found), *_warn_of_skipped(found)))
        items = [each for each in found.items if self.keeps is None or self.keeps(each["bbox"])]
        there: set[str] = set()  # bands whose asset a scene has
        n_without = 0
        for item in items:
            n_of_item = 0
            told.add_meanings(item, choices)
            for each, scene in self._sources_of_item(item, asked, choices):
                if each.href is None:
                    reason = f"{each.scene} has no such asset"
                    told.left_out.append(_left_out(each, scene, status="absent", reason=reason))
                    continue
                n_of_item += 1
                there.add(each.band)
                yield self._source(each.href, each, scene, field)
            n_without += not n_of_item
        for item, latest in found.dropped:
            reason = f"{item['id']} was processed again later: {latest['id']} is kept"
            for each, scene in self._sources_of_item(item, asked, choices):
                told.left_out.append(_left_out(each, scene, status="duplicate", reason=reason))
        if n_far := len(found.items) - len(items):
            told.notes.append(f"{counted(n_far, 'scene')} found that no feature lies on: left out")
        if not items:
            more = "".join(f"; {note}" for note in _warn_of_skipped(found))
            raise NoSceneError(
                f"no scene was found: widen the area, the time or the conditions{more}", field=field
            )
        lacks = list(_warn_of_absent(found, choices, there))
        if not there:
            raise RequestError(*lacks, field=f"{field}.assets")
        told.notes.extend(lacks)
        if n_without:
            told.notes.append(f"{counted(n_without, 'scene')} found without any of the assets: left out")

    def _sources_of_item(
        self, item: Item, asked: Searched, choices: tuple[AssetChoice, ...]
    ) -> Iterator[tuple[SceneSource, str]]:
        """Yield the sources of a scene, each with the name of its row."""
        row = row_of(item, asked.scene)
        for each in sources_of(item, choices, address=asked.address):
            own = {} if asked.scene == "item" else {"item": each.scene}
            yield replace(each, columns={**each.columns, **own}), row

    def _source(self, href: str, each: SceneSource, scene: str, field: str) -> Source:
        try:
            return Source(
                href=check_href(href, policy=self.policy),
                band=each.band,
                scene=scene,
                time_us=each.time_us,
                columns={name: check_value(name, value) for name, value in each.columns.items()},
            )
        except ValueError as error:
            raise RequestError(f"scene {each.scene[:200]}: {error}", field=field) from error

    def _found(self, asked: Searched, choices: tuple[AssetChoice, ...], told: "_Told") -> FoundScenes:
        searcher = SceneSearcher(
            objects=self.objects, policy=self.catalog_policy, check_api=self.check_api, check=self.check
        )
        wanted = self._search(asked)
        told.notes.extend(() if wanted.area is None else wanted.area.notes)
        return searcher.found(asked, wanted, choices, told.cost)

    def _search(self, asked: Searched) -> SearchCriteria:
        """Check what is asked; the area of the window is that of its box or point on the Earth."""
        wanted = SearchCriteria.of(
            bbox=asked.area if isinstance(asked.area, tuple) else None,
            geojson=asked.area if isinstance(asked.area, dict) else None,
            datetime=asked.datetime,
            where=asked.where,
            collections=asked.collections,
            ids=asked.ids,
            most=asked.most,
        )
        if asked.area != "window":
            return wanted
        box = box_of_window(self.window, self.projector)
        return replace(wanted, area=SearchCriteria.of(bbox=box).area)


def box_of_window(window: WindowRule | None, projector: Projector) -> tuple[float, float, float, float]:
    """Return where a window lies in longitude and latitude.

    Raises:
        RequestError: It is not placed on the Earth before a source is opened.
    """
    if window is None or window.crs is None or (window.bounds is None and window.point is None):
        raise RequestError(
            "the window does not say where on the Earth it lies: give a point or a box (--point, --bbox). In "
            "a request, you can also write area: [west, south, east, north] in degrees, or area: all",
            field="area",
        )
    if window.point is not None:
        xs, ys = projector.points(
            [window.point[0]], [window.point[1]], source_crs=window.crs, target_crs=LONLAT
        )
        return (xs[0], ys[0], xs[0], ys[0])
    assert window.bounds is not None  # noqa: S101 # checked above
    return projector.bounds(window.bounds, source_crs=window.crs, target_crs=LONLAT)


def _named_in(field: str, work: Callable[[], FoundScenes]) -> FoundScenes:
    """Do work whose mistakes are those of a part of the request, and name that part."""
    try:
        return work()
    except RequestError as error:
        if error.field.startswith("sources."):
            raise
        part = "" if error.field in ("stac", "catalog") else f".{error.field}"
        raise RequestError(error.message, field=f"{field}{part}") from error


def _left_out(each: SceneSource, scene: str, *, status: str, reason: str) -> LeftOut:
    return LeftOut(
        href=None if each.href is None else each.href.partition("?")[0],  # a query may hold a signature
        band=each.band,
        scene=scene,
        time_us=each.time_us,
        columns=each.columns,
        status=status,
        reason=reason,
    )


def _warn_of_absent(
    found: FoundScenes, choices: Sequence[AssetChoice], there: Container[str]
) -> Iterator[str]:
    """Yield that no scene has the assets of some bands, if there are any."""
    lacking = [choice for choice in choices if choice.band not in there]
    if lacking:
        band = lacking[0].band
        yield (
            f"{counted(len(found.items), 'scene')} found, and none has an asset "
            f"{' or '.join(choice.asset for choice in lacking)}; the first has "
            f"{', '.join(found.items[0]['all_assets'][:20])}; if one of these is meant, write {band}=NAME, "
            f"or {{{band}: NAME}} in a request"
        )


def _warn_of_duplicates(found: FoundScenes) -> Iterator[str]:
    if not found.dropped:
        return
    one, other = found.dropped[0]
    more = f", and {len(found.dropped) - 1:,} more" if len(found.dropped) > 1 else ""
    yield (
        f"{counted(len(found.dropped), 'scene')} left out, of which a later processing is kept: {one['id']} "
        f"(kept: {other['id']}){more}. To keep all, write duplicates: all"
    )


def _warn_of_skipped(found: FoundScenes) -> Iterator[str]:
    if found.skipped:
        name, reason = found.skipped[0]
        yield f"{counted(found.n_skipped, 'item')} left out that cannot be used; the first: {name}: {reason}"
