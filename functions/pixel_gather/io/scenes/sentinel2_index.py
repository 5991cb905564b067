"""Scenes of the public Sentinel-2 index, a CSV of one line a granule.

Columns as Google publishes them with its copy of Sentinel-2: GRANULE_ID, PRODUCT_ID, DATATAKE_IDENTIFIER,
MGRS_TILE, SENSING_TIME, TOTAL_SIZE, CLOUD_COVER, GEOMETRIC_QUALITY_FLAG, GENERATION_TIME, NORTH_LAT,
SOUTH_LAT, WEST_LON, EAST_LON, BASE_URL. The index names folders, not images: an item's one asset ``images``
is the folder of its images, which a search may list.
"""

import csv
import io
import zlib
from collections.abc import Iterator, Mapping
from typing import IO, Any, Final

from pixel_gather.core.errors import RequestError
from pixel_gather.core.scenes.folders import FOLDER_TYPE
from pixel_gather.core.scenes.skipped_items import SkippedItems

COLLECTION: Final = "sentinel-2"
FOLDER_ASSET: Final = "images"
_NEEDED: Final = ("GRANULE_ID", "SENSING_TIME", "NORTH_LAT", "SOUTH_LAT", "WEST_LON", "EAST_LON", "BASE_URL")
_TEXTS: Final = {
    "s2:mgrs_tile": "MGRS_TILE",
    "s2:datatake_id": "DATATAKE_IDENTIFIER",
    "s2:product_uri": "PRODUCT_ID",
    "created": "GENERATION_TIME",
}


def items_of_index(file: IO[bytes], *, name: str, skipped: SkippedItems) -> Iterator[dict[str, Any]]:
    """Yield one item a line.

    The file is unpacked. ``skipped`` gets lines without a place or a time.

    Raises:
        RequestError: It cannot be read, or a column is missing.
    """
    lines = csv.DictReader(io.TextIOWrapper(file, "utf-8", newline=""))
    try:
        yield from _items(lines, name, skipped)
    except (csv.Error, UnicodeDecodeError, OSError, EOFError, zlib.error) as error:
        raise RequestError(
            f"it cannot be read: {error}", field=f"{name} line {lines.line_num + 1}"
        ) from error


def _items(lines: "csv.DictReader[str]", name: str, skipped: SkippedItems) -> Iterator[dict[str, Any]]:
    names = lines.fieldnames or ()
    if missing := [column for column in _NEEDED if column not in names]:
        raise RequestError(f"this is no Sentinel-2 index: it has no column {', '.join(missing)}", field=name)
    for line in lines:
        try:
            item = _item(line)
        except ValueError as error:
            said = RequestError(str(error), field=f"{name} line {lines.line_num}")
            skipped.add(said, {"id": line["GRANULE_ID"], "collection": COLLECTION})
        else:
            yield item


def _item(line: Mapping[str, str]) -> dict[str, Any]:
    if empty := [column for column in _NEEDED if not line[column]]:
        raise ValueError(f"it has no {', '.join(empty)}")
    granule = line["GRANULE_ID"]
    west, south, east, north = (
        _number(line, column) for column in ("WEST_LON", "SOUTH_LAT", "EAST_LON", "NORTH_LAT")
    )
    if east - west > 180:  # noqa: PLR2004 # no tile is that wide: its corners are on both sides of 180
        west, east = east, west
    properties: dict[str, Any] = {"datetime": line["SENSING_TIME"]}
    if line.get("CLOUD_COVER"):
        properties["eo:cloud_cover"] = _number(line, "CLOUD_COVER")
    properties |= {name: line[column] for name, column in _TEXTS.items() if line.get(column)}
    href = line["BASE_URL"].replace("gs://", "https://storage.googleapis.com/", 1).rstrip("/")
    return {
        "type": "Feature",
        "stac_version": "1.0.0",
        "id": granule,
        "collection": COLLECTION,
        "bbox": [west, south, east, north],
        "geometry": {
            "type": "Polygon",
            "coordinates": [[[west, south], [east, south], [east, north], [west, north], [west, south]]],
        },
        "properties": properties,
        "assets": {
            FOLDER_ASSET: {
                "href": f"{href}/GRANULE/{granule}/IMG_DATA/",
                "type": FOLDER_TYPE,
                "roles": ["data"],
            }
        },
    }


def _number(line: Mapping[str, str], column: str) -> float:
    try:
        return float(line[column])
    except ValueError as error:
        raise ValueError(f"{column} is no number: {line[column][:80]!r}") from error
