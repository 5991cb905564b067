"""The plan of a cube, made before a pixel is read."""

from collections.abc import Iterable, Mapping, Sequence
from copy import replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, Literal

import msgspec
import numpy as np
from msgspec import Struct, to_builtins

from pixel_gather.core.estimate.estimate_result import Estimate
from pixel_gather.core.estimate.worker_limits import is_inline
from pixel_gather.core.model.band_meaning import NO_MEANING, BandMeaning
from pixel_gather.core.model.footprints import Footprints
from pixel_gather.core.model.grid_step import SAME, GridStep, Resampling
from pixel_gather.core.model.plurals import counted, size
from pixel_gather.core.model.scaling import CubeValues
from pixel_gather.core.model.shown import facts_in_html, first_few, shown
from pixel_gather.core.model.source import Header, ListColumn
from pixel_gather.core.model.tile_coding import AS_STORED, TileCoding
from pixel_gather.core.model.window import DescribedCrs, Window, WindowRule
from pixel_gather.core.pixel_mask import PixelMask
from pixel_gather.core.plan.chip_rows import ChipAxis
from pixel_gather.core.plan.choose_layout import Layout
from pixel_gather.core.plan.cube_version import CubeVersion
from pixel_gather.core.plan.locate_window import Grid, Placement

APART: Final = "its pixels do not coincide with the cube's"
"""Why a source on another grid is refused."""

CANNOT_BE_OPENED: Final = "that were tried cannot be opened"
ON_ANOTHER_GRID: Final = "lie on another grid"
WARP_THEM: Final = ". With --grid WIDTH --grid-crs CRS (grid: {crs, resolution}) all are warped onto one grid"
PARTLY_OUTSIDE: Final = "the window lies partly outside"
_SEE_INSIDE: Final = "the coordinates inside_x_start to inside_y_stop tell which pixels lie inside"
OVERHANG_IS_NODATA: Final = f"what lies outside holds nodata or NaN, and {_SEE_INSIDE}"
OVERHANG_IS_ZERO: Final = (
    "what lies outside holds 0, which looks like a value because no nodata is declared: set nodata to a "
    f"value that no pixel has; {_SEE_INSIDE}"
)


BANDS: Final = "bands"
"""Name of the array that has all measurements along an axis."""

BAND: Final = "band"
"""Name of that axis."""

SPARE: Final = 1.5
"""How many times as many pixels a source that is warped may have as those that were sampled."""

MOST_GRIDS: Final = 32
"""Sampled grids that a plan keeps, to show where its sources lie."""

_TERMS: Final = (("limits",), ("sources", "sign"), ("output", "report"))
"""Fields of a request that do not affect the cube. A later request for it may have other values."""


class SourceSlot(Struct, frozen=True, kw_only=True):
    """The typical source of one slot, which has one source per row, or one per scene and band."""

    name: str | None
    """The list's ``band``; None if the list has no such column and each row is one source."""

    dtype: str
    bands: tuple[int, ...]
    """Bands to read of each source, from 1."""

    grid: Grid
    window: Window
    """The window on that grid."""

    coding: TileCoding | None = None
    """How its tiles are stored, if the cube keeps them as they are; see `plan.pass_through`."""

    step: GridStep = SAME
    """How the finest sampled sources become pixels of the cube's grid. ``grid`` and ``window`` are in pixels
    of the cube, not of the sources."""

    resampling: Resampling = "average"
    """How several pixels of a source become one of the grid."""

    overview: int | None = None
    """Where overviews are chosen, that of the sampled source with most pixels; None for full resolution."""

    own: Grid | None = None
    """Where sources are warped, the grid of the sampled one that has most pixels below the window. ``grid``
    is then the cube's."""

    below: Window | None = None
    """The pixels of ``own`` below the window, also those beyond its edges."""

    @property
    def of_band(self) -> str:
        """Its name in a sentence, behind ``sources``; empty if the list has no bands."""
        return f" of band {self.name}" if self.name else ""

    @property
    def is_warped(self) -> bool:
        """Whether sources are warped onto the cube's grid, whatever their CRS."""
        return self.own is not None

    @property
    def read_from(self) -> tuple[Grid, Window]:
        """A source's grid, and what is read of it; as seen on the cube's, unless sources are warped."""
        return self.own or self.grid, self.below or self.window

    @property
    def own_share(self) -> float:
        """Pixels of a source that are held beside each pixel of the grid, at most."""
        if self.below is not None:
            return SPARE * self.below.n_pixels / self.window.n_pixels
        return 0.0 if self.step.is_same else self.step.share

    def in_words(self) -> str:
        """Return what becomes of the sources' pixels."""
        found = f"warped by {self.resampling}" if self.is_warped else self.step.in_words(self.resampling)
        return found if self.overview is None else f"{found}, from overview {self.overview}"


