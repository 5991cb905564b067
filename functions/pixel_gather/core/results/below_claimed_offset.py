"""Pixels that a catalog's claim does not allow: a sign that its offset has been applied already. Pure.

Some providers apply an offset to the pixels and leave it in the catalog. Whoever applies it again gets
reflectances that are too low: https://github.com/Element84/earth-search/issues/9.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from pixel_gather.core.model.outcome import BandStats
from pixel_gather.core.model.source import ListColumn, Source

OFFSET_CLAIMED: Final = "offset_claimed"
_SCALE_CLAIMED: Final = "scale_claimed"
_NODATA_CLAIMED: Final = "nodata_claimed"
_SHARE: Final = 0.5
"""Share of the offset. Noise takes dark pixels a little below zero, but not by more than this share."""


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
