"""A joined array in a Zarr store: its coordinates, its members."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import zarr
from msgspec import Struct
from zarr.abc.store import Store as ZarrStore
from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync

from pixel_gather.core.errors import RequestError
from pixel_gather.core.results.join_member import PRESENCE, Member
from pixel_gather.core.results.row_coordinates import Values
from pixel_gather.core.results.rows_where import NumberedTexts
from pixel_gather.features.join.icechunk_repository import Transaction
from pixel_gather.features.join.join_rows import (
    MEMBER,
    OWN,
    coordinate_dims,
    joined_rows,
    numbered_texts,
    padding_value,
    repeats_texts,
    shown_columns,
    unite_values,
)
from pixel_gather.features.join.joined_metadata import (
    RECORD,
    array_metadata,
    centre_of,
    coordinate_attributes,
    group_attributes,
    map_arrays,
    with_gaps,
)
from pixel_gather.features.join.read_members import is_same_file
from pixel_gather.features.join.references import refer_to_shards
from pixel_gather.io.cube.bounded_codecs import with_bounded_codecs

CHUNK_ROWS: Final = 65_536
"""Rows in one chunk of every coordinate. A reader loads `time` of a million rows with 16 requests."""

_FORMAT: Final = 1
_MEMBERS: Final = "members"
_LOCAL: Final = "local_shards"
"""Group of shards in local files: what Icechunk does not compare of them."""

_NUMBERS: Final = "biufc"
"""Kinds of dtypes that are no text."""

_LOCAL_COLUMNS: Final = ("chunk", "href", "etag")
_TEXTS: Final = "texts"
"""Group of coordinates that repeat few texts: a number for each row, and the texts by number. A million rows
are read in a fifth of the time that their texts take."""


class JoinedGroup(Struct, frozen=True, kw_only=True):
    """A joined array that is there."""

    name: str
    record: Mapping[str, Any]
    """How it was joined, so that more cubes can be added in the same way: ``kind``, ``any_grid``, ``columns``
    of the members' tables, and ``texts``, those of them that repeat few texts."""

    group: "zarr.Group"

    @property
    def presence(self) -> Values:
        """Which of the stored rows exist."""
        return np.asarray(self.array(PRESENCE) == 1)

    def array(self, name: str) -> Values:
        """Return all values of a coordinate, padding included."""
        if name in self.record["texts"]:
            found = self.read_numbered(name)
            return np.asarray(found.texts[found.numbers])
        return self._values(name)

    def read_numbered(self, name: str) -> NumberedTexts:
        """Return a coordinate that repeats few texts."""
        texts, numbers = (self._values(f"{_TEXTS}/{name}/{each}") for each in ("texts", "numbers"))
        return NumberedTexts(texts=texts.astype(object), numbers=numbers)

    def members(self) -> dict[str, Values]:
        """Return the table of its members, by column."""
        return {name: self._values(f"{_MEMBERS}/{name}") for name in _member_columns([])}

    def _values(self, path: str) -> Values:
        with with_bounded_codecs():
            array: Any = self.group[path]
        return np.asarray(array[...])

    def changed_shards(self) -> dict[str, str]:
        """Return the chunks whose local shard has another size or time than when it was joined, by key."""
        if _LOCAL not in self.group:
            return {}
        chunks, hrefs, etags = (self._values(f"{_LOCAL}/{name}").tolist() for name in _LOCAL_COLUMNS)
        return {
            f"{self.name}/{chunk}": href
            for chunk, href, etag in zip(chunks, hrefs, etags, strict=True)
            if not is_same_file(href, etag)
        }

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
    if "groups" not in root.attrs:
        raise RequestError(
            "a virtual cube is there, which refers to files: open it by open_virtual", field="cube"
        )
    if names is None:
        names = [str(each) for each in root.attrs["groups"]]  # type: ignore[union-attr] # a list of texts
    groups: list[Any] = [root[name] for name in names]
    return [
        JoinedGroup(name=name, record=json.loads(group.attrs[RECORD]), group=group)
        for name, group in zip(names, groups, strict=True)
    ]


