"""Pixels that a catalog's claim does not allow: a sign that its offset has been applied already. Pure.

Some providers apply an offset to the pixels and leave it in the catalog. Whoever applies it again gets
reflectances that are too low: https://github.com/Element84/earth-search/issues/9.
"""

from collections.abc import Sequence

from pixel_gather.core.model.outcome import BandStats
from pixel_gather.core.model.scaling import OFFSET_CLAIMED, denies_claim
from pixel_gather.core.model.source import ListColumn, Source


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
