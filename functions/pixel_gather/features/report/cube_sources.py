"""Reads how each source of a finished cube was read. Hrefs are read only for the sources that are shown."""

import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec import Struct

from pixel_gather.core.model.status import Status
from pixel_gather.core.results.report_content import MOST_DRAWN, Coverage, Mask, Series, SourceRow
from pixel_gather.core.results.row_coordinates import NO_TIME
from pixel_gather.core.results.timings import Floats, Integers, Timings
from pixel_gather.core.time_range import cut_to_period
from pixel_gather.io.cube.row_view import RowGroup

if TYPE_CHECKING:  # takes 0.3 s
    import zarr

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

MOST_SOURCES: Final = 4_000_000
"""Limit of one report: a gigabyte of memory, which the finish function has. A cube may claim any number."""

_YEAR_1000_US: Final = -30_610_224_000_000_000
_YEAR_9000_US: Final = 221_845_392_000_000_000

_MOST_LABELS: Final = 3
"""Columns of a table of chips that stand below a picture."""

_LONGEST_LABEL: Final = 40
"""Letters of one of them."""

_MOST_MEANS: Final = 20_000_000
"""Limit of all statistics together. Longer cubes have them of fewer measurements."""


class CubeSources(Struct, frozen=True, kw_only=True, eq=False):
    """All sources of a cube, row after row. Each array has one value per source."""

    group: "zarr.Group"
    rows_per_shard: int
    n_abreast: int
    """Number of sources in a row."""

    status: Integers
    """Codes of `Status`. Shape (sources,), like all arrays here."""

    start_s: Floats
    end_s: Floats
    open_s: Floats
    read_s: Floats
    """Wall time of waiting and decoding."""

    nbytes: Integers
    """Bytes received, without headers."""

    valid_share: Floats
    """Valid share of the window, of the source's first measurement."""

    series: tuple[Series, ...]
    """Statistics of the first measurements: of 24 if the cube has not too many rows."""

    coverage: Coverage
    period: str | None = None
    """What the rows are reduced by; None if each is a scene."""

    @property
    def is_read(self) -> Mask:
        """Whether each source's pixels are in the cube."""
        was_read: Mask = self.status == Status.OK
        return was_read

    @property
    def total_s(self) -> Floats:
        """Time of opening and reading."""
        return self.open_s + self.read_s

    @property
    def places(self) -> Integers:
        """Indexes of the sources that were read."""
        places: Integers = np.flatnonzero(self.is_read).astype("int64")
        return places

    def failed_hrefs(self) -> frozenset[str]:
        """Return the hrefs of all sources that failed, which are read now."""
        places = np.flatnonzero(~np.isin(self.status, (Status.OK, Status.ABSENT)))
        return frozenset(each.href for each in self.describe(places))

    def timings(self) -> Timings:
        """Return the timings of the sources that were read, for tables and figures."""
        places = self.places
        return Timings(
            start_s=self.start_s[places],
            end_s=self.end_s[places],
            open_s=self.open_s[places],
            read_s=self.read_s[places],
            nbytes=self.nbytes[places],
            shard=places // self.n_abreast // self.rows_per_shard,
        )

    def describe(self, places: Iterable[int]) -> tuple[SourceRow, ...]:
        """Return some sources with their hrefs and times, which are read now."""
        wanted = np.fromiter(places, dtype="int64")
        if not len(wanted):
            return ()
        rows = wanted // self.n_abreast
        hrefs = self._read_rows("href", rows)
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
        times = self._read_rows("time", rows)
        said = [_time_in_words(int(time), int(row)) for time, row in zip(times, rows, strict=True)]
        return [cut_to_period(each, self.period) for each in said]

    def chips_in_words(self, places: Integers) -> list[str]:
        """Return the chip of some sources: its id, and its first labels, which are texts or whole numbers.

        Empty texts if the cube has no chips.
        """
        if not isinstance(self.group, RowGroup):
            return [""] * len(places)
        rows = places // self.n_abreast
        words = [[f"chip {each}" for each in self._read_rows("chip", rows)]]
        for name in self.group.labels_of_chips()[:_MOST_LABELS]:
            values = self._read_rows(name, rows).tolist()
            words.append(
                [each[:_LONGEST_LABEL] if isinstance(each, str) else f"{name} {each}" for each in values]
            )
        return [", ".join(filter(None, each)) for each in zip(*words, strict=True)]

    def _read_rows(self, name: str, rows: Integers) -> np.ndarray[Any, Any]:
        """Return a coordinate at some rows. Each chunk is read once."""
        distinct, back = np.unique(rows, return_inverse=True)
        array: Any = self.group[name]
        return np.asarray(array.oindex[distinct])[back]


