"""Make STAC items from headers, so any folder of images becomes searchable. Pure.

Sources with the same ``scene`` in the list form one item. A source without a scene is an item of its own.
"""

import math
from collections.abc import Sequence
from typing import Any, Final

from pixel_gather.catalog.time_range import format_moment
from pixel_gather.errors import RequestError
from pixel_gather.model.source import Header, Source
from pixel_gather.ports import Projector

LONLAT: Final = "EPSG:4326"
_N_ON_EDGE: Final = 5
"""Positions per edge of the image. The footprint follows the edge's curve on the Earth."""

_MEDIA_TYPES: Final = {
    "GTiff": "image/tiff; application=geotiff; profile=cloud-optimized",
    "JP2OpenJPEG": "image/jp2",
}


def item_of_headers(
    found: Sequence[tuple[Source, Header]], *, collection: str, projector: Projector
) -> dict[str, Any] | str:
    """Return the STAC item of one scene, or the reason why it cannot be made.

    Args:
        found: The scene's sources, each with its header.
        collection: Collection of the item.
        projector: Transforms the sources' CRS to longitude and latitude.
    """
    source, header = found[0]
    if source.time_us is None:
        return "no time: give the list a column time, or ls --time"
    ring = footprint_of(header, projector)
    if isinstance(ring, str):
        return ring
    longitudes, latitudes = [x for x, _ in ring], [y for _, y in ring]
    crosses = max(longitudes) - min(longitudes) > 180  # noqa: PLR2004 # half a turn
    west = min(x for x in longitudes if not crosses or x > 0)
    east = max(x for x in longitudes if not crosses or x <= 0)
    scalars = {name: value for name, value in source.columns.items() if value is not None}
    return {
        "type": "Feature",
        "stac_version": "1.0.0",
        "id": source.scene or source.href.rpartition("/")[2].partition(".")[0],
        "collection": collection,
        "bbox": [west, min(latitudes), east, max(latitudes)],
        "geometry": {"type": "Polygon", "coordinates": [[list(position) for position in ring]]},
        "properties": {"datetime": format_moment(source.time_us), **scalars, **_projection(header)},
        "assets": {
            each.band or "data": {
                "href": each.href,
                "type": _MEDIA_TYPES.get(its.driver, "application/octet-stream"),
                "roles": ["data"],
                "raster:bands": _bands(its),
            }
            for each, its in found
        },
    }


def footprint_of(header: Header, projector: Projector) -> list[tuple[float, float]] | str:
    """Return the image's edge as a ring in longitude and latitude, or the reason why there is none."""
    if header.transform is None or header.crs is None:
        return "it is not placed on the map"
    positions = _edge(header.width, header.height)
    points = [header.transform.xy(col, row) for col, row in positions]
    try:
        xs, ys = projector.points(
            [x for x, _ in points], [y for _, y in points], source_crs=header.crs, target_crs=LONLAT
        )
    except RequestError as error:
        return str(error)
    if not all(math.isfinite(value) for value in (*xs, *ys)):
        return "its edge has no place on the Earth"
    clamped = [(min(max(x, -180.0), 180.0), min(max(y, -90.0), 90.0)) for x, y in zip(xs, ys, strict=True)]
    return [*clamped, clamped[0]]


def _edge(width: int, height: int) -> list[tuple[float, float]]:
    """Return positions around an image. They run counter-clockwise on the map if north is up."""
    shares = [n / _N_ON_EDGE for n in range(_N_ON_EDGE)]
    left = [(0.0, share * height) for share in shares]
    bottom = [(share * width, float(height)) for share in shares]
    right = [(float(width), (1 - share) * height) for share in shares]
    top = [((1 - share) * width, 0.0) for share in shares]
    return left + bottom + right + top


def _projection(header: Header) -> dict[str, Any]:
    """Return the properties of STAC's projection extension."""
    found: dict[str, Any] = {"proj:shape": [header.height, header.width]}
    if header.crs is not None and header.crs.upper().startswith("EPSG:"):
        found["proj:code"] = header.crs
    return found


def _bands(header: Header) -> list[dict[str, Any]]:
    return [
        {
            "data_type": header.dtype,
            "scale": scale,
            "offset": offset,
            **(
                {} if header.nodata is None or not math.isfinite(header.nodata) else {"nodata": header.nodata}
            ),
        }
        for scale, offset in zip(header.scales, header.offsets, strict=True)
    ]
