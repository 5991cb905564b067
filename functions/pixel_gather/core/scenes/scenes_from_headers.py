"""Scenes from headers: where a source lies on the Earth. So anyone's folder of images is searchable. Pure.

A scene is all sources that share the list's ``scene``; otherwise each source is one.
"""

import math
from collections.abc import Sequence
from typing import Any, Final, Protocol

import numpy as np

from pixel_gather.core.area import Box, wrap_longitude
from pixel_gather.core.errors import RequestError
from pixel_gather.core.model.footprints import Footprints, Ring
from pixel_gather.core.model.scene_id import scene_id
from pixel_gather.core.model.source import Header, Source
from pixel_gather.core.model.window import Transform
from pixel_gather.core.ports import Projector
from pixel_gather.core.scenes.acquisition import FROM_HEADERS
from pixel_gather.core.time_range import format_moment

LONLAT: Final = "EPSG:4326"
_N_ON_EDGE: Final = 5
"""Positions on each edge of the image, so that the footprint follows its curves on the Earth."""

_N_CORNERS: Final = 4
_MOST_WITH_EDGES: Final = 4
"""More different footprints than these are kept as their corners."""

_HALF_A_TURN: Final = 180.0
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
        return "no time: say where the names have it (--time), or give a list with a column time"
    found_footprint = lay_footprint(header, projector)
    if isinstance(found_footprint, str):
        return found_footprint
    box, ring = found_footprint
    scalars = {name: value for name, value in source.columns.items() if value is not None}
    return {
        "type": "Feature",
        "stac_version": "1.0.0",
        "id": source.scene or scene_id(source.href),
        "collection": collection,
        "bbox": list(box),
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


class PlacedPixels(Protocol):
    """A rectangle of pixels: a header, a grid or a window."""

    @property
    def width(self) -> int:
        """Number of columns."""

    @property
    def height(self) -> int:
        """Number of lines."""

    @property
    def transform(self) -> Transform | None:
        """From pixels to the CRS; None if it has no georeference."""

    @property
    def crs(self) -> str | None:
        """The CRS, if it is known."""


def lay_footprints(
    window: PlacedPixels, sources: Sequence[PlacedPixels], projector: Projector
) -> Footprints | None:
    """Return where a window and its sources lie, in degrees to five decimals, some 1 m.

    Rings of many different sources have their corners only.

    Args:
        window: The cube's window.
        sources: Sources of different grids. Those without a place on the Earth are left out.
        projector: From their CRSs to longitude and latitude.

    Returns:
        None if the window has no place on the Earth.
    """
    found = [_ring(each, projector) for each in (window, *sources)]
    if found[0] is None:
        return None
    rings = tuple(dict.fromkeys(ring for ring in found[1:] if ring is not None))
    if len(rings) > _MOST_WITH_EDGES:
        rings = tuple(
            dict.fromkeys(ring if len(ring) == _N_CORNERS else ring[::_N_ON_EDGE] for ring in rings)
        )
    return Footprints(window=found[0], sources=rings)


def _ring(placed: PlacedPixels, projector: Projector) -> Ring | None:
    """Return a ring whose longitudes go on beyond 180, or None."""
    found = lay_footprint(placed, projector)
    if isinstance(found, str):
        return None
    (west, _, east, _), ring = found
    is_cut = west > east
    return tuple(
        (round(x + 2 * _HALF_A_TURN if is_cut and x < 0 else x, 5), round(y, 5)) for x, y in ring[:-1]
    )


def lay_footprint(header: PlacedPixels, projector: Projector) -> tuple[Box, list[tuple[float, float]]] | str:
    """Return an image's box and the ring of its edge in longitude and latitude, or why there is none.

    Of an image that goes around the Earth or over a pole, the ring is that of the box.
    """
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
    ys = [min(max(y, -90.0), 90.0) for y in ys]
    south, north = min(ys), max(ys)
    longitudes, turn = _in_one_piece(xs)
    if abs(turn) > _HALF_A_TURN:
        south, north = (south, 90.0) if sum(ys) > 0 else (-90.0, north)
        return _whole_turn(south, north)
    west, east = min(longitudes), max(longitudes)
    if east - west >= 2 * _HALF_A_TURN - 1e-9:
        return _whole_turn(south, north)
    ring = [(wrap_longitude(x), y) for x, y in zip(longitudes, ys, strict=True)]
    return (wrap_longitude(west), south, wrap_longitude(east), north), [*ring, ring[0]]


def _in_one_piece(xs: Sequence[float]) -> tuple[list[float], float]:
    """Return the longitudes of a ring without jumps, the west one from -180 to 180, and how far it turns."""
    found = np.unwrap([*xs, xs[0]], period=2 * _HALF_A_TURN)
    shift = 2 * _HALF_A_TURN * np.floor((found.min() + _HALF_A_TURN) / (2 * _HALF_A_TURN))
    return (found[:-1] - shift).tolist(), float(found[-1] - found[0])


def _whole_turn(south: float, north: float) -> tuple[Box, list[tuple[float, float]]]:
    ring = [(-180.0, south), (180.0, south), (180.0, north), (-180.0, north), (-180.0, south)]
    return (-180.0, south, 180.0, north), ring


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
    """Return what STAC's raster extension says of bands. JSON has no NaN, so STAC writes it as text."""
    nodata = header.nodata
    declared = {} if nodata is None else {"nodata": nodata if math.isfinite(nodata) else str(nodata)}
    return [
        {"data_type": header.dtype, "scale": scale, "offset": offset, **declared}
        for scale, offset in zip(header.scales, header.offsets, strict=True)
    ]
