"""Coordinates along the cube's first axis: one value per row, or per row and measurement.

Defines which coordinates exist, their attributes, and their values for a batch of rows. Pure.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import replace
from itertools import chain
from operator import attrgetter
from typing import Any, Final

import numpy as np
from msgspec import Struct
from msgspec.structs import asdict

from pixel_gather.core.model.outcome import BandStats, Outcome
from pixel_gather.core.model.scaling import OffsetState, claims_offsets, is_below_claim
from pixel_gather.core.model.source import NO_INTEGER, CubeRow, ListColumn, Source
from pixel_gather.core.model.status import Status
from pixel_gather.core.plan.cube_plan import CubePlan

NO_TIME: Final = NO_INTEGER
"""Marks a missing time, like NumPy's NaT."""

NO_BOOLEAN: Final = 255
"""Marks a missing boolean. A column that lacks some is stored as numbers: 0, 1 and this."""

CHUNK_ROWS: Final = 16_384
"""Most rows in one chunk of every coordinate. They are written together."""

_FEWEST_CHUNK_ROWS: Final = 1024
"""A small cube may grow by appends, and its chunks do not."""

NOT_GATHERED: Final = 255
"""Fill value of ``status`` until a row is written."""

type Values = np.ndarray[Any, np.dtype[Any]]


class _Kind(Struct, frozen=True, kw_only=True):
    name: str
    dtype: str
    """NumPy's name, or ``string``."""

    fill: float | str
    attributes: dict[str, Any] = {}


class Coordinate(_Kind, frozen=True, kw_only=True):
    """One array along the cube's first axis."""

    dims: tuple[str, ...]
    shape: tuple[int, ...]
    of_chip: bool = True
    """Whether the values of one chip's rows may differ from those of another's. If not, images have them."""

    of_image: bool = True
    """Whether the values of a chip's rows may differ. If not, the chip has one."""


type _Field = tuple[_Kind, Callable[[Any], Any]]
"""A coordinate, and what takes its value from an outcome, or from a band's statistics."""

_FILL: Final[dict[str, float | str]] = {
    "int32": 0, "int64": 0, "float32": float("nan"), "float64": float("nan"), "bool": 0, "string": "",
}  # fmt: skip


def _kind(name: str, dtype: str, what: str, *, units: str | None = None) -> _Kind:
    attributes = ({} if units is None else {"units": units}) | {"long_name": what}
    return _Kind(name=name, dtype=dtype, fill=_FILL[dtype], attributes=attributes)


def _moment(name: str, what: str) -> _Field:
    """Describe a moment. Its dtype is float64: after five hours float32 is only exact to 2 ms."""
    told = f"when {what}, since the gather or the append of the row was planned"
    return _kind(name, "float64", told, units="s"), attrgetter(f"{name}_s")


def _seconds(name: str, what: str) -> _Field:
    return _kind(name, "float32", what, units="s"), attrgetter(f"cost.{name}_s")


def _count(name: str, attribute: str, what: str) -> _Field:
    return _kind(name, "int64", what, units="1"), attrgetter(attribute)


_HREF: Final = _kind("href", "string", "where the pixels come from")
_PER_SOURCE: Final[tuple[_Field, ...]] = (
    (_kind("etag", "string", "version of the object that was read"), lambda each: each.etag or ""),
    (_kind("crs", "string", "CRS of the source, an authority code or WKT"), lambda each: each.crs or ""),
    _moment("start", "work on the source began"),
    _moment("end", "work on the source ended"),
    _seconds("open", "time until the header was known"),
    _seconds("read", "time waiting for the window's bytes"),
    _seconds("decode", "time decoding, summed over threads"),
    _count("bytes", "cost.nbytes", "bytes received"),
    _count("header_bytes", "cost.header_nbytes", "of those, received until the header was known"),
    _count("requests", "cost.requests", "requests sent, retries included"),
    _count("retries", "cost.retries", "requests sent again"),
)
_REDUCED: Final = (
    _count("sources_used", "n_used", "sources that were reduced to the row's pixels"),
    _count("sources_failed", "n_failed", "sources of the row that failed"),
)
"""Of rows that several scenes were reduced to."""

