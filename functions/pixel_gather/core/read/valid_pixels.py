"""Tell which pixels hold a value. Pure."""

import numpy as np

from pixel_gather.core.model.outcome import Outcome
from pixel_gather.core.pixel_mask import Mask
from pixel_gather.core.read.shard_buffers import Pixels


def valid_pixels(part: Pixels, nodata: float | None) -> Mask | None:
    """Return a mask of the valid pixels, or None if all are valid."""
    is_float = part.dtype.kind in "fc"
    if nodata is None or (is_float and np.isnan(nodata)):
        return ~np.isnan(part) if is_float else None
    valid: Mask = part != part.dtype.type(nodata)
    return valid & ~np.isnan(part) if is_float else valid


def valid_on_raster(band: Pixels, outcome: Outcome) -> Mask | None:
    """Return as `valid_pixels`, of the part of a task's window that is a source's extent.

    Args:
        band: Shape (y, x) of the task's window.
        outcome: Of the source.
    """
    x_start, y_start, x_stop, y_stop = outcome.extent
    found = valid_pixels(band[y_start:y_stop, x_start:x_stop], outcome.nodata)
    inside = pixels_inside(outcome, width=band.shape[1], lines=slice(y_start, y_stop))
    if inside is None:
        return found
    inside = inside[:, x_start:x_stop]
    return inside if found is None else found & inside


def pack_inside(inside: Mask, extent: tuple[int, int, int, int]) -> bytes | None:
    """Return where a source has pixels, as `Outcome.inside`.

    Args:
        inside: Shape (y, x) of the task's window.
        extent: The rectangle around them, as `Outcome.extent`.
    """
    x_start, y_start, x_stop, y_stop = extent
    is_whole = inside[y_start:y_stop, x_start:x_stop].all()
    return None if is_whole else np.packbits(inside, axis=1).tobytes()


def pixels_inside(outcome: Outcome, *, width: int, lines: slice = slice(None)) -> Mask | None:
    """Return where a source has pixels: shape (y, x). None for all of its extent.

    Args:
        outcome: Of the source.
        width: That of the task's window.
        lines: Which of the window's lines.
    """
    if outcome.inside is None:
        return None
    packed = np.frombuffer(outcome.inside, np.uint8).reshape(-1, -(-width // 8))
    return np.unpackbits(packed[lines], axis=1, count=width).view(np.bool_)


def keep_off_nodata(means: Pixels, nodata: float | None) -> None:
    """Replace means that happen to equal nodata by the next number of their dtype, in place.

    It is the next lower number, or the next higher one if nodata is the lowest number of the dtype. Otherwise
    these means would be missing.

    Args:
        means: Of any shape, in the dtype that is stored.
        nodata: A number of this dtype, or NaN. With NaN and None nothing is replaced.
    """
    dtype, is_float = means.dtype, means.dtype.kind == "f"
    if nodata is None or np.isnan(nodata) or not (hits := means == dtype.type(nodata)).any():
        return
    is_lowest = nodata == (np.finfo(dtype) if is_float else np.iinfo(dtype)).min
    if is_float:
        means[hits] = np.nextafter(dtype.type(nodata), dtype.type(np.inf if is_lowest else -np.inf))
    else:
        means[hits] = nodata + 1 if is_lowest else nodata - 1
