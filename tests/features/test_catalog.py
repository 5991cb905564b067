"""Making catalogs in this process: whose files are whose, and what several writers leave."""

import io
import json
import random
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from obstore.store import LocalStore

from pixel_gather import RequestError, Settings, StoreError, make_plan, remove_scenes, search
from pixel_gather.core.scenes.skipped_items import SkippedItems
from pixel_gather.features.catalog.catalog import _write_parquet, make_catalog, refresh_catalog, write_items
from pixel_gather.features.catalog.catalog_writer import PresentVersion, replace_version, write_search_files
from pixel_gather.io.scenes.geoparquet import items_of_geoparquet
from pixel_gather.io.scenes.spooled_items import SpooledItems
from pixel_gather.io.store.store_settings import StoreSettings
from scenes.scenes import Item, item
from scenes.stac_server import page, serving_api
from support.cloud_store import CloudStore, DrawnOrder, serving, variables


def ids(place: Path) -> list[str]:
    """Return the ids of all scenes that a search of a catalog finds."""
    return sorted(each["id"] for each in search(catalog=place, duplicates="all").items)


def ids_in_parquet(place: Path) -> list[str]:
    """Return the ids of the rows of a catalog's Parquet file."""
    with place.open("rb") as file:
        items = items_of_geoparquet(file, name="catalog", skipped=SkippedItems())
        return sorted(each["id"] for each in items)


@pytest.mark.parametrize(
    ("one", "other"),
    [("s2.2024.parquet", "s2.parquet"), ("z.2023", "z.2024"), ("a.parquet", "a.0123456789abcdef.parquet")],
)
def test_catalogs_of_one_folder_have_files_of_their_own(tmp_path: Path, one: str, other: str) -> None:
    """A catalog's name may begin with the name of another one. Updates of one leave the other as it is."""
    make_catalog([item("a")], to=tmp_path / one)
    for n in range(4):
        make_catalog([item(f"b{n}")], to=tmp_path / other, add=True)

    assert ids(tmp_path / one) == ids_in_parquet(tmp_path / one) == ["a"]
    assert ids(tmp_path / other) == ids_in_parquet(tmp_path / other) == ["b0", "b1", "b2", "b3"]
    make_catalog([item("a2")], to=tmp_path / one, add=True)
    assert ids(tmp_path / one) == ["a", "a2"]


def test_a_catalog_that_fails_leaves_no_folder(tmp_path: Path) -> None:
    """Neither its own, nor those above."""
    (tmp_path / "list.txt").write_text("nowhere.tif\n")

    with pytest.raises(RequestError, match="no scene could be made of 1 file"):
        make_catalog(tmp_path / "list.txt", kind="sources", to=tmp_path / "new/folder/c.parquet")
    assert [each.name for each in tmp_path.iterdir()] == ["list.txt"]


@pytest.mark.parametrize("name", ["kät 1.parquet", "100%.parquet", "a%20b.parquet", "日本", "~x#1?.parquet"])
def test_a_catalog_has_the_name_that_it_was_given(tmp_path: Path, name: str) -> None:
    """Its files lie under the name as the user wrote it, whatever the signs in it. A search finds them."""
    place = tmp_path / name
    make_catalog([item("a")], to=place)
    make_catalog([item("b")], to=place, add=True)
    write_items([item("c")], tmp_path / f"found {name}")

    stem = name.removesuffix(".parquet")
    written = {"", ".columns", ".items"} if stem == name else {".parquet", ".columns", ".items"}
    catalog_files = [file.name for file in tmp_path.iterdir() if not file.name.startswith("found ")]
    assert {re.sub(r"\.[0-9a-f]{16}(?=[.]items$)", "", each) for each in catalog_files} == {
        stem + suffix for suffix in written
    }
    assert ids(place) == ids_in_parquet(place) == ["a", "b"]
    assert ids_in_parquet(tmp_path / f"found {name}") == ["c"]


@pytest.mark.parametrize("add", [False, True])
def test_a_catalog_does_not_take_the_place_of_another_file(tmp_path: Path, *, add: bool) -> None:
    """Such as a list of scenes that a search has written."""
    place = tmp_path / "found.parquet"
    write_items([item("c")], place)

    with pytest.raises(RequestError, match=r"^to: .*found\.parquet exists and is no catalog: choose"):
        make_catalog([item("a")], to=place, add=add)

    assert [*tmp_path.iterdir()] == [place]
    assert ids_in_parquet(place) == ["c"]


