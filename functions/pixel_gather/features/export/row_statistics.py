"""Writes what a cube knows of its rows as a table: time, source, status, statistics and timings."""

import csv
from collections.abc import Callable, Iterator
from copy import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from pixel_gather.core.model.band_meaning import MOST_CLASSES, has_classes
from pixel_gather.core.plan.cube_plan import BAND
from pixel_gather.core.results.row_coordinates import RESERVED_NAMES, Values, are_booleans, missing_in
from pixel_gather.core.results.row_evidence import stored_status
from pixel_gather.features.export.cube_rows import CubeRows, dims_of, measurements_of, open_array
from pixel_gather.io.parquet.parquet_file import write_parquet_file

_AFFINE: Final = "abcdef"
_OF_QUANTITIES: Final = ("mean", "min", "max")
"""Coordinates that say nothing of classes."""

_OWN: Final = RESERVED_NAMES | {None, "time"}
"""Coordinates of the cube itself, not of its list, and what is computed here."""


def write_csv(rows: CubeRows, path: Path) -> None:
    """Write one line for each row.

    Times are ISO 8601 in UTC. A status is its name. Missing values are empty.
    """
    columns = _named_columns(rows)
    with path.open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(columns)
        lines.writerows(
            ["" if each is None else each for each in line] for line in zip(*columns.values(), strict=True)
        )


def write_parquet(rows: CubeRows, path: Path) -> None:
    """Write one line for each row, with the columns of the CSV. Missing values are nulls."""
    from arro3.core import Array, DataType, Table  # noqa: PLC0415 # 0.1 s, for Parquet alone

    def typed(name: str, values: list[Any]) -> Any:
        if name == "time":
            micros = [_microseconds(each) for each in values]
            return Array(micros, DataType.int64()).cast(DataType.timestamp("us", tz="UTC"))
        kinds = {type(each) for each in values if each is not None}
        if kinds <= {str}:
            return Array(values, DataType.utf8())
        if kinds == {bool}:
            return Array(values, DataType.bool())
        return Array(values, DataType.int64() if kinds == {int} else DataType.float64())

    columns = _named_columns(rows)
    arrays = [typed(name, values) for name, values in columns.items()]
    write_parquet_file(Table.from_arrays(arrays, names=list(columns)), path)


def _named_columns(rows: CubeRows) -> dict[str, list[Any]]:
    """Return the values of each column by its name.

    A column of the list has ``list_`` before its name where the table has another column of this name.
    """
    columns = [*_columns(rows)]
    own = {name for coordinate, name, _ in columns if coordinate in _OWN}
    found: dict[str, list[Any]] = {}
    for coordinate, name, values in columns:
        unique = name
        while coordinate not in _OWN and (unique in own or unique in found):
            unique = f"list_{unique}"
        found[unique] = values
    return found


def _columns(rows: CubeRows) -> Iterator[tuple[str | None, str, list[Any]]]:
    """Yield coordinate, name and values of each column: row, time, href, then others in alphabetical order.

    What is computed here has no coordinate.
    """
    yield None, "row", rows.rows.tolist()
    row_dim = dims_of(open_array(rows.group, "status"))[:1]
    known = measurements_of(rows.group)
    arrays = {
        name: array
        for name, array in rows.group.arrays()
        if dims_of(array)[:1] == row_dim and name not in known
    }
    of_classes = [name for name in rows.measurements if has_classes(name, rows.meaning(name))]
    for name in sorted(arrays, key=lambda each: (each != "time", each != "href", each)):
        dims = dims_of(arrays[name])[1:]
        values = rows.coordinate(name)
        labels = [known if dim in ("measurement", BAND) else _AFFINE for dim in dims]
        columns = _flat(name, values, labels, told=partial(_told, name))
        alone = {name} if known == tuple(of_classes) else set()
        of_quantities = alone | {f"{name}_{each}" for each in of_classes} if name in _OF_QUANTITIES else set()
        yield from ((name, column, told) for column, told in columns if column not in of_quantities)
    for name in of_classes:
        shares = _shares(replace(rows, measurements=(name,)), alone=len(known) == 1)
        yield from ((None, column, told) for column, told in shares)


def _shares(rows: CubeRows, *, alone: bool) -> Iterator[tuple[str, list[Any]]]:
    """Yield the most frequent class of each row, and the share of each class in its valid pixels."""
    counted: list[dict[int, int]] = []
    for row in rows.read():
        values, counts = np.unique(row.pixels[0][row.is_valid[0]], return_counts=True)
        counted.append(dict(zip(values.tolist(), counts.tolist(), strict=True)))
    suffix = "" if alone else f"_{rows.measurements[0]}"
    yield f"majority{suffix}", [max(each, key=each.__getitem__) if each else None for each in counted]
    seen = {value for each in counted for value in each}
    for value in sorted(seen) if len(seen) <= MOST_CLASSES else ():
        shares = [each.get(value, 0) / sum(each.values()) if each else None for each in counted]
        yield f"share{suffix}_{value}", shares


def _flat(
    name: str, values: Values, labels: list[Any], *, told: Callable[[Values], list[Any]]
) -> Iterator[tuple[str, list[Any]]]:
    """Yield one column for each label of the further dimensions: ``mean_red``, ``transform_a``."""
    if labels:
        for index, label in enumerate(labels[0]):
            yield from _flat(f"{name}_{label}", values[:, index], labels[1:], told=told)
        return
    yield name, told(values)


def _told(coordinate: str, values: Values) -> list[Any]:
    """Return the values of a coordinate, None where one is missing. Complex numbers become text."""
    if coordinate == "time":
        return [_iso(each) for each in values]
    if coordinate == "status":
        return [stored_status(int(each), place=coordinate).name.lower() for each in values]
    plain = values.astype(bool) if are_booleans(coordinate, values) else values
    are_missing = missing_in(coordinate, values).tolist()
    return [
        None if is_missing else str(each) if isinstance(each, complex) else each
        for each, is_missing in zip(plain.tolist(), are_missing, strict=True)
    ]


def _microseconds(iso: str | None) -> int | None:
    return None if iso is None else int(np.datetime64(iso.removesuffix("Z"), "us").astype("int64"))


def _iso(microseconds: Any) -> str | None:
    time = np.datetime64(int(microseconds), "us")
    return None if np.isnat(time) else f"{time}Z"
