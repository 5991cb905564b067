"""What the workload's files have in common, as a catalogue tells it to the libraries that want one."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from benchmarks.workload import HEIGHT, TILE, WIDTH

EPSG: Final = 32655
PIXEL_M: Final = 30.0
LEFT, TOP = 571785.0, -3713385.0
BAND: Final = "B1"
_MEDIA_TYPE: Final = "image/tiff; application=geotiff; profile=cloud-optimized"
_FIRST: Final = datetime(2018, 7, 29, tzinfo=UTC)


def _middle(length: int) -> int:
    return -(-length // TILE) // 2 * TILE


COL_OFF, ROW_OFF = _middle(WIDTH), _middle(HEIGHT)
"""First pixel of the centre tile."""

BOUNDS: Final = (
    LEFT + COL_OFF * PIXEL_M,
    TOP - (ROW_OFF + TILE) * PIXEL_M,
    LEFT + (COL_OFF + TILE) * PIXEL_M,
    TOP - ROW_OFF * PIXEL_M,
)
"""The centre tile's left, bottom, right and top, in metres of the files' own projection."""


def scene_id(index: int) -> str:
    """Name the scene of one href, so that names sort as the hrefs do."""
    return f"scene-{index:06d}"


def scene_time(index: int) -> datetime:
    """Return a time of its own for each scene, in the order of the hrefs."""
    return _FIRST + timedelta(minutes=index)


def geographic_bounds() -> tuple[float, float, float, float]:
    """Return west, south, east and north of a whole scene in degrees."""
    from rasterio.warp import transform_bounds  # noqa: PLC0415 # only where a catalogue is made

    whole = (LEFT, TOP - HEIGHT * PIXEL_M, LEFT + WIDTH * PIXEL_M, TOP)
    west, south, east, north = transform_bounds(f"EPSG:{EPSG}", "EPSG:4326", *whole)
    return west, south, east, north


def stac_items(hrefs: Sequence[str]) -> list[dict[str, Any]]:
    """Describe each href as a STAC item with the projection extension, as public catalogues do."""
    west, south, east, north = geographic_bounds()
    ring = [[west, south], [east, south], [east, north], [west, north], [west, south]]
    projection = {
        "proj:code": f"EPSG:{EPSG}",
        "proj:epsg": EPSG,
        "proj:shape": [HEIGHT, WIDTH],
        "proj:transform": [PIXEL_M, 0.0, LEFT, 0.0, -PIXEL_M, TOP, 0.0, 0.0, 1.0],
    }
    return [
        {
            "type": "Feature",
            "stac_version": "1.0.0",
            "stac_extensions": [
                "https://stac-extensions.github.io/projection/v1.1.0/schema.json",
            ],
            "id": scene_id(index),
            "collection": "scenes",
            "bbox": [west, south, east, north],
            "geometry": {"type": "Polygon", "coordinates": [ring]},
            "properties": {"datetime": scene_time(index).strftime("%Y-%m-%dT%H:%M:%SZ")} | projection,
            "links": [],
            "assets": {
                BAND: {
                    "href": href,
                    "type": _MEDIA_TYPE,
                    "roles": ["data"],
                    "raster:bands": [{"data_type": "uint16"}],
                }
            },
        }
        for index, href in enumerate(hrefs)
    ]


def write_items(hrefs: Sequence[str], folder: Path) -> None:
    """Write the items as one file, with s3 hrefs: GDAL then sends no HEAD before its first GET."""
    items = stac_items([f"s3:/{urlsplit(href).path}" for href in hrefs])
    (folder / "items.json").write_text(json.dumps(items))


def unsigned_s3(hrefs: Sequence[str]) -> dict[str, str]:
    """Return GDAL's settings to read these hrefs' paths as objects of a public bucket, at the same server."""
    url = urlsplit(hrefs[0])
    return {
        "AWS_S3_ENDPOINT": url.netloc,
        "AWS_HTTPS": "YES" if url.scheme == "https" else "NO",
        "AWS_VIRTUAL_HOSTING": "FALSE",
        "AWS_NO_SIGN_REQUEST": "YES",
    }
