"""Read windows of a band as numbers: what holds no data becomes NaN, and scale and offset are applied."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pixel_gather.core.errors import SourceError
from pixel_gather.core.model.plurals import counted
from pixel_gather.core.model.source import Header, Source
from pixel_gather.core.model.status import Status
from pixel_gather.core.model.window import Window
from pixel_gather.core.ports import LevelledSource
from pixel_gather.core.results.below_claimed_offset import denies_claim

type Grid = np.ndarray[Any, np.dtype[np.floating[Any]]]
type Stored = np.ndarray[Any, Any]
type Mask = np.ndarray[Any, np.dtype[np.bool_]]


class OffsetAppliedError(Exception):
    """A catalog claims an offset that a scene's pixels have already."""


@dataclass(frozen=True, slots=True)
class Scaling:
    """From stored to physical values: ``stored * scale + offset``."""

    scale: float = 1.0
    offset: float = 0.0
    nodata: float | None = None
    """What the list claims of a file that declares none itself."""

    claims: Mapping[str, object] = field(default_factory=dict)
    """The list's columns, if the offset is what a catalog claims."""

    def check(self, stored: Stored, is_valid: Mask) -> None:
        """Refuse a claimed offset that the pixels have already.

        Raises:
            OffsetAppliedError: They are darker than the claim allows.
        """
        if self.claims and is_valid.any() and self.is_denied_by(float(stored[is_valid].min())):
            raise OffsetAppliedError

    def is_denied_by(self, darkest: float) -> bool:
        """Return whether a stored value is darker than the claimed offset allows. NaN denies nothing."""
        return bool(self.claims) and denies_claim(self.claims, darkest)

    def without_claim(self) -> "Scaling":
        """Return the same without a claimed offset."""
        return replace(self, offset=0.0, claims={}) if self.claims else self

    @classmethod
    def of(cls, header: Header, number: int, source: Source, *, raw: bool) -> "Scaling":
        """Return what holds for one band: what the file declares, or else what the list says of it."""
        columns = source.columns
        nodata = columns.get("nodata_claimed") if header.nodata is None else None
        claimed = float(nodata) if isinstance(nodata, int | float) else None
        if raw:
            return cls(nodata=claimed)
        declared = header.scales[number - 1], header.offsets[number - 1]
        if declared != (1.0, 0.0):
            return cls(*declared, nodata=claimed)
        scale, offset = (_number(columns, name) for name in ("scale", "offset"))
        claims = columns if columns.get("offset") is None and offset is not None else {}
        return cls(1.0 if scale is None else scale, offset or 0.0, nodata=claimed, claims=claims)

    def apply(self, stored: Stored, is_valid: Mask) -> Grid:
        """Return physical values; NaN where they are not valid."""
        values = stored.astype(np.float64)
        if (self.scale, self.offset) != (1.0, 0.0):
            values = values * self.scale + self.offset
        values[~is_valid] = np.nan
        return values


def _number(columns: Any, name: str) -> float | None:
    """Return a number of the list: its own column, or what an item of a catalog claims."""
    for each in (name, f"{name}_claimed"):
        value = columns.get(each)
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return float(value)
    return None


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

    Args:
        opened: At the level of the window.
        window: In that level's pixels.
        number: Which band, from 1.
        nodata: Stands for no data in a file that declares none.

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
    await opened.read_into(out, window, numbers, masked=True)
    if header.nodata is None and not is_float and opened.hides_pixels and (out == 0).any():
        ones = np.ones_like(out)  # a hidden pixel keeps what it held, so another fill tells it from data
        await opened.read_into(ones, window, numbers, masked=True)
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