def read_sources(
    group: "zarr.Group",
    *,
    n_rows: int,
    rows_per_shard: int,
    measurements: Sequence[str],
    period: str | None = None,
) -> CubeSources:
    """Read the timings and statistics of every source of a cube.

    The period is what the rows are reduced by, such as ``month``.

    Raises:
        ValueError: Shapes do not fit together, or values are impossible.
    """
    start: Any = group["start"]
    shape: tuple[int, ...] = start.shape
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
    status = _per_source(group, "status", n_abreast, n_rows).astype("int64")
    valid_share = _per_source(group, "valid_fraction", n_abreast, n_rows).astype("float64")
    at, order, has_time = _along(group, n_rows)
    was_read = status == Status.OK
    sources = CubeSources(
        group=group,
        rows_per_shard=rows_per_shard,
        n_abreast=n_abreast,
        status=status,
        start_s=start_s,
        end_s=end_s,
        open_s=open_s,
        read_s=read_s,
        nbytes=nbytes,
        valid_share=valid_share,
        series=_series(group, measurements, order, n_rows),
        coverage=Coverage(
            rows=order,
            at=at[order],
            has_time=has_time,
            status=status.reshape(n_rows, -1)[order],
            valid_share=np.where(was_read, valid_share, np.nan).reshape(n_rows, -1)[order],
            masked_share=_flat(group, "masked", (n_rows,))[order] if "masked" in group else None,
        ),
        period=period,
    )
    _check(sources)
    return sources


def _along(group: "zarr.Group", n_rows: int) -> tuple[Integers, Integers, bool]:
    """Return the times of all rows, or their numbers; the rows in order of time; and whether these are times.

    Rows whose year has not four digits are left out of the order: no axis of time shows them.
    """
    if "time" not in group:
        return np.arange(n_rows), np.arange(n_rows), False
    times: Any = group["time"]
    at = np.asarray(times[...]).astype("int64")
    if at.shape != (n_rows,):
        raise ValueError(f"time has shape {at.shape}, of {n_rows:,} rows")
    order = np.argsort(at, kind="stable")
    return at, order[(at[order] > _YEAR_1000_US) & (at[order] < _YEAR_9000_US)], True


def _series(
    group: "zarr.Group", measurements: Sequence[str], order: Integers, n_rows: int
) -> tuple[Series, ...]:
    """Return the statistics of the first measurements, row by row in an order."""
    shape = (n_rows, len(measurements))
    most = min(MOST_DRAWN, max(1, _MOST_MEANS // max(n_rows, 1)))
    mean, status = (_columns(group, name, shape, most) for name in ("mean", "status"))
    is_infinite = (status == Status.OK) & np.isinf(mean)
    mean = np.where((status == Status.OK) & np.isfinite(mean), mean, np.nan)
    return tuple(
        Series(measurement=name, mean=mean[order, index], n_infinite=int(is_infinite[order, index].sum()))
        for index, name in enumerate(measurements[:most])
    )


def _columns(group: "zarr.Group", name: str, shape: tuple[int, int], most: int) -> np.ndarray[Any, Any]:
    """Return a coordinate of shape (row, measurement), of the first ``most`` measurements.

    It has one dimension if there is one measurement.
    """
    array: Any = group[name]
    if array.shape != shape and (array.shape, shape[1]) != (shape[:1], 1):
        raise ValueError(f"{name} has shape {array.shape}, not {shape}")
    values = np.asarray(array[...] if array.ndim == 1 else array[:, :most]).reshape(shape[0], -1)
    return values.astype("float64") if values.dtype.kind == "f" else values


def _check(sources: CubeSources) -> None:
    """Refuse times and sizes that no gather writes for a source that was read."""
    places = sources.places
    known = [sources.start_s, sources.end_s, sources.open_s, sources.read_s]
    if not np.isnan(sources.valid_share[places]).all():  # a gather that decodes nothing knows none
        known.append(sources.valid_share)
    if not all(np.isfinite(each[places]).all() for each in known) or (sources.nbytes[places] < 0).any():
        raise ValueError("sources that were read have impossible times or sizes")


def _flat(group: "zarr.Group", name: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    array: Any = group[name]
    if array.shape != shape:
        raise ValueError(f"{name} has shape {array.shape}, not {shape}")
    values = np.asarray(array[...]).ravel()
    return values.astype("float64") if values.dtype.kind == "f" else values


def _per_source(group: "zarr.Group", name: str, n_abreast: int, n_rows: int) -> np.ndarray[Any, Any]:
    """Return a coordinate per source. For a source of several measurements, that of the first."""
    array: Any = group[name]
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
