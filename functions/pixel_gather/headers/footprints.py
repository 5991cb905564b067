"""Scenes from headers: where a source lies on the Earth. So anyone's folder of images is searchable. Pure.

A scene is all sources that share the list's ``scene``; otherwise each source is one.
"""

import hashlib
import math
from collections.abc import Sequence
from typing import Any, Final

from pixel_gather.catalog.duplicates import FROM_HEADERS
from pixel_gather.catalog.time_range import format_moment
from pixel_gather.errors import RequestError
from pixel_gather.model.source import Header, Source
from pixel_gather.ports import Projector

LONLAT: Final = "EPSG:4326"
_N_ON_EDGE: Final = 5
"""Positions on each edge of the image, so that the footprint follows its curves on the Earth."""

_MEDIA_TYPES: Final = {
    "GTiff": "image/tiff; application=geotiff; profile=cloud-optimized",
    "JP2OpenJPEG": "image/jp2",
}


def item_of_headers(
    found: Sequence[tuple[Source, Header]], *, collection: str, projector: Projector
) -> dict[str, Any] | str:
    """Return the STAC item of one scene, or why there can be none.

    Args:
        found: The scene's sources, each with its header.
        collection: Which the item says that it belongs to.
        projector: From the sources' CRS to longitude and latitude.
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
        "id": source.scene or _id_of(source.href),
        "collection": collection,
        "bbox": [west, min(latitudes), east, max(latitudes)],
        "geometry": {"type": "Polygon", "coordinates": [[list(position) for position in ring]]},
        "properties": {
            **scalars,
            **_projection(header),
            FROM_HEADERS: True,
            "datetime": format_moment(source.time_us),
        },
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


def _id_of(href: str) -> str:
    """Return the file's name with a few digits of its address: files of other folders may be called the same."""
    name = href.rpartition("/")[2]
    stem = name.rpartition(".")[0] or name
    return f"{stem}-{hashlib.blake2b(href.encode(), digest_size=4).hexdigest()}"


def footprint_of(header: Header, projector: Projector) -> list[tuple[float, float]] | str:
    """Return the ring of an image's edge in longitude and latitude, or why there is none."""
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
    """Return positions around an image, counter-clockwise on the map of an image whose north is up."""
    shares = [n / _N_ON_EDGE for n in range(_N_ON_EDGE)]
    left = [(0.0, share * height) for share in shares]
    bottom = [(share * width, float(height)) for share in shares]
    right = [(float(width), (1 - share) * height) for share in shares]
    top = [((1 - share) * width, 0.0) for share in shares]
    return left + bottom + right + top


def _projection(header: Header) -> dict[str, Any]:
    """Return what the projection extension says of the image's grid."""
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
