"""Which scenes are looked for, and which ones are."""

from collections.abc import Sequence
from typing import Any

import pytest

from pixel_gather.core.errors import BudgetError, RequestError
from pixel_gather.core.scenes.catalog_query import SceneQuery
from pixel_gather.core.scenes.item import scene_key
from pixel_gather.core.scenes.search_criteria import NoSceneError, SearchCriteria, is_wanted, wanted_items
from pixel_gather.core.scenes.skipped_items import SkippedItems
from scenes.scenes import item

SQUARE = {"type": "Polygon", "coordinates": [[[11, 46], [12, 46], [12, 47], [11, 47], [11, 46]]]}


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"bbox": (0, 0, 1, 1), "point": (0, 0)}, "area"),
        ({"point": (0, 0), "geojson": SQUARE}, "area"),
        ({"most": 0}, "most"),
        ({"most": "9"}, "most"),
        ({"ids": "a"}, "ids"),
        ({"collections": "a"}, "collections"),
        ({"ids": 7}, "ids"),
        ({"ids": [["a"]]}, "ids"),
        ({"datetime": 2024}, "datetime"),
        ({"point": (0, 0, 0)}, "point"),
        ({"point": "0,0"}, "point"),
        ({"point": 7}, "point"),
        ({"bbox": "0,0,1,1"}, "bbox"),
        ({"bbox": 7}, "bbox"),
        ({"point": (0, 91)}, "point"),
        ({"bbox": (0, 1, 1, 0)}, "bbox"),
        ({"geojson": {"type": "Polygon"}}, "geojson"),
        ({"where": "cloud"}, "where"),
    ],
)
def test_what_is_wrong_is_named(given: dict[str, Any], field: str) -> None:
    """The error has the field."""
    with pytest.raises(RequestError) as raised:
        SearchCriteria.of(**given)

    assert raised.value.field == field


def test_one_scene_may_be_the_most() -> None:
    """The smallest number that finds anything. The same scene does not count twice."""
    wanted, scene = SearchCriteria.of(most=1), item()

    assert list(wanted_items([scene, scene], wanted, name="item", skipped=SkippedItems())) == [scene]
    with pytest.raises(BudgetError, match="finds more than 1 scene:"):
        list(wanted_items([scene, item("other")], wanted, name="item", skipped=SkippedItems()))


def test_a_condition_on_what_no_item_has_is_told() -> None:
    """Nothing is found, and nobody would know why."""
    some = [item("a", eo__cloud_cover=40), item("b", gsd=10)]

    def found(where: str, items: Sequence[dict[str, Any]] = some) -> list[dict[str, Any]]:
        wanted = SearchCriteria.of(where=where)
        return list(wanted_items(items, wanted, name="item", skipped=SkippedItems()))

    with pytest.raises(NoSceneError, match=r"no item has the property cloud_cover; did you mean eo:cloud_c"):
        found("gsd=10 and cloud_cover<50")
    with pytest.raises(NoSceneError, match="no item has the property x; there are datetime, eo:cloud_cover,"):
        found("x=1")
    assert found("gsd=20") == found("eo:cloud_cover<10") == found("x=1", []) == []
    many = item("c")
    many["properties"] |= {f"p{n}": n for n in range(2_000)}
    assert found("x=1", [many, item("d", x=2)]) == []


@pytest.mark.parametrize(
    ("wanted", "is_found"),
    [
        ({}, True),
        ({"ids": ["scene-1"]}, True),
        ({"ids": ["scene-2"]}, False),
        ({"collections": ["sentinel-2-l2a", "other"]}, True),
        ({"collections": ["other"]}, False),
        ({"datetime": "2024-06-01"}, True),
        ({"datetime": "../2024-06-01T10:20:30Z"}, True),
        ({"datetime": "2024-06-01T10:20:30Z/.."}, True),
        ({"datetime": "../2024-06-01T10:20:29Z"}, False),
        ({"datetime": "2024-06-01T10:20:31Z/.."}, False),
        ({"where": "eo:cloud_cover<6"}, True),
        ({"where": "eo:cloud_cover<5"}, False),
        ({"bbox": (12, 46, 13, 47)}, True),
        ({"bbox": (12.1, 46, 13, 47)}, False),
        ({"point": (11.5, 46.5)}, True),
        ({"point": (11.5, 45.5)}, False),
        ({"geojson": SQUARE}, True),
        ({"geojson": {"type": "Point", "coordinates": [11.5, 45.5]}}, False),
        ({"ids": ["scene-1"], "datetime": "2023"}, False),
    ],
)
def test_a_scene_is_wanted_if_it_meets_every_condition(wanted: dict[str, Any], *, is_found: bool) -> None:
    """A server may have ignored some of them."""
    scene = item(eo__cloud_cover=5)

    assert is_wanted(scene, scene_key(scene, name="item"), SearchCriteria.of(**wanted)) is is_found


def test_boxes_and_shapes_want_what_the_footprint_meets() -> None:
    """A catalog does the same. The footprint here is a triangle, and the corner of its box is empty."""
    ring = [[11, 46], [12, 46], [12, 47], [11, 46]]
    scene = item(geometry={"type": "Polygon", "coordinates": [ring]})
    key = scene_key(scene, name="item")
    corner = [[11, 46.9], [11.1, 46.9], [11.1, 47], [11, 46.9]]

    shape = SearchCriteria.of(geojson={"type": "Polygon", "coordinates": [corner]})

    assert not is_wanted(scene, key, shape)
    assert not is_wanted(scene, key, SearchCriteria.of(bbox=(11, 46.9, 11.1, 47)))
    assert is_wanted(scene, key, SearchCriteria.of(bbox=(11.4, 46, 11.5, 46.9)))
    assert is_wanted(scene, key, SearchCriteria.of(bbox=(10, 45, 13, 48)))
    empty = item(box=(11, 46.9, 11.1, 47))
    triangle = SearchCriteria.of(geojson=scene["geometry"])
    assert not is_wanted(empty, scene_key(empty, name="item"), triangle)


def test_a_scene_without_a_collection_is_of_any() -> None:
    """Servers may leave the collection out."""
    scene = item(collection=None)

    assert is_wanted(scene, scene_key(scene, name="item"), SearchCriteria.of(collections=["landsat"]))


def test_ids_and_collections_count_once() -> None:
    """They are sets, so many of them are looked up as fast as one."""
    wanted = SearchCriteria.of(collections=("c", "d", "c"), ids=["a", "a"])

    assert wanted.collections == {"c", "d"}
    assert wanted.ids == {"a"}


def test_a_catalog_is_asked_for_all_conditions_and_pages_are_its_own() -> None:
    """No condition is left out on the way to it. A search anywhere has no pages and no other processing."""
    wanted = SearchCriteria.of(
        bbox=(1, 2, 3, 4),
        datetime="2024",
        where="eo:cloud_cover<5",
        collections=("c", "d"),
        ids=("a",),
    )

    query = SceneQuery.of(wanted)

    shared = set(SceneQuery.__struct_fields__) & set(SearchCriteria.__struct_fields__)
    assert shared == {"area", "times", "where", "collections", "ids"}
    for name in shared:
        assert getattr(query, name) is getattr(wanted, name) is not None
    assert (query.after, query.is_latest, query.known_collections) == (None, False, ())