def test_a_search_is_refused_where_scenes_are_taken_as_a_whole(tmp_path: Path) -> None:
    """It would look as if the catalog had only what was searched for."""
    with pytest.raises(RequestError, match=r"^search: only the kinds stac and cmr take a search"):
        make_catalog([item("a")], to=tmp_path / "catalog.parquet", search={"datetime": "2024"})


@pytest.mark.parametrize("assets", ["data", None, 5, []])
def test_assets_are_a_list_of_names(tmp_path: Path, assets: Any) -> None:
    """A text is no list: its letters are no names."""
    make_catalog([item("a")], to=tmp_path / "catalog.parquet")

    with pytest.raises(RequestError, match=r"^assets: (write a list of names|name at least one)"):
        list(search(catalog=tmp_path / "catalog.parquet").sources(assets))


def test_folders_are_listed_by_one_at_a_time_at_least() -> None:
    """With fewer, no folder would be listed."""
    with pytest.raises(RequestError, match=r"^n_listings: it is 0; write a number above 0"):
        search(catalog="catalog.parquet", expand=True, n_listings=0)


def test_what_others_add_meanwhile_is_kept(tmp_path: Path) -> None:
    """Scenes may take hours to come from a server. What the catalog got in these hours stays."""
    place = tmp_path / "catalog.parquet"
    make_catalog([item("first")], to=place)

    def slowly() -> Iterator[dict[str, Any]]:
        yield item("mine")
        make_catalog([item("theirs")], to=place, add=True)
        yield item("mine too")

    make_catalog(slowly(), to=place, add=True)

    assert ids(place) == ids_in_parquet(place) == ["first", "mine", "mine too", "theirs"]


def test_all_who_add_at_one_time_succeed(tmp_path: Path) -> None:
    """Whoever is slower takes what the faster one wrote and adds to it."""
    place = tmp_path / "catalog.parquet"
    names = [f"scene {n}" for n in range(5)]

    with ThreadPoolExecutor(len(names)) as pool:
        list(pool.map(lambda name: make_catalog([item(name)], to=place, add=True), names))

    assert ids(place) == ids_in_parquet(place) == names
    assert len(list(tmp_path.glob("*.items"))) == 2


