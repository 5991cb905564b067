"""Content of a report page: values that were read back from a finished cube. Pure."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, Self

import numpy as np
from msgspec import Struct

from pixel_gather.core.model.band_meaning import NO_MEANING, BandMeaning
from pixel_gather.core.model.footprints import Footprints, SourceFootprints
from pixel_gather.core.model.plurals import counted
from pixel_gather.core.model.window import Transform
from pixel_gather.core.results.report import Report
from pixel_gather.core.results.timed_run import Run
from pixel_gather.core.results.timings import Floats, Integers

MOST_DRAWN: Final = 24
"""Most measurements whose windows, values and means a page shows."""

type Mask = np.ndarray[Any, np.dtype[np.bool_]]
type Image = np.ndarray[Any, np.dtype[Any]]


class SourceRow(Struct, frozen=True, kw_only=True):
    """One source that was read. Times in seconds."""

    row: int
    """Row of the cube, from 0."""

    label: str
    """Its time, or ``row 12`` if it has none."""

    href: str
    total_s: float
    """Time to open, read and decode."""

    open_s: float
    nbytes: int
    """Bytes received, without headers."""

    valid_share: float
    """Share of the window's pixels, 0 to 1."""


class MaskedQuicklooks(Struct, frozen=True, kw_only=True, eq=False):
    """`pixel_gather.core.read.quicklook.Quicklooks` of a measurement, with a mask of valid pixels."""

    measurement: str
    rows: Integers
    """Rows of the cube, ascending. Shape (n,)."""

    pixels: Image
    """Raw values, shape (n, y, x)."""

    is_valid: Mask
    """Mask of pixels that are neither nodata nor NaN, same shape."""

    step: int

    def __post_init__(self) -> None:
        """Refuse arrays of different shapes."""
        n_rows = len(self.rows)
        if self.pixels.ndim != 3 or self.is_valid.shape != self.pixels.shape or len(self.pixels) != n_rows:  # noqa: PLR2004 # (n, y, x)
            raise ValueError(f"{n_rows} quicklooks of shape {self.pixels.shape} and {self.is_valid.shape}")


class Picture(Struct, frozen=True, kw_only=True, eq=False):
    """One window of the contact sheet."""

    label: str
    """Its time, or ``row 12`` if it has none."""

    href: str
    pixels: Image | None
    """Shape (y, x); None if its source was not read."""

    is_valid: Mask | None
    status: str
    """Name of the source's status, such as ``ok`` or ``missing``."""


class ArrayScaling(Struct, frozen=True, kw_only=True):
    """What an array's values mean: ``value * scale + offset``, in a unit. The default is raw values."""

    scale: float = 1.0
    offset: float = 0.0
    unit: str = ""

    @classmethod
    def of_attributes(cls, told: Mapping[str, Any]) -> Self:
        """Return what CF's attributes of an array say of its values. Those of other types do not count."""
        scale, offset, unit = (told.get(name) for name in ("scale_factor", "add_offset", "units"))
        return cls(
            scale=float(scale) if isinstance(scale, int | float) and scale else 1.0,
            offset=float(offset) if isinstance(offset, int | float) else 0.0,
            unit=unit if isinstance(unit, str) and unit != "1" else "",
        )


class Look(Struct, frozen=True, kw_only=True, eq=False):
    """Pictures of one measurement."""

    quicklooks: MaskedQuicklooks
    frames: tuple[SourceRow, ...]
    """The source of each quicklook."""

    contact_sheet: tuple[Picture, ...]
    """Windows spread over all rows, also those that were not read. The same rows for every measurement."""

    scaling: ArrayScaling = ArrayScaling()
    meaning: BandMeaning = NO_MEANING
    chunk_rows: int = 1
    """Rows of a chunk of the measurement."""

    @property
    def measurement(self) -> str:
        """Its name."""
        return self.quicklooks.measurement


class Coverage(Struct, frozen=True, kw_only=True, eq=False):
    """What became of each source along the cube, ordered by time if the cube has one."""

    rows: Integers
    """Rows of the cube, shape (row,). Rows whose time is missing or impossible are left out."""

    at: Integers
    """Microseconds since 1970 if ``has_time``, else the rows. Same shape."""

    has_time: bool
    status: Integers
    """Codes of `Status`, shape (row, source of the row)."""

    valid_share: Floats
    """Share of the window's pixels, 0 to 1; NaN if the source was not read. Same shape."""

    masked_share: Floats | None = None
    """Share of the window's pixels that the mask hides, shape (row,); NaN if it was not read. None without a
    mask."""


class Place(Struct, frozen=True, kw_only=True):
    """Where the pixels of a cube lie, as far as its sources say."""

    crs: str
    """Authority code or WKT; empty if the sources have none."""

    transform: Transform | None
    """Transform of the window, of the first row that was read if rows have grids of their own."""

    is_shared: bool
    """Whether all rows share this grid."""

    is_crs_shared: bool = True
    """Whether all rows share this CRS. If not, it is that of the first row that was read."""


class Series(Struct, frozen=True, kw_only=True, eq=False):
    """Statistics of one measurement, row by row as in `Coverage`."""

    measurement: str
    mean: Floats
    """Mean of the valid raw values; NaN if there is none, it is infinite, or the source was not read."""

    n_infinite: int = 0
    """Rows whose mean is infinite, because a pixel is."""


