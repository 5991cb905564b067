"""Catalogs, written and searched, against looking at every item by itself."""

import asyncio
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import obstore
import pytest
import shapely
from obstore.store import LocalStore
from shapely.geometry import shape

from pixel_gather.core.area import Area
from pixel_gather.core.errors import StoreError
from pixel_gather.core.scene_conditions import parse_where
from pixel_gather.core.scenes.catalog_query import Position, SceneQuery
from pixel_gather.core.time_range import parse_time_range
from pixel_gather.features.catalog.catalog_writer import write_search_files
from pixel_gather.io.scenes import search_own_catalog
from pixel_gather.io.scenes.search_own_catalog import Catalog, ReplacedError, open_catalog
from pixel_gather.io.scenes.spooled_items import SpooledItems
from scenes.scenes import item
from support.in_loop import in_loop

KEY = "catalog.parquet"


def written(store: LocalStore, items: Iterable[dict[str, Any]]) -> None:
    """Write a catalog."""
    with SpooledItems() as spooled:
        spooled.add(items, name="items")
        write_search_files(spooled, store, KEY)


def ids(
    store: LocalStore, query: SceneQuery, *, limit: int = 10_000, most_in_memory: int = 1_000_000
) -> list[str]:
    """Return the ids that a search finds, page by page."""

    async def search() -> list[str]:
        catalog = await open_catalog(store, KEY, most_in_memory=most_in_memory)
        return [each["id"] async for each in _paged(catalog, query, limit)]

    return asyncio.run(search())


async def _paged(catalog: Catalog, query: SceneQuery, limit: int) -> Any:
    after: Position | None = None
    while True:
        page = await catalog.page(
            SceneQuery(area=query.area, times=query.times, where=query.where, after=after), limit=limit
        )
        assert len(page.items) <= limit
        for each in page.items:
            yield each
        if page.next is None:
            return
        after = page.next


def made_up(n: int) -> list[dict[str, Any]]:
    """Return scenes all over the Earth, a third of them with footprints that are no boxes."""
    rnd = random.Random(4)  # noqa: S311 # a test's own
    scenes = []
    for number in range(n):
        west, south = rnd.uniform(-180, 180), rnd.uniform(-90, 80)
        east, north = west + rnd.uniform(0.1, 20), south + rnd.uniform(0.1, 9)
        if east > 180:  # some archives write such a box beyond the map
            west, east = west - 360 if number % 2 else west, east - 360
        triangle = {
            "type": "Polygon",
            "coordinates": [[[west, south], [east, south], [west, north], [west, south]]],
        }
        scenes.append(
            item(
                f"s{number}",
                box=(west, south, east, north),
                time=f"20{rnd.randint(15, 24)}-{rnd.randint(1, 12):02}-01T00:00:00Z",
                geometry=triangle if number % 3 == 0 and -180 <= west < east else None,
                eo__cloud_cover=rnd.uniform(0, 100),
            )
        )
    return scenes


@pytest.mark.long
@pytest.mark.parametrize("most_in_memory", [1_000_000, 0], ids=["in memory", "by ranges"])
def test_search_finds_what_a_look_at_every_scene_finds(tmp_path: Path, most_in_memory: int) -> None:
    """Boxes, footprints, times and clouds decide as shapely and Python do, in memory or by ranges."""
    scenes = made_up(400)
    store = LocalStore(tmp_path)
    written(store, scenes)
    rnd = random.Random(5)  # noqa: S311 # a test's own

    for _ in range(60):
        west, south = rnd.uniform(-180, 180), rnd.uniform(-90, 80)
        box = (west, south, rnd.uniform(-180, 180), min(south + rnd.uniform(0, 40), 90))
        area, cloud, year = Area(box), rnd.uniform(0, 100), rnd.randint(15, 24)
        query = SceneQuery(
            area=area, times=parse_time_range(f"20{year}/.."), where=parse_where(f"eo:cloud_cover<{cloud}")
        )
        expected = {
            each["id"]
            for each in scenes
            if each["properties"]["datetime"] >= f"20{year}"
            and each["properties"]["eo:cloud_cover"] < cloud
            and area.meets(_footprint(each))
        }

        found = ids(store, query, limit=7, most_in_memory=most_in_memory)

        assert len(found) == len(set(found))
        assert set(found) == expected


@in_loop
async def test_an_open_catalog_knows_footprints_of_one_box_apart(tmp_path: Path) -> None:
    """It keeps those that it has looked at, each for its own scene."""
    store = LocalStore(tmp_path)
    corners = {"lower": [(0, 0), (9, 0), (0, 9)], "upper": [(9, 9), (9, 0), (0, 9)]}
    written(
        store,
        [
            item(name, box=(0, 0, 9, 9), geometry=shapely.geometry.mapping(shapely.Polygon(positions)))
            for name, positions in corners.items()
        ],
    )

    catalog = await open_catalog(store, KEY)
    areas = [Area((1, 1, 2, 2)), Area((7, 7, 8, 8))] * 2
    pages = [await catalog.page(SceneQuery(area=area), limit=9) for area in areas]
    assert [[each["id"] for each in page.items] for page in pages] == [["lower"], ["upper"]] * 2


def _footprint(scene: dict[str, Any]) -> Any:
    west, south, east, north = scene["bbox"]
    if scene["geometry"]:
        return shape(scene["geometry"])
    return shapely.box(west, south, east if west < east else east + 360, north)