def write_groups(store: ZarrStore, names: Sequence[str]) -> None:
    """Write the names of all joined arrays."""
    put_object(store, "zarr.json", group_document({"groups": list(names)}))


def write_group(
    transaction: Transaction,
    name: str,
    members: Sequence[Member],
    *,
    any_grid: bool,
    keep: Sequence[str],
) -> None:
    """Write a new joined array.

    The members are of one kind. ``keep`` names further columns of their tables that become coordinates.
    """
    store, first = transaction.store, members[0]
    columns = shown_columns(members, keep)
    rows = joined_rows(members, columns)
    texts = [column for column, values in rows.items() if repeats_texts(values)]
    record = {
        "format": _FORMAT,
        "kind": first.kind(any_grid=any_grid),
        "any_grid": any_grid,
        "columns": list(columns),
        "texts": texts,
    }
    put_object(store, f"{name}/zarr.json", group_document(group_attributes(first, record, any_grid=any_grid)))
    put_object(store, f"{name}/{_MEMBERS}/zarr.json", group_document({}))
    for column, values in rows.items():
        dims = coordinate_dims(column, values, first.dims[0])
        create_array(store, f"{name}/{column}", values, dims, coordinate_attributes(members, column, values))
    for column in texts:
        _write_numbers(store, f"{name}/{_TEXTS}/{column}", rows[column])
    on_map = []
    for axis, centres, dims, attributes in () if any_grid else map_arrays(first):
        create_array(store, f"{name}/{axis}", centres, dims, attributes)
        on_map.append(axis)
    if len(first.measurements) > 1:
        create_array(
            store, f"{name}/measurement", np.array(first.measurements, dtype=object), ("measurement",), {}
        )
    beside = sorted({*rows, *on_map} - {first.dims[0], "x", "y"})
    _refer(transaction, name, members, first_row=0, beside=beside)
    for column, values in _member_columns(members).items():
        create_array(store, f"{name}/{_MEMBERS}/{column}", values, (_MEMBERS,), {})
    _note_local_shards(store, name, members, first_row=0)


def extend_group(transaction: Transaction, joined: JoinedGroup, members: Sequence[Member]) -> None:
    """Add cubes to a joined array."""
    table = joined.members()
    n_members = len(table["place"])
    presence: Any = joined.group[PRESENCE]
    first_row = presence.shape[0]
    there = {name for each in members for name in each.columns}
    columns = joined.record["columns"]
    rows = joined_rows(members, [name for name in columns if name in there], first_member=n_members)
    for name in [name for name in columns if name not in there]:
        before = joined.array(name)
        before = before if before.dtype.kind in _NUMBERS else before.astype(object)
        _, rows[name] = unite_values(name, [before, None], [len(before), len(rows[PRESENCE])])
    for name, values in rows.items():
        _extend_column(transaction.store, joined, name, values)
        if name in joined.record["texts"]:
            known = joined.read_numbered(name).texts
            _write_numbers(transaction.store, f"{joined.name}/{_TEXTS}/{name}", values, known=known)
    beside = str(joined.group[members[0].measurements[0]].attrs["coordinates"]).split()
    _refer(transaction, joined.name, members, first_row=first_row, beside=beside)
    for name, values in _member_columns(members, first_row=first_row).items():
        _extend(joined.group[f"{_MEMBERS}/{name}"], values)
    _note_local_shards(transaction.store, joined.name, members, first_row=first_row, joined=joined)


def _refer(
    transaction: Transaction, name: str, members: Sequence[Member], *, first_row: int, beside: Sequence[str]
) -> None:
    n_rows = first_row + sum(each.n_padded for each in members)
    found = list(refer_to_shards(members, first_row=first_row))
    for measurement in members[0].measurements:
        array = f"{name}/{measurement}"
        put_object(
            transaction.store,
            f"{array}/zarr.json",
            array_metadata(members, measurement, n_rows=n_rows, beside=beside),
        )
        transaction.refer(array, [each for of, each in found if of == measurement])


