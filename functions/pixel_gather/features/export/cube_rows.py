"""Reads the rows of a finished cube, some at a time, with a mask of the pixels that are data."""

from collections.abc import Iterator, Sequence
from copy import replace
from datetime import UTC, datetime, timedelta
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec import Struct

from pixel_gather.core.errors import RequestError, StoreError
from pixel_gather.core.model.band_meaning import BandMeaning
from pixel_gather.core.model.plurals import counted
from pixel_gather.core.model.status import Status
from pixel_gather.core.plan.cube_plan import BAND
from pixel_gather.core.results.join_member import PRESENCE
from pixel_gather.core.results.report_content import Image, Mask, is_shown
from pixel_gather.core.results.row_coordinates import NO_TIME, NOT_GATHERED
from pixel_gather.core.results.row_evidence import stored_status
from pixel_gather.core.results.timings import Integers
from pixel_gather.core.time_range import cut_to_period
from pixel_gather.io.cube.pixels_with_data import are_inside, read_nodata
from pixel_gather.io.cube.zarr_metadata import reduced_by

if TYPE_CHECKING:
    import zarr

_MOST_BLOCK_NBYTES: Final = 64 * 2**20
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class RowPixels(Struct, frozen=True, kw_only=True):
    """The pixels of one row."""

    row: int
    pixels: tuple[Image, ...]
    """One array for each measurement, shape (y, x), raw values."""

    is_valid: tuple[Mask, ...]
    """Where the pixels are data: neither nodata, nor filled, nor of a source that was not read."""


class MeasurementOfRow(Struct, frozen=True, kw_only=True):
    """What a cube tells of a measurement in one row. A value is None where its source has none."""

    crs: str | None
    transform: tuple[float, ...] | None
    nodata: complex | None
    """NaN stands for no nodata, too, where rows of floats have different nodata."""


