"""Writes rows of a cube as netCDF-4. Values and attributes are those of the cube, to the bit."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np

from pixel_gather.core.errors import RequestError
from pixel_gather.features.export.cube_rows import CubeRows, dims_of, open_array

_OF_ZARR: Final = frozenset({"_FillValue"})


def write_netcdf(rows: CubeRows, path: Path) -> None:
    """Write the chosen rows and measurements, and all coordinates. Holds 64 MiB of pixels at one time.

    Raises:
        RequestError: A measurement has complex numbers, or is float16.
        OSError: The file cannot be written.
    """
    import netCDF4  # noqa: PLC0415 # an extra

    for name in rows.measurements:
        dtype = open_array(rows.group, name).dtype
        if dtype.kind == "c" or dtype == np.float16:
            lacks = "complex numbers" if dtype.kind == "c" else "float16"
            raise RequestError(
                f"netCDF has no {lacks}, and {name} is {dtype}; write GeoTIFFs (.tif) or Zarr (.zarr)",
                field="to",
            )
    with _errors_of_netcdf(), netCDF4.Dataset(path, "w", format="NETCDF4") as file:
        file.setncatts(
            _plain({key: value for key, value in rows.group.attrs.items() if key != "pixel_gather"})
        )
        for name, array, values in rows.arrays():
            shape = (len(rows.rows), *array.shape[1:]) if values is None else values.shape
            _write(file, name, array, shape, values)
        for index, row in enumerate(rows.read()):
            for name, pixels in zip(rows.measurements, row.pixels, strict=True):
                file[name][index] = pixels


@contextmanager
def _errors_of_netcdf() -> Generator[None]:
    """Turn errors of the library into errors of files. Other errors are those of reading the cube."""
    try:
        yield
    except RuntimeError as error:
        if not str(error).startswith("NetCDF: "):
            raise
        raise OSError(f"{error}; the disk may be full") from error


def _write(file: Any, name: str, array: Any, shape: tuple[int, ...], values: Any) -> None:
    """Make one variable. The pixels of measurements come later."""
    dims = dims_of(array)
    for dim, size in zip(dims, shape, strict=True):
        if dim not in file.dimensions:
            file.createDimension(dim, size)
    is_text = array.dtype.kind in "TOU"
    variable = file.createVariable(
        name,
        str if is_text else array.dtype.newbyteorder("="),
        dims,
        fill_value=array.fill_value if "_FillValue" in array.attrs and not is_text else None,
        **({"zlib": True, "complevel": 4, "chunksizes": (1, *shape[1:])} if values is None else {}),
    )
    variable.set_auto_maskandscale(False)
    variable.setncatts(_plain({key: value for key, value in array.attrs.items() if key not in _OF_ZARR}))
    if values is not None:
        variable[...] = values.astype(object) if is_text else values


def _plain(attributes: Any) -> dict[str, Any]:
    """Return the attributes that netCDF can hold: texts, numbers and lists of them."""
    return {
        key: value
        for key, value in attributes.items()
        if isinstance(value, str | int | float)
        or (isinstance(value, list) and value and all(isinstance(each, int | float) for each in value))
    }