class GatherPrice(Struct, frozen=True, kw_only=True):
    """Price of a gather, paid or hypothetical: US dollars by service."""

    usd_by_service: Mapping[str, float]
    was_on_aws: bool
    """If false, the gather ran in process, and this is its price on AWS."""

    @property
    def usd(self) -> float:
        """Sum over all services."""
        return sum(self.usd_by_service.values())


class Evidence(Struct, frozen=True, kw_only=True, eq=False):
    """Everything that a report page shows of a finished gather."""

    place: str
    """Location of the cube: a local path, or ``s3://bucket/prefix``."""

    name: str
    report: Report
    run: Run
    request: Mapping[str, Any]
    """The request as given. It repeats the gather."""

    planned_at: str
    """ISO 8601, UTC."""

    version: str
    """Version of Pixel Gather that made the cube."""

    facts: tuple[tuple[str, str], ...]
    """Names and texts on the cube's layout and its position on the map."""

    looks: tuple[Look, ...]
    """One per measurement; none if windows are too small for pictures."""

    n_pictured: int
    """Rows that have pictures, if there are few enough: all, or those of the first gather of a cube that has
    grown."""

    series: tuple[Series, ...]
    """One for each of the first measurements, up to 24."""

    coverage: Coverage
    coverage_of_scenes: Coverage | None
    """That of the sources that rows were reduced of; None if each row is one, or if they have no times."""

    where: Place
    waited: tuple[float, ...]
    """Seconds from the plan to the complete cube, of the first gather and of each append. Empty if the cube
    does not say."""

    slowest: tuple[SourceRow, ...]
    """At most ten sources, the slowest first."""

    cost: GatherPrice
    grid_and_mask: tuple[tuple[str, str], ...] = ()
    """What became of the sources' pixels by a common grid and by a mask, in words: names and texts."""

    north: str = ""
    """Where north is in the windows, in words. Empty if it is above, or if rows have grids of their own."""

    footprints: Footprints | None = None
    """The window and some sources. None if the window has no place on the Earth."""

    source_footprints: SourceFootprints | None = None
    """All sources whose header is known; None if the cube has no headers of sources on the Earth."""


def name_of(place: str) -> str:
    """Return the cube's name: the last part of its path, without ``.zarr``."""
    return place.rstrip("/").rpartition("/")[2].removesuffix(".zarr") or place


def names_apart(places: Sequence[str]) -> list[str]:
    """Return the names of cubes, each with the folders that tell it from the other ones: ``cold/cube``."""
    paths = [place.rstrip("/").removesuffix(".zarr").split("/") for place in places]
    names = []
    for path in paths:
        n = 1
        while any(other != path and other[-n:] == path[-n:] for other in paths):
            n += 1
        names.append("/".join(path[-n:]))
    return names


def window_in_words(window: Any) -> str:
    """Return a request's window in words: ``tile 8_8``, ``box 11.2, 46.4, 11.5, 46.6``."""
    if isinstance(window, str):
        return f"{window} tile"
    if not isinstance(window, Mapping):
        return "as requested"
    crs = f" in {window['crs']}" if window.get("crs") else ""
    said = "as requested"
    match window:
        case {"tile": [column, row]}:
            said = f"tile {column}_{row}"
        case {"tile": str(word)}:
            said = f"{word} tile"
        case {"pixels": [col, row, _, _]}:
            said = f"pixels from column {col}, row {row}"
        case {"bbox": [*box]}:
            said = f"box {', '.join(map(str, box))}{crs}"
        case {"point": [x, y]}:
            said = f"pixels around {x}, {y}{crs}"
    return said


def north_in_words(transform: Transform) -> str:
    """Return how a grid lies on the map if north is not above: ``north is 30 degrees to the left``.

    Empty if north is above and east is right. ``view.html`` says it in the same words.
    """
    a, b, _, d, e, _ = transform
    determinant = a * e - b * d
    if not math.isfinite(determinant) or determinant == 0:
        return ""
    degrees = round(math.degrees(math.atan2(-b / determinant, -a / determinant)))
    is_mirrored = determinant > 0
    if degrees == 0:
        return "the first column is the east" if is_mirrored else ""
    if abs(degrees) == 180:  # noqa: PLR2004 # degrees
        return "the first line is the south" + ("" if is_mirrored else ", and the first column the east")
    said = f"north is {counted(abs(degrees), 'degree')} to the {'right' if degrees > 0 else 'left'}"
    return said + (", and the pixels are mirrored" if is_mirrored else "")


def slowest_first(total_s: Sequence[float] | np.ndarray[Any, Any], n: int) -> list[int]:
    """Return the positions of the ``n`` largest values, the largest first."""
    totals = np.asarray(total_s)
    most = min(n, len(totals))
    found = np.argpartition(-totals, most - 1)[:most] if most else np.array([], dtype="int64")
    return [int(place) for place in found[np.argsort(-totals[found], kind="stable")]]


def is_shown(pixels: Image, nodata: complex | None) -> Mask:
    """Return a mask of the raw pixels that are finite and not nodata."""
    valid: Mask = np.isfinite(pixels) if pixels.dtype.kind in "fc" else np.ones(pixels.shape, dtype=bool)
    if nodata is not None and nodata == nodata:  # noqa: PLR0124 # NaN does not, and abs() of -128 overflows
        valid &= pixels != nodata
    return valid
