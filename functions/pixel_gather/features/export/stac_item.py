"""Describes a cube as a STAC item with the extensions datacube and projection, so that catalogs list it."""

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import shapely
import shapely.geometry

from pixel_gather.core.area import wrap_longitude
from pixel_gather.core.errors import RequestError
from pixel_gather.core.model.footprints import Ring
from pixel_gather.core.model.window import Transform
from pixel_gather.core.plan.cube_plan import BAND
from pixel_gather.core.plan.locate_window import Placement
from pixel_gather.core.results.report_content import ArrayScaling
from pixel_gather.core.scenes.scenes_from_headers import lay_footprints
from pixel_gather.features.export.cube_rows import CubeRows, dims_of, open_array
from pixel_gather.io.crs import RasterioProjector
from pixel_gather.io.cube.row_view import stored_array

if TYPE_CHECKING:
    from shapely.geometry.base import BaseGeometry

_EXTENSIONS: Final = "https://stac-extensions.github.io"
_DATACUBE: Final = f"{_EXTENSIONS}/datacube/v2.2.0/schema.json"
_PROJECTION: Final = f"{_EXTENSIONS}/projection/v2.0.0/schema.json"
_RASTER: Final = f"{_EXTENSIONS}/raster/v2.0.0/schema.json"
_CLASSIFICATION: Final = f"{_EXTENSIONS}/classification/v2.0.0/schema.json"
_ZARR: Final = "application/vnd.zarr; version=3"
_MOST_PLACES: Final = 200
"""Polygons of an item's geometry."""


def write_stac_item(rows: CubeRows, path: Path, *, place: str, to: Path) -> None:
    """Write the item. Its one asset is the cube.

    Args:
        rows: All rows of the cube, and the measurements that the item names.
        path: Where to write now.
        place: Where the cube is: a folder or an address.
        to: Where the item will be. A cube on this machine is named from there.

    Raises:
        RequestError: The cube has no times, or does not say where on the Earth it lies.
    """
    path.write_text(json.dumps(_item(rows, place, to), indent=2, allow_nan=False) + "\n", encoding="utf-8")


def _item(rows: CubeRows, place: str, to: Path) -> dict[str, Any]:
    area = _area(rows)
    name = place.rstrip("/").rpartition("/")[2]
    bands = [_band(rows, each) for each in rows.measurements]
    is_remote = "://" in place
    href = place if is_remote else os.path.relpath(place, to.resolve().parent)
    extensions = [_DATACUBE, _PROJECTION]
    if any("raster:scale" in each for each in bands):
        extensions.append(_RASTER)
    if any("classification:classes" in each for each in bands):
        extensions.append(_CLASSIFICATION)
    times = [each for each in rows.times() if each is not None]
    if not times:
        raise RequestError("a STAC item needs a time, and the rows of this cube have none", field="cube")
    west, south, east, north = area.bounds
    return {
        "type": "Feature",
        "stac_version": "1.1.0",
        "stac_extensions": extensions,
        "id": Path(name).stem,
        "geometry": shapely.geometry.mapping(area),
        "bbox": [wrap_longitude(west), south, wrap_longitude(east), north],
        "properties": {
            "title": str(rows.group.attrs.get("title", name)),
            **_span(min(times), max(times)),
            **_grid(rows),
            "cube:dimensions": _dimensions(rows, min(times), max(times)),
            "cube:variables": _variables(rows),
        },
        "links": [],
        "assets": {
            "cube": {
                "href": href if is_remote else f"./{href}",
                "type": _ZARR,
                "title": "The cube, as Zarr",
                "roles": ["data"],
                "bands": bands,
            }
        },
    }


def _area(rows: CubeRows) -> "BaseGeometry":
    """Return where the rows lie: the window of a cube that has one grid, else all places of its rows.

    Rings are counter-clockwise, as GeoJSON wants them. Their longitudes go on beyond 180 degrees. Of very
    many places the box around them is returned.
    """
    rings = [*_rings_of_rows(rows)] if "spatial:transform" not in rows.group.attrs else []
    rings = rings or [_window(rows.group.attrs)]
    first = rings[0][0][0]
    places = [
        shapely.Polygon([(x + 360 * round((first - ring[0][0]) / 360), y) for x, y in ring]) for ring in rings
    ]
    area = places[0] if len(places) == 1 else shapely.union_all(places)
    if shapely.get_num_geometries(area) > _MOST_PLACES:
        area = shapely.envelope(area)
    return shapely.orient_polygons(area)


