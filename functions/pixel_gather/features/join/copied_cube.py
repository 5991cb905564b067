"""Joins cubes into one plain Zarr cube by copies of their shards, which the store makes itself."""

import asyncio
import io
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import obstore
import xxhash
from obstore.exceptions import AlreadyExistsError

from pixel_gather.core.errors import NOT_OF_A_CUBE, ArrayExistsError, RequestError
from pixel_gather.core.plan.cube_version import CubeVersion
from pixel_gather.core.results.copied_receipt import JOINED, copied_receipt, pixels_of
from pixel_gather.core.results.join_member import PRESENCE, Member, difference
from pixel_gather.core.results.receipt import Receipt, ReceiptFile
from pixel_gather.core.results.row_coordinates import CHUNK_ROWS, Values
from pixel_gather.core.stores import RECEIPT_KEY, ROOT_KEY
from pixel_gather.core.task_group import all_of
from pixel_gather.features.join.join_rows import all_columns, coordinate_dims, joined_rows, padding_value
from pixel_gather.features.join.joined_metadata import (
    array_metadata,
    coordinate_attributes,
    map_arrays,
    on_map_attributes,
)
from pixel_gather.features.join.read_members import IN_FLIGHT, MemberReader
from pixel_gather.features.join.references import refer_to_shards
from pixel_gather.io.cube.array_chunks import put_array
from pixel_gather.io.cube.row_table import ROWS_KEY, shards_below, write_row_table
from pixel_gather.io.cube.zarr_metadata import gather_of, group_content
from pixel_gather.io.store.conditional_put import put_commit
from pixel_gather.io.store.object_store import Store, open_place, split_href
from pixel_gather.io.store.store_error_status import errors_of_store
from pixel_gather.version import __version__


async def copy_cubes(
    href: str, members: Sequence[Member], *, place: str, any_grid: bool, reader: MemberReader
) -> None:
    """Write one cube that has the rows of all members, with all their coordinates.

    Every shard has the ETag that its member's table tells, before the copies and after them. So no copy has
    other bytes.

    Beside the arrays are ``rows.parquet`` and ``receipt.json``, as in a cube of a gather. The last object
    that is written is the group's ``zarr.json`` with the consolidated metadata. Until then the cube says that
    it is not complete. The same call goes on where an earlier one was stopped.

    Rows of a member that do not fill its last shard are followed by rows of padding, unless it is the last
    member. ``presence`` is 0 there and ``status`` is 255. There is no ``presence`` without padding. The
    members have all columns of their tables.

    Raises:
        RequestError: The members are of several kinds, or lie in another bucket.
        ArrayExistsError: Something else is there.
        StoreError: A member has changed, or the store failed.
    """
    _check_kinds(members, any_grid=any_grid)
    _check_bucket(href, members)
    with errors_of_store(f"{place} could not be written"):
        store = open_place(href, reader.settings)
        gather = _record(members, any_grid=any_grid)
        root = _root(members, gather, is_complete=False, any_grid=any_grid)
        await _claim(store, root, place)
        receipts = await reader.receipts(members)
        await asyncio.to_thread(reader.check_shards, members)
        await _copy_shards(href, members, reader=reader)
        await asyncio.to_thread(reader.check_shards, members)
        rows = _rows(members)
        arrays = await asyncio.to_thread(_write_arrays, store, members, rows, any_grid=any_grid)
        await asyncio.to_thread(_write_files, store, members, receipts, rows=rows, gather=gather)
        metadata = {
            name: json.loads(bytes(obstore.get(store, f"{name}/{ROOT_KEY}").bytes())) for name in arrays
        }
        consolidated = {"kind": "inline", "must_understand": False, "metadata": metadata}
        gather |= {
            "pixels": pixels_of(receipts),
            "versions": [_version(members, gather, len(rows["status"]))],
        }
        complete = _root(members, gather, is_complete=True, any_grid=any_grid) | {
            "consolidated_metadata": consolidated
        }
        await put_commit(store, group_content(complete), mode="overwrite")


def _check_kinds(members: Sequence[Member], *, any_grid: bool) -> None:
    first = members[0]
    for each in members[1:]:
        one, other = first.kind(any_grid=any_grid), each.kind(any_grid=any_grid)
        if one != other:
            raise RequestError(
                f"a copy is one array, and {each.shown} has another {difference(one, other)} than "
                f"{first.shown}: join them without --copy",
                field="cubes",
            )


def _check_bucket(href: str, members: Sequence[Member]) -> None:
    root, _ = split_href(href)
    other = next((each.shown for each in members if split_href(each.place)[0] != root), None)
    if other is not None:
        raise RequestError(
            f"the store copies shards within a bucket, or within this machine; {other} is elsewhere",
            field="to",
        )


def _record(members: Sequence[Member], *, any_grid: bool) -> dict[str, Any]:
    """Return the copy's own record, where a gather's cube has that of the gather."""
    told = json.dumps([any_grid, [[each.place, each.version] for each in members]])
    return {
        "version": __version__,
        "digest": xxhash.xxh3_128_hexdigest(told.encode()),
        "planned_at": datetime.now(UTC).isoformat(timespec="microseconds"),
        JOINED: [each.place for each in members],
        "values": members[0].values,
        "reduce": members[0].reduce,
    }