@pytest.mark.long
@in_loop
async def test_groups_of_items_are_kept_up_to_a_number_of_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However large items are, an open catalog takes no more memory; a group that was just read is kept."""
    store = LocalStore(tmp_path)
    written(store, made_up(400))
    monkeypatch.setattr(search_own_catalog, "_GROUPS_KEPT_NBYTES", 100_000)

    catalog = await open_catalog(store, KEY)
    kept = []
    for n in range(400):
        await catalog.page(SceneQuery(ids=frozenset({f"s{n}"})), limit=1)
        kept.append(catalog._groups.nbytes)
    groups = [catalog._groups.get(number) or [] for number in catalog._groups]
    assert catalog._groups.nbytes == sum(sum(map(len, group)) for group in groups)

    assert 0 < max(kept) <= 100_000
    assert len({*kept}) > 2


def test_answers_are_newest_first(tmp_path: Path) -> None:
    """Every page goes on where the last one ended."""
    store = LocalStore(tmp_path)
    scenes = made_up(100)
    written(store, scenes)
    times = {each["id"]: each["properties"]["datetime"] for each in scenes}

    found = [times[name] for name in ids(store, SceneQuery(), limit=9)]

    assert found == sorted(times.values(), reverse=True)


@in_loop
async def test_pages_lose_and_repeat_nothing_while_the_catalog_is_replaced(tmp_path: Path) -> None:
    """Scenes that both versions hold come exactly once, whenever the new one comes."""
    store = LocalStore(tmp_path)
    scenes = made_up(60)
    written(store, scenes)

    catalog = await open_catalog(store, KEY)
    first = await catalog.page(SceneQuery(), limit=20)
    written(store, [*scenes[::-1], *(item(f"new{n}", time="2030-01-01T00:00:00Z") for n in range(10))])
    second = await (await open_catalog(store, KEY)).page(SceneQuery(after=first.next), limit=100)
    found = sorted(each["id"] for each in (*first.items, *second.items))
    assert found == sorted(each["id"] for each in scenes)


@in_loop
async def test_an_open_catalog_goes_on_while_it_is_replaced(tmp_path: Path) -> None:
    """A search that has read the columns of one version still finds the items of that version."""
    store = LocalStore(tmp_path)
    for n in (10, 20, 30):  # earlier versions' items are removed, and not these
        written(store, made_up(n))

    catalog = await open_catalog(store, KEY)
    written(store, [item("other")])
    assert len((await catalog.page(SceneQuery(), limit=100)).items) == 30


@in_loop
async def test_a_later_item_replaces_an_earlier_one_of_the_same_id(tmp_path: Path) -> None:
    """A catalog holds each scene once."""
    store = LocalStore(tmp_path)
    written(store, [item("a", eo__cloud_cover=1), item("b"), item("a", eo__cloud_cover=2)])

    page = await (await open_catalog(store, KEY)).page(SceneQuery(), limit=10)
    found = {each["id"]: each["properties"].get("eo:cloud_cover") for each in page.items}
    assert (found, len(page.items)) == ({"a": 2, "b": None}, 2)


@in_loop
async def test_ids_are_found_without_looking_at_every_item(tmp_path: Path) -> None:
    """A scene is found by its id in whichever collection."""
    store = LocalStore(tmp_path)
    written(store, made_up(50))

    catalog = await open_catalog(store, KEY)
    page = await catalog.page(SceneQuery(ids=frozenset({"s7", "nosuch"})), limit=10)
    assert [each["id"] for each in page.items] == ["s7"]


@pytest.mark.parametrize("keep", [0, 4, 40, 2000])
def test_a_damaged_catalog_is_said_to_be_one(tmp_path: Path, keep: int) -> None:
    """A file that was cut off is refused with a sentence."""
    store = LocalStore(tmp_path)
    written(store, made_up(60))
    columns = tmp_path / "catalog.columns"
    columns.write_bytes(columns.read_bytes()[:keep])

    with pytest.raises(StoreError, match="catalog"):
        ids(store, SceneQuery())


def test_no_catalog_is_said_to_be_none(tmp_path: Path) -> None:
    """The message says how to make one."""
    with pytest.raises(StoreError, match="make one with pixel-gather catalog"):
        ids(LocalStore(tmp_path), SceneQuery())


def test_old_items_are_removed_after_two_versions(tmp_path: Path) -> None:
    """The version before the last stays for searches under way; older ones go."""
    store = LocalStore(tmp_path)
    for n in range(4):
        written(store, [item(f"v{n}")])

    kept = [each["path"] for page in obstore.list(store) for each in page if each["path"].endswith(".items")]

    assert len(kept) == 2
    assert ids(store, SceneQuery()) == ["v3"]


def test_items_that_are_lost_are_told_as_damage(tmp_path: Path) -> None:
    """Nobody has replaced the catalog, so another search does not help."""
    store = LocalStore(tmp_path)
    written(store, made_up(3))
    (lost,) = tmp_path.glob("*.items*")
    lost.unlink()

    with pytest.raises(StoreError, match="is missing, so the catalog is damaged; make it anew") as refused:
        ids(store, SceneQuery())
    assert lost.name in str(refused.value)
    assert not isinstance(refused.value, ReplacedError)


def test_items_of_a_replaced_version_are_told_as_replaced(tmp_path: Path) -> None:
    """Another search opens the newest version."""
    store = LocalStore(tmp_path)
    written(store, made_up(3))
    (former,) = tmp_path.glob("*.items*")

    async def search() -> None:
        catalog = await open_catalog(store, KEY)
        await asyncio.to_thread(written, store, made_up(4))
        former.unlink(missing_ok=True)
        await catalog.page(SceneQuery(), limit=1)

    with pytest.raises(ReplacedError, match="is gone: the catalog was replaced; search again"):
        asyncio.run(search())