def _rings_of_rows(rows: CubeRows) -> Iterator[Ring]:
    """Yield each place of a window that was read, once; none without a place on the Earth."""
    height, width = rows.shape
    grids = dict.fromkeys(
        (each.crs, each.transform) for of_row in rows.of_read_measurements() for each in of_row.values()
    )
    placed = [
        Placement(width=width, height=height, transform=Transform(*transform), crs=crs, col_off=0, row_off=0)
        for crs, transform in grids
        if crs is not None and transform is not None
    ]
    found = lay_footprints(placed[0], placed, RasterioProjector()) if placed else None
    yield from () if found is None else found.sources


def _window(attributes: Any) -> Ring:
    """Return the ring of the window that the cube was planned for."""
    try:
        told = json.loads(attributes["pixel_gather"])["footprints"]["window"]
        return tuple((float(x), float(y)) for x, y in told)
    except (KeyError, TypeError, ValueError) as error:
        raise RequestError("the cube does not say where on the Earth it lies", field="cube") from error


def _span(first: datetime, last: datetime) -> dict[str, Any]:
    if first == last:
        return {"datetime": _moment(first)}
    return {"datetime": None, "start_datetime": _moment(first), "end_datetime": _moment(last)}


def _moment(time: datetime) -> str:
    return time.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _grid(rows: CubeRows) -> dict[str, Any]:
    """Return what the rows share of their grid; nothing of what they do not."""
    attributes = rows.group.attrs
    told = {"proj:code": "proj:code", "proj:transform": "spatial:transform", "proj:bbox": "spatial:bbox"}
    found: dict[str, Any] = {name: attributes[key] for name, key in told.items() if key in attributes}
    return {"proj:shape": list(rows.shape)} | found


def _variables(rows: CubeRows) -> dict[str, Any]:
    """Return the arrays of the measurements: one for each, or one with an axis of bands."""
    stored = [stored_array(open_array(rows.group, each)) for each in rows.measurements]
    return {each.basename: {"type": "data", "dimensions": list(dims_of(each))} for each in stored}


def _dimensions(rows: CubeRows, first: datetime, last: datetime) -> dict[str, Any]:
    attributes = rows.group.attrs
    time = {"type": "temporal", "extent": [_moment(first), _moment(last)]}
    found: dict[str, Any] = {dims_of(open_array(rows.group, "status"))[0]: time}
    if BAND in dims_of(stored_array(open_array(rows.group, rows.measurements[0]))):
        found[BAND] = {"type": "bands", "values": [str(each) for each in open_array(rows.group, BAND)[...]]}
    code = str(attributes.get("proj:code", "")).removeprefix("EPSG:")
    for axis in ("x", "y"):
        extent: Any = [0, rows.shape[1 if axis == "x" else 0]]
        if axis in rows.group:
            values = np.asarray(open_array(rows.group, axis)[...], dtype="float64")
            extent = [float(values.min()), float(values.max())]
        found[axis] = {"type": "spatial", "axis": axis, "extent": extent}
        if code.isdecimal():
            found[axis]["reference_system"] = int(code)
    return found


def _band(rows: CubeRows, name: str) -> dict[str, Any]:
    array = open_array(rows.group, name)
    scaling, meaning = ArrayScaling.of_attributes(array.attrs), rows.meaning(name)
    found: dict[str, Any] = {"name": name, "data_type": str(array.dtype)}
    fill = array.fill_value
    if "_FillValue" in array.attrs or np.isnan(fill):
        found["nodata"] = "nan" if np.isnan(fill) else fill.item() if np.isfinite(fill) else str(fill)
    if scaling.unit:
        found["unit"] = scaling.unit
    if (scaling.scale, scaling.offset) != (1.0, 0.0):
        found |= {"raster:scale": scaling.scale, "raster:offset": scaling.offset}
    if meaning.classes:
        found["classification:classes"] = [
            {"value": each.value, "name": f"class_{each.value}"}
            | ({} if each.name is None else {"title": each.name})
            | ({} if each.colour is None else {"color_hint": each.colour[1:].upper()})
            for each in meaning.classes
        ]
    return found
