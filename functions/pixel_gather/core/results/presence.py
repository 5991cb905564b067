"""A regular grid of 1s and 0s over irregular rows: which bins have rows, and which rows those are. Pure."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from msgspec import Struct

from pixel_gather.core.errors import RequestError
from pixel_gather.core.model.plurals import counted
from pixel_gather.core.model.shown import shown
from pixel_gather.core.model.status import Status
from pixel_gather.core.results.row_coordinates import NO_TIME, Values, missing_in
from pixel_gather.core.results.rows_where import NumberedTexts
from pixel_gather.core.time_range import sun_before_utc_us

SOLAR_DAY: Final = "solar-day"
TIME_UNITS: Final = {"day": "D", "month": "M", SOLAR_DAY: "D"}
"""Bins of time by name, with NumPy's code of the unit."""

_US_PER_DAY: Final = 86_400_000_000
_FIELD: Final = "by"
_MOST_BINS: Final = 10**9


class Axis(Struct, frozen=True, kw_only=True):
    """The bins of one axis of the grid."""

    name: str
    labels: Values
    """Value of each bin: ``datetime64`` of days or months, text or numbers, in ascending order."""

    bins: "np.ndarray[Any, np.dtype[np.int64]]"
    """Bin of each row; -1 if its value is missing."""


class Presence(Struct, frozen=True, kw_only=True, eq=False):
    """Which bins of a grid have rows of a cube, and which rows."""

    names: tuple[str, ...]
    """Names of the axes."""

    labels: tuple[Values, ...]
    """Value of each bin along each axis, in ascending order."""

    present: "np.ndarray[Any, np.dtype[np.int64]]"
    """Numbers of the bins that have rows, in ascending order. Bins are counted in C order."""

    starts: "np.ndarray[Any, np.dtype[np.int64]]"
    """Position in ``order`` of the first row of each of these bins. One more value follows: the end of the
    last bin.
    """

    order: "np.ndarray[Any, np.dtype[np.int64]]"
    """Rows of the cube, ordered by bin. Rows of the same bin have the cube's order."""

    n_left_out: int
    """Rows without a source that was read, or with a missing value."""

    def __repr__(self) -> str:
        axes = ", ".join(f"{name} {n:,}" for name, n in zip(self.names, self.shape, strict=True))
        return shown(f"Presence: {axes}; {counted(len(self.order), 'row')}, {self.n_left_out:,} left out")

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of bins along each axis."""
        return tuple(len(labels) for labels in self.labels)

    @property
    def grid(self) -> "np.ndarray[Any, np.dtype[np.uint8]]":
        """1 for each bin that has rows, 0 for others. Its axes are those of ``names``."""
        grid = np.zeros(math.prod(self.shape), dtype="uint8")
        grid[self.present] = 1
        return grid.reshape(self.shape)

    def rows(self, *place: int) -> "np.ndarray[Any, np.dtype[np.int64]]":
        """Return the rows of the cube in a bin, in order. Empty if it has none.

        Args:
            place: Index of the bin along each axis, from 0.
        """
        try:
            bin_ = np.ravel_multi_index(place, self.shape)
        except (TypeError, ValueError) as error:
            sizes = ", ".join(f"{name} {n:,}" for name, n in zip(self.names, self.shape, strict=True))
            raise RequestError(
                f"{place} is no bin; write a whole number from 0 for each of these, below its size: {sizes}",
                field="place",
            ) from error
        first, last = np.searchsorted(self.present, (bin_, bin_ + 1))
        return self.order[self.starts[first] : self.starts[last]]


def split_names(by: str) -> list[str]:
    """Return the names of a grid's axes, which have commas between them."""
    if not isinstance(by, str):
        raise RequestError(f"it is of type {type(by).__name__}; write text such as day,tile", field=_FIELD)
    return [name.strip() for name in by.split(",")]


def grid_over(
    by: str,
    *,
    read: Callable[[list[str]], Mapping[str, Values | NumberedTexts]],
    longitude: Callable[[], "Values | float"],
) -> Presence:
    """Return a grid of presence. Only rows with a source that was read count.

    Args:
        by: Names of its axes, with commas between.
        read: Returns coordinates of all rows, by name.
        longitude: Returns the longitude of each row's place, or of all rows, in degrees.

    Raises:
        RequestError: A coordinate is unsuitable, or there would be too many bins.
    """
    names = split_names(by)
    columns = read(
        list(dict.fromkeys(["status", *("time" if name in TIME_UNITS else name for name in names)]))
    )
    status = _plain(columns["status"])
    status = status.reshape(len(status), -1)
    axes = []
    for name in names:
        values = columns["time" if name in TIME_UNITS else name]
        axes.append(
            make_axis(name, _by_the_sun(_plain(values), longitude()) if name == SOLAR_DAY else values)
        )
    return cross_axes(axes, counts=(status == Status.OK).any(axis=1))


def _plain(values: Values | NumberedTexts) -> Values:
    return values.texts[values.numbers] if isinstance(values, NumberedTexts) else values


