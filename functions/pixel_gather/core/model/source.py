"""A source, its header, and the cost of reading it."""

import math
from collections.abc import Iterable, Mapping
from copy import replace
from dataclasses import dataclass, field
from typing import Final

from msgspec import Struct

from pixel_gather.core.model.band_meaning import NO_MEANING, BandMeaning
from pixel_gather.core.model.chip import Chip
from pixel_gather.core.model.tile_coding import TileCoding
from pixel_gather.core.model.window import Transform

NO_INTEGER: Final = -(2**63)
"""Marks a missing integer or time. No list has a column of integers with this value."""

MAX_EXACT: Final = 2**53
"""Largest size up to which float64 holds every integer."""


class Source(Struct, frozen=True, kw_only=True):
    """One COG of the list, with its columns."""

    href: str
    """``s3://bucket/key``, ``https://host/path`` or ``file:///path``. Already checked."""

    band: str | None = None
    """Name of the measurement in this source, from the list's ``band`` column."""

    scene: str | None = None
    """Lines of the list with the same scene share one row of the cube."""

    time_us: int | None = None
    """Time of observation in microseconds since 1970-01-01 UTC."""

    columns: Mapping[str, str | int | float | bool | None] = {}
    """The list's other columns."""


@dataclass(slots=True, kw_only=True)
class SearchCost:
    """Requests of the search that a list comes from; complete once the list has been read."""

    n_pages: int = 0
    """Asked of an API."""

    n_gets: int = 0
    """Requests for the files of a catalog."""


class LeftOut(Struct, frozen=True, kw_only=True):
    """A source that a search found and that the gather does not read."""

    href: str | None
    """None if the scene has no such asset."""

    band: str | None
    scene: str | None
    time_us: int | None
    columns: Mapping[str, str | int | float | bool | None]
    status: str
    """``duplicate``: the scene was processed again later. ``absent``: it has no such asset."""

    reason: str
    """Why it is not read: one sentence."""


class CubeRow(Struct, frozen=True, kw_only=True):
    """One row of the cube's first axis: the sources of one scene, one per measurement."""

    time_us: int | None
    sources: tuple[Source | None, ...]
    """In the order of the table's ``bands``; None where the list names no source.

    A single source if the list has no ``band`` column.
    """

    chip: Chip | None = None
    """The row's own window; None if all rows have the plan's."""

    is_asked: bool = True
    """Whether it is read. It is not if its image is known not to hold its chip."""

    mask: Source | None = None
    """Where sources of the row are tried again: that of the mask, whether or not ``sources`` has it.

    Its pixels are stored again only if ``sources`` has it.
    """

    mask_etag: str | None = None
    """The version of it that was read before. Another one hides other pixels."""

    members: tuple["CubeRow", ...] = ()
    """The scenes that are reduced to this row, in order. Its sources have no href then."""

    etags: tuple[str | None, ...] = ()
    """Of a scene whose row is reduced anew: the versions of those of its ``sources`` that were read before.

    None for those that were not, and empty for files without versions.
    """

    packed_outcomes: bytes | None = None
    """Of a row that is reduced anew: its outcomes as they are, packed. They stay if its pixels stay."""

    def sources_to_read(self, mask_slot: int | None) -> tuple[Source | None, ...]:
        """Return the sources, with that of the mask also where only others are stored again."""
        if self.mask is None or mask_slot is None:
            return self.sources
        return (*self.sources[:mask_slot], self.mask, *self.sources[mask_slot + 1 :])