def _version(members: Sequence[Member], gather: Mapping[str, Any], n_rows: int) -> dict[str, Any]:
    """Return the copy's only version. It counts the sources of its members."""
    of_members = [each for member in members for each in gather_of(member.attributes)["versions"]]
    return CubeVersion(
        number=1,
        committed_at=datetime.now(UTC).isoformat(timespec="microseconds"),
        n_rows=n_rows,
        n_sources=sum(each["n_sources"] for each in of_members if each["kind"] != "compact"),
        n_failed=sum(each["n_failed"] for each in of_members if each["kind"] != "compact"),
        n_skipped=0,
        digest=gather["digest"],
        kind="copy",
    ).to_json()


def _root(
    members: Sequence[Member], gather: Mapping[str, Any], *, is_complete: bool, any_grid: bool
) -> dict[str, Any]:
    attributes = {
        "Conventions": "CF-1.11",
        "title": f"{len(members):,} joined cubes",
        "pixel_gather": json.dumps(gather),
        "complete": int(is_complete),
    } | on_map_attributes(members[0], any_grid=any_grid)
    return {"zarr_format": 3, "node_type": "group", "attributes": attributes}


async def _claim(store: Store, root: dict[str, Any], place: str) -> None:
    """Write the metadata of the incomplete cube, or find those of an earlier call."""
    try:
        await obstore.put_async(store, ROOT_KEY, group_content(root), mode="create", use_multipart=False)
    except AlreadyExistsError as error:
        own = gather_of(root["attributes"])["digest"]
        with suppress(*NOT_OF_A_CUBE):
            found = json.loads(bytes(obstore.get(store, ROOT_KEY).bytes()))["attributes"]
            if not found["complete"] and gather_of(found)["digest"] == own:
                return
        raise ArrayExistsError(f"{place}: a cube is there: choose another place") from error


async def _copy_shards(href: str, members: Sequence[Member], *, reader: MemberReader) -> None:
    async def one(source: str, target: str) -> None:
        if source.startswith("file://"):
            await asyncio.to_thread(_link, *(Path("/", split_href(each)[1]) for each in (source, target)))
            return
        store, key = reader.store(source)
        await obstore.copy_async(store, key, split_href(target)[1])

    pairs = [
        (each.href, f"{href}/{name}/c/{'/'.join(map(str, each.index))}")
        for name, each in refer_to_shards(members, first_row=0)
    ]
    await all_of((one(source, target) for source, target in pairs), at_once=IN_FLIGHT)


def _link(source: Path, target: Path) -> None:
    """Give a shard a second name. Copy it where the disk cannot do that."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _rows(members: Sequence[Member]) -> dict[str, Values]:
    """Return all coordinates of all rows. The last member is not padded."""
    n_rows = sum(each.n_padded for each in members[:-1]) + members[-1].n_rows
    rows = {name: values[:n_rows] for name, values in joined_rows(members, all_columns(members)).items()}
    if rows[PRESENCE].all():
        del rows[PRESENCE]
    return rows


def _write_files(
    store: Store,
    members: Sequence[Member],
    receipts: Sequence[Receipt],
    *,
    rows: Mapping[str, Values],
    gather: Mapping[str, Any],
) -> None:
    """Write ``rows.parquet`` and the receipt, after all shards are there."""
    first, n_rows = members[0], len(rows["status"])
    n_shards = -(-n_rows // first.shard_rows)
    metadata = dict(first.table) | {
        "digest": gather["digest"],
        "version": 1,
        "shape": [n_rows, *first.shape[1:]],
        "shards": shards_below(store, first.measurements, range(n_shards)),
    }
    file = io.BytesIO()
    starts = range(0, n_rows, CHUNK_ROWS)
    batches = ({name: values[at : at + CHUNK_ROWS] for name, values in rows.items()} for at in starts)
    write_row_table(batches, file, metadata=metadata)
    content = file.getvalue()
    obstore.put(store, ROWS_KEY, content, use_multipart=False)
    told = ReceiptFile(nbytes=len(content), sha256=sha256(content).hexdigest())
    receipt = copied_receipt(
        members, receipts, gather=gather, n_rows=n_rows, files={ROWS_KEY: told}, sources=ROWS_KEY
    )
    obstore.put(store, RECEIPT_KEY, receipt.to_bytes(), use_multipart=False)


def _write_arrays(
    store: Store, members: Sequence[Member], rows: Mapping[str, Values], *, any_grid: bool
) -> list[str]:
    """Write everything but the shards and the group's metadata. Return the names of all arrays."""
    first, n_rows = members[0], len(rows["status"])
    on_map = []
    for name, values, dims, attributes in () if any_grid else map_arrays(first):
        put_array(store, name, values, dims=dims, attributes=attributes)
        on_map.append(name)
    if len(first.measurements) > 1:
        names = np.array(first.measurements, dtype=object)
        put_array(store, "measurement", names, dims=("measurement",))
        on_map.append("measurement")
    for name, values in rows.items():
        _write_rows(store, members, name, values)
    beside = sorted({*rows, *on_map} - {first.dims[0], "x", "y", "measurement"})
    for name in first.measurements:
        content = array_metadata(members, name, n_rows=n_rows, beside=beside)
        obstore.put(store, f"{name}/{ROOT_KEY}", content, use_multipart=False)
    return [*first.measurements, *sorted({*rows, *on_map})]


def _write_rows(store: Store, members: Sequence[Member], name: str, values: Values) -> None:
    put_array(
        store,
        name,
        values,
        chunks=(CHUNK_ROWS, *values.shape[1:]),
        fill_value=padding_value(name, values.dtype),
        dims=coordinate_dims(name, values, members[0].dims[0]),
        attributes=coordinate_attributes(members, name, values),
    )
