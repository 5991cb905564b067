"""STAC items of somebody else's catalog."""

import json
from contextlib import suppress
from typing import Any, Final, cast

from fuzz.mutations import mutated_json as mutated
from pixel_gather.core.area import Area
from pixel_gather.core.errors import RequestError
from pixel_gather.core.scene_conditions import parse_where
from pixel_gather.core.scenes.duplicates import without_duplicates
from pixel_gather.core.scenes.item import asset_hrefs, footprint_shape, scene_key, without_links
from pixel_gather.core.scenes.scene_sources import asset_choices, row_of, sources_of
from pixel_gather.core.scenes.skipped_items import SkippedItems
from pixel_gather.io.scenes.item_files import _decode_json, _items_of_document
from pixel_gather.io.scenes.item_types import hash_structure
from pixel_gather.io.scenes.spooled_items import SpooledItems
from scenes.scenes import item

__all__ = ["fuzz_one", "mutated", "seeds"]

_AREA: Final = Area((10.0, 47.0, 12.0, 48.0))
_WHERE: Final = parse_where("eo:cloud_cover<40 and platform=a and created>2020")


def seeds() -> list[bytes]:
    """Return items with what STAC items often have, and a collection of them."""
    plain = item("a", box=(10.0, 47.0, 11.0, 48.0), time="2024-06-01T10:00:00Z", eo__cloud_cover=12.5)
    rich = json.loads(json.dumps(plain))
    rich["geometry"] = {"type": "Polygon", "coordinates": [[[10, 47], [11, 47], [11, 48], [10, 47]]]}
    rich["properties"] |= {"platform": "a", "created": "2024-06-02", "start_datetime": "2024-06-01T10:00:00Z"}
    rich["properties"] |= {"end_datetime": "2024-06-01T10:05:00Z", "s2:datatake_id": "x", "proj:epsg": 32632}
    rich["assets"]["red"] = {
        "href": "https://h.org/red.tif",
        "roles": ["data"],
        "raster:bands": [{"scale": 0.1, "offset": -1, "nodata": 0}],
        "eo:bands": [{"common_name": "red", "name": "B04"}],
        "alternate": {"s3": {"href": "s3://b/red.tif"}},
    }
    no_box = {name: value for name, value in rich.items() if name != "bbox"}
    collection = {"type": "FeatureCollection", "features": [plain, rich]}
    return [json.dumps(each).encode() for each in (plain, rich, no_box, collection)]


def fuzz_one(content: bytes) -> None:
    """Do with a document's items what a search does. What is wrong is a RequestError."""
    document = _decode_json(content, "sources.stac")
    if not isinstance(document, dict):
        return
    with suppress(RequestError):
        found = []
        items = _items_of_document(
            document, "s3://b/items.json", "items.json", _unread, lambda: None, skipped=SkippedItems()
        )
        for each in items:
            with suppress(RequestError):
                found.append(_looked_at(each))
        without_duplicates(found)
        with SpooledItems() as spooled:
            spooled.add(iter(found), name="items")


def _looked_at(each: dict[str, Any]) -> dict[str, Any]:
    key = scene_key(each, name="item")
    scene = without_links(each, key)
    hash_structure(json.dumps(scene).encode())
    with suppress(RequestError):
        _AREA.meets(footprint_shape(each, key))
    for condition in _WHERE:
        condition.holds_for(scene["properties"])
    asset_hrefs(scene)
    asset_hrefs(scene, ("red",))
    choices = asset_choices({"red": "red"})
    sources_of(scene, choices, address="s3")
    for rule in ("item", "solar-day", "datatake"):
        row_of(scene, cast("Any", rule))
    return scene


def _unread(href: str) -> Any:
    raise RequestError("nothing is linked here", field=href)
