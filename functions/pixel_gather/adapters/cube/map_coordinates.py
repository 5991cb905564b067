"""Place an aligned cube on the map: x and y, CF's ``spatial_ref``, GeoZarr's conventions.

Conventions: https://github.com/zarr-conventions/spatial (v1) and
https://github.com/zarr-experimental/geo-proj (v1).
"""

from typing import Any, Final

import numpy as np

from pixel_gather.adapters.cube.zarr_metadata import write_small_array
from pixel_gather.adapters.object_store.object_store import Store
from pixel_gather.model.window import Transform
from pixel_gather.plan.cube_plan import CubePlan

SPATIAL_REF: Final = "spatial_ref"

_SPATIAL: Final = {
    "uuid": "689b58e2-cf7b-45e0-9fff-9cfc0883d6b4",
    "name": "spatial:",
    "schema_url": "https://raw.githubusercontent.com/zarr-conventions/spatial/refs/tags/v1/schema.json",
    "spec_url": "https://github.com/zarr-conventions/spatial/blob/v1/README.md",
    "description": "Spatial coordinate information",
}
_PROJ: Final = {
    "uuid": "f17cb550-5864-4468-aeb7-f3180cfb622f",
    "name": "proj:",
    "schema_url": "https://raw.githubusercontent.com/zarr-experimental/geo-proj/refs/tags/v1/schema.json",
    "spec_url": "https://github.com/zarr-experimental/geo-proj/blob/v1/README.md",
    "description": "Coordinate reference system information for geospatial data",
}


def write_georeference(store: Store, plan: CubePlan) -> dict[str, Any]:
    """Write the arrays that place the cube on the map, as far as the template is placed.

    Returns:
        The group's GeoZarr attributes; empty where the template has no transform.
    """
    placement = plan.placement
    transform, crs = placement.transform, plan.crs
    if transform is None or not transform.is_usable:
        return {}
    attributes: dict[str, Any] = {
        "spatial:dimensions": ["y", "x"],
        "spatial:transform": [float(value) for value in transform],
        "spatial:transform_type": "affine",
        "spatial:shape": [plan.height, plan.width],
        "spatial:bbox": _bounds(transform, plan.width, plan.height),
        "spatial:registration": "pixel",
        "zarr_conventions": [_SPATIAL],
    }
    mapping: dict[str, Any] = {"GeoTransform": " ".join(map(repr, map(float, transform.to_gdal())))}
    if crs is not None:
        mapping |= {"crs_wkt": crs.wkt2, "spatial_ref": crs.wkt2}
        if crs.is_geographic:
            mapping["grid_mapping_name"] = "latitude_longitude"
        attributes |= {"proj:code": crs.code} if crs.code else {"proj:wkt2": crs.wkt2}
        attributes["zarr_conventions"] = [_SPATIAL, _PROJ]
    write_small_array(store, SPATIAL_REF, np.array(0, dtype="int64"), dims=(), attributes=mapping)
    if transform.is_rectilinear:
        _write_axes(store, plan, transform)
    return attributes


def _write_axes(store: Store, plan: CubePlan, transform: Transform) -> None:
    """Write x and y at pixel centres."""
    xs = transform.c + transform.a * (np.arange(plan.width) + 0.5)
    ys = transform.f + transform.e * (np.arange(plan.height) + 0.5)
    for name, values in (("x", xs), ("y", ys)):
        attributes: dict[str, Any] = {"axis": name.upper()}
        if plan.crs is not None and plan.crs.is_geographic:
            degrees = {"x": ("longitude", "degrees_east"), "y": ("latitude", "degrees_north")}[name]
            attributes |= {"standard_name": degrees[0], "units": degrees[1]}
        elif plan.crs is not None:
            attributes["standard_name"] = f"projection_{name}_coordinate"
        write_small_array(store, name, values, dims=(name,), attributes=attributes)


def _bounds(transform: Transform, width: int, height: int) -> list[float]:
    """Return [xmin, ymin, xmax, ymax] of the window's corners."""
    corners = [transform.xy(col, row) for col in (0, width) for row in (0, height)]
    xs, ys = [x for x, _ in corners], [y for _, y in corners]
    return [min(xs), min(ys), max(xs), max(ys)]