def _by_the_sun(times: Values, longitude: "Values | float") -> Values:
    """Return times as the sun tells them at a longitude; missing ones stay missing."""
    ahead_us = sun_before_utc_us(np.asarray(longitude, dtype="float64")).astype("int64")
    return np.where(times == NO_TIME, NO_TIME, times + ahead_us)


def make_axis(name: str, values: Values | NumberedTexts) -> Axis:
    """Return the bins of one coordinate.

    Args:
        name: ``day``, ``solar-day``, ``month`` or the coordinate's name.
        values: One value for each row; for days and months, the cube's ``time``.

    Raises:
        RequestError: The coordinate has several values for each row.
    """
    if isinstance(values, NumberedTexts):
        return _axis_of_numbered(name, values)
    if values.ndim > 1:
        raise RequestError(
            f"{name} has several values for each row, so rows cannot be counted by it; name another one",
            field=_FIELD,
        )
    if name == "time" or name in TIME_UNITS:
        return _axis_of_time(name, values)
    if values.dtype.kind in "OTU":
        return _axis_of_text(name, values.tolist())
    is_missing = missing_in(name, values)
    bins = np.full(len(values), -1, dtype="int64")
    labels, bins[~is_missing] = np.unique(values[~is_missing], return_inverse=True)
    return Axis(name=name, labels=labels, bins=bins)


def _axis_of_text(name: str, values: list[str]) -> Axis:
    """Return the bins of text. ``np.unique`` takes four times as long, because it sorts all values."""
    labels = sorted(set(values) - {""})
    numbers = {label: number for number, label in enumerate(labels)} | {"": -1}
    bins = np.fromiter(map(numbers.__getitem__, values), dtype="int64", count=len(values))
    return Axis(name=name, labels=np.array(labels, dtype=object), bins=bins)


def _axis_of_numbered(name: str, values: NumberedTexts) -> Axis:
    """Return the bins of texts that a few rows at least have."""
    is_used = np.bincount(values.numbers, minlength=len(values.texts)) > 0
    labels = sorted({text for text in values.texts[is_used].tolist() if text})
    place = {label: bin_ for bin_, label in enumerate(labels)}
    bins = np.array([place.get(text, -1) for text in values.texts.tolist()], dtype="int64")
    return Axis(name=name, labels=np.array(labels, dtype=object), bins=bins[values.numbers])


def _axis_of_time(name: str, values: Values) -> Axis:
    there = values != NO_TIME
    times = values if there.all() else values[there]
    bins = np.full(len(values), -1, dtype="int64")
    if name not in TIME_UNITS or not len(times):
        labels, bins[there] = np.unique(times.astype("datetime64[us]"), return_inverse=True)
        return Axis(name=name, labels=labels, bins=bins)
    days = times // _US_PER_DAY
    first_day = int(days.min())
    calendar = np.arange(first_day, int(days.max()) + 1).astype("datetime64[D]")
    numbers = calendar.astype(f"datetime64[{TIME_UNITS[name]}]").astype("int64")
    first, last = int(numbers[0]), int(numbers[-1])
    bins[there] = (numbers - first)[days - first_day]
    return Axis(
        name=name, labels=np.arange(first, last + 1).astype(f"datetime64[{TIME_UNITS[name]}]"), bins=bins
    )


def cross_axes(axes: Sequence[Axis], *, counts: "np.ndarray[Any, np.dtype[np.bool_]]") -> Presence:
    """Return the grid over all combinations of some axes' bins.

    Args:
        axes: At least one. All have the same number of rows.
        counts: Whether each row counts.

    Raises:
        RequestError: There would be more than 1,000,000,000 bins.
    """
    shape = tuple(len(axis.labels) for axis in axes)
    n_bins = math.prod(shape)
    if n_bins > _MOST_BINS:
        raise RequestError(
            f"it makes {n_bins:,} bins; the limit is {_MOST_BINS:,}; name fewer axes", field=_FIELD
        )
    is_in = np.logical_and.reduce([counts, *(axis.bins >= 0 for axis in axes)])
    rows = np.flatnonzero(is_in)
    index = np.ravel_multi_index([axis.bins[rows] for axis in axes], shape) if len(rows) else rows
    by_bin = _in_order(index, n_bins)
    ordered = index[by_bin]
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    return Presence(
        names=tuple(axis.name for axis in axes),
        labels=tuple(axis.labels for axis in axes),
        present=ordered[starts],
        starts=np.append(starts, len(rows)),
        order=rows[by_bin],
        n_left_out=int(len(counts) - len(rows)),
    )


def _in_order(
    index: "np.ndarray[Any, np.dtype[np.int64]]", n_bins: int
) -> "np.ndarray[Any, np.dtype[np.int64]]":
    """Return what sorts bins, equal ones in their order. NumPy sorts 16 bits by radix, ten times as fast."""
    low = np.argsort((index & 0xFFFF).astype("uint16"), kind="stable")
    if n_bins <= 1 << 16:
        return low
    return low[np.argsort((index[low] >> 16).astype("uint16"), kind="stable")]
