"""How much of a GeoTIFF is fetched at once, and the limits beyond which GDAL reads it."""

from copy import replace
from typing import Self

from msgspec import Struct

from pixel_gather.core.estimate.worker_limits import MOST_PARTS

_KIB, _MIB = 1 << 10, 1 << 20


class GeoTiffSettings(Struct, frozen=True, kw_only=True):
    """Sizes in bytes. None of them changes a pixel."""

    head_nbytes: int = 16 * _KIB
    """Size of the first read of a file. The header of a typical COG fits."""

    learns_head: bool = True
    """Whether the first read adapts to the files that were read. It then starts at ``head_nbytes``."""

    max_header_reads: int = 12
    """Most GETs after the first for one header, or for the tile offsets of one window."""

    max_header_nbytes: int = 16 * _MIB
    """Longest of these GETs."""

    max_gap_nbytes: int = 64 * _KIB
    """Tiles with at most this many bytes between them share one GET: that costs less than two GETs."""

    max_get_nbytes: int = 8 * _MIB
    """Longest GET that joins neighbouring tiles. Uncompressed strips are cut to this size."""

    max_tile_nbytes: int = 256 * _MIB
    """Largest tile that is decoded, compressed or not."""

    part_nbytes: int | None = None
    """Long ranges are fetched concurrently in parts of this size. None: each range in one GET."""

    shared_nbytes: int = 0
    """Decoded tiles that are kept for other windows on them. 0: every window decodes its own tiles."""

    max_gets_in_flight: int = MOST_PARTS
    """Most concurrent GETs of one window."""

    @classmethod
    def reading_first(cls, head_nbytes: int | None) -> Self:
        """Return the defaults with a first read of this many bytes. None: the size adapts to the files."""
        return cls() if head_nbytes is None else cls(head_nbytes=head_nbytes, learns_head=False)

    def __post_init__(self) -> None:
        """Refuse limits under which nothing can be read."""
        if min(self.head_nbytes, self.max_get_nbytes, self.max_gets_in_flight) < 1:
            raise ValueError("head_nbytes, max_get_nbytes and max_gets_in_flight are at least 1")

    def in_parts(self, part_nbytes: int | None) -> "GeoTiffSettings":
        """Return settings with parts of this size. None changes nothing."""
        return self if part_nbytes is None else replace(self, part_nbytes=part_nbytes)

    @property
    def cut_nbytes(self) -> int:
        """Size to which tiles are joined and uncompressed tiles cut, so that few GETs need several parts."""
        return min(self.part_nbytes or self.max_get_nbytes, self.max_get_nbytes)
