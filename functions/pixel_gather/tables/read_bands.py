"""Read windows of a band as they are stored, and which of their values are data."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pixel_gather.core.errors import SourceError
from pixel_gather.core.model.plurals import counted
from pixel_gather.core.model.source import Header
from pixel_gather.core.model.status import Status
from pixel_gather.core.model.window import Window
from pixel_gather.core.ports import LevelledSource

type Stored = np.ndarray[Any, Any]
type Mask = np.ndarray[Any, np.dtype[np.bool_]]


def check_band(header: Header, number: int) -> None:
    """Refuse a band that a file does not have, and complex numbers.

    Raises:
        SourceError: With status unlike.
    """
    if number > header.n_bands:
        reason = f"it has {counted(header.n_bands, 'band')}, not band {number}"
    elif header.dtype.startswith("complex"):
        reason = f"its numbers are {header.dtype}, which have no order"
    else:
        return
    raise SourceError(reason, href=header.href, status=Status.UNLIKE)


async def read_stored(
    opened: LevelledSource, window: Window, number: int, *, nodata: float | None = None
) -> tuple[Stored, Mask]:
    """Read a window of one band that lies on the raster.

    The window is in pixels of that level. ``nodata`` stands for no data in a file that declares none.

    Returns:
        The stored values, (y, x), and which of them are data: neither nodata, nor NaN, nor hidden by a mask.

    Raises:
        SourceError: The pixels cannot be read.
    """
    pixels, hidden = await read_pixels(opened, window, [number])
    is_valid = holds_data(pixels[0], opened.header, nodata=nodata)
    return pixels[0], is_valid if hidden is None else is_valid & ~hidden[0]


async def read_pixels(
    opened: LevelledSource, window: Window, numbers: Sequence[int]
) -> tuple[Stored, Mask | None]:
    """Read a window of some bands that lies on the raster.

    Returns:
        The stored values, (band, y, x). And which of them a mask hides though they do not hold nodata; None
        if there are none.

    Raises:
        SourceError: The pixels cannot be read.
    """
    header = opened.header
    is_float = np.dtype(header.dtype).kind == "f"
    fill = header.nodata if header.nodata is not None else np.nan if is_float else 0
    out = np.full((len(numbers), window.height, window.width), fill, header.dtype)
    await opened.read_into([(out, window)], numbers, masked=True)
    if header.nodata is None and not is_float and opened.hides_pixels and (out == 0).any():
        ones = np.ones_like(out)  # a hidden pixel keeps what it held, so another fill tells it from data
        await opened.read_into([(ones, window)], numbers, masked=True)
        return out, (out == 0) & (ones == 1)
    return out, None


def holds_data(stored: Stored, header: Header, *, nodata: float | None = None) -> Mask:
    """Return which values are data: neither nodata nor NaN nor infinite.

    Args:
        stored: Values of the image, in any shape.
        header: The image's.
        nodata: Stands for no data in a file that declares none.
    """
    is_valid = np.ones(stored.shape, np.bool_) if header.nodata is None else stored != header.nodata
    if stored.dtype.kind == "f":
        is_valid &= np.isfinite(stored)
    if nodata is not None:
        is_valid &= stored != nodata
    return is_valid
