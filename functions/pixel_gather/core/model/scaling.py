"""What stored values stand for: what a file declares, or a list says, and whether the pixels deny it. Pure.

Some providers apply an offset to the pixels and leave it in the catalog. Whoever applies it again gets
reflectances that are too low: https://github.com/Element84/earth-search/issues/9.
"""

import math
from collections.abc import Mapping, Sequence
from copy import replace
from enum import IntEnum
from typing import Any, Final, Literal

import numpy as np
from msgspec import Struct

from pixel_gather.core.model.outcome import BandStats
from pixel_gather.core.model.source import Header, ListColumn, Source

type Stored = np.ndarray[Any, Any]
type Grid = np.ndarray[Any, np.dtype[np.floating[Any]]]
type Mask = np.ndarray[Any, np.dtype[np.bool_]]

type CubeValues = Literal["raw", "harmonised", "scaled"]
"""Whether pixels stay as they are stored, get one scale and offset, or become what they stand for."""

SCALED: Final = "float32"
"""Dtype of physical values in a cube."""

NO_SCALING: Final = (1.0, 0.0)
"""Scale and offset of a file that declares none."""

OFFSET_CLAIMED: Final = "offset_claimed"
_SCALE_CLAIMED: Final = "scale_claimed"
_NODATA_CLAIMED: Final = "nodata_claimed"
SCALING_COLUMNS: Final = ("scale", "offset", _SCALE_CLAIMED, OFFSET_CLAIMED, _NODATA_CLAIMED)
"""Columns of a list that say what stored values stand for."""

_SHARE: Final = 0.5
"""Share of the offset. Noise takes dark pixels a little below zero, but not by more than this share."""


class OffsetState(IntEnum):
    """Whether the pixels of a source have its offset already."""

    APPLIED = 0
    """They have: no offset is left to apply."""

    NOT_APPLIED = 1
    UNDECIDED = 2
    """Nobody can tell, so nobody guesses."""


def denies_claim(columns: Mapping[str, object], darkest: float) -> bool:
    """Tell whether a stored value would be far below zero by the claimed scale and offset.

    It is, if ``darkest * scale + offset < offset / 2`` with a negative offset. If the darkest pixel has the
    claimed nodata, nothing is known. Only dark pixels can tell, so False does not mean that the claim is
    right.

    Args:
        columns: What the list says of the source.
        darkest: The lowest stored value that is data.
    """
    offset, scale = columns.get(OFFSET_CLAIMED), columns.get(_SCALE_CLAIMED)
    if not isinstance(offset, int | float) or offset >= 0 or darkest == columns.get(_NODATA_CLAIMED):
        return False
    factor = scale if isinstance(scale, int | float) and scale > 0 else 1.0
    return darkest * factor + offset < _SHARE * offset


def claims_offsets(columns: Sequence[ListColumn]) -> bool:
    """Tell whether a list has a column of claimed offsets."""
    return any(each.name == OFFSET_CLAIMED for each in columns)


def is_below_claim(source: Source | None, stats: BandStats) -> bool:
    """Tell whether a window's darkest pixel would be far below zero by the claimed scale and offset.

    Args:
        source: What the list says of the source.
        stats: Statistics of one band of its window.
    """
    return bool(stats.n_valid) and source is not None and denies_claim(source.columns, stats.min)


def claimed_nodata(columns: Mapping[str, object], dtype: str) -> float | None:
    """Return the nodata that a list claims of a source; None if no pixel of the dtype can hold it."""
    told = columns.get(_NODATA_CLAIMED)
    return told if isinstance(told, int | float) and fits_dtype(told, dtype) else None


def fits_dtype(value: float, dtype: str) -> bool:
    """Return whether a dtype can hold a value: integers exactly, floats within their range."""
    kind = np.dtype(dtype)
    if kind.kind in "fc":
        return not float(np.finfo(kind).max) < abs(value) < math.inf
    if isinstance(value, float) and not value.is_integer():
        return False
    limits = np.iinfo(kind)
    return int(limits.min) <= int(value) <= int(limits.max)


class OffsetAppliedError(Exception):
    """A catalog claims an offset that a scene's pixels have already."""


class Scaling(Struct, frozen=True):
    """From stored to physical values: ``stored * scale + offset``."""

    scale: float = 1.0
    offset: float = 0.0
    nodata: float | None = None
    """What the list claims of a file that declares none itself."""

    claims: Mapping[str, object] = {}
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
        declared = header.scales[number - 1], header.offsets[number - 1]
        nodata = claimed_nodata(source.columns, header.dtype) if header.nodata is None else None
        return cls(nodata=nodata) if raw else replace(cls.said(declared, source.columns), nodata=nodata)

    @classmethod
    def said(cls, declared: tuple[float, float], columns: Mapping[str, object]) -> "Scaling":
        """Return scale and offset of one band.

        Args:
            declared: What its file declares.
            columns: What the list says of the source.
        """
        if declared != NO_SCALING:
            return cls(*declared)
        scale, offset = (_number(columns, name) for name in ("scale", "offset"))
        claims = columns if columns.get("offset") is None and offset is not None else {}
        return cls(1.0 if scale is None else scale, offset or 0.0, claims=claims)

    def apply(self, stored: Stored, is_valid: Mask) -> Grid:
        """Return physical values; NaN where they are not valid."""
        values = stored.astype(np.float64)
        if (self.scale, self.offset) != NO_SCALING:
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
