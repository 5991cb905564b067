"""A joined array in a Zarr store: its coordinates, its members, its grids of presence."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import zarr
from zarr.abc.store import Store as ZarrStore
from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync

from pixel_gather.adapters.join.map_arrays import map_arrays
from pixel_gather.adapters.join.repository import Transaction
from pixel_gather.joining.describe import (
    RECORD,
    array_metadata,
    centre_of,
    coordinate_attributes,
    group_attributes,
    record_of,
)
from pixel_gather.joining.join_rows import (
    MEMBER,
    PRESENCE,
    dims_of,
    fill_of,
    joined_rows,
    numbered_texts,
    repeats_texts,
    shown_columns,
)
from pixel_gather.joining.member import Member
from pixel_gather.joining.references import references_of
from pixel_gather.report.presence import Presence
from pixel_gather.report.row_coordinates import Values

CHUNK_ROWS: Final = 65_536
"""Rows in one chunk of every coordinate. A reader loads `time` of a million rows with 16 requests."""

_MEMBERS: Final = "members"
_TEXTS: Final = "texts"
"""Group of coordinates that repeat few texts: a number for each row, and the texts by number. A million rows
are read in a fifth of the time that their texts take."""

_GRIDS: Final = "grids"
_GRID_CHUNK: Final = 1 << 16
"""Values in one chunk of a grid of presence: 1,024 blocks of 64 bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedGroup:
    """A joined array that is there."""

    name: str
    record: Mapping[str, Any]
    """From `record_of`."""

    group: "zarr.Group"

    @property
    def presence(self) -> Values:
        """Which of the stored rows exist."""
        return self.array(PRESENCE) == 1

    def array(self, name: str) -> Values:
        """Return all values of a coordinate, padding included."""
        if name in self.record["texts"]:
            texts, numbers = self.numbered(name)
            return texts[numbers]
        found: Any = self.group[name]
        return np.asarray(found[...])

    def numbered(self, name: str) -> tuple[Values, Values]:
        """Return the texts of a coordinate that repeats few texts, and each row's number among them."""
        texts: Any = self.group[f"{_TEXTS}/{name}/texts"]
        numbers: Any = self.group[f"{_TEXTS}/{name}/numbers"]
        return np.asarray(texts[...]).astype(object), np.asarray(numbers[...])

    def members(self) -> dict[str, Values]:
        """Return the table of its members, by column."""
        return {name: np.asarray(self.group[f"{_MEMBERS}/{name}"][...]) for name in _member_columns([])}  # type: ignore[index]

    @property
    def columns(self) -> tuple[str, ...]:
        """The coordinates of its rows."""
        return (PRESENCE, MEMBER, *self.record["columns"])

    @property
    def dim(self) -> str:
        """Name of the rows' axis."""
        return str(self.record["kind"]["axes"][0])


def read_groups(store: ZarrStore, names: Sequence[str] | None = None) -> list[JoinedGroup]:
    """Return joined arrays of a store in their order. All of them, unless some are named."""
    root = zarr.open_group(store, mode="r" if store.read_only else "r+", use_consolidated=False)
    if names is None:
        names = [str(each) for each in root.attrs["groups"]]  # type: ignore[union-attr] # a list of texts
    groups: list[Any] = [root[name] for name in names]
    return [
        JoinedGroup(name=name, record=json.loads(group.attrs[RECORD]), group=group)
        for name, group in zip(names, groups, strict=True)
    ]


def write_groups(store: ZarrStore, names: Sequence[str]) -> None:
    """Write the names of all joined arrays."""
    _put(store, "zarr.json", _group_document({"groups": list(names)}))


