"""Features of a table: points or polygons with an id, and columns of their own. Pure.

Everything is held in arrays: a feature takes 8 bytes for each of x, y, time and id. A polygon takes 48 more,
and its corners are in a file.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
import xxhash
from msgspec import Struct

from pixel_gather.core.errors import RequestError
from pixel_gather.core.model.plurals import counted
from pixel_gather.core.ports import SourceTable
from pixel_gather.tables.shapes import Shapes

if TYPE_CHECKING:
    from arro3.core import ChunkedArray, Table

type Floats = np.ndarray[Any, np.dtype[np.float64]]
type Integers = np.ndarray[Any, np.dtype[np.int64]]

LONLAT: Final = "EPSG:4326"
NO_TIME: Final = np.iinfo(np.int64).min

_NOWHERE: Final = frozenset(("outside", "empty"))
"""Statuses of features that lie on no image."""


class Features(Struct, frozen=True, kw_only=True, eq=False, dict=True):
    """Points or polygons, in the order of their ids."""

    ids: np.ndarray[Any, Any]
    """int64, or objects that are texts. An id may repeat, such as that of a plot with several visits."""

    xs: Floats
    """Of a point. Of a polygon, the middle of its box. NaN if the feature is empty."""

    ys: Floats
    crs: str
    geometries: Shapes | None = None
    """Polygons; None for points."""

    times_us: Integers | None = None
    """When each feature was observed; `NO_TIME` if it does not say. None if the features have no times."""

    columns: "Table | None" = None
    """The columns that came with them, in their order."""

    notes: tuple[str, ...] = ()
    """What whoever asked should know, such as features that are empty."""

    def __len__(self) -> int:
        """Return the number of features."""
        return len(self.ids)

    problems: "np.ndarray[Any, np.dtype[np.uint8]] | None" = None
    """Why a feature can have no value: a status of a line, or 0. None if only empty ones have none."""

    @cached_property
    def is_empty(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Which features have no coordinates."""
        return ~(np.isfinite(self.xs) & np.isfinite(self.ys))

    @cached_property
    def digest(self) -> str:
        """16 hexadecimal digits that differ for other ids, coordinates or times."""
        texts = self.ids.dtype == object
        kinds = (self.crs, len(self), texts, self.times_us is None, self.geometries is None)
        found = xxhash.xxh3_64(repr(kinds).encode())  # from here on it is clear where each part ends
        for each in (self.xs, self.ys, self.times_us):
            if each is not None:
                found.update(np.ascontiguousarray(each).tobytes())
        found.update(msgspec.json.encode(self.ids.tolist()) if texts else self.ids.tobytes())
        if self.geometries is not None:
            found.update(self.geometries.sizes.tobytes())
            for part in self.geometries.blocks():
                for wkb in self.geometries.wkb(part):
                    found.update(wkb or b"")
        return found.hexdigest()

    @property
    def columns_digest(self) -> str:
        """16 hexadecimal digits that differ for other names or values of the features' own columns.

        Equal values have equal digests, however Arrow holds them.
        """
        names = [] if self.columns is None else self.columns.column_names
        found = xxhash.xxh3_64(repr((len(self), names)).encode())
        for column in () if self.columns is None else self.columns.columns:
            for part in _column_parts(column):
                found.update(part)
        return found.hexdigest()

    def in_order(self) -> "Features":
        """Return the features in the order of their ids; equal ids keep their order."""
        order = np.argsort(self.ids, kind="stable")
        if (order == np.arange(len(order))).all():
            return self
        from arro3.core import Array  # noqa: PLC0415 # only where there is something to sort

        columns = self.columns
        if columns is not None:
            at = Array.from_numpy(order.astype(np.int64))
            arrays = [column.combine_chunks().take(at) for column in columns.columns]
            columns = type(columns).from_arrays(arrays, schema=columns.schema)
        return replace(
            self,
            ids=self.ids[order],
            xs=self.xs[order],
            ys=self.ys[order],
            geometries=None if self.geometries is None else self.geometries.taken(order),
            times_us=None if self.times_us is None else self.times_us[order],
            columns=columns,
        )

    def within(self, time_us: int | None, tolerance_us: int | None) -> Integers | None:
        """Return the features that an image of a time is read for; None for all of them.

        Without a time or a tolerance, any image will do for any feature.
        """
        if tolerance_us is None or self.times_us is None:
            return None
        if time_us is None:
            return np.zeros(0, np.int64)
        is_known = self.times_us != NO_TIME
        apart = np.abs(np.where(is_known, self.times_us, 0) - time_us)
        return np.flatnonzero(is_known & (apart <= tolerance_us)).astype(np.int64)

    def box(self) -> tuple[float, float, float, float]:
        """Return the box around all features in their CRS.

        Raises:
            RequestError: All of them are empty.
        """
        if self.is_empty.all():
            raise RequestError("no feature has coordinates", field="features")
        bounds = self.bounds()
        (west, south), (east, north) = bounds[:, :2].min(axis=0), bounds[:, 2:].max(axis=0)
        return float(west), float(south), float(east), float(north)

    def bounds(self) -> Floats:
        """Return west, south, east and north of each shape, shape (n, 4); of each point if there is no shape.

        Features without coordinates are left out.
        """
        found = np.zeros((0, 4)) if self.geometries is None else self.geometries.bounds
        found = found[~np.isnan(found[:, 0])]
        return found if len(found) else np.stack([self.xs, self.ys] * 2, axis=1)[~self.is_empty]