_PER_BAND: Final[tuple[_Field, ...]] = (
    (_kind("min", "float64", "smallest valid raw value"), attrgetter("min")),
    (_kind("max", "float64", "largest valid raw value"), attrgetter("max")),
    (_kind("mean", "float64", "mean of valid raw values"), attrgetter("mean")),
)
_VALID_FRACTION: Final = replace(
    _kind("valid_fraction", "float32", "share of the window's pixels that are valid", units="1"), fill=0.0
)


def chunk_rows(n_rows: int) -> int:
    """Return the number of rows in a chunk of every coordinate of a new cube: a part of `CHUNK_ROWS`."""
    power = 1 << (n_rows - 1).bit_length()
    return min(max(power, _FEWEST_CHUNK_ROWS), CHUNK_ROWS)


def chunk_rows_of(plan: CubePlan) -> int:
    """Return the number of rows in a chunk of every coordinate of a cube. Chunks of chips hold whole ones."""
    if plan.append.chunk_rows:
        return plan.append.chunk_rows
    return chunk_rows(plan.n_rows) if plan.chips is None else min(rows_together(plan), plan.n_rows)


def rows_together(plan: CubePlan) -> int:
    """Return the number of rows that a finish writes together: a whole number of chunks."""
    if plan.chips is None:
        return CHUNK_ROWS
    whole = plan.append.chunk_rows or plan.chips.n_images
    return max(CHUNK_ROWS // whole, 1) * whole


def coordinates_of(plan: CubePlan) -> tuple[Coordinate, ...]:
    """Return every coordinate along the cube's first axis except `difference_coordinates`.

    If the cube has several measurements, values that may differ between them have a second dimension
    ``measurement``.
    """
    slots, measurements = second_dims(plan)
    found = [*_chip_coordinates(plan)]
    found += [replace(_along(plan, _TIME), of_chip=False)] if plan.has_time else []
    found.append(replace(_along(plan, _HREF, slots), of_chip=False))
    found += [_along(plan, each, slots) for each, _ in _PER_SOURCE]
    found += [_along(plan, each, measurements) for each, _ in _PER_BAND]
    found.append(_along(plan, _VALID_FRACTION, measurements))
    found.append(status_coordinate(plan))
    if claims_offsets(plan.columns):
        found.append(_along(plan, _BELOW_CLAIM, measurements))
    if plan.mask is not None:
        found.append(_along(plan, _MASKED))
    if plan.reduction is not None:
        found += [_along(plan, each, slots) for each, _ in _REDUCED]
    if plan.judges_offsets:
        found += [_along(plan, each, measurements) for each in _OFFSETS]
    found.append(_along(plan, _TRANSFORM, (*slots, ("affine", 6))))
    for column in plan.columns:
        along = _along(plan, _kind_of(column), slots if column.varies_in_row else ())
        found.append(replace(along, of_chip=False))
    return tuple(found)


def status_coordinate(plan: CubePlan) -> Coordinate:
    """Return the coordinate that says whether each row was read."""
    return _along(plan, _STATUS, second_dims(plan)[1])


def _chip_coordinates(plan: CubePlan) -> Iterator[Coordinate]:
    """Yield the coordinates of chips: their ids, their middles, and the columns of their table."""
    if plan.chips is None:
        return
    ids = _Kind(name="chip", dtype=plan.chips.id_dtype, fill=_FILL[plan.chips.id_dtype])
    for kind in (ids, *_MIDDLES, *map(_kind_of, plan.chips.columns)):
        yield replace(_along(plan, kind), of_image=False)


def difference_coordinates(
    plan: CubePlan, *, nodata: bool, scaling: bool, overhang: bool
) -> tuple[Coordinate, ...]:
    """Return the coordinates for values that differ between rows. Few cubes need them.

    Args:
        plan: The cube.
        nodata: Whether the sources' nodata values differ.
        scaling: Whether the sources' scales or offsets differ.
        overhang: Whether some windows extend beyond their source.
    """
    slots, measurements = second_dims(plan)
    found = [_along(plan, _NODATA, slots)] if nodata else []
    found += [_along(plan, each, measurements) for each in _SCALING if scaling]
    return (*found, *(_along(plan, each, slots) for each in _INSIDE if overhang))


def failure_coordinate(plan: CubePlan) -> Coordinate:
    """Return the coordinate that says why a source has no pixels, for cubes without a table of rows.

    Its values are in `table_values`.
    """
    slots, _ = second_dims(plan)
    return _along(plan, _kind("failure", "string", "why the source has no pixels; empty if it has"), slots)


def difference_values(plan: CubePlan, outcomes: Sequence[Sequence[Outcome]]) -> dict[str, Values]:
    """Return the values of all `difference_coordinates` for a batch of rows. Missing nodata is NaN."""
    n_slots = len(plan.slots)
    flat = [*chain.from_iterable(outcomes)]
    ours = [tuple((each.scale, each.offset) for each in plan.of_slot(slot)) for slot in range(n_slots)]
    own = chain.from_iterable(outcome.scaling or ours[index % n_slots] for index, outcome in enumerate(flat))
    pairs = _table(own, 2, "float64")
    inside = _table(map(_inside, flat), len(_INSIDE), "int64")
    values: dict[str, Values] = {
        "nodata": np.array([math.nan if each.nodata is None else each.nodata for each in flat]),
        "scale_factor": pairs[:, 0],
        "add_offset": pairs[:, 1],
        **{each.name: inside[:, edge] for edge, each in enumerate(_INSIDE)},
    }
    return {
        each.name: values[each.name].astype(each.dtype).reshape(len(outcomes), *each.shape[1:])
        for each in difference_coordinates(plan, nodata=True, scaling=True, overhang=True)
    }


def _inside(outcome: Outcome) -> tuple[int, int, int, int]:
    """Return the part of the window that holds the source's pixels; empty if it was not read."""
    return outcome.extent if outcome.status is Status.OK else (0, 0, 0, 0)


def _table(rows: Iterable[Iterable[float]], width: int, dtype: str) -> Values:
    """Return an array of shape (rows, width). ``numpy.array`` takes three times as long for tuples."""
    return np.fromiter(chain.from_iterable(rows), dtype).reshape(-1, width)


def table_values(
    plan: CubePlan, rows: Sequence[CubeRow], outcomes: Sequence[Sequence[Outcome]]
) -> dict[str, Values]:
    """Return the columns of a batch of rows for a table.

    They are `coordinate_values`, and all `difference_values`, whether the cube has those or not. There are
    four further columns, which an append needs. ``object_bytes`` is the size of each source in bytes, 0 if
    unknown. ``failure`` is why it was not read, ``tries`` how often it was tried. ``pixel_digest`` is the
    digest of the row's pixels of each measurement. Of chips there are three more: ``chip_x``, ``chip_y`` and
    ``chip_crs``, the middle as the table of chips had it. ``chip_crs`` is empty if that is not known.
    """
    sizes = np.array([[each.object_nbytes for each in row] for row in outcomes], dtype="int64")
    tries = np.array([[each.tries for each in row] for row in outcomes], dtype="int64")
    failures = np.array([[each.reason or "" for each in row] for row in outcomes], dtype=object)
    digests = np.array(
        [
            [band.digest for slot, each in enumerate(row) for band in _bands_of(plan, slot, each)]
            for row in outcomes
        ],
        dtype=object,
    )
    slots, measurements = second_dims(plan)
    return {
        **coordinate_values(plan, rows, outcomes),
        **difference_values(plan, outcomes),
        **({} if plan.chips is None else _exact_middles(rows)),
        "object_bytes": sizes if slots else sizes[:, 0],
        "failure": failures if slots else failures[:, 0],
        "tries": tries if slots else tries[:, 0],
        "pixel_digest": digests if measurements else digests[:, 0],
    }


def _exact_middles(rows: Sequence[CubeRow]) -> dict[str, Values]:
    chips = [row.chip for row in rows if row.chip is not None]
    points = _table((each.rule.point or _NO_POINT for each in chips), 2, "float64")
    crs = np.array([each.rule.crs if each.is_exact else "" for each in chips], dtype=object)
    return {"chip_x": points[:, 0], "chip_y": points[:, 1], "chip_crs": crs}


def coordinate_values(
    plan: CubePlan, rows: Sequence[CubeRow], outcomes: Sequence[Sequence[Outcome]]
) -> dict[str, Values]:
    """Return the values of a batch of rows, by name, in the shapes of `coordinates_of`.

    Args:
        plan: The cube.
        rows: The rows of the list.
        outcomes: The result of each source of each row.
    """
    # Values of rows, of sources and of bands, each flat and in the order of the rows.
    n_pixels = plan.height * plan.width
    sources = [*chain.from_iterable(row.sources for row in rows)]
    flat = [*chain.from_iterable(outcomes)]
    stats = [
        band
        for row_outcomes in outcomes
        for slot, outcome in enumerate(row_outcomes)
        for band in _bands_of(plan, slot, outcome)
    ]
    reduced = _REDUCED if plan.reduction is not None else ()
    values: dict[str, Any] = {
        **{each.name: [value(outcome) or 0 for outcome in flat] for each, value in reduced},
        "href": ["" if source is None else source.href for source in sources],
        **{each.name: [*map(value, flat)] for each, value in _PER_SOURCE},
        **{each.name: [*map(value, stats)] for each, value in _PER_BAND},
        "valid_fraction": [math.nan if band.n_valid is None else band.n_valid / n_pixels for band in stats],
        "status": [row_outcomes[each.slot].status for row_outcomes in outcomes for each in plan.measurements],
        "transform": _table((each.transform or _NO_TRANSFORM for each in flat), 6, "float64"),
        **{column.name: [_column_values(row, column) for row in rows] for column in plan.columns},
    }
    # What only some cubes have: chips, claims of offsets, a mask, judged offsets, times.
    if plan.chips is not None:
        chips = [row.chip for row in rows if row.chip is not None]
        values |= {
            "chip": [each.id for each in chips],
            "lon": [each.lon for each in chips],
            "lat": [each.lat for each in chips],
        }
        for column in plan.chips.columns:
            missing = _kind_of(column).fill
            told = [each.columns.get(column.name) for each in chips]
            values[column.name] = [missing if each is None else each for each in told]
    if claims_offsets(plan.columns):
        values["below_claim"] = [
            is_below_claim(source, band)
            for row, row_outcomes in zip(rows, outcomes, strict=True)
            for slot, (source, outcome) in enumerate(zip(row.sources, row_outcomes, strict=True))
            for band in _bands_of(plan, slot, outcome)
        ]
    if plan.mask_slot is not None:
        of_masks = [row_outcomes[plan.mask_slot] for row_outcomes in outcomes]
        values["masked"] = [_masked_share(each, n_pixels) for each in of_masks]
    if plan.judges_offsets:
        values |= {
            name: [
                each
                for row_outcomes in outcomes
                for slot, outcome in enumerate(row_outcomes)
                for each in told(outcome) or [missing] * len(plan.slots[slot].bands)
            ]
            for name, told, missing in (
                ("offset_state", attrgetter("offset_states"), NOT_GATHERED),
                ("offset_reason", attrgetter("offset_reasons"), ""),
            )
        }
    if plan.has_time:
        values["time"] = [row.time_us for row in rows]
    # Each gets the dtype and shape that its coordinate has.
    return {
        each.name: np.array(
            values[each.name], dtype=object if each.dtype == "string" else each.dtype
        ).reshape(len(rows), *each.shape[1:])
        for each in coordinates_of(plan)
    }


def _masked_share(of_mask: Outcome, n_pixels: int) -> float:
    return math.nan if of_mask.n_masked is None else of_mask.n_masked / n_pixels


def _column_values(row: CubeRow, column: ListColumn) -> Any:
    if column.varies_in_row:
        return [_column_value(source, column) for source in row.sources]
    present = (source for source in row.sources if source is not None)
    return _column_value(next(present, None), column)


def _column_value(source: Source | None, column: ListColumn) -> Any:
    value: Any = None
    if source is not None:
        own = {"time": source.time_us, "scene": source.scene}
        value = own[column.name] if column.name in own else source.columns.get(column.name)
    if value is None:
        return _kind_of(column).fill
    return value


def _kind_of(column: ListColumn) -> _Kind:
    """Return how a column of the list is stored, and what stands for a missing value."""
    if column.name == "time":
        return _TIME
    if column.has_gaps and column.dtype in _GAPS:
        dtype, fill = _GAPS[column.dtype]
        attributes = gap_attributes(dtype, is_large=column.is_large)
        return _Kind(name=column.name, dtype=dtype, fill=fill, attributes=attributes)
    return _Kind(name=column.name, dtype=column.dtype, fill=_FILL[column.dtype])


def gap_attributes(dtype: str, *, is_large: bool) -> dict[str, Any]:
    """Return the attributes of a coordinate of integers or booleans, some of which are missing.

    xarray opens integers that have a ``_FillValue`` as float64, which cannot hold large ones. So these have
    a comment instead.

    Args:
        dtype: ``int64``, or ``uint8`` of booleans.
        is_large: Whether some integer is larger than `MAX_EXACT`.
    """
    if dtype == "uint8":
        return {"_FillValue": NO_BOOLEAN, "flag_values": [0, 1], "flag_meanings": "false true"}
    return {"comment": f"{NO_INTEGER} is missing"} if is_large else {"_FillValue": NO_INTEGER}


def missing_in(name: str, values: Values) -> "np.ndarray[Any, np.dtype[np.bool_]]":
    """Return where the values of a coordinate are missing."""
    if values.dtype.kind in "fc":
        return np.asarray(np.isnan(values))
    if values.dtype.kind in "OTU":
        return np.asarray(values == "")
    if values.dtype == np.int64:
        return np.asarray(values == NO_INTEGER)
    if are_booleans(name, values):
        return np.asarray(values == NO_BOOLEAN)
    return np.zeros(values.shape, dtype=bool)


def are_booleans(name: str, values: Values) -> bool:
    """Return whether the values of a coordinate are booleans, stored as numbers because some are missing."""
    return values.dtype == np.uint8 and name not in _NUMBERS


_NUMBERS: Final = frozenset({"status", "presence", "offset_state"})
"""The other coordinates of this dtype."""


def _bands_of(plan: CubePlan, slot: int, outcome: Outcome) -> list[BandStats]:
    return outcome.bands or [BandStats() for _ in plan.slots[slot].bands]


def second_dims(plan: CubePlan) -> tuple[tuple[tuple[str, int], ...], tuple[tuple[str, int], ...]]:
    """Return the further dimensions of values per source and of values per measurement."""
    n_measurements = len(plan.measurements)
    of_measurements = ((plan.band_dim, n_measurements),) if n_measurements > 1 else ()
    return (of_measurements if len(plan.slots) > 1 else ()), of_measurements


def _along(plan: CubePlan, kind: _Kind, more: tuple[tuple[str, int], ...] = ()) -> Coordinate:
    return Coordinate(
        **asdict(kind),
        dims=(plan.dim, *(dim for dim, _ in more)),
        shape=(plan.n_rows, *(length for _, length in more)),
    )


_GAPS: Final = {"int64": ("int64", NO_INTEGER), "bool": ("uint8", NO_BOOLEAN)}
"""Dtype and fill of columns that have no value in some rows. A ``bool`` is stored as the byte 0 or
1, so chunks of earlier rows stay as they are."""

_NO_TRANSFORM: Final = (float("nan"),) * 6
_NO_POINT: Final = (float("nan"),) * 2
_TIME: Final = _Kind(
    name="time",
    dtype="int64",
    fill=NO_TIME,
    attributes={
        "standard_name": "time",
        "units": "microseconds since 1970-01-01",
        "calendar": "proleptic_gregorian",
        "axis": "T",
    },
)
_MIDDLES: Final = tuple(
    _Kind(
        name=name,
        dtype="float64",
        fill=float("nan"),
        attributes={"standard_name": standard_name, "units": units, "long_name": "middle of the chip"},
    )
    for name, standard_name, units in (
        ("lon", "longitude", "degrees_east"),
        ("lat", "latitude", "degrees_north"),
    )
)
_TRANSFORM: Final = _kind(
    "transform",
    "float64",
    "transform of the row's own window: x = a*col + b*row + c, y = d*col + e*row + f",
)
_STATUS: Final = _Kind(
    name="status",
    dtype="uint8",
    fill=NOT_GATHERED,
    attributes={
        "standard_name": "status_flag",
        "flag_values": [int(each) for each in Status],
        "flag_meanings": " ".join(each.name.lower() for each in Status),
    },
)
_BELOW_CLAIM: Final = replace(
    _kind(
        "below_claim",
        "bool",
        "whether the darkest pixel would be far below zero by the claimed scale and offset, so that the "
        "offset may be in the pixels already",
    ),
    fill=False,
)
_MASKED: Final = _kind(
    "masked",
    "float64",
    "share of the window's pixels that the mask hides; NaN if the mask was not read",
    units="1",
)
_OFFSETS: Final = (
    _Kind(
        name="offset_state",
        dtype="uint8",
        fill=NOT_GATHERED,
        attributes={
            "long_name": "whether the row's source has its offset in its pixels already",
            "flag_values": [int(each) for each in OffsetState],
            "flag_meanings": " ".join(each.name.lower() for each in OffsetState),
        },
    ),
    _kind("offset_reason", "string", "why offset_state is so, and what became of the pixels"),
)
_SCALING: Final = (
    _kind("scale_factor", "float64", "factor that the row's own source declares for its raw values"),
    _kind("add_offset", "float64", "offset that the row's own source declares, added after scaling"),
)
_NODATA: Final = _kind("nodata", "float64", "nodata value that the row's own source declares")
_INSIDE: Final = tuple(
    _kind(name, "int32", f"{what} of the row's window inside its source; what lies outside was filled")
    for name, what in (
        ("inside_x_start", "first column"),
        ("inside_y_start", "first line"),
        ("inside_x_stop", "column after the last one"),
        ("inside_y_stop", "line after the last one"),
    )
)
"""In the order of `Outcome.extent`."""

RESERVED_NAMES: Final = frozenset(
    {
        *(kind.name for kind, _ in (*_PER_SOURCE, *_PER_BAND, *_REDUCED)),
        *(
            kind.name
            for kind in (_HREF, _TRANSFORM, _NODATA, _VALID_FRACTION, _STATUS, _BELOW_CLAIM, _MASKED)
        ),
        *(kind.name for kind in (*_INSIDE, *_OFFSETS, *_SCALING)),
        *("x", "y", "spatial_ref", "measurement", "source", "affine"),
        *("object_bytes", "failure", "tries", "pixel_digest", "chip_x", "chip_y", "chip_crs"),
    }
)
"""Names that a column of the list must not have."""