def write_group(
    transaction: Transaction,
    name: str,
    members: Sequence[Member],
    *,
    any_grid: bool,
    keep: Sequence[str],
    by: Sequence[str],
) -> None:
    """Write a new joined array.

    Args:
        transaction: Where.
        name: Of the group.
        members: Its cubes, of one kind.
        any_grid: Whether they may lie on different grids.
        keep: Further columns of their tables that become coordinates.
        by: The grids of presence that will be stored.
    """
    store, first = transaction.store, members[0]
    columns = shown_columns(members, keep)
    rows = joined_rows(members, columns)
    texts = [column for column, values in rows.items() if repeats_texts(values)]
    kind = first.kind(any_grid=any_grid)
    record = record_of(kind, any_grid=any_grid, columns=columns, texts=texts, by=by)
    _put(store, f"{name}/zarr.json", _group_document(group_attributes(first, record, any_grid=any_grid)))
    _put(store, f"{name}/{_MEMBERS}/zarr.json", _group_document({}))
    _create_rows(store, name, members, rows)
    for column in texts:
        _write_numbers(store, f"{name}/{_TEXTS}/{column}", rows[column])
    on_map = []
    for axis, values, dims, attributes in () if any_grid else map_arrays(first):
        _create(store, f"{name}/{axis}", values, dims, attributes)
        on_map.append(axis)
    if len(first.measurements) > 1:
        _create(
            store, f"{name}/measurement", np.array(first.measurements, dtype=object), ("measurement",), {}
        )
    beside = sorted({*rows, *on_map} - {first.dims[0], "x", "y"})
    _refer(transaction, name, members, first_row=0, beside=beside)
    for column, values in _member_columns(members).items():
        _create(store, f"{name}/{_MEMBERS}/{column}", values, (_MEMBERS,), {})


def extend_group(transaction: Transaction, joined: JoinedGroup, members: Sequence[Member]) -> None:
    """Add cubes to a joined array.

    Args:
        transaction: Where.
        joined: The array, opened from the transaction's store.
        members: The cubes, of its kind.
    """
    table = joined.members()
    n_members = len(table["place"])
    presence: Any = joined.group[PRESENCE]
    first_row = presence.shape[0]
    for name, values in joined_rows(members, joined.record["columns"], first_member=n_members).items():
        _extend(joined.group[name], values)
        if name in joined.record["texts"]:
            known, _ = joined.numbered(name)
            _write_numbers(transaction.store, f"{joined.name}/{_TEXTS}/{name}", values, known=known)
    beside = str(joined.group[members[0].measurements[0]].attrs["coordinates"]).split()
    _refer(transaction, joined.name, members, first_row=first_row, beside=beside)
    for name, values in _member_columns(members, first_row=first_row).items():
        _extend(joined.group[f"{_MEMBERS}/{name}"], values)


def write_grid(store: ZarrStore, name: str, by: str, number: int, grid: Presence) -> None:
    """Store a grid of presence, compressed, in chunks of whole blocks. Replaces an older one."""
    folder = f"{name}/{_GRIDS}/{number}"
    attributes = {
        "by": by,
        "names": list(grid.names),
        "shape": list(grid.shape),
        "n_left_out": grid.n_left_out,
        "units": [np.datetime_data(each.dtype)[0] if each.dtype.kind == "M" else "" for each in grid.labels],
    }
    _put(store, f"{name}/{_GRIDS}/zarr.json", _group_document({}))
    _put(store, f"{folder}/zarr.json", _group_document(attributes))
    labels = {
        f"labels_{n}": each.astype("int64") if each.dtype.kind == "M" else each
        for n, each in enumerate(grid.labels)
    }
    parts = {"bits": grid.bits, "ranks": grid.ranks, "starts": grid.starts, "order": grid.order}
    for part, values in (parts | labels).items():
        _create(store, f"{folder}/{part}", values, (part,), {}, chunk=_GRID_CHUNK)


