"""Writes where a cube lies on the map: x and y, CF's ``spatial_ref``, GeoZarr's attributes.

The attributes follow https://github.com/zarr-conventions/spatial (v1) and
https://github.com/zarr-experimental/geo-proj (v1). ``geozarr-toolkit`` finds both by their names and
accepts them.

The list of objects ``zarr_conventions``, by which a group declares its conventions, is not written. The
toolkit accepts no other form of it. netCDF cannot store it: xarray's ``to_netcdf`` would fail for every cube.
"""

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pixel_gather.core.model.window import Transform
from pixel_gather.core.plan.cube_plan import CubePlan
from pixel_gather.io.cube.array_chunks import put_array
from pixel_gather.io.store.object_store import Store

if TYPE_CHECKING:  # not in a worker's start
    from pixel_gather.core.results.report import Report
    from pixel_gather.core.results.row_coordinates import Values

SPATIAL_REF: Final = "spatial_ref"


def write_georeference(store: Store, plan: CubePlan, report: "Report") -> dict[str, Any]:
    """Write x, y and ``spatial_ref``, as far as they hold for all rows.

    Rows of one grid share the transform and the CRS. Rows of several grids may still share the CRS.

    Returns:
        The group's GeoZarr attributes. Empty if rows share neither transform nor CRS.
    """
    transform = plan.placement.transform if report.is_aligned else None
    crs = plan.crs if report.is_aligned or report.shares_crs else None
    attributes: dict[str, Any] = {}
    mapping: dict[str, Any] = {}
    if transform is not None and transform.is_usable:
        attributes = {
            "spatial:dimensions": ["y", "x"],
            "spatial:transform": [float(value) for value in transform],
            "spatial:transform_type": "affine",
            "spatial:shape": [plan.height, plan.width],
            "spatial:bbox": list(transform.bounds(plan.width, plan.height)),
            "spatial:registration": "pixel",
        }
        mapping = {"GeoTransform": " ".join(map(repr, map(float, transform.to_gdal())))}
        if transform.is_rectilinear:
            _write_axes(store, plan, transform)
    if crs is not None:
        mapping |= {"crs_wkt": crs.wkt2, "spatial_ref": crs.wkt2}
        if crs.is_geographic:
            mapping["grid_mapping_name"] = "latitude_longitude"
        attributes |= {"proj:code": crs.code} if crs.code else {"proj:wkt2": crs.wkt2}
    if mapping:
        put_array(store, SPATIAL_REF, np.array(0, dtype="int64"), dims=(), attributes=mapping)
    return attributes


def pixel_centres(transform: Transform, *, height: int, width: int) -> dict[str, "Values"]:
    """Return x and y of the pixels' centres. The transform is rectilinear."""
    return {
        "x": transform.c + transform.a * (np.arange(width) + 0.5),
        "y": transform.f + transform.e * (np.arange(height) + 0.5),
    }


def _write_axes(store: Store, plan: CubePlan, transform: Transform) -> None:
    """Write x and y, which are those of the pixels' centres."""
    for name, values in pixel_centres(transform, height=plan.height, width=plan.width).items():
        attributes: dict[str, Any] = {"axis": name.upper()}
        if plan.crs is not None and plan.crs.is_geographic:
            degrees = {"x": ("longitude", "degrees_east"), "y": ("latitude", "degrees_north")}[name]
            attributes |= {"standard_name": degrees[0], "units": degrees[1]}
        elif plan.crs is not None:
            attributes["standard_name"] = f"projection_{name}_coordinate"
        put_array(store, name, values, dims=(name,), attributes=attributes)
