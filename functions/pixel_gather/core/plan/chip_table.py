"""A list of sources for a list of chips: each chip has a row for each row of the list. Pure."""

from collections.abc import Generator, Mapping, Sequence
from copy import replace
from functools import cached_property
from itertools import islice
from typing import Any, Final

import numpy as np
import xxhash
from msgspec import Struct

from pixel_gather.core.area import Box
from pixel_gather.core.errors import RequestError
from pixel_gather.core.model.chip import Chip
from pixel_gather.core.model.source import CubeRow, ListColumn
from pixel_gather.core.model.window import WindowRule
from pixel_gather.core.plan.chip_rows import ChipAxis, ChipRows, rows_of_chip
from pixel_gather.core.plan.longitudes import LONLAT, Floats, short_way_around
from pixel_gather.core.plan.table_view import TableOverList

TABLE_FIELD: Final = "windows.table"
"""The field of a request that names the table of chips."""

_MARGIN: Final = 0.1
"""Degrees by which the box of a scene is taken larger: more than half a chip of 512 pixels of 30 m."""

_BITS: Final = 16
"""Bits of each coordinate in the order of places."""


class Chips(Struct, frozen=True, kw_only=True, eq=False, dict=True):
    """The chips of a request, ordered so that neighbours follow one another."""

    ids: Sequence[str | int]
    xs: Floats
    ys: Floats
    crs: str
    """CRS of ``xs`` and ``ys``, the middles of the chips."""

    lons: Floats
    lats: Floats
    """The same in degrees."""

    size: tuple[int, int]
    """(width, height) in pixels."""

    kinds: tuple[ListColumn, ...]
    """The other columns of their table."""

    columns: Mapping[str, Sequence[Any]]
    """The values of these columns."""

    notes: tuple[str, ...] = ()
    """Remarks about the table, for the user."""

    is_numbered: bool = False
    """Whether ``ids`` are numbers from 1, as the table has none."""

    def __len__(self) -> int:
        """Return the number of chips."""
        return len(self.ids)

    @cached_property
    def digest(self) -> str:
        """32 hexadecimal digits that differ for other chips."""
        found = xxhash.xxh3_128(repr((self.crs, self.size, self.kinds)).encode())
        for each in (self.xs, self.ys):
            found.update(np.ascontiguousarray(each).tobytes())
        for values in (self.ids, *self.columns.values()):
            found.update(repr(list(values)).encode())  # brackets tell where a column ends
        return found.hexdigest()

    def __getitem__(self, index: int) -> Chip:
        """Return one chip."""
        return Chip(
            id=self.ids[index],
            lon=float(self.lons[index]),
            lat=float(self.lats[index]),
            rule=WindowRule(
                point=(float(self.xs[index]), float(self.ys[index])), size=self.size, crs=self.crs
            ),
            columns={name: values[index] for name, values in self.columns.items()},
        )

    def some(self, which: Sequence[int]) -> "Chips":
        """Return some of the chips, by their places among all, ascending."""
        return replace(
            self,
            ids=[self.ids[at] for at in which],
            **{name: getattr(self, name)[list(which)] for name in ("xs", "ys", "lons", "lats")},
            columns={name: [values[at] for at in which] for name, values in self.columns.items()},
        )

    def meets(self, box: Box) -> bool:
        """Return whether some chip may lie on a scene, from the scene's box in degrees.

        A chip at the edge of a scene has its middle beyond it, so the box is taken larger.
        """
        west, south, east, north = box
        width = (east - west) % 360 or (360 if east != west else 0)
        is_within = (self.lons - west + _MARGIN) % 360 <= width + 2 * _MARGIN
        return bool((is_within & (self.lats >= south - _MARGIN) & (self.lats <= north + _MARGIN)).any())

    def rule_of_all(self) -> WindowRule:
        """Return the box around the middles of all chips: where their scenes are looked for.

        In degrees, west > east if it is narrower across 180 degrees.
        """
        xs, ys = self.xs, self.ys
        west, east = float(xs.min()), float(xs.max())
        if self.crs == LONLAT:
            west, east = short_way_around(xs, xs)
        return WindowRule(bounds=(west, float(ys.min()), east, float(ys.max())), crs=self.crs)


def order_of_places(lons: Floats, lats: Floats) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return an order in which neighbours mostly follow one another: along a Z of Zs over their box."""
    codes = np.zeros(len(lons), np.int64)
    for axis, values in enumerate((lons, lats)):
        low, high = float(values.min()), float(values.max())
        whole = ((values - low) / ((high - low) or 1.0) * (2**_BITS - 1)).astype(np.int64)
        for bit in range(_BITS):
            codes |= (whole >> bit & 1) << (2 * bit + axis)
    return np.argsort(codes, kind="stable")


class ChipTable(TableOverList, frozen=True, kw_only=True, dict=True):
    """Implements `pixel_gather.core.ports.SourceTable`: row ``c * n_images + i`` is image i of chip c."""

    chips: Chips
    whole_digest: str | None = None
    """That of the whole table, if these chips are some of it."""

    def __post_init__(self) -> None:
        """Refuse columns that both have."""
        theirs = {each.name for each in self.table.columns}
        if twice := next((each.name for each in self.chips.kinds if each.name in theirs), None):
            raise RequestError(
                f"the list of sources has a column {twice}, too; rename one of both", field=TABLE_FIELD
            )

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks about both tables."""
        return (*self.table.notes, *self.chips.notes)

    @cached_property
    def axis(self) -> ChipAxis:
        """How the rows become chips and images."""
        is_text = isinstance(self.chips.ids[0], str)
        return ChipAxis(
            n_images=self.table.n_rows,
            id_dtype="string" if is_text else "int64",
            columns=self.chips.kinds,
        )

    @cached_property
    def _images(self) -> tuple[CubeRow, ...]:
        return tuple(self.table.rows(0, self.table.n_rows))

    @property
    def digest(self) -> str:
        """Changes when the list or the whole table of chips changes."""
        return self.whole_digest or xxhash.xxh3_128_hexdigest(
            f"{self.table.digest} {self.chips.digest}".encode()
        )

    @property
    def n_rows(self) -> int:
        """Rows of the cube: chips times images."""
        return len(self.chips) * self.table.n_rows

    @property
    def n_sources(self) -> int:
        """Windows: chips times lines of the list."""
        return len(self.chips) * self.table.n_sources

    @property
    def n_repeated(self) -> int:
        """Always 0: every chip reads the same sources, so repeats are not counted."""
        return 0

    @property
    def n_by_bucket(self) -> Mapping[str, int]:
        """Number of windows by S3 bucket."""
        return {bucket: n * len(self.chips) for bucket, n in self.table.n_by_bucket.items()}

    def part(self, start: int, stop: int) -> ChipRows:
        """Return rows [start, stop), which are those of whole chips."""
        n_images = len(self._images)
        numbers = range(start // n_images, stop // n_images)
        return ChipRows(chips=tuple(self.chips[number] for number in numbers), images=self._images)

    def rows(self, start: int, stop: int) -> Generator[CubeRow]:
        """Yield rows [start, stop)."""
        n_images = len(self._images)
        for number in range(start // n_images, -(-stop // n_images)):
            first = number * n_images
            of_chip = rows_of_chip(self.chips[number], self._images)
            yield from islice(of_chip, max(start - first, 0), min(stop - first, n_images))