@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(n, marks=pytest.mark.long) for n in range(4, 40))]
)
def test_all_who_add_to_one_bucket_succeed_in_any_order(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The order of their requests is drawn. The first catalog of this name is among them."""
    names = [f"scene {n}" for n in range(5 if seed % 2 else 2)]
    order, there = DrawnOrder(names, random.Random(seed)), CloudStore()  # noqa: S311 # no secret
    for variable, value in variables("s3", "").items():
        monkeypatch.setenv(variable, value)
    monkeypatch.delenv("AWS_ENDPOINT_URL")

    def add(name: str) -> None:
        with order.until_end(name), serving(order.store_of(name, there)) as endpoint:
            settings = Settings(stores=StoreSettings(endpoint=endpoint))
            make_catalog([item(name)], to="s3://bucket/catalog.parquet", add=True, settings=settings)

    with ThreadPoolExecutor(len(names)) as pool:
        list(pool.map(add, names))

    assert set(order.order) == set(names)
    with serving(there) as endpoint:
        stores = StoreSettings(endpoint=endpoint)
        found = search(catalog="s3://bucket/catalog.parquet", duplicates="all", stores=stores).items
    rows = items_of_geoparquet(
        io.BytesIO(there.objects["bucket/catalog.parquet"]), name="catalog", skipped=SkippedItems()
    )
    assert sorted(each["id"] for each in found) == sorted(each["id"] for each in rows) == names
    assert sum(each.endswith(".items") for each in there.objects) <= 2


def test_a_late_parquet_file_is_that_of_the_newest_version(tmp_path: Path) -> None:
    """Another writer may finish between the two files of a slow one."""
    place = tmp_path / "catalog.parquet"
    make_catalog([item("both"), item("mine")], to=place)
    make_catalog([item("theirs")], to=place, add=True)

    with SpooledItems() as spooled:
        spooled.add([item("both"), item("mine")], name="items")
        _write_parquet(spooled, LocalStore(tmp_path), place.name, place=str(place), etag="an older version")

    assert ids(place) == ids_in_parquet(place) == ["both", "mine", "theirs"]


def test_a_version_replaces_only_the_one_that_it_was_made_from(tmp_path: Path) -> None:
    """Otherwise nothing is written, and the items that nobody names are removed."""
    store, key = LocalStore(tmp_path), "catalog.parquet"
    with SpooledItems() as spooled:
        spooled.add([item("theirs")], name="items")
        write_search_files(spooled, store, key)
    before = {each.name: each.read_bytes() for each in tmp_path.iterdir()}

    with SpooledItems() as spooled:
        spooled.add([item("mine")], name="items")
        written = replace_version(spooled, store, key, origins=(), present=PresentVersion(etag=None))

    assert written is None
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == before


def test_a_damaged_catalog_can_be_made_anew(tmp_path: Path) -> None:
    """What cannot be read does not stand in the way of what replaces it."""
    place = tmp_path / "catalog.parquet"
    make_catalog([item("old")], to=place)
    place.with_suffix(".columns").write_bytes(b"rubbish")

    make_catalog([item("new")], to=place)

    assert ids(place) == ["new"]


IMAGES = sorted((Path(__file__).parents[1] / "data/series/files/stactools-nclimgrid").glob("*.tif"))[:2]
ODD = (
    item("too far", box=(179.0, 46.0, 381.5, 47.0)),
    item("no time", time=None),
    item("no shape", geometry={"type": "Blob"}),
    {**item("no place"), "bbox": None, "geometry": None},
    {"id": "nothing else"},
)
GOOD = [item(f"good {n}", time=f"2024-06-0{n + 1}T00:00:00Z") for n in range(3)]
MIXED = [GOOD[0], *ODD[:3], GOOD[1], *ODD[3:], GOOD[2]]
ALL_GOOD = ["good 0", "good 1", "good 2"]


def test_odd_items_end_no_catalog(tmp_path: Path) -> None:
    """They are left out, counted and named."""
    made = make_catalog(MIXED, to=tmp_path / "catalog.parquet")

    assert ids(tmp_path / "catalog.parquet") == ALL_GOOD
    assert (made.n_scenes, made.n_left_out) == (3, 5)
    named = " ".join(f"{name}: {reason}" for name, reason in made.left_out)
    assert all(each["id"] in named for each in ODD)
    assert "bbox: west is 179 and east is 381.5" in named


def test_a_note_names_properties_of_several_types(tmp_path: Path) -> None:
    """They are text in the Parquet file. Numbers with and without a fraction are of one."""
    items = [item("a", n=1, cover=10, odd=[1]), item("b", n=1.5, cover="low", odd={"a": 1}), item("c", x={})]

    made = make_catalog(items, to=tmp_path / "catalog.parquet")

    assert made.notes == ("text in the Parquet file, as their values have several types: cover, odd",)


def test_a_note_counts_items_that_share_an_id(tmp_path: Path) -> None:
    """The last one stays. Items of other collections, and those of the former catalog, do not count."""
    place = tmp_path / "catalog.parquet"
    items = [item("a", n=1), item("b"), item("a", n=2), item("a", collection="other"), item("a", n=3)]

    made = make_catalog(items, to=place)
    added = make_catalog([item("b"), item("c")], to=place, add=True)

    assert made.notes == ("2 items left out for a later one with the same collection and id",)
    assert (made.n_scenes, made.n_new) == (3, 3)
    assert (added.n_scenes, added.n_new, added.notes) == (4, 2, ())
    found = search(catalog=place, ids=["a"], duplicates="all").items
    assert sorted(str(each["properties"].get("n")) for each in found) == ["3", "None"]


def test_items_of_pystac_are_taken_as_they_are(tmp_path: Path) -> None:
    """A relative address starts from the item. pystac would ask the server of the item's catalog for it."""
    given = Item(item("a", assets={"red": {"href": "./red.tif"}}))
    given.document["links"] = [{"rel": "self", "href": f"{tmp_path}/a/item.json"}]

    make_catalog([given], to=tmp_path / "catalog.parquet")

    (found,) = search(catalog=tmp_path / "catalog.parquet").items
    assert Path(found["assets"]["red"]["href"]) == tmp_path / "a/red.tif"
    assert given.document["assets"]["red"]["href"] == "./red.tif"
    assert given.asked == [False]


def test_odd_items_end_no_search_of_an_api(tmp_path: Path) -> None:
    """Neither a search nor a catalog nor a gather."""
    with serving_api(lambda _asked, _url: page([*MIXED, 7])) as server:
        found = search(stac=server.url, point=(11.5, 46.5))
        made = make_catalog(server.url, kind="stac", to=tmp_path / "catalog.parquet")

    assert sorted(each["id"] for each in found.items) == ALL_GOOD
    assert found.n_skipped == made.n_left_out == len(found.skipped) == 6
    assert ids(tmp_path / "catalog.parquet") == ALL_GOOD


def test_a_search_that_names_an_unknown_property_stops_no_refresh(tmp_path: Path) -> None:
    """Scenes of the other origins arrive, and a note names the origin. A new catalog is refused."""
    place, clear = tmp_path / "catalog.parquet", {"where": "eo:cloud_cover<20"}
    of_one, of_other = [item("a", eo__cloud_cover=10)], [item("b")]
    with (
        serving_api(lambda _asked, _url: page(of_one)) as one,
        serving_api(lambda _asked, _url: page(of_other)) as other,
    ):
        make_catalog(one.url, kind="stac", search=clear, to=place)
        make_catalog(other.url, kind="stac", to=place, add=True)
        of_one[:], of_other[:] = [item("c")], [item("b"), item("d")]

        refreshed = refresh_catalog(to=place)
        host = one.url.removeprefix("http://")
        note = f"{one.url} gives no scene: no item of {host} has the property eo:cloud_cover;"
        assert ids(place) == ["b", "d"]
        assert [each.startswith(note) for each in refreshed.notes] == [True]
        added = make_catalog(one.url, kind="stac", search=clear, to=place, add=True)
        assert (ids(place), added.notes) == (["b", "d"], refreshed.notes)
        with pytest.raises(RequestError, match="has the property eo:cloud_cover"):
            make_catalog(one.url, kind="stac", search=clear, to=tmp_path / "new.parquet")
    assert not (tmp_path / "new.parquet").exists()


def test_a_gather_reads_what_lies_beside_an_item() -> None:
    """Pystac's items of a static catalog have addresses that are relative to the item's file."""
    given = item(box=(-125.0, 24.0, -66.0, 50.0), assets={"red": {"href": IMAGES[0].name}})
    given["links"] = [{"rel": "self", "href": f"{IMAGES[0].parent}/item.json"}]
    stac = {"items": [given], "assets": ["red"]}

    plan = make_plan({"sources": {"stac": stac}, "window": {"point": [-96, 37]}})

    assert plan.n_sources == 1


def test_odd_items_end_no_gather() -> None:
    """The plan warns of them. The rest of the search is as without them."""
    assets = {"red": {"href": str(IMAGES[0])}}
    given = [item("good", box=(-125.0, 24.0, -66.0, 50.0), assets=assets), *ODD]
    asked = {"assets": ["red"], "area": "window"}
    request = {"sources": {"stac": {"items": given, **asked}}, "window": {"point": [-96, 37]}}

    warnings = " ".join(make_plan(request).warnings)

    assert "4 items left out that cannot be used; the first: item too far: bbox: west is 179" in warnings
    request["sources"] = {"stac": {"items": list(ODD), **asked}}
    with pytest.raises(RequestError, match=r"no scene was found: .*; 4 items left out .* too far"):
        make_plan(request)


@pytest.mark.parametrize(
    "box",
    [
        (-180.00000000000003, -90, 180, 90),
        (-180, -90, 180.000000001, 90.000000001),
        (179, 46, 180.0000001, 47),
    ],
)
def test_noise_of_computing_is_no_reason(tmp_path: Path, box: tuple[float, float, float, float]) -> None:
    """A box may end some 1e-9 degrees behind the edge of the map."""
    made = make_catalog([item("edge", box=box)], to=tmp_path / "catalog.parquet")

    assert made.n_left_out == 0
    found = search(catalog=tmp_path / "catalog.parquet", point=(180, 46.5)).items
    assert [each["id"] for each in found] == ["edge"]


def lines(*documents: Any) -> bytes:
    """Return a file with a document a line."""
    return b"".join(json.dumps(each).encode() + b"\n" for each in documents)


@pytest.mark.parametrize(
    ("content", "n_left_out"),
    [
        (lines({"type": "FeatureCollection", "features": GOOD}), 0),
        (lines(*({"type": "FeatureCollection", "features": [each]} for each in GOOD)), 0),
        (lines(GOOD[0], {"type": "FeatureCollection", "features": GOOD[1:]}), 0),
        (lines({"type": "FeatureCollection", "features": [*GOOD, 7, None]}), 2),
        (lines(*GOOD[:2], 5) + b"{not JSON\n" + lines(GOOD[2]), 2),
    ],
    ids=["one line", "a page a line", "mixed", "odd features", "odd lines"],
)
def test_files_of_items_are_read_whole(tmp_path: Path, content: bytes, n_left_out: int) -> None:
    """An API's pages may be kept one a line."""
    (tmp_path / "items.ndjson").write_bytes(content)

    made = make_catalog(tmp_path / "items.ndjson", kind="items_file", to=tmp_path / "catalog.parquet")

    assert ids(tmp_path / "catalog.parquet") == ALL_GOOD
    assert made.n_left_out == n_left_out


def test_an_item_that_a_static_catalog_links_to_in_vain_is_left_out(tmp_path: Path) -> None:
    """A catalog below that cannot be read ends all: nobody knows what it has."""
    for each in GOOD:
        (tmp_path / f"{each['id']}.json").write_text(json.dumps(each))
    hrefs = ["good 0.json", "nosuch.json", "good 1.json", "good 2.json"]
    links = [{"rel": "item", "href": href} for href in hrefs]
    (tmp_path / "catalog.json").write_text(json.dumps({"type": "Catalog", "links": links}))
    place = tmp_path / "catalog.parquet"

    made = make_catalog(tmp_path / "catalog.json", kind="items_file", to=place)

    assert (ids(place), made.n_left_out) == (ALL_GOOD, 1)
    assert "nosuch.json" in str(made.left_out)
    (tmp_path / "good 1.json").unlink()
    refreshed = refresh_catalog(to=place)
    assert (ids(place), refreshed.n_kept) == (ALL_GOOD, 3)
    links.append({"rel": "child", "href": "nosuch/catalog.json"})
    (tmp_path / "catalog.json").write_text(json.dumps({"type": "Catalog", "links": links}))
    with pytest.raises(RequestError, match="nosuch/catalog"):
        refresh_catalog(to=place)


def test_a_kind_of_scenes_that_there_is_not_is_refused(tmp_path: Path) -> None:
    """The message names all kinds, and nothing is written."""
    with pytest.raises(RequestError, match=r"kind: it is 'csv'; write items, stac, .* or sources"):
        make_catalog("scenes.csv", kind="csv", to=tmp_path / "catalog.parquet")  # type: ignore[arg-type]

    assert not list(tmp_path.iterdir())


def test_a_name_of_another_format_is_refused(tmp_path: Path) -> None:
    """A catalog is Parquet, which nobody would look for in a CSV file."""
    with pytest.raises(RequestError, match=r"^to: a catalog is a Parquet file; write scenes\.parquet$"):
        make_catalog([], to=tmp_path / "scenes.CSV")

    assert not list(tmp_path.iterdir())


def test_an_item_that_was_fine_once_stays_at_a_refresh(tmp_path: Path) -> None:
    """Its provider may mend it. What is no longer named goes."""
    file, place = tmp_path / "items.json", tmp_path / "catalog.parquet"
    file.write_bytes(lines(*GOOD))
    make_catalog(file, kind="items_file", to=place)
    file.write_bytes(lines(GOOD[0], GOOD[1] | {"bbox": None, "geometry": None}))

    made = refresh_catalog(to=place)

    assert ids(place) == ids_in_parquet(place) == ["good 0", "good 1"]
    assert (made.n_left_out, made.n_kept) == (1, 1)


def test_a_catalog_stays_if_nothing_is_found_any_more(tmp_path: Path) -> None:
    """An empty one would hide that the source of the scenes has moved."""
    file, place = tmp_path / "items.json", tmp_path / "catalog.parquet"
    file.write_bytes(lines(*GOOD))
    make_catalog(file, kind="items_file", to=place)
    file.write_text('{"type": "FeatureCollection", "features": []}')

    with pytest.raises(RequestError, match="no scene was found, so there is nothing to catalog"):
        refresh_catalog(to=place)

    assert ids(place) == ALL_GOOD


def test_a_scene_stays_as_it_was_while_a_file_of_it_cannot_be_read(tmp_path: Path) -> None:
    """A refresh neither removes it nor takes a band from it."""
    rows = ["href,time,band,scene"]
    for scene in ("a", "b", "c"):
        for band in ("red", "nir"):
            file = tmp_path / f"{scene}_{band}.tif"
            file.write_bytes(IMAGES[0].read_bytes())
            rows.append(f"{file},2024-06-01,{band},{scene}")
    (tmp_path / "list.csv").write_text("\n".join(rows))
    place = tmp_path / "catalog.parquet"
    make_catalog({"list": str(tmp_path / "list.csv")}, kind="sources", to=place)
    before = {each["id"]: each for each in search(catalog=place).items}
    (tmp_path / "a_red.tif").write_bytes(b"")
    for band in ("red", "nir"):
        (tmp_path / f"b_{band}.tif").write_bytes(b"")
    (tmp_path / "list.csv").write_text("\n".join(rows[:5]))

    made = refresh_catalog(to=place)

    after = {each["id"]: each for each in search(catalog=place).items}
    assert after == {name: before[name] for name in ("a", "b")}
    assert (made.n_left_out, made.n_kept, made.n_scenes) == (3, 2, 2)
    for name in ("a_red", "b_red", "b_nir"):
        (tmp_path / f"{name}.tif").write_bytes(IMAGES[1].read_bytes())
    assert refresh_catalog(to=place).n_kept == 0


@pytest.mark.parametrize(
    ("wanted", "left"),
    [
        ({"ids": ["good 0", "nosuch"]}, ["good 1", "good 2"]),
        ({"where": "eo:cloud_cover>5"}, ["good 0"]),
        ({"where": "eo:cloud_cover>5", "datetime": "2024-06-02"}, ["good 0", "good 2"]),
        ({"ids": ["nosuch"]}, ALL_GOOD),
    ],
)
def test_scenes_are_removed_by_id_and_by_condition(
    tmp_path: Path, wanted: dict[str, Any], left: list[str]
) -> None:
    """Those go that meet all of it. Origins stay."""
    file, place = tmp_path / "items.json", tmp_path / "catalog.parquet"
    clouds = [
        {**each, "properties": each["properties"] | {"eo:cloud_cover": 10 * n}} for n, each in enumerate(GOOD)
    ]
    file.write_bytes(lines(*clouds))
    make_catalog(file, kind="items_file", to=place)

    made = remove_scenes(to=place, search=wanted)

    assert ids(place) == ids_in_parquet(place) == left
    assert (made.n_removed, made.n_scenes) == (3 - len(left), len(left))
    assert refresh_catalog(to=place).n_scenes == 3


@pytest.mark.parametrize("name", ["cloud_cover", "EO:cloud_cover", "eo:cloudcover"])
def test_a_condition_on_what_no_scene_has_is_told(tmp_path: Path, name: str) -> None:
    """A misspelt property finds nothing, and nobody would know why."""
    place = tmp_path / "catalog.parquet"
    make_catalog([item("a", eo__cloud_cover=10), item("b")], to=place)

    with pytest.raises(
        RequestError, match=f"where: no scene .* property {name}; did you mean eo:cloud_cover"
    ):
        search(catalog=place, where=f"{name}<40")
    with pytest.raises(RequestError, match=r"no scene .* property x; there are datetime, eo:cloud_cover"):
        search(catalog=place, where="x=1")
    with pytest.raises(RequestError, match="did you mean eo:cloud_cover"):
        remove_scenes(to=place, search={"where": f"{name}>5"})
    with pytest.raises(RequestError, match=r"property proj:code; there are datetime, eo:cloud_cover"):
        search(catalog=place, where="proj:code=1")
    assert search(catalog=place, where="eo:cloud_cover<4").items == ()
    assert remove_scenes(to=place, search={"where": "eo:cloud_cover<4"}).n_removed == 0


def test_neither_all_scenes_nor_any_are_removed_by_mistake(tmp_path: Path) -> None:
    """A removal says which scenes, and leaves some."""
    place = tmp_path / "catalog.parquet"
    make_catalog(GOOD, to=place)

    for wrong in ("ids=a", {"id": "a"}):
        with pytest.raises(RequestError, match=r"^search: .*; write some of bbox, point, .*, ids, most$"):
            remove_scenes(to=place, search=wrong)  # type: ignore[arg-type] # as a program may
        with pytest.raises(RequestError, match=r"^search: "):
            make_catalog(GOOD, to=place, search=wrong)  # type: ignore[arg-type] # as above
    with pytest.raises(RequestError, match="say which scenes"):
        remove_scenes(to=place, search={})
    with pytest.raises(RequestError, match="nothing would be left of 3 scenes; to remove all"):
        remove_scenes(to=place, search={"datetime": "2024"})
    with pytest.raises(StoreError, match="there is no catalog"):
        remove_scenes(to=tmp_path / "nosuch.parquet", search={"ids": ["a"]})
    (tmp_path / "list.csv").write_text("href\na.tif\n")
    with pytest.raises(StoreError, match=r"list\.csv is no catalog, as list\S* is not beside it; make one "):
        search(catalog=tmp_path / "list.csv")
    assert ids(place) == ALL_GOOD
