"""The cube that a gather will make, as decided before a pixel is read."""

from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np

from pixel_gather.estimate.estimate import Estimate
from pixel_gather.model.source import Column, Header
from pixel_gather.model.window import DescribedCrs, Window, WindowRule
from pixel_gather.plan.layout import Layout
from pixel_gather.plan.locate_window import Grid, Placement

PARTLY_OUTSIDE: Final = "the window lies partly outside"
_SEE_INSIDE: Final = "the coordinates inside_x_start to inside_y_stop tell which pixels lie inside"
OVERHANG_IS_NODATA: Final = f"what lies outside holds nodata or NaN, and {_SEE_INSIDE}"
OVERHANG_IS_ZERO: Final = (
    "what lies outside holds 0, which nobody can tell from a value, as no nodata is declared: give nodata a "
    f"value that no pixel has, which it then holds; {_SEE_INSIDE}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSlot:
    """What the sources in one place of a row should be like: their own template."""

    name: str | None
    """The list's ``band``; None where the list has no such column and a row is one source."""

    dtype: str
    bands: tuple[int, ...]
    """Bands to read of each source, from 1."""

    grid: Grid
    window: Window
    """The window on the template's own grid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One array of the cube."""

    name: str
    slot: int
    """Which source of a row it comes from."""

    dtype: str
    nodata: float | int | None
    """The template's, else the request's; None where there is neither."""

    scale: float
    offset: float

    @property
    def fill_value(self) -> float | int:
        """What stands where no pixel could be read: nodata, else NaN, or 0 where the dtype has no NaN."""
        if self.nodata is not None:
            return self.nodata
        return float("nan") if np.dtype(self.dtype).kind in "fc" else 0

    @property
    def overhang(self) -> str:
        """What its pixels hold that lie outside their source, in words."""
        has_nan = np.dtype(self.dtype).kind in "fc"
        return OVERHANG_IS_NODATA if has_nan or self.nodata is not None else OVERHANG_IS_ZERO


@dataclass(frozen=True, slots=True, kw_only=True)
class CubePlan:
    """Everything that the workers and the finish need to know, apart from the list itself."""

    digest: str
    """Of the request and the list's content: equal plans make equal cubes."""

    planned_at: float
    """Seconds since 1970-01-01 UTC; the timings count from here. Whole microseconds."""

    request: dict[str, Any]
    """As it was given, for the record."""

    rule: WindowRule
    overview: int | None
    masked: bool
    wants_same_grid: bool
    default_nodata: float | int | None
    slots: tuple[SourceSlot, ...]
    measurements: tuple[Measurement, ...]
    n_sources: int
    n_rows: int
    height: int
    width: int
    has_time: bool
    columns: tuple[Column, ...]
    layout: Layout
    codec: str
    zfp_tolerance: float | None
    estimate: Estimate
    crs: DescribedCrs | None = None
    """Of the placement, as the cube will tell it; not known of a dry run, which is spared PROJ's start."""

    part_nbytes: int | None = None
    """Ranges longer than this are fetched in parts side by side; None for single ranges, as plans of earlier
    versions have it."""

    warnings: tuple[str, ...] = field(default=())

    @property
    def claim(self) -> str:
        """Names this making of the cube, and no other of the same request: control files lie below it."""
        return claim_of(self.planned_at)

    @property
    def dim(self) -> str:
        """Name of the first axis."""
        return "time" if self.has_time else "source"

    @property
    def shape(self) -> tuple[int, int, int]:
        """(rows, y, x) of every measurement."""
        return self.n_rows, self.height, self.width

    @property
    def n_strips(self) -> int:
        """Into how many shards each source's window is cut, one above the other."""
        return self.layout.n_shards(self.shape)[1]

    def of_slot(self, slot: int) -> tuple[Measurement, ...]:
        """Return the measurements that come from one source of a row."""
        return tuple(each for each in self.measurements if each.slot == slot)

    def fill_value(self, slot: int) -> float | int:
        """Return what rows hold whose source in this slot could not be read."""
        return self.of_slot(slot)[0].fill_value

    def nodata(self, slot: int) -> float | int | None:
        """Return the nodata of the measurements that come from one slot."""
        return self.of_slot(slot)[0].nodata

    def other_scaling(self, slot: int, header: Header) -> tuple[tuple[float, float], ...] | None:
        """Return a source's (scale, offset) of each band, or None where they are the template's."""
        bands = self.slots[slot].bands
        own = tuple((header.scales[band - 1], header.offsets[band - 1]) for band in bands)
        ours = tuple((each.scale, each.offset) for each in self.of_slot(slot))
        return None if own == ours else own

    @property
    def placement(self) -> Placement:
        """Where the template's window lies: what the other rows are compared with."""
        slot = self.slots[0]
        return Placement.on(slot.grid, slot.window)

    def to_json(self) -> dict[str, Any]:
        """Return what a dry run tells of it; sizes in bytes."""
        rows, strips = self.layout.n_shards(self.shape)
        return {
            "digest": self.digest,
            "sources": self.n_sources,
            "dims": [self.dim, "y", "x"],
            "shape": list(self.shape),
            "measurements": [
                {
                    "name": each.name,
                    "dtype": each.dtype,
                    "nodata": None if each.nodata is None else str(each.nodata),
                    "scale": each.scale,
                    "offset": each.offset,
                }
                for each in self.measurements
            ],
            "crs": self.placement.crs,
            "transform": self.placement.transform,
            "layout": asdict(self.layout) | {"codec": self.codec},
            "shards": rows * strips,
            "part_bytes": self.part_nbytes,
            "estimate": asdict(self.estimate),
            "warnings": list(self.warnings),
        }


def claim_of(planned_at: float) -> str:
    """Name the making of a cube by when it was planned, in seconds since 1970-01-01 UTC."""
    return datetime.fromtimestamp(planned_at, UTC).strftime("%Y%m%dT%H%M%S.%fZ")
