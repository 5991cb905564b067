"""Read GDAL's masks: which pixels of a window are hidden."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from rasterio.enums import MaskFlags
from rasterio.windows import Window

from pixel_gather.io.gdal.describe import array_dtype, nodata_in


def read_mask(dataset: Any, window: Window, bands: Sequence[int]) -> np.ndarray[Any, Any] | None:
    """Return GDAL's mask of a window, 0 where a pixel is hidden, or None where no mask is needed.

    All bands may share one mask, as that of an alpha band, or each may have its own. No mask is needed for
    pixels that hold the nodata value exactly. But GDAL also hides floating point values close to nodata, and
    truncates a nodata value of integers, such as 0.5.

    Returns:
        Shape (1, y, x) where all bands share a mask, else (band, y, x).
    """
    flags = [dataset.mask_flag_enums[band - 1] for band in bands]
    if all(MaskFlags.per_dataset in each for each in flags):
        return np.asarray(dataset.read_masks([bands[0]], window=window))
    if all(each == [MaskFlags.all_valid] for each in flags):
        return None
    is_plain = all(each in ([MaskFlags.nodata], [MaskFlags.all_valid]) for each in flags)
    if is_plain and all(_is_exact_nodata(dataset, band) for band in bands):
        return None
    return np.asarray(dataset.read_masks(bands, window=window))


def _is_exact_nodata(dataset: Any, band: int) -> bool:
    """Tell whether a band has no nodata value, or is of integers and has an integer as nodata."""
    value, dtype = dataset.nodatavals[band - 1], array_dtype(dataset)
    return value is None or (dtype.kind in "iu" and nodata_in(value, dtype) is not None)