def read_grid(joined: JoinedGroup, by: str) -> Presence | None:
    """Return a stored grid of presence, or None if this one is not stored."""
    if by not in joined.record["by"]:
        return None
    group: Any = joined.group[f"{_GRIDS}/{joined.record['by'].index(by)}"]
    part = {name: np.asarray(array[...]) for name, array in group.arrays()}
    labels = tuple(
        part[f"labels_{n}"].astype(f"datetime64[{unit}]") if unit else part[f"labels_{n}"]
        for n, unit in enumerate(group.attrs["units"])
    )
    return Presence(
        names=tuple(group.attrs["names"]),
        labels=labels,
        bits=part["bits"],
        ranks=part["ranks"],
        starts=part["starts"],
        order=part["order"],
        n_left_out=int(group.attrs["n_left_out"]),
    )


def _refer(
    transaction: Transaction, name: str, members: Sequence[Member], *, first_row: int, beside: Sequence[str]
) -> None:
    n_rows = first_row + sum(each.n_padded for each in members)
    found = list(references_of(members, first_row=first_row))
    for measurement in members[0].measurements:
        array = f"{name}/{measurement}"
        _put(
            transaction.store,
            f"{array}/zarr.json",
            array_metadata(members, measurement, n_rows=n_rows, beside=beside),
        )
        transaction.refer(array, [each for each in found if each.shard.measurement == measurement])


def _write_numbers(store: ZarrStore, folder: str, values: Values, *, known: Values | None = None) -> None:
    """Write, or extend, texts by number. Texts that are known keep their numbers."""
    texts, numbers = numbered_texts(values, [] if known is None else known.tolist())
    if known is None:
        _put(store, f"{folder.rpartition('/')[0]}/zarr.json", _group_document({}))
        _put(store, f"{folder}/zarr.json", _group_document({}))
        _create(store, f"{folder}/numbers", numbers, ("row",), {})
    else:
        _extend(zarr.open_array(store, path=f"{folder}/numbers", mode="r+"), numbers)
    _create(store, f"{folder}/texts", texts, ("text",), {})


def _create_rows(store: ZarrStore, name: str, members: Sequence[Member], rows: Mapping[str, Values]) -> None:
    for column, values in rows.items():
        dims = dims_of(column, values, members[0].dims[0])
        _create(store, f"{name}/{column}", values, dims, coordinate_attributes(members, column))


def _member_columns(members: Sequence[Member], *, first_row: int = 0) -> dict[str, Values]:
    padded = [each.n_padded for each in members]
    starts = first_row + np.cumsum([0, *padded[:-1]], dtype="int64")[: len(members)]
    centres = [centre_of(each.attributes) for each in members]
    return {
        "place": np.array([each.place for each in members], dtype=object),
        "version": np.array([each.version for each in members], dtype=object),
        "digest": np.array([each.digest for each in members], dtype=object),
        "first_row": starts,
        "n_rows": np.array([each.n_rows for each in members], dtype="int64"),
        "crs": np.array([crs for crs, _, _ in centres], dtype=object),
        "x": np.array([x for _, x, _ in centres], dtype="float64"),
        "y": np.array([y for _, _, y in centres], dtype="float64"),
    }


def _create(
    store: ZarrStore,
    path: str,
    values: Values,
    dims: Sequence[str],
    attributes: Mapping[str, Any],
    *,
    chunk: int = CHUNK_ROWS,
) -> None:
    is_text = values.dtype == object
    array = zarr.create_array(
        store,
        name=path,
        shape=values.shape,
        chunks=(chunk, *values.shape[1:])
        if values.shape
        else (),  # the same whatever its length: it may grow
        dtype=str if is_text else values.dtype,
        fill_value=fill_of(path.rpartition("/")[2], values.dtype),
        dimension_names=tuple(dims),
        attributes=dict(attributes),
        overwrite=True,
    )
    array[...] = values


def _extend(array: Any, values: Values) -> None:
    start = array.shape[0]
    array.resize((start + len(values), *array.shape[1:]))
    array[start:] = values


def _group_document(attributes: Mapping[str, Any]) -> bytes:
    return json.dumps({"zarr_format": 3, "node_type": "group", "attributes": attributes}).encode()


def _put(store: ZarrStore, key: str, content: bytes) -> None:
    sync(store.set(key, default_buffer_prototype().buffer.from_bytes(content)))