class ListColumn(Struct, frozen=True, kw_only=True):
    """A column of the list that becomes a coordinate."""

    name: str
    dtype: str
    """``int64``, ``float64``, ``bool`` or ``string``: the narrowest type that holds every value."""

    varies_in_row: bool
    """Whether sources of the same row have different values."""

    has_gaps: bool = False
    """Whether some rows of the cube have no value.

    A list with gaps has no integers and booleans. But an appended list may lack the column, and a row may
    lack a source.
    """

    is_large: bool = False
    """Whether some integer is larger than `MAX_EXACT`."""

    def grown_by(self, other: "ListColumn") -> "ListColumn":
        """Return the column with the rows of another list, too, where the other one has the same name."""
        return replace(
            self, has_gaps=self.has_gaps or other.has_gaps, is_large=self.is_large or other.is_large
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The header of a source, independent of its format."""

    href: str
    etag: str | None
    """Version of the object. Later reads require the same. None if the store has no versions."""

    nbytes: int
    """Size of the object in bytes."""

    driver: str
    """GDAL's short name of the format, such as ``GTiff`` or ``JP2OpenJPEG``."""

    width: int
    """Columns of the full-resolution image, or of the requested overview."""

    height: int
    n_bands: int
    dtype: str
    """NumPy's name of the dtype, in native byte order."""

    nodata: float | int | None
    """None if the source declares none, or one that its dtype cannot hold."""

    scales: tuple[float, ...]
    """One per band; 1.0 where none is declared."""

    offsets: tuple[float, ...]
    """One per band; 0.0 where none is declared."""

    transform: Transform | None
    """None if the source has no georeference."""

    crs: str | None
    """``EPSG:n`` if that code describes the CRS exactly, otherwise WKT."""

    tile_width: int
    """Width of a tile. If the image is stored in strips, the image's width."""

    tile_height: int
    is_tiled: bool
    overviews: tuple[tuple[int, int], ...] = ()
    """(width, height) of each overview, largest first. Empty if overviews were not looked for."""

    meanings: tuple[BandMeaning, ...] = field(default=(), compare=False, repr=False)
    """What is said of each band. Empty if nothing is, and in headers of an index that older versions made."""

    coding: TileCoding | None = field(default=None, compare=False, repr=False)
    """How its tiles are stored. None if only GDAL can read it."""

    ignores_scaling: bool = field(default=False, compare=False)
    """Whether a declared scale or offset is NaN or infinite. Such a band has the defaults of both."""

    def meaning(self, band: int) -> BandMeaning:
        """Return what is said of a band, from 1."""
        return self.meanings[band - 1] if self.meanings else NO_MEANING

    def __post_init__(self) -> None:
        """Replace scales and offsets that are no numbers."""
        if all(map(math.isfinite, (*self.scales, *self.offsets))):
            return
        pairs = [
            pair if all(map(math.isfinite, pair)) else (1.0, 0.0)
            for pair in zip(self.scales, self.offsets, strict=True)
        ]
        scales, offsets = zip(*pairs, strict=True)
        object.__setattr__(self, "scales", scales)
        object.__setattr__(self, "offsets", offsets)
        object.__setattr__(self, "ignores_scaling", True)  # the field's value


class Cost(Struct, kw_only=True, gc=False):
    """Cost of one source so far. Its reader adds to it. Times in seconds."""

    requests: int = 0
    """Requests sent, retries and hedges included."""

    retries: int = 0
    hedges: int = 0
    """Duplicate requests, sent because the first one was late and still pending."""

    nbytes: int = 0
    """Bytes received, without HTTP headers."""

    header_nbytes: int = 0
    """The part of ``nbytes`` that was received until the header was known."""

    open_s: float = 0.0
    """Time until the header was known."""

    read_s: float = 0.0
    """Time waiting for tiles' bytes. Overlaps with decoding if a window touches several tiles."""

    decode_s: float = 0.0
    """Time in decoders, summed over threads."""

    @classmethod
    def of_parts(cls, parts: Iterable["Cost"]) -> "Cost":
        """Return the sum of what the parts of one source cost."""
        each = tuple(parts)
        return cls(**{name: sum(getattr(part, name) for part in each) for name in cls.__struct_fields__})

    @property
    def data_nbytes(self) -> int:
        """Bytes received for pixels, after the header was known."""
        return self.nbytes - self.header_nbytes

    @property
    def needed_requests(self) -> int:
        """Requests without retries and hedges."""
        return self.requests - self.retries - self.hedges
