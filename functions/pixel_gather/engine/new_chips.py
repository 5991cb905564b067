"""Which chips of a table a cube of chips lacks. Pure."""

import math
from collections.abc import Sequence
from copy import replace
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pixel_gather.core.errors import RequestError
from pixel_gather.core.model.plurals import counted
from pixel_gather.core.plan.chip_rows import ChipAxis
from pixel_gather.core.plan.chip_table import TABLE_FIELD, ChipTable
from pixel_gather.core.ports import SourceTable
from pixel_gather.engine.base_cube import Base

if TYPE_CHECKING:  # finish has no pydantic
    from pixel_gather.core.request.request import GatherRequest

_SAME_PLACE: Final = 1e-9
"""Degrees: 0.1 mm."""


def choose_chips(request: "GatherRequest", whole: ChipTable, base: Base) -> ChipTable:
    """Return the chips of a table that are to be gathered, of all images of the cube.

    Chips without an id of their own get numbers after those of the cube.

    Args:
        request: The checked request. Its ``duplicates`` says what becomes of chips that the cube has.
        whole: The table over the list, with its bands in the cube's order.
        base: The cube that they are added to.

    Raises:
        RequestError: The list has other images than the cube, chips have another size, the table has other
            columns, or it has a chip that the cube has elsewhere, or which the request forbids.
    """
    assert base.template is not None  # noqa: S101 # a cube of chips is there
    assert base.template.chips is not None  # noqa: S101 # as above
    if request.duplicates == "again":
        raise RequestError("the cube has each chip once: set duplicates to skip or fail", field="duplicates")
    window, size = base.template.slots[0].window, whole.chips.size
    if size != (window.width, window.height):
        raise RequestError(
            f"the cube has chips of {window.width} x {window.height} pixels; the new ones would have "
            f"{size[0]} x {size[1]}",
            field="windows.size",
        )
    axis = base.template.chips
    known = _read_known(base, n_images=axis.n_images)
    _check_images(whole.table, known.hrefs)
    _check_columns(axis, whole.axis)
    kept = [at for at in range(len(whole.chips)) if not known.has(whole, at)]
    n_known = len(whole.chips) - len(kept)
    if n_known and request.duplicates == "fail":
        raise RequestError(
            f"the cube already has {counted(n_known, 'chip')} of this table. Leave them out of the table, or "
            "set duplicates to skip",
            field="duplicates",
        )
    chips = whole.chips.some(kept)
    if chips.is_numbered and kept:
        first = max(int(each) for each in known.places) + 1
        chips = replace(chips, ids=range(first, first + len(kept)))
    return replace(whole, chips=chips, whole_digest=whole.digest)


@dataclass(slots=True)
class _Known:
    """What a cube has."""

    places: dict[str | int, tuple[float, float]] = field(default_factory=dict)
    """Longitude and latitude of each chip, by its id."""

    hrefs: list[list[str]] = field(default_factory=list)
    """Of each image, one for each slot."""

    at_places: set[tuple[float, float]] = field(default_factory=set)

    def has(self, table: ChipTable, at: int) -> bool:
        """Return whether the cube has a chip.

        Raises:
            RequestError: The cube has its id at another place.
        """
        chips = table.chips
        lon, lat = float(chips.lons[at]), float(chips.lats[at])
        if chips.is_numbered:
            return (lon, lat) in self.at_places
        there = self.places.get(chips.ids[at])
        if there is None:
            return False
        if not all(
            math.isclose(ours, its, abs_tol=_SAME_PLACE) for ours, its in zip((lon, lat), there, strict=True)
        ):
            raise RequestError(
                f"the cube has chip {chips.ids[at]} at longitude {there[0]:.6f} and latitude {there[1]:.6f}: "
                "give this one another id",
                field=TABLE_FIELD,
            )
        return True


def _read_known(base: Base, *, n_images: int) -> _Known:
    """Return the chips of the cube's rows, and its images."""
    known = _Known()
    start = 0
    for batch in base.rows:
        n_rows = min(len(batch["href"]), base.append.first_row - start)  # of an append without commit: more
        told: list[list[Any]] = [batch[name][:n_rows].tolist() for name in ("chip", "lon", "lat")]
        for at in range(-start % n_images, n_rows, n_images):
            name, lon, lat = (each[at] for each in told)
            known.places[name] = lon, lat
        if start < n_images:
            hrefs = batch["href"][: min(n_images - start, n_rows)]
            known.hrefs += hrefs.reshape(len(hrefs), -1).tolist()
        start += n_rows
    known.at_places = set(known.places.values())
    return known


def _check_images(images: SourceTable, theirs: Sequence[Sequence[str]]) -> None:
    """Refuse another list of images than that of the cube."""
    ours = [
        ["" if source is None else source.href for source in row.sources]
        for row in images.rows(0, images.n_rows)
    ]
    if ours == theirs:
        return
    at = next((at for at, (one, other) in enumerate(zip(ours, theirs, strict=False)) if one != other), None)
    differ = (
        f"the cube has {counted(len(theirs), 'image')}, and the list {len(ours):,}"
        if at is None
        else f"image {at + 1} of the cube is {theirs[at][0]}, and that of the list {ours[at][0]}"
    )
    raise RequestError(
        f"{differ}. Only chips of the same images can be added: give the list of the first gather, or "
        "gather a new cube of the new images",
        field="sources",
    )


def _check_columns(theirs: ChipAxis, ours: ChipAxis) -> None:
    """Refuse a table whose chips have other columns than those of the cube."""
    if ours.id_dtype != theirs.id_dtype:
        raise RequestError(
            f"ids of chips are {theirs.id_dtype} in the cube, and {ours.id_dtype} in this table: call the "
            "column of ids id, or name it by windows.id of a request",
            field=TABLE_FIELD,
        )
    told = {each.name: each.dtype for each in theirs.columns}
    added = {each.name: each.dtype for each in ours.columns}
    fits = told.keys() == added.keys() and all(
        added[name] == dtype or (added[name], dtype) == ("int64", "float64") for name, dtype in told.items()
    )
    if not fits:
        raise RequestError(
            f"chips of the cube have the columns {_in_words(told)}, and those of this table "
            f"{_in_words(added)}: give them the same ones",
            field=TABLE_FIELD,
        )


def _in_words(columns: dict[str, str]) -> str:
    return ", ".join(f"{name} ({dtype})" for name, dtype in columns.items()) or "(none)"
