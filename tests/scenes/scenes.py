"""Made-up STAC items for tests of catalogs."""

from typing import Any


def item(
    name: str = "scene-1",
    *,
    box: tuple[float, float, float, float] = (11.0, 46.0, 12.0, 47.0),
    time: str | None = "2024-06-01T10:20:30Z",
    collection: str | None = "sentinel-2-l2a",
    geometry: dict[str, Any] | None = None,
    assets: dict[str, Any] | None = None,
    **properties: Any,
) -> dict[str, Any]:
    """Return an item; its footprint is its box unless a geometry is given."""
    west, south, east, north = box
    ring = [[west, south], [east, south], [east, north], [west, north], [west, south]]
    return {
        "type": "Feature",
        "stac_version": "1.0.0",
        "id": name,
        "collection": collection,
        "bbox": list(box),
        "geometry": geometry or (None if west > east else {"type": "Polygon", "coordinates": [ring]}),
        "properties": {"datetime": time}
        | {key.replace("__", ":"): value for key, value in properties.items()},
        "assets": assets if assets is not None else {"red": {"href": f"s3://bucket/{name}/red.tif"}},
        "links": [{"rel": "self", "href": "https://elsewhere"}],
    }


class Item:
    """As pystac's: with options of its own."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self.asked: list[bool] = []

    def to_dict(self, include_self_link: bool = True, transform_hrefs: bool = True) -> dict[str, Any]:  # noqa: ARG002, FBT001, FBT002 # pystac's signature
        """Return the document, and note whether hrefs were to be changed."""
        self.asked.append(transform_hrefs)
        return self.document
