"""What a finished cube tells of the gather that made it, as its report's page shows it. Pure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pixel_gather.report.report import Report
from pixel_gather.report.run import Floats, Integers, Run

type Mask = np.ndarray[Any, np.dtype[np.bool_]]
type Image = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRow:
    """One source that was read; times in seconds."""

    row: int
    """Of the cube, from 0."""

    label: str
    """Its time, else ``row 12``."""

    href: str
    total_s: float
    """Opening, reading and decoding."""

    open_s: float
    nbytes: int
    """Without headers."""

    valid_share: float
    """Of the window's pixels, 0 to 1."""


@dataclass(frozen=True, kw_only=True, eq=False)
class MaskedQuicklooks:
    """`pixel_gather.read.quicklook.Quicklooks` of a measurement, and which of their pixels are values."""

    measurement: str
    rows: Integers
    """Of the cube, ascending; shape (n,)."""

    pixels: Image
    """Raw values, shape (n, y, x)."""

    is_valid: Mask
    """Neither nodata nor NaN, of the same shape."""

    step: int

    def __post_init__(self) -> None:
        """Refuse arrays that do not belong together."""
        n_rows = len(self.rows)
        if self.pixels.ndim != 3 or self.is_valid.shape != self.pixels.shape or len(self.pixels) != n_rows:  # noqa: PLR2004 # (n, y, x)
            raise ValueError(f"{n_rows} quicklooks of shape {self.pixels.shape} and {self.is_valid.shape}")


@dataclass(frozen=True, kw_only=True, eq=False)
class Picture:
    """One window of the contact sheet."""

    role: str
    """``first``, ``middle``, ``last`` or ``worst``; several of them where one window is."""

    source: SourceRow
    pixels: Image | None
    """Shape (y, x); None where it was not read."""

    is_valid: Mask | None
    note: str = ""
    """Why it is the worst, or why it is not shown."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Look:
    """What there is to see of one measurement."""

    quicklooks: MaskedQuicklooks
    frames: tuple[SourceRow, ...]
    """What each quicklook is of."""

    contact_sheet: tuple[Picture, ...]
    """The same windows of every measurement."""

    @property
    def measurement(self) -> str:
        """Its name."""
        return self.quicklooks.measurement


@dataclass(frozen=True, kw_only=True, eq=False)
class Series:
    """Statistics of one measurement along the cube, in the order of time where it has one."""

    measurement: str
    at: Integers
    """Microseconds since 1970 where ``has_time``, else rows from 0."""

    has_time: bool
    mean: Floats
    """Of the valid raw values; NaN where there is none, or the source was not read."""

    valid_share: Floats
    """Of the window's pixels, 0 to 1; NaN where the source was not read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a gather cost, or would have; US dollars by service."""

    usd_by_service: Mapping[str, float]
    was_on_aws: bool
    """Else it ran in process, and these are what the same gather costs on AWS."""

    @property
    def usd(self) -> float:
        """The sum."""
        return sum(self.usd_by_service.values())


@dataclass(frozen=True, kw_only=True, eq=False)
class Evidence:
    """A finished gather."""

    place: str
    """Where the cube lies: a local path, or ``s3://bucket/prefix``."""

    name: str
    report: Report
    run: Run
    request: Mapping[str, Any]
    """As it was given: gathers the same again."""

    planned_at: str
    """ISO 8601, UTC."""

    version: str
    """Of Pixel Gather, that made it."""

    facts: tuple[tuple[str, str], ...]
    """How the cube is laid out and where it lies on the map: names and what to show."""

    looks: tuple[Look, ...]
    """Of each measurement; none where windows are too small to be looked at."""

    series: tuple[Series, ...]
    """Of the first five measurements."""

    slowest: tuple[SourceRow, ...]
    """Ten at most, the slowest first."""

    cost: Cost


def name_of(place: str) -> str:
    """Return what to call the cube at a place: the last part of its path, without ``.zarr``."""
    return place.rstrip("/").rpartition("/")[2].removesuffix(".zarr") or place


def window_in_words(window: Any) -> str:
    """Return a request's window as one says it: ``tile 8_8``, ``box 11.2, 46.4, 11.5, 46.6``."""
    if isinstance(window, str):
        return f"{window} tile"
    if not isinstance(window, Mapping):
        return "as requested"
    crs = f" in {window['crs']}" if window.get("crs") else ""
    said = "as requested"
    match window:
        case {"tile": [row, column]}:
            said = f"tile {row}_{column}"
        case {"tile": str(word)}:
            said = f"{word} tile"
        case {"pixels": [col, row, _, _]}:
            said = f"pixels from column {col}, row {row}"
        case {"bbox": [*box]}:
            said = f"box {', '.join(map(str, box))}{crs}"
        case {"point": [x, y]}:
            said = f"pixels around {x}, {y}{crs}"
    return said


def slowest_first(total_s: Sequence[float] | np.ndarray[Any, Any], n: int) -> list[int]:
    """Return where the ``n`` largest are, the largest first."""
    totals = np.asarray(total_s)
    most = min(n, len(totals))
    found = np.argpartition(-totals, most - 1)[:most] if most else np.array([], dtype="int64")
    return [int(place) for place in found[np.argsort(-totals[found], kind="stable")]]


def worst_of(valid_share: np.ndarray[Any, Any], total_s: np.ndarray[Any, Any]) -> int:
    """Return where the worst window is: the least valid one; of several, that which took longest."""
    return int(np.lexsort((-total_s, valid_share))[0])


def why_worst(source: SourceRow, n_alike: int) -> str:
    """Say why a window is the worst of a gather.

    Args:
        source: The window.
        n_alike: How many windows are no more valid than it.
    """
    if source.valid_share >= 1:
        return "every window is wholly valid; this one took longest"
    share = _share_in_words(source.valid_share)
    if n_alike == 1:
        return f"the least valid window, with {share} of its pixels"
    return f"{n_alike:,} windows are least valid, with {share} of their pixels; this one took longest"


def _share_in_words(share: float) -> str:
    if share > 0:  # no window is said to be void or wholly valid that is not
        return f"{min(max(share, 0.0001), 0.9999):.2%}"
    return "none"


def is_shown(pixels: Image, nodata: complex | None) -> Mask:
    """Return which raw pixels are values: neither NaN nor infinite, nor nodata where there is one."""
    valid: Mask = np.isfinite(pixels) if pixels.dtype.kind in "fc" else np.ones(pixels.shape, dtype=bool)
    if nodata is not None and not math.isnan(abs(nodata)):
        valid &= pixels != nodata
    return valid