def _column_parts(column: "ChunkedArray") -> Iterator[bytes]:
    """Yield the values of a column as bytes. Where batches begin and end makes no difference."""
    from arro3.core import DataType  # noqa: PLC0415 # only where there are columns

    is_whole = DataType.is_signed_integer(column.type)
    if (is_whole or DataType.is_float64(column.type)) and not column.null_count:
        dtype = np.dtype("<i8" if is_whole else "<f8")
        yield dtype.str.encode()
        for chunk in column.chunks:
            yield np.asarray(chunk.to_numpy()).astype(dtype, copy=False).tobytes()
        return
    for chunk in column.chunks:
        # Python has no times after the year 9999, and no nanoseconds.
        values = chunk.cast(DataType.string()) if DataType.is_temporal(column.type) else chunk
        yield f"{values.to_pylist()!r}"[1:-1].encode() + b", "


def checked_ids(values: Callable[[], Iterable[object]], n: int) -> np.ndarray[Any, Any]:
    """Return ids as integers if all of them are, else as texts.

    Raises:
        RequestError: A feature has none.
    """
    numbers, are_texts = np.zeros(n, np.int64), False
    for at, value in enumerate(values()):
        if value is None or value == "":
            raise RequestError(f"feature {at + 1} has no id", field="id")
        if not are_texts:
            try:
                numbers[at] = int(str(value))
            except (ValueError, OverflowError):
                are_texts = True
            else:
                are_texts = str(numbers[at]) != str(value)  # 007 is a text
    return np.array([str(value) for value in values()], object) if are_texts else numbers


def note_of_timeless(images: SourceTable, tolerance_us: int | None) -> tuple[str, ...]:
    """Return a note if times have to be near and some images have none. Without a tolerance, none has to."""
    n = images.n_timeless if images.has_time or images.n_timeless else images.n_rows
    if tolerance_us is None or not n:
        return ()
    verb = "has" if n == 1 else "have"
    told = f"{n:,} of {counted(images.n_rows, 'image')} {verb} no time, so no feature is near in time"
    return (f"{told}: give the list a column time (ls --time)",)


def note_of_nowhere(n_by_status: Mapping[str, int], crs: str) -> tuple[str, ...]:
    """Return a note if no feature lies on an image.

    Args:
        n_by_status: Lines of the table by their status.
        crs: The features'.
    """
    if "outside" not in n_by_status or not n_by_status.keys() <= _NOWHERE:
        return ()
    return (f"no feature lies on an image: is their CRS {crs[:60]}, with x first?",)


def note_of_empty(features: Features) -> tuple[str, ...]:
    """Return a note if some features have no coordinates."""
    n = int(features.is_empty.sum())
    return (f"{counted(n, 'feature')} without coordinates: the table says empty",) if n else ()
