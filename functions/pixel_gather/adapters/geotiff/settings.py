"""How much of a GeoTIFF is fetched at once, and the limits beyond which GDAL decides."""

from dataclasses import dataclass, replace
from typing import Self

from pixel_gather.estimate.range_parts import MOST_PARTS

_KIB, _MIB = 1 << 10, 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class GeoTiffSettings:
    """Sizes in bytes; none of them changes a pixel."""

    head_nbytes: int = 16 * _KIB
    """First read of every file; holds the directories of a typical COG."""

    learns_head: bool = True
    """Whether that is where it starts, and the files seen tell what it should be."""

    max_header_reads: int = 12
    """GETs after the first until the header, or one window's tile offsets, are known."""

    max_header_nbytes: int = 16 * _MIB
    """Longest single one of them."""

    max_gap_nbytes: int = 64 * _KIB
    """Unwanted bytes between two tiles that cost less than another request."""

    max_get_nbytes: int = 8 * _MIB
    """Neighbouring tiles are joined, and uncompressed strips cut, to requests of at most this size."""

    max_tile_nbytes: int = 256 * _MIB
    """Largest tile that is decoded, compressed or not."""

    part_nbytes: int | None = None
    """Size of the parts that one long range is fetched in, side by side; None for single ranges."""

    max_gets_in_flight: int = MOST_PARTS
    """Requests of one window at one time."""

    @classmethod
    def reading_first(cls, head_nbytes: int | None) -> Self:
        """Return the defaults but for the first read, in bytes: None for what the files seen tell."""
        return cls() if head_nbytes is None else cls(head_nbytes=head_nbytes, learns_head=False)

    def __post_init__(self) -> None:
        """Refuse limits that nothing can keep."""
        if min(self.head_nbytes, self.max_get_nbytes, self.max_gets_in_flight) < 1:
            raise ValueError("head_nbytes, max_get_nbytes and max_gets_in_flight are at least 1")

    def in_parts(self, part_nbytes: int | None) -> Self:
        """Return settings that fetch long ranges in parts of this size; None for single ranges."""
        return self if part_nbytes is None else replace(self, part_nbytes=part_nbytes)

    @property
    def cut_nbytes(self) -> int:
        """Size to which tiles are joined and uncompressed ones cut: then no part has to be put together."""
        return min(self.part_nbytes or self.max_get_nbytes, self.max_get_nbytes)
