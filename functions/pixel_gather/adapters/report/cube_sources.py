"""The coordinates of a finished cube that tell how its sources were read; hrefs only where they are shown."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pixel_gather.model.status import Status
from pixel_gather.report.evidence import Mask, Series, SourceRow
from pixel_gather.report.row_coordinates import NO_TIME
from pixel_gather.report.run import Floats, Integers, Timings

if TYPE_CHECKING:  # 0.3 s, for whoever has a cube open
    import zarr

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

MOST_SOURCES: Final = 4_000_000
"""Of one report: a gigabyte in memory, which a finish on AWS has room for. A cube may claim any number."""

_YEAR_1000_US: Final = -30_610_224_000_000_000
_YEAR_9000_US: Final = 221_845_392_000_000_000

_MOST_SERIES: Final = 5
"""Measurements whose statistics are read and drawn: as many as one can tell apart in a figure."""


@dataclass(frozen=True, kw_only=True, eq=False)
class CubeSources:
    """All sources of a cube, those of one row after those of the other; one number of each in memory."""

    group: "zarr.Group"
    rows_per_shard: int
    n_abreast: int
    """Sources of one row."""

    is_read: Mask
    """Whether its pixels are in the cube, as of all arrays here: shape (sources,)."""

    start_s: Floats
    end_s: Floats
    open_s: Floats
    read_s: Floats
    """Waiting and decoding, by the clock."""

    nbytes: Integers
    """Without headers."""

    valid_share: Floats
    """Of the first measurement that the source gives."""

    series: tuple[Series, ...] = ()
    """Of the first five measurements."""

    @property
    def total_s(self) -> Floats:
        """Opening and reading."""
        return self.open_s + self.read_s

    @property
    def places(self) -> Integers:
        """Where the sources that were read are among all."""
        places: Integers = np.flatnonzero(self.is_read).astype("int64")
        return places

    def places_of(self, slot: int) -> Integers:
        """Return where those that were read are among all, of one of the sources abreast."""
        places = self.places
        found: Integers = places[places % self.n_abreast == slot]
        return found

    def timings(self) -> Timings:
        """Return the sources that were read, as tables and figures take them."""
        places = self.places
        return Timings(
            start_s=self.start_s[places],
            end_s=self.end_s[places],
            open_s=self.open_s[places],
            read_s=self.read_s[places],
            nbytes=self.nbytes[places],
            shard=places // self.n_abreast // self.rows_per_shard,
        )

    def described(self, places: Iterable[int]) -> tuple[SourceRow, ...]:
        """Return some sources with their hrefs and times, of which no others are kept in memory."""
        wanted = np.fromiter(places, dtype="int64")
        if not len(wanted):
            return ()
        rows = wanted // self.n_abreast
        hrefs = self._picked("href", rows)
        if hrefs.ndim > 1:
            hrefs = hrefs[np.arange(len(wanted)), wanted % self.n_abreast]
        labels = self._labels(rows)
        return tuple(
            SourceRow(
                row=int(row),
                label=label,
                href=str(href),
                total_s=float(self.open_s[place] + self.read_s[place]),
                open_s=float(self.open_s[place]),
                nbytes=int(self.nbytes[place]),
                valid_share=float(self.valid_share[place]),
            )
            for place, row, label, href in zip(wanted, rows, labels, hrefs, strict=True)
        )

    def _labels(self, rows: Integers) -> list[str]:
        if "time" not in self.group:
            return [f"row {row}" for row in rows]
        times = self._picked("time", rows)
        return [_time_in_words(int(time), int(row)) for time, row in zip(times, rows, strict=True)]

    def _picked(self, name: str, rows: Integers) -> np.ndarray[Any, Any]:
        """Return a coordinate at some rows, each chunk read once."""
        distinct, back = np.unique(rows, return_inverse=True)
        array: Any = self.group[name]
        return np.asarray(array.oindex[distinct])[back]


def read_sources(
    group: "zarr.Group", *, n_rows: int, rows_per_shard: int, measurements: Sequence[str]
) -> CubeSources:
    """Read what is known of every source of a cube.

    Args:
        group: The cube.
        n_rows: Of its measurements.
        rows_per_shard: Of these.
        measurements: Their names, in order.

    Raises:
        ValueError: Arrays do not belong together, or say what cannot be.
    """
    shape = _shape(group, "start")
    if shape[0] != n_rows or math.prod(shape) > MOST_SOURCES:
        raise ValueError(f"start has shape {shape}; of {n_rows:,} rows, {MOST_SOURCES:,} sources at most")
    start_s, open_s = _flat(group, "start", shape), _flat(group, "open", shape)
    waiting_s = _flat(group, "read", shape)
    read_s = waiting_s + _flat(group, "decode", shape)
    end_s = _flat(group, "end", shape)
    read_s = np.minimum(read_s, np.maximum(end_s - start_s - open_s, waiting_s))  # as `Outcome.reading_s`
    nbytes = _flat(group, "bytes", shape).astype("int64")
    nbytes -= _flat(group, "header_bytes", shape).astype("int64")
    n_abreast = len(start_s) // max(n_rows, 1) or 1
    sources = CubeSources(
        group=group,
        rows_per_shard=rows_per_shard,
        n_abreast=n_abreast,
        is_read=_per_source(group, "status", n_abreast) == Status.OK,
        start_s=start_s,
        end_s=end_s,
        open_s=open_s,
        read_s=read_s,
        nbytes=nbytes,
        valid_share=_per_source(group, "valid_fraction", n_abreast).astype("float64"),
        series=_series(group, measurements, n_rows),
    )
    _check(sources)
    return sources


def _series(group: "zarr.Group", measurements: Sequence[str], n_rows: int) -> tuple[Series, ...]:
    """Return the statistics of the first measurements along the cube."""
    shape = (n_rows, len(measurements))
    mean, valid, status = (_columns(group, name, shape) for name in ("mean", "valid_fraction", "status"))
    has_time = "time" in group
    times: Any = group["time"] if has_time else None
    at = np.asarray(times[...]).astype("int64") if has_time else np.arange(n_rows)
    if at.shape != (n_rows,):
        raise ValueError(f"time has shape {at.shape}, of {n_rows:,} rows")
    order = np.argsort(at, kind="stable")
    if has_time:
        order = order[(at[order] > _YEAR_1000_US) & (at[order] < _YEAR_9000_US)]  # others cannot be drawn
    was_read = status == Status.OK
    mean = np.where(was_read & np.isfinite(mean), mean, np.nan)
    valid = np.where(was_read, valid, np.nan)
    return tuple(
        Series(
            measurement=name,
            at=at[order],
            has_time=has_time,
            mean=mean[order, index],
            valid_share=valid[order, index],
        )
        for index, name in enumerate(measurements[:_MOST_SERIES])
    )


def _columns(group: "zarr.Group", name: str, shape: tuple[int, int]) -> np.ndarray[Any, Any]:
    """Return what is known per row and series; in cubes of one measurement it has one dimension."""
    array: Any = group[name]
    if array.shape != shape and (array.shape, shape[1]) != (shape[:1], 1):
        raise ValueError(f"{name} has shape {array.shape}, not {shape}")
    values = np.asarray(array[...] if array.ndim == 1 else array[:, :_MOST_SERIES]).reshape(shape[0], -1)
    return values.astype("float64") if values.dtype.kind == "f" else values


def _check(sources: CubeSources) -> None:
    """Refuse numbers that no gather leaves of a source that was read, and that no figure can show."""
    places = sources.places
    known = (sources.start_s, sources.end_s, sources.open_s, sources.read_s, sources.valid_share)
    if not all(np.isfinite(each[places]).all() for each in known) or (sources.nbytes[places] < 0).any():
        raise ValueError("sources that were read have impossible times or sizes")


def _flat(group: "zarr.Group", name: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    array: Any = group[name]
    if array.shape != shape:
        raise ValueError(f"{name} has shape {array.shape}, not {shape}")
    values = np.asarray(array[...]).ravel()
    return values.astype("float64") if values.dtype.kind == "f" else values


def _shape(group: "zarr.Group", name: str) -> tuple[int, ...]:
    array: Any = group[name]
    shape: tuple[int, ...] = array.shape
    return shape


def _per_source(group: "zarr.Group", name: str, n_abreast: int) -> np.ndarray[Any, Any]:
    """Return what is known per measurement for each source: where it gives several, of its first."""
    array: Any = group[name]
    n_rows = _shape(group, "start")[0]
    if array.ndim not in (1, 2) or array.shape[0] != n_rows:
        raise ValueError(f"{name} has shape {array.shape}, of {n_rows:,} rows")
    values = array[...] if array.ndim == 1 else array[:, :n_abreast]
    return np.asarray(values).ravel()


def _time_in_words(time_us: int, row: int) -> str:
    if time_us == NO_TIME:
        return f"row {row}"
    try:
        moment = _EPOCH + timedelta(microseconds=time_us)
    except OverflowError:
        return f"row {row}"
    return moment.replace(tzinfo=None).isoformat(" ", "seconds").removesuffix(" 00:00:00")
