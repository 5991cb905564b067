"""Tells which pixels of a finished cube are data: neither nodata nor filled."""

from typing import TYPE_CHECKING, Any

import numpy as np

from pixel_gather.core.results.report_content import Image, Mask
from pixel_gather.core.results.timings import Integers

if TYPE_CHECKING:
    import zarr


def read_nodata(group: "zarr.Group", array: Any, rows: Integers, slot: int) -> list[complex | None]:
    """Return the nodata of some rows. Rows may differ. None and NaN stand for no nodata.

    Args:
        group: The cube.
        array: The measurement.
        rows: Rows of the cube.
        slot: Position of the measurement in a row. Not used if one source holds all of a row.
    """
    if "nodata" in group:
        return [float(each) for each in _values_of_slot(group["nodata"], rows, slot)]
    return [array.fill_value if "_FillValue" in array.attrs else None] * len(rows)


def are_inside(group: "zarr.Group", rows: Integers, pixels: Image, step: int, *, slot: int) -> Mask:
    """Return which pixels lie inside their source. The gather has filled the others.

    Args:
        group: The cube.
        rows: Rows of the cube.
        pixels: The rows' pictures, shape (row, y, x).
        step: A picture has one in so many pixels of the window, along each side.
        slot: Position of the pictures' measurement in a row. Not used if one source holds all of a row.
    """
    if "inside_x_start" not in group:
        return np.ones(pixels.shape, dtype=bool)
    _, height, width = pixels.shape

    def edge(name: str) -> Integers:
        found: Integers = _values_of_slot(group[f"inside_{name}"], rows, slot)[:, None]
        return found

    cols, lines = np.arange(width) * step, np.arange(height) * step
    in_x = (edge("x_start") <= cols) & (cols < edge("x_stop"))
    in_y = (edge("y_start") <= lines) & (lines < edge("y_stop"))
    are_inside: Mask = in_y[:, :, None] & in_x[:, None, :]
    return are_inside


def _values_of_slot(coordinate: Any, rows: Integers, slot: int) -> Any:
    """Return the values of one measurement, or those of the rows if the coordinate has one for each row."""
    values = np.asarray(coordinate.oindex[rows])
    return values if values.ndim == 1 else values[:, slot]