class StoredValues(Struct, frozen=True, kw_only=True):
    """What the sources of a measurement hold, where the cube holds other numbers."""

    nodata: float | int | None
    """As that of a measurement of raw pixels."""

    scale: float
    """The commonest one that is said of them."""

    offset: float


class Measurement(Struct, frozen=True, kw_only=True):
    """One array of the cube."""

    name: str
    slot: int
    """Index of the slot that it comes from."""

    dtype: str
    nodata: float | int | None
    """The typical source's nodata, or else the request's; None if there is neither."""

    scale: float
    offset: float
    meaning: BandMeaning = NO_MEANING
    """What the typical source, or the catalog that names it, says of its values."""

    stored: StoredValues | None = None
    """What its sources hold; None where the cube holds the same."""

    @property
    def fill_value(self) -> float | int:
        """Value where no pixel could be read: nodata, else NaN, or 0 if the dtype has no NaN."""
        return _fill_of(self.nodata, self.dtype)

    @property
    def source_nodata(self) -> float | int | None:
        """The nodata of its sources, or else the request's."""
        return self.nodata if self.stored is None else self.stored.nodata

    @property
    def marks_missing(self) -> bool:
        """Whether a value says that a pixel is missing: nodata, or the NaN of its dtype."""
        return self.nodata is not None or np.dtype(self.dtype).kind in "fc"

    @property
    def overhang(self) -> str:
        """Description of the pixels outside their source, in words."""
        return OVERHANG_IS_NODATA if self.marks_missing else OVERHANG_IS_ZERO


def pixel_nbytes(measurements: Iterable[Measurement]) -> int:
    """Return the bytes of one pixel of some measurements together."""
    return sum(np.dtype(each.dtype).itemsize for each in measurements)


def _fill_of(nodata: float | None, dtype: str) -> float | int:
    if nodata is not None:
        return nodata
    return float("nan") if np.dtype(dtype).kind in "fc" else 0


class PixelArray(Struct, frozen=True, kw_only=True):
    """An array of the cube: one measurement, or all of them along an axis."""

    name: str
    measurements: tuple[Measurement, ...]


class CubeObjects(Struct, frozen=True, kw_only=True):
    """What a plan and a template of a cube have in common: its arrays, and the objects that hold them."""

    slots: tuple[SourceSlot, ...]
    measurements: tuple[Measurement, ...]
    has_time: bool
    columns: tuple[ListColumn, ...]
    layout: Layout
    codec: str
    zfp_tolerance: float | None
    overview: int | Literal["auto"] | None
    """The overview that is read; None for full resolution.

    ``auto``: the one of each source that fits the grid; see `plan.choose_overview`.
    """

    default_nodata: float | int | None
    resolution: float | None = None
    """Width of the cube's pixels in units of its CRS, where all sources get one grid; see `plan.common_grid`.
    None if every source keeps its own pixels."""

    mask: PixelMask | None = None
    """Which pixels are hidden, by the values of one measurement. It stays as it is itself."""

    bands_are_axis: bool = False
    """Whether one array has all measurements along an axis. If not, each has an array of its own."""

    values: CubeValues = "raw"
    """Whether pixels stay as they are stored, get the scale and offset of their measurement, or become what
    they stand for."""

    chips: ChipAxis | None = None
    """The axes of chips and images; None if all rows have one window. Templates of earlier versions do not
    tell."""

    def shared_fields(self) -> dict[str, Any]:
        """Return these fields by name."""
        return {name: getattr(self, name) for name in CubeObjects.__struct_fields__}

    @property
    def arrays(self) -> tuple[PixelArray, ...]:
        """The arrays that hold the measurements."""
        if self.bands_are_axis:
            return (PixelArray(name=BANDS, measurements=self.measurements),)
        return tuple(PixelArray(name=each.name, measurements=(each,)) for each in self.measurements)

    @property
    def n_strips(self) -> int:
        """Number of strips that each window is cut into. Each strip is in a shard of its own."""
        window = self.slots[0].window
        return self.layout.n_shards((1, window.height, window.width))[1]

    def object_keys(self, row: int, strip: int) -> list[str]:
        """Return the keys of the objects of one shard, one for each array.

        Args:
            row: Position of the shard along the rows.
            strip: Position along y.
        """
        is_folded = self.bands_are_axis or self.chips is not None  # a second axis, which no shard cuts
        place = f"{row}/0/{strip}/0" if is_folded else f"{row}/{strip}/0"
        return [f"{each.name}/c/{place}" for each in self.arrays]

    def keys_at(self, row: int) -> list[str]:
        """Return the keys of the objects at one place along the rows, of all strips."""
        return [key for strip in range(self.n_strips) for key in self.object_keys(row, strip)]


