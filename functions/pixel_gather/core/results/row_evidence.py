"""Rows of a cube as their gather left them, from the table of all rows. An append goes on from there. Pure.

This is the inverse of `pixel_gather.core.results.row_coordinates.table_values`.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from pixel_gather.core.errors import StoreError
from pixel_gather.core.model.chip import Chip
from pixel_gather.core.model.outcome import BandStats, Outcome
from pixel_gather.core.model.source import Cost, CubeRow, Source
from pixel_gather.core.model.status import Status
from pixel_gather.core.model.window import Transform, WindowRule
from pixel_gather.core.plan.chip_rows import ChipAxis
from pixel_gather.core.plan.cube_plan import CubePlan
from pixel_gather.core.results.contributors import CONTRIBUTORS, Scenes, scenes_from_lines
from pixel_gather.core.results.row_coordinates import NO_BOOLEAN, NO_TIME, NOT_GATHERED, Values

type Rows = list[tuple[CubeRow, list[Outcome]]]
"""Rows with the outcome of each of their sources."""


def rows_from_values(plan: CubePlan, values: Mapping[str, Values]) -> Rows:
    """Return consecutive rows and their outcomes.

    Args:
        plan: Plan of the cube.
        values: The columns of `table_values` of these rows.

    Raises:
        StoreError: A status is none that this version knows.
    """
    table = _Table(plan, values)
    return [table.row(row) for row in range(len(values["href"]))]


def stored_status(value: int, *, place: str) -> Status:
    """Return the status that a cube stores as a number.

    Args:
        value: The number.
        place: The cube or its file, as errors name it.

    Raises:
        StoreError: No status has this number.
    """
    try:
        return Status(value)
    except ValueError as error:
        raise StoreError(
            f"{place}: no status has the number {value}: the cube is damaged, or a newer version wrote it"
        ) from error


class ChipValues:
    """The chips of some rows, from the columns of their table. One is made when it is asked for."""

    def __init__(
        self,
        axis: ChipAxis,
        size: tuple[int, int],
        values: Mapping[str, Values],
        *,
        which: Values | None = None,
    ) -> None:
        """Take the columns.

        Args:
            axis: The cube's.
            size: (width, height) of its chips in pixels.
            values: The columns of `table_values` of consecutive rows.
            which: Which of these rows are kept; None for all.
        """
        self._axis, self._size = axis, size
        names = ("chip", *_MIDDLE_IN_DEGREES, *_MIDDLE, "chip_crs", *(each.name for each in axis.columns))
        # earlier tables tell the middles in degrees alone
        there = {name: values[name] for name in names if name in values}
        self._told = there if which is None else {name: each[which] for name, each in there.items()}

    def __getitem__(self, row: int) -> Chip:
        """Return the chip of a row that is kept."""
        told = {name: values[row : row + 1].tolist()[0] for name, values in self._told.items()}
        is_exact = bool(told.get("chip_crs"))
        middle = tuple(told[name] for name in (_MIDDLE if is_exact else _MIDDLE_IN_DEGREES))
        return Chip(
            id=told["chip"],
            lon=told["lon"],
            lat=told["lat"],
            rule=WindowRule(point=middle, size=self._size, crs=told["chip_crs"] if is_exact else "EPSG:4326"),
            is_exact=is_exact,
            columns={each.name: column_value(told[each.name], each.dtype) for each in self._axis.columns},
        )


class _Table:
    """Columns as lists: ``[row][slot]``, ``[row][measurement]`` or ``[row]``."""

    def __init__(self, plan: CubePlan, values: Mapping[str, Values]) -> None:
        n_rows, n_slots, n_measurements = len(values["href"]), len(plan.slots), len(plan.measurements)

        def lists(names: Iterable[str], n: int) -> dict[str, list[Any]]:
            """Return columns as lists, with n values for each row."""
            inner = {name: values[name].shape[1 + (n > 1) :] for name in names}
            return {name: values[name].reshape(n_rows, n, *inner[name]).tolist() for name in inner}

        self._plan = plan
        # Values of each source, each measurement and each row, by row.
        self._slot = lists(_PER_SLOT, n_slots)
        self._band = lists(_PER_MEASUREMENT, n_measurements)
        self._columns = lists((each.name for each in plan.columns if each.varies_in_row), n_slots)
        for each in plan.columns:
            if not each.varies_in_row:
                self._columns[each.name] = [[value] * n_slots for value in values[each.name].tolist()]
        self._times = values["time"].tolist() if plan.has_time else [NO_TIME] * n_rows
        tries = values.get("tries", np.ones(n_rows * n_slots, dtype="int64"))  # earlier tables have none
        self._tries = tries.reshape(n_rows, n_slots).tolist()
        # What only some cubes have.
        is_reduced = plan.reduction is not None
        self._reduced = lists(("sources_used", "sources_failed") if is_reduced else (), n_slots)
        self._lines = values[CONTRIBUTORS].tolist() if is_reduced else []
        self._masked = values["masked"].tolist() if plan.mask is not None else []
        self._offsets = lists(
            ("offset_state", "offset_reason") if plan.judges_offsets else (), n_measurements
        )
        self._chips = (
            None if plan.chips is None else ChipValues(plan.chips, (plan.width, plan.height), values)
        )

    def row(self, row: int) -> tuple[CubeRow, list[Outcome]]:
        """Return the sources of a row, and the outcome of each."""
        time_us = self._times[row]
        slots = range(len(self._plan.slots))
        outcomes = [self._outcome(row, slot) for slot in slots]
        members, outcomes[0].members = self._scenes(row)
        sources = CubeRow(
            time_us=None if time_us == NO_TIME else time_us,
            sources=tuple(self._source(row, slot) for slot in slots),
            members=members,
            chip=None if self._chips is None else self._chips[row],
        )
        return sources, outcomes

    def _scenes(self, row: int) -> Scenes:
        """Return the scenes that are reduced to a row; none if each row is one."""
        names = [each.name for each in self._plan.of_scenes.slots]
        return scenes_from_lines(self._lines[row], names) if self._lines else ((), [])

    def _source(self, row: int, slot: int) -> Source | None:
        href = self._slot["href"][row][slot]
        if not href and not self._lines:
            return None
        told = {
            each.name: column_value(self._columns[each.name][row][slot], each.dtype)
            for each in self._plan.columns
        }
        time_us, scene = told.pop("time", None), told.pop("scene", None)
        return Source(href=href, band=self._plan.slots[slot].name, scene=scene, time_us=time_us, columns=told)

    def _outcome(self, row: int, slot: int) -> Outcome:
        told = {name: values[row][slot] for name, values in self._slot.items()}
        positions = list(_positions(self._plan, slot))
        scaling = tuple(
            (self._band["scale_factor"][row][at], self._band["add_offset"][row][at]) for at in positions
        )
        ours = tuple((each.scale, each.offset) for each in self._plan.of_slot(slot))
        transform = told["transform"]
        return Outcome(
            status=stored_status(self._band["status"][row][positions[0]], place="rows.parquet"),
            reason=told["failure"] or None,
            etag=told["etag"] or None,
            object_nbytes=told["object_bytes"],
            transform=None if math.isnan(transform[0]) else Transform(*transform),
            crs=told["crs"] or None,
            nodata=_nodata(told["nodata"], self._plan.nodata(slot)),
            extent=(
                told["inside_x_start"],
                told["inside_y_start"],
                told["inside_x_stop"],
                told["inside_y_stop"],
            ),
            scaling=None if scaling == ours else scaling,
            is_aligned=True,  # the report of the cube says whether all rows are
            start_s=told["start"],
            end_s=told["end"],
            cost=Cost(
                requests=told["requests"],
                retries=told["retries"],
                nbytes=told["bytes"],
                header_nbytes=told["header_bytes"],
                open_s=told["open"],
                read_s=told["read"],
                decode_s=told["decode"],
            ),
            bands=[self._stats(row, at) for at in positions],
            n_masked=self._n_masked(row) if slot == self._plan.mask_slot else None,
            **self._told_of_offsets(row, positions),
            tries=self._tries[row][slot],
            n_used=self._reduced["sources_used"][row][slot] if self._reduced else None,
            n_failed=self._reduced["sources_failed"][row][slot] if self._reduced else None,
        )

    def _told_of_offsets(self, row: int, positions: Sequence[int]) -> dict[str, Any]:
        """Return the fields of an outcome that say how its bands were harmonised or scaled."""
        states, reasons = (
            ([told[row][at] for at in positions] for told in self._offsets.values())
            if self._offsets
            else ([NOT_GATHERED], [""])
        )
        return {} if NOT_GATHERED in states else {"offset_states": states, "offset_reasons": reasons}

    def _n_masked(self, row: int) -> int | None:
        share = self._masked[row]
        return None if math.isnan(share) else round(share * self._plan.height * self._plan.width)

    def _stats(self, row: int, at: int) -> BandStats:
        told = {name: values[row][at] for name, values in self._band.items()}
        return BandStats(
            n_valid=round(told["valid_fraction"] * self._plan.height * self._plan.width),
            min=told["min"],
            max=told["max"],
            mean=told["mean"],
            digest=told["pixel_digest"],
        )


_PER_SLOT: Final = (
    *("href", "etag", "crs", "start", "end", "open", "read", "decode", "bytes", "header_bytes", "requests"),
    *("retries", "transform", "nodata", "inside_x_start", "inside_y_start", "inside_x_stop", "inside_y_stop"),
    *("object_bytes", "failure"),
)
_PER_MEASUREMENT: Final = (
    *("min", "max", "mean", "valid_fraction"),
    *("status", "scale_factor", "add_offset", "pixel_digest"),
)
_MIDDLE: Final = ("chip_x", "chip_y")
_MIDDLE_IN_DEGREES: Final = ("lon", "lat")


def _positions(plan: CubePlan, slot: int) -> Iterator[int]:
    """Yield the positions of a slot's measurements among all."""
    return (at for at, each in enumerate(plan.measurements) if each.slot == slot)


def column_value(value: Any, dtype: str) -> Any:
    """Return a value of one of the list's columns as the list has it, or None if it is missing.

    Args:
        value: As it is stored, no scalar of NumPy.
        dtype: The column's, as in `pixel_gather.core.model.source.ListColumn`.
    """
    if dtype == "bool":
        return None if value == NO_BOOLEAN else bool(value)
    is_missing = value in ("", NO_TIME) or value != value  # noqa: PLR0124 # true of NaN alone
    return None if is_missing else value


def _nodata(told: float, ours: float | None) -> float | None:
    """Return the nodata that a source declares. The table has NaN for NaN and for none."""
    if told != told:  # noqa: PLR0124 # true of NaN alone
        return told if ours is not None and ours != ours else None  # noqa: PLR0124 # as above
    return told
