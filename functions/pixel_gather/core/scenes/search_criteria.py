"""Which scenes are looked for: in one's own catalog, by a STAC API, by CMR or in a file. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from numbers import Integral
from typing import Any, Final

from pixel_gather.core.area import Area, boxes_meet, check_box, check_pair, is_within
from pixel_gather.core.errors import BudgetError, RequestError
from pixel_gather.core.model.plurals import counted
from pixel_gather.core.request.wrong_values import show_value
from pixel_gather.core.scene_conditions import parse_where
from pixel_gather.core.scenes.catalog_query import WantedScenes
from pixel_gather.core.scenes.item import SceneKey, footprint_shape, scene_key
from pixel_gather.core.scenes.skipped_items import SkippedItems
from pixel_gather.core.time_range import ALL_TIMES, parse_time_range

MOST_SCENES: Final = 100_000
"""Found by one search, if it does not say otherwise."""

_MOST_KNOWN: Final = 1_000
"""Most names of properties that are kept for an error."""


class NoSceneError(RequestError):
    """A correct search has found nothing. A schedule searches again at its next tick."""


class SearchCriteria(WantedScenes, frozen=True, kw_only=True):
    """Which scenes are looked for anywhere, as it came from outside and was checked."""

    most: int = MOST_SCENES
    """A search that finds more scenes is refused."""

    @classmethod
    def of(
        cls,
        *,
        bbox: Sequence[float] | None = None,
        point: Sequence[float] | None = None,
        geojson: Mapping[str, Any] | None = None,
        datetime: str | None = None,
        where: str | Mapping[str, Any] | None = None,
        collections: Sequence[str] = (),
        ids: Sequence[str] = (),
        most: int = MOST_SCENES,
    ) -> "SearchCriteria":
        """Check what is looked for.

        Raises:
            RequestError: It names what is wrong.
        """
        if sum(each is not None for each in (bbox, point, geojson)) > 1:
            raise RequestError("give one of bbox, point and geojson", field="area")
        if not isinstance(most, Integral) or most < 1:
            raise RequestError(f"it is {most!r}; write a number of scenes above 0", field="most")
        named: dict[str, frozenset[str]] = {}
        for name, given in (("collections", collections), ("ids", ids)):
            if isinstance(given, str):
                raise RequestError(f"it is a text; write a list: [{given!r}]", field=name)
            texts = list(given) if isinstance(given, Iterable) else [given]
            if not all(isinstance(each, str) for each in texts):
                raise RequestError(f"it is {show_value(given)}; write a list of texts", field=name)
            named[name] = frozenset(texts)
        area = None
        if bbox is not None:
            area = Area(check_box(bbox, field="bbox"))
        elif point is not None:
            area = Area.of_point(*check_pair(point, field="point"))
        elif geojson is not None:
            area = Area.of_geojson(geojson, field="geojson")
        return cls(
            area=area,
            times=ALL_TIMES if datetime is None else parse_time_range(datetime),
            where=parse_where(where),
            collections=named["collections"],
            ids=named["ids"],
            most=most,
        )


def wanted_items[Item: Mapping[str, Any]](
    items: Iterable[Item], wanted: SearchCriteria, *, name: str, skipped: SkippedItems
) -> Iterator[Item]:
    """Yield those items that are wanted, each collection and id once.

    Args:
        items: STAC items from anywhere.
        wanted: The search.
        name: What errors call an item, without an article, such as ``granule``.
        skipped: Gets what is no item.

    Raises:
        BudgetError: More of them are wanted than ``wanted.most``.
        NoSceneError: None is wanted, and a condition names a property that none has.
    """
    seen: set[int] = set()
    names = {each.name for each in wanted.where}
    lacking, known = set(names), set[str]()
    for item in items:
        try:
            key = scene_key(item, name=name)
            if lacking and len(known) < _MOST_KNOWN:
                known.update(map(str, item["properties"]))
            lacking.difference_update(item["properties"])
            if key.hash in seen or not is_wanted(item, key, wanted):
                continue
        except RequestError as error:
            skipped.add(error, item)
            continue
        seen.add(key.hash)
        if len(seen) > wanted.most:
            raise too_many(wanted)
        yield item
    if lacking and not seen:
        check_properties(wanted, sorted(known | names - lacking), of=name)


def check_properties(wanted: SearchCriteria, known: Sequence[str], *, of: str) -> None:
    """Say which condition names a property that none has.

    Args:
        wanted: The search.
        known: Names of properties. If there are none, nothing is said.
        of: What lacks it, such as ``item``.

    Raises:
        NoSceneError: There is such a condition.
    """
    for condition in wanted.where if known else ():
        if condition.name not in known:
            near = get_close_matches(condition.name, known, n=3)
            hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(known[:20])}"
            raise NoSceneError(f"no {of} has the property {condition.name}; {hint}", field="where")


def too_many(wanted: SearchCriteria) -> BudgetError:
    """Return the error of a search that finds more than was allowed."""
    return BudgetError(
        f"the search finds more than {counted(wanted.most, 'scene')}: narrow area or time, or raise most"
    )


def is_wanted(item: Mapping[str, Any], key: SceneKey, wanted: SearchCriteria) -> bool:
    """Tell whether a scene meets every condition; also those that a server may have ignored.

    Args:
        item: A STAC item.
        key: Key of the item.
        wanted: What is looked for. An item without a collection is of any collection.

    Raises:
        RequestError: Its footprint has to be looked at and cannot be used.
    """
    is_named = not wanted.ids or key.id in wanted.ids
    is_of_collection = not (wanted.collections and key.collection) or key.collection in wanted.collections
    is_in_time = key.start_us <= wanted.times.stop_us and key.stop_us >= wanted.times.start_us
    if not (is_named and is_of_collection and is_in_time):
        return False
    if not all(each.holds_for(item["properties"]) for each in wanted.where):
        return False
    return wanted.area is None or _meets(wanted.area, item, key)


def _meets(area: Area, item: Mapping[str, Any], key: SceneKey) -> bool:
    """Tell whether a footprint meets an area. Most are decided by their box."""
    if not boxes_meet(key.box, area.box):
        return False
    if area.geometry is None and (key.is_box or is_within(key.box, area.box)):
        return True
    return area.meets(footprint_shape(item, key))
