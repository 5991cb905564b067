"""What the steps know of one source: where it is, what its header tells, what reading it cost."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pixel_gather.model.window import Transform


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One COG of the list, and the columns that came with it."""

    href: str
    """``s3://bucket/key``, ``https://host/path`` or ``file:///path``; already checked."""

    band: str | None = None
    """Name of the measurement that this source holds, from the list's ``band`` column."""

    scene: str | None = None
    """Rows of the list with the same scene share one row of the cube."""

    time_us: int | None = None
    """Time of observation in microseconds since 1970-01-01 UTC."""

    columns: Mapping[str, str | int | float | bool | None] = field(default_factory=dict)
    """The list's other columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CubeRow:
    """One row of the cube's first axis: the sources of one scene, one per measurement."""

    time_us: int | None
    sources: tuple[Source | None, ...]
    """In the order of the table's ``bands``; None where the list names none. One source where the list has
    no ``band`` column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One of the list's own columns, which becomes a coordinate."""

    name: str
    dtype: str
    """``int64``, ``float64``, ``bool`` or ``string``: the narrowest that holds every value."""

    varies_in_row: bool
    """Whether sources that share a row have different values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What opening a source tells, whatever its format."""

    href: str
    etag: str | None
    """Pins later reads to the bytes that this header was read from; None where the store gives none."""

    nbytes: int
    """Size of the object in bytes."""

    driver: str
    """GDAL's short name of the format: ``GTiff``, ``JP2OpenJPEG``."""

    width: int
    """Columns of the full-resolution image, or of the overview that was asked for."""

    height: int
    n_bands: int
    dtype: str
    """NumPy's name; native byte order."""

    nodata: float | int | None
    """None where the source declares none, or one that its dtype cannot hold."""

    scales: tuple[float, ...]
    """Per band; 1.0 where none is declared."""

    offsets: tuple[float, ...]
    """Per band; 0.0 where none is declared."""

    transform: Transform | None
    """None where the source is not placed on the map."""

    crs: str | None
    """``EPSG:n`` where the CRS is just that, otherwise WKT."""

    tile_width: int
    """Width of the unit of reading: a tile, or the image's width where it is stored in strips."""

    tile_height: int
    is_tiled: bool
    overviews: tuple[tuple[int, int], ...] = ()
    """(width, height) of each overview that was looked for, largest first."""


@dataclass(slots=True, kw_only=True)
class Cost:
    """What one source has cost so far; its reader adds to it. Times in seconds."""

    requests: int = 0
    """Requests sent, retries and hedges included."""

    retries: int = 0
    hedges: int = 0
    """Requests sent a second time while the first, which was late, was still under way."""

    nbytes: int = 0
    """Bytes received, headers of HTTP not counted."""

    header_nbytes: int = 0
    """Of those, received until the header was known."""

    open_s: float = 0.0
    """Until the header was known."""

    read_s: float = 0.0
    """Waiting for tiles' bytes; overlaps with decoding where a window touches several tiles."""

    decode_s: float = 0.0
    """Spent in decoders, summed over threads."""

    @classmethod
    def of_parts(cls, parts: Iterable["Cost"]) -> "Cost":
        """Return the sum of what the parts of one source cost."""
        each = tuple(parts)
        return cls(**{name: sum(getattr(part, name) for part in each) for name in cls.__slots__})

    @property
    def data_nbytes(self) -> int:
        """Bytes received for pixels, after the header was known."""
        return self.nbytes - self.header_nbytes

    @property
    def needed_requests(self) -> int:
        """Requests that it would have taken, had each been answered well and in time."""
        return self.requests - self.retries - self.hedges