class CubeRows(Struct, frozen=True, kw_only=True):
    """Some rows and measurements of a finished cube."""

    group: "zarr.Group"
    rows: Integers
    """Positions in the cube, ascending."""

    measurements: tuple[str, ...]

    @classmethod
    def of(cls, group: "zarr.Group", *, rows: Integers | None, measurements: Sequence[str]) -> "CubeRows":
        """Choose rows and measurements.

        None stands for all rows but the padding in a copy of joined cubes, and no name for all measurements.

        Raises:
            RequestError: The cube has no such measurement.
            StoreError: The cube has no rows, or its status tells nothing of some.
        """
        known = measurements_of(group)
        for name in measurements:
            if name not in known:
                raise RequestError(
                    f"the cube has no measurement {name!r}; it has {', '.join(known)}", field="measurement"
                )
        chosen = _existing_rows(group) if rows is None else rows
        if not len(chosen):
            raise StoreError("no row of the cube is left to export")
        _check_status(group, chosen)
        return cls(group=group, rows=chosen, measurements=tuple(measurements) or known)

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width of a row in pixels."""
        _, height, width = open_array(self.group, self.measurements[0]).shape
        return height, width

    def arrays(self) -> Iterator[tuple[str, Any, Any]]:
        """Yield name, array and values of the chosen measurements and all coordinates, of the chosen rows.

        There are no values of measurements: `read` has their pixels.
        """
        left_out = set(measurements_of(self.group)) - set(self.measurements)
        row_dim = dims_of(open_array(self.group, "status"))[:1]
        for name, array in self.group.arrays():
            if name in self.measurements:
                yield name, array, None
            elif name not in left_out:
                values = np.asarray(array[...])
                yield name, array, values[self.rows] if dims_of(array)[:1] == row_dim else values

    def meaning(self, measurement: str) -> BandMeaning:
        """Return what the cube says of a measurement's classes, and of its colour."""
        return BandMeaning.of_attributes(open_array(self.group, measurement).attrs)

    def coordinate(self, name: str) -> Any:
        """Return a coordinate's values of the chosen rows, or None if the cube has none of this name."""
        return np.asarray(open_array(self.group, name)[...])[self.rows] if name in self.group else None

    def of_read_measurements(self) -> Iterator[dict[str, MeasurementOfRow]]:
        """Yield, for each row, what is told of each measurement whose source was read."""
        slots = dict(zip(self.measurements, self._slots(), strict=True))
        nodata = {name: self._nodata(name, slot) for name, slot in slots.items()}
        columns = (self._statuses(), self.coordinate("crs"), self.coordinate("transform"))
        for index, (status, crs, transform) in enumerate(zip(*columns, strict=True)):
            yield {
                name: MeasurementOfRow(
                    crs=str(crs if np.ndim(crs) == 0 else crs[slot]) or None,
                    transform=_transform_or_none(transform if transform.ndim == 1 else transform[slot]),
                    nodata=nodata[name][index],
                )
                for name, slot in slots.items()
                if status[slot] == Status.OK
            }

    def _nodata(self, name: str, slot: int) -> list[complex | None]:
        array = open_array(self.group, name)
        has_nan = array.dtype.kind in "fc"
        return [
            None if nodata is None or (np.isnan(nodata) and not has_nan) else nodata
            for nodata in read_nodata(self.group, array, self.rows, slot)
        ]

    def scalings(self) -> Iterator[dict[str, tuple[float, float]]]:
        """Yield, for each row, scale and offset of each measurement."""
        if "scale_factor" not in self.group:
            told = {name: open_array(self.group, name).attrs for name in self.measurements}
            shared = {
                name: (float(each.get("scale_factor", 1)), float(each.get("add_offset", 0)))
                for name, each in told.items()
            }
            yield from repeat(shared, len(self.rows))
            return
        slots = dict(zip(self.measurements, self._slots(), strict=True))
        columns = (
            self.coordinate(name).reshape(len(self.rows), -1) for name in ("scale_factor", "add_offset")
        )
        for scales, offsets in zip(*columns, strict=True):
            yield {name: (float(scales[slot]), float(offsets[slot])) for name, slot in slots.items()}

    def times(self) -> list[datetime | None]:
        """Return the time of each row; None where it is missing or outside of years 1 to 9999."""
        values = self.coordinate("time")
        return [None] * len(self.rows) if values is None else [_time_of(int(each)) for each in values]

    def hrefs(self) -> list[str]:
        """Return the hrefs of the chosen measurements in each row, with spaces between."""
        hrefs = self.coordinate("href")
        chosen = hrefs[:, None] if hrefs.ndim == 1 else hrefs[:, self._slots()]
        return [" ".join(str(each) for each in of_row if each) for of_row in chosen]

    def names(self) -> list[str]:
        """Return a short name of each row for people: its time, or else its position in the cube.

        A row that is reduced of a month or a year has no more of its time.
        """
        period = reduced_by(self.group.attrs)
        return [
            f"row {row}"
            if time is None
            else cut_to_period(f"{time:%Y-%m-%d}", period)
            if time == _day(time)
            else f"{time:%Y-%m-%d %H:%M}"
            for row, time in zip(self.rows, self.times(), strict=True)
        ]

    def in_order_of_time(self) -> Iterator["CubeRows"]:
        """Yield the rows in order of time, those without a time last. Each part's positions ascend.

        There are several parts if a cube has grown by rows that are earlier than others.
        """
        times = self.coordinate("time")
        if times is None:
            yield self
            return
        rows = self.rows[np.lexsort((self.rows, times, times == NO_TIME))]
        for part in np.split(rows, np.flatnonzero(np.diff(rows) < 0) + 1):
            yield replace(self, rows=part)

    def failures(self) -> list[str]:
        """Return why each row has no picture, in words; empty if all chosen measurements were read."""
        return [
            next((_not_read(int(each)) for each in of_row if each != Status.OK), "")
            for of_row in self._statuses()[:, self._slots()]
        ]

    def of_read_sources(self) -> "CubeRows":
        """Return the rows in which at least one of the measurements was read.

        Raises:
            StoreError: None of them was read.
        """
        status = self._statuses()
        was_read = (status[:, self._slots()] == Status.OK).any(axis=1)
        if not was_read.any():
            raise StoreError("no source of these rows was read; see the cube's status")
        return CubeRows(group=self.group, rows=self.rows[was_read], measurements=self.measurements)

    def read(self, *, step: int = 1) -> Iterator[RowPixels]:
        """Yield the rows in order. Holds at most 64 MiB of decoded pixels of each measurement, or one row.

        Args:
            step: Take one in so many pixels along each side.
        """
        slots = list(zip(self.measurements, self._slots(), strict=True))
        for start, stop in self._blocks():
            rows = self.rows[start:stop]
            read = [self._block(name, slot, rows, step) for name, slot in slots]
            for index, row in enumerate(rows):
                yield RowPixels(
                    row=int(row),
                    pixels=tuple(pixels[index] for pixels, _ in read),
                    is_valid=tuple(mask[index] for _, mask in read),
                )

    def _blocks(self) -> Iterator[tuple[int, int]]:
        """Yield ranges of the chosen rows that lie in the same chunks."""
        arrays = [open_array(self.group, name) for name in self.measurements]
        n_chunk = max(array.chunks[0] for array in arrays)
        height, width = self.shape
        row_nbytes = height * width * max(array.dtype.itemsize for array in arrays)
        n_most = max(1, _MOST_BLOCK_NBYTES // row_nbytes)
        start = 0
        while start < len(self.rows):
            first = int(self.rows[start])
            end = min((first // n_chunk + 1) * n_chunk, first + n_most)
            stop = int(np.searchsorted(self.rows, end))
            yield start, stop
            start = stop

    def _block(self, name: str, slot: int, rows: Integers, step: int) -> tuple[Image, Mask]:
        array = open_array(self.group, name)
        first, last = int(rows[0]), int(rows[-1])
        pixels: Image = np.asarray(array[first : last + 1, ::step, ::step])[rows - first]
        was_read = open_array(self.group, "status")[first : last + 1].reshape(last + 1 - first, -1)[
            rows - first, slot
        ]
        valid = np.array(
            [
                is_shown(each, nodata)
                for each, nodata in zip(pixels, read_nodata(self.group, array, rows, slot), strict=True)
            ]
        )
        valid &= are_inside(self.group, rows, pixels, step, slot=slot)
        valid &= (was_read == Status.OK)[:, None, None]
        return pixels, valid

    def _statuses(self) -> Integers:
        values = self.coordinate("status")
        statuses: Integers = values.reshape(len(values), -1)
        return statuses

    def _slots(self) -> list[int]:
        """Return the position of each measurement's source in a row: its own, or 0 if all share one."""
        known = measurements_of(self.group)
        shares = open_array(self.group, "status").ndim == 1
        return [0 if shares else known.index(name) for name in self.measurements]


def _not_read(status: int) -> str:
    return f"not read: {stored_status(status, place='status').name.lower().replace('_', ' ')}"


def measurements_of(group: "zarr.Group") -> tuple[str, ...]:
    """Return the names of a cube's measurements, in the cube's order."""
    row_dim = dims_of(open_array(group, "status"))[:1]
    arrays = dict(group.arrays())
    found = [name for name, each in arrays.items() if dims_of(each) == (*row_dim, "y", "x")]
    named = next((name for name in ("measurement", BAND) if name in group), None)
    if named is not None:
        order = [str(name) for name in np.asarray(open_array(group, named)[...])]
        found.sort(key=order.index)
    return tuple(found)


def _existing_rows(group: "zarr.Group") -> Integers:
    """Return the rows of a finished cube, without the padding in a copy of joined cubes."""
    if PRESENCE in group:
        return np.flatnonzero(np.asarray(open_array(group, PRESENCE)[...]))
    return np.arange(open_array(group, "status").shape[0])


def _check_status(group: "zarr.Group", rows: Integers) -> None:
    """Refuse a cube that has lost the status of some rows. Each row has that of one measurement at least."""
    status = np.asarray(open_array(group, "status")[...])[rows]
    has_status = (status.reshape(len(status), -1) != NOT_GATHERED).any(axis=1)
    if not has_status.all():
        lost = rows[~has_status]
        raise StoreError(
            f"the cube is damaged: it has no status of {counted(len(lost), 'row')}, the first is row "
            f"{lost[0]:,}; pixel-gather verify names the objects that are missing: put them back from a copy"
        )


def open_array(group: "zarr.Group", name: str) -> Any:
    """Return an array of a cube, without the types of Zarr's older formats."""
    return group[name]


def dims_of(array: Any) -> tuple[str, ...]:
    """Return the names of an array's dimensions. Empty for a scalar."""
    return tuple(array.metadata.dimension_names or ())


def _transform_or_none(transform: Any) -> tuple[float, ...] | None:
    """Return a transform, or None if the row's source has none."""
    return None if np.isnan(transform).any() else tuple(transform.tolist())


def _time_of(microseconds: int) -> datetime | None:
    if microseconds == NO_TIME:
        return None
    try:
        return _EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        return None


def _day(time: datetime) -> datetime:
    return time.replace(hour=0, minute=0, second=0, microsecond=0)