def _note_local_shards(
    store: ZarrStore,
    name: str,
    members: Sequence[Member],
    *,
    first_row: int,
    joined: JoinedGroup | None = None,
) -> None:
    """Write, or extend, the table of shards in local files."""
    found = [
        (f"{of}/c/{'/'.join(map(str, each.index))}", each.href, each.etag)
        for of, each in refer_to_shards(members, first_row=first_row)
        if each.href.startswith("file://")
    ]
    if not found:
        return
    is_there = joined is not None and _LOCAL in joined.group
    if not is_there:
        put_object(store, f"{name}/{_LOCAL}/zarr.json", group_document({}))
    for column, values in zip(_LOCAL_COLUMNS, zip(*found, strict=True), strict=True):
        texts = np.array(values, dtype=object)
        if is_there:
            _extend(zarr.open_array(store, path=f"{name}/{_LOCAL}/{column}", mode="r+"), texts)
        else:
            create_array(store, f"{name}/{_LOCAL}/{column}", texts, ("shard",), {})


def _write_numbers(store: ZarrStore, folder: str, values: Values, *, known: Values | None = None) -> None:
    """Write, or extend, texts by number. Texts that are known keep their numbers."""
    texts, numbers = numbered_texts(values, [] if known is None else known.tolist())
    if known is None:
        put_object(store, f"{folder.rpartition('/')[0]}/zarr.json", group_document({}))
        put_object(store, f"{folder}/zarr.json", group_document({}))
        create_array(store, f"{folder}/numbers", numbers, ("row",), {})
    else:
        _extend(zarr.open_array(store, path=f"{folder}/numbers", mode="r+"), numbers)
    create_array(store, f"{folder}/texts", texts, ("text",), {})


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


def create_array(
    store: ZarrStore,
    path: str,
    values: Values,
    dims: Sequence[str],
    attributes: Mapping[str, Any],
) -> None:
    """Write an array. Its chunk is the same whatever its length, because it may grow."""
    is_text = values.dtype == object
    array = zarr.create_array(
        store,
        name=path,
        shape=values.shape,
        chunks=(CHUNK_ROWS, *values.shape[1:]) if values.shape else (),
        dtype=str if is_text else values.dtype,
        fill_value=padding_value(path.rpartition("/")[2], values.dtype),
        dimension_names=tuple(dims),
        attributes=dict(attributes),
        overwrite=True,
    )
    array[...] = values


def _extend_column(store: ZarrStore, joined: JoinedGroup, name: str, values: Values) -> None:
    """Add rows to a coordinate. Write it anew if its dtype or its attributes do not fit them."""
    array: Any = joined.group[name]
    is_text = array.dtype.kind not in _NUMBERS
    if name == "time" or name in OWN or (is_text and values.dtype == object):
        _extend(array, values)
        return
    before = joined.array(name)
    whole = np.concatenate(unite_values(name, [before, values], [len(before), len(values)]))
    attributes = with_gaps(dict(array.attrs), name, whole)
    if whole.dtype == before.dtype and attributes == dict(array.attrs):
        _extend(array, values)
    else:
        create_array(store, f"{joined.name}/{name}", whole, array.metadata.dimension_names, attributes)


def _extend(array: Any, values: Values) -> None:
    start = array.shape[0]
    array.resize((start + len(values), *array.shape[1:]))
    array[start:] = values


def group_document(attributes: Mapping[str, Any]) -> bytes:
    """Return Zarr's metadata of a group."""
    return json.dumps({"zarr_format": 3, "node_type": "group", "attributes": attributes}).encode()


def put_object(store: ZarrStore, key: str, content: bytes) -> None:
    """Put an object as it is."""
    sync(store.set(key, default_buffer_prototype().buffer.from_bytes(content)))