CHOSEN: Final = ("first", "last", "min", "max")
"""Statistics of scenes whose results are pixels of the sources."""


class Reduction(Struct, frozen=True, kw_only=True):
    """How the scenes of a group become one row, and what they are before."""

    by: str
    """``day``, ``solar-day``, ``month``, ``year``, or the column of the list that a group has in common."""

    statistic: str
    order: str | None
    """Column that orders the scenes of a mosaic, or after a minus the other way; None for their time."""

    slots: tuple[SourceSlot, ...]
    """Those of the scenes. The cube has no slot of the mask."""

    measurements: tuple[Measurement, ...]
    mask: PixelMask | None
    columns: tuple[ListColumn, ...]
    """Those of the list, which are told of each source."""

    n_scenes: int
    most_scenes: int
    """Most scenes of one shard."""

    def in_words(self) -> str:
        """Return what becomes of the scenes."""
        ordered = "" if self.order is None else f" by {self.order}"
        return f"{self.statistic}{ordered} of each {self.by}"

    def to_json(self) -> dict[str, str]:
        """Return it as in a request."""
        told = {"by": self.by, "statistic": self.statistic}
        return told if self.order is None else told | {"order": self.order}


class Append(Struct, frozen=True, kw_only=True):
    """Where the rows of a plan go. A new cube is append 1: no rows are before its own."""

    version: int = 1
    """Number of the version that the plan makes."""

    first_row: int = 0
    """Rows that the cube has already."""

    n_skipped: int = 0
    """Sources of the list that the cube has already and that are left out."""

    chunk_rows: int = 0
    """Rows in a chunk of each coordinate of the cube; 0 for a new cube, whose finish chooses them."""

    versions: tuple[CubeVersion, ...] = ()
    """The cube's versions before this one."""

    origin: Mapping[str, Any] = {}
    """What the cube's metadata say of its first gather; empty if that is this plan's own."""

    place_claim: str | None = None
    """Claim of the cube's first gather; None if that is this plan's own."""

    tails: tuple[str, ...] = ()
    """Keys of the stored shards that rows are put into: the last ones if they are not full, and those of the
    rows in ``again``."""

    tail_nbytes: tuple[int, ...] = ()
    """Size of each of these in the version before. Objects begin with it, whatever tries have put behind."""

    again: tuple[int, ...] = ()
    """Rows of the cube that are tried again, ascending. Some of their sources could not be read before."""

    n_tries: tuple[int, ...] = ()
    """How often the sources of each of these rows have been tried before. A finish must not ask the table of
    rows: it may be one that this version has put already."""

    n_again: int = 0
    """Sources of these rows that are tried again."""

    n_beside: int = 0
    """Sources that were read before and are read again beside these, as a reduced row is made of all."""

    scenes_again: tuple[int, ...] = ()
    """How many scenes each of the rows in ``again`` is reduced of. Empty if each row is one."""

    def nbytes_of(self, key: str) -> int:
        """Return the size of a shard's object in the version before; 0 if there was none."""
        return dict(zip(self.tails, self.tail_nbytes, strict=True)).get(key, 0)

    def n_places_again(self, shard_rows: int) -> int:
        """Return at how many places along the rows there are shards with the rows in ``again``."""
        return len({row // shard_rows for row in self.again})

    @property
    def is_first(self) -> bool:
        """Whether the plan is for a new cube."""
        return self.version == 1


class CubePlan(CubeObjects, frozen=True, kw_only=True):
    """Everything that the workers and the finish need, except the list."""

    digest: str
    """Digest of the request and the list's content. Equal digests make equal cubes."""

    planned_at: float
    """Seconds since 1970-01-01 UTC, in whole microseconds. All timings count from here."""

    request: dict[str, Any]
    """The request as given. It is stored in the cube."""

    rule: WindowRule
    masked: bool
    wants_same_grid: bool
    n_sources: int
    n_rows: int
    """Rows of the cube. Those before `first_row` are there already."""

    height: int
    width: int
    estimate: Estimate
    crs: DescribedCrs | None = None
    """Description of the cube's CRS. None in a dry run, which does not start PROJ for it, except of a common
    grid in degrees."""

    sampled_grids: tuple[Grid, ...] = ()
    """Different grids of the sources that were sampled, at most `MOST_GRIDS`. None in the plan that workers
    get."""

    footprints: Footprints | None = None
    """None if the window has no place on the Earth, and in a dry run, as `crs`."""

    part_nbytes: int | None = None
    """Ranges longer than this are fetched in parallel parts. None for one request per range."""

    append: Append = msgspec.field(default_factory=Append)
    """Where the rows go: at the beginning of a new cube, or behind those of one that is there."""

    reduction: Reduction | None = None
    """How scenes become rows; None if each scene is one."""

    warnings: tuple[str, ...] = ()

    @property
    def of_scenes(self) -> "CubePlan":
        """The plan of the cube that would have a row for each scene: by it, sources are read."""
        each = self.reduction
        if each is None:
            return self
        return replace(self, slots=each.slots, measurements=each.measurements, mask=each.mask, reduction=None)

    @property
    def in_degrees(self) -> bool:
        """Whether ``resolution`` counts in degrees."""
        return self.resolution is not None and self.crs is not None and self.crs.is_geographic

    def heeds_claims(self, slot: int) -> bool:
        """Return whether the list's scale, offset and nodata are applied to a slot's sources."""
        is_harmonised = self.values == "harmonised" and slot != self.mask_slot
        return is_harmonised or self.of_slot(slot)[0].stored is not None

    @property
    def level(self) -> int | None:
        """The overview that sources are opened at; None for full resolution, or until it is chosen."""
        return None if self.overview == "auto" else self.overview

    @property
    def judges_offsets(self) -> bool:
        """Whether rows tell if their source has its offset in its pixels already."""
        return self.values != "raw" and self.reduction is None

    @property
    def claim(self) -> str:
        """Name of this attempt to make the cube, unique per attempt. Control files are below it."""
        claim = claim_of(self.planned_at)
        return claim if self.append.is_first else f"{self.append.version:05d}-{claim}"

    @property
    def place_claim(self) -> str:
        """Claim of the cube's first gather, which the group's metadata tell."""
        return self.append.place_claim or self.claim

    @property
    def first_row(self) -> int:
        """First row that this plan gathers."""
        return self.append.first_row

    def n_before(self, place: int) -> int:
        """Return how many rows of a shard the cube has already, by the shard's place along the rows."""
        shard_rows = self.layout.shard[0]
        return min(max(self.first_row - place * shard_rows, 0), shard_rows)

    @property
    def sign(self) -> str:
        """Service that gives tokens for the sources; ``none`` if no service does."""
        return str(self.request.get("sources", {}).get("sign", "none"))

    @property
    def requests_per_s(self) -> Mapping[str, float]:
        """Requests a second that all workers of all gathers may send, by ``s3://bucket`` or ``https://host``."""
        limits: Mapping[str, Any] = self.request.get("limits", {})
        return limits.get("requests_per_s") or {}

    def under_terms_of(self, request: Mapping[str, Any]) -> "CubePlan":
        """Return the plan with the limits of another request for the same cube.

        Who signs, and whether a report is drawn, are taken from it, too. None of them affects the cube.

        Args:
            request: The request that goes on with the plan, as JSON values.
        """
        ours = self.request
        for path in _TERMS:
            ours = _taken(ours, request, *path)
        return self if ours == self.request else replace(self, request=ours)

    @property
    def runs_inline(self) -> bool:
        """Whether the first attempt on AWS has no Map Run, by the forecast.

        An inline Map ends at its first failure. So a request that bears failures has a Map Run.
        """
        limits, estimate = self.request.get("limits", {}), self.estimate
        parts = estimate.seconds_by_part
        return not (limits.get("workers") or limits.get("failed_shards")) and is_inline(
            n_children=estimate.n_children,
            n_workers=estimate.most_workers,
            seconds=estimate.seconds - parts.get("plan", 0.0) - parts.get("finish", 0.0),
        )

    @property
    def has_report(self) -> bool:
        """Whether a report is to be drawn beside the cube."""
        return bool(self.request.get("output", {}).get("report", True))

    @property
    def was_searched(self) -> bool:
        """Whether the list is what a search found."""
        sources = self.request.get("sources", {})
        return "stac" in sources or "catalog" in sources

    @property
    def passes_through(self) -> bool:
        """Whether compressed tiles become chunks unchanged."""
        return self.codec == AS_STORED

    @property
    def dim(self) -> str:
        """Name of the first axis."""
        return self.dim_of_images if self.chips is None else "chip"

    @property
    def dim_of_images(self) -> str:
        """Name of the axis along which images follow one another."""
        return "time" if self.has_time else "source"

    @property
    def leading_dims(self) -> tuple[str, ...]:
        """Names of the axes before y and x."""
        if self.bands_are_axis:
            return (self.dim, BAND)
        return (self.dim,) if self.chips is None else (self.dim, self.dim_of_images)

    @property
    def band_dim(self) -> str:
        """Name of the axis of coordinates that differ between measurements."""
        return BAND if self.bands_are_axis else "measurement"

    def folded(self, lengths: Sequence[int], *, n_bands: int | None = None) -> tuple[int, ...]:
        """Return lengths that begin with a number of rows, as the arrays have them.

        Args:
            lengths: Of rows, and perhaps of further axes.
            n_bands: Length along an axis of bands; all of them if not given.
        """
        if self.bands_are_axis:
            rows, *others = lengths
            return rows, len(self.measurements) if n_bands is None else n_bands, *others
        return tuple(lengths) if self.chips is None else self.chips.folded(lengths)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(rows, y, x) of every measurement."""
        return self.n_rows, self.height, self.width

    @property
    def n_files(self) -> int:
        """Lines of the list. Each chip reads all of them."""
        if self.chips is None:
            return self.n_sources
        n_new = self.n_rows - self.first_row
        return self.n_sources * self.chips.n_images // n_new if n_new else 0

    def _in_words(self) -> tuple[str, str]:
        """Return shape and measurements, as a terminal and a notebook show them."""
        dims = (*self.leading_dims, "y", "x")
        sizes = ", ".join(f"{name} {n:,}" for name, n in zip(dims, self.folded(self.shape), strict=True))
        return sizes, first_few([f"{each.name} {each.dtype}" for each in self.measurements])

    def __repr__(self) -> str:
        sizes, arrays = self._in_words()
        return shown(
            f"CubePlan: {counted(self.n_sources, 'source')} to {arrays} ({sizes})",
            [repr(self.estimate), *(f"warning: {each}" for each in self.warnings)],
        )

    def _repr_html_(self) -> str:
        """Return what a notebook shows: shape, costs and warnings."""
        estimate, (sizes, arrays) = self.estimate, self._in_words()
        facts = (
            ("shape", sizes),
            ("measurements", arrays),
            ("requests", f"{estimate.n_gets:,} GET"),
            ("to fetch", size(estimate.fetched_nbytes)),
            ("on AWS", f"${estimate.usd:,.4f}, {estimate.seconds:,.0f} s"),
        )
        warnings = [f"warning: {each}" for each in self.warnings]
        return facts_in_html(f"Plan of {counted(self.n_sources, 'source')}", facts, warnings)

    def of_slot(self, slot: int) -> tuple[Measurement, ...]:
        """Return the measurements of one slot."""
        return tuple(each for each in self.measurements if each.slot == slot)

    def fill_value(self, slot: int) -> float | int:
        """Return the value of rows whose source in this slot could not be read."""
        return self.of_slot(slot)[0].fill_value

    def nodata(self, slot: int) -> float | int | None:
        """Return the nodata value of one slot's measurements."""
        return self.of_slot(slot)[0].nodata

    def source_nodata(self, slot: int) -> float | int | None:
        """Return the nodata value of one slot's sources."""
        return self.of_slot(slot)[0].source_nodata

    def source_fill(self, slot: int) -> float | int:
        """Return what missing pixels of one slot's sources hold until they become those of the cube."""
        return _fill_of(self.source_nodata(slot), self.slots[slot].dtype)

    def other_scaling(self, slot: int, header: Header) -> tuple[tuple[float, float], ...] | None:
        """Return a source's (scale, offset) of each band, or None if they equal the cube's."""
        bands = self.slots[slot].bands
        own = tuple((header.scales[band - 1], header.offsets[band - 1]) for band in bands)
        ours = tuple((each.scale, each.offset) for each in self.of_slot(slot))
        return None if own == ours else own

    @property
    def placement(self) -> Placement:
        """Position of the window on the typical source. Other rows are compared with it."""
        slot = self.slots[0]
        return Placement.on(slot.grid, slot.window)

    @property
    def steps(self) -> dict[str, str]:
        """What becomes of the pixels of each slot's sources, in words, by the slot's name."""
        return steps_in_words(self.slots)

    @property
    def is_warped(self) -> bool:
        """Whether sources are warped onto the cube's grid, whatever their CRS."""
        return self.slots[0].is_warped

    @property
    def mask_slot(self) -> int | None:
        """Index of the slot that the mask comes from. None without a mask."""
        return None if self.mask is None else slot_of_mask(self.mask, self.measurements)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as a dry run shows it. Sizes in bytes."""
        rows, strips = self.layout.n_shards(self.shape)
        return {
            "digest": self.digest,
            "sources": self.n_sources,
            "dims": [*self.leading_dims, "y", "x"],
            "shape": list(self.folded(self.shape)),
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
            "grid": None if self.resolution is None else {"resolution": self.resolution, "bands": self.steps},
            "mask": None if (mask := self.of_scenes.mask) is None else mask.to_json(),
            "values": self.values,
            "reduce": None if self.reduction is None else self.reduction.to_json(),
            "layout": to_builtins(self.layout) | {"codec": self.codec},
            "shards": rows * strips,
            "part_bytes": self.part_nbytes,
            "estimate": to_builtins(self.estimate),
            "warnings": list(self.warnings),
        }


def _taken(ours: Mapping[str, Any], theirs: Mapping[str, Any], name: str, *path: str) -> dict[str, Any]:
    """Return ``ours`` with one value of ``theirs``, or without it if they have none."""
    value = _taken(ours.get(name, {}), theirs.get(name, {}), *path) if path else theirs.get(name)
    others = {key: kept for key, kept in ours.items() if key != name}
    return others if value is None or value == {} else others | {name: value}


def steps_in_words(slots: Sequence[SourceSlot]) -> dict[str, str]:
    """Return what becomes of the pixels of each slot's sources, by the slot's name."""
    return {each.name or "every band": each.in_words() for each in slots}


def slot_of_mask(mask: PixelMask, measurements: Sequence[Measurement]) -> int:
    """Return the index of the slot that a mask comes from."""
    return next(each.slot for each in measurements if each.name == mask.band)


@lru_cache(1024)
def claim_of(planned_at: float) -> str:
    """Return the claim of a plan, made from its time in seconds since 1970-01-01 UTC."""
    return datetime.fromtimestamp(planned_at, UTC).strftime("%Y%m%dT%H%M%S.%fZ")


def version_of_claim(claim: str) -> int:
    """Return the number of the cube's version that an attempt makes, from `CubePlan.claim`."""
    number, dash, _ = claim.partition("-")
    return int(number) if dash and number.isdecimal() else 1
