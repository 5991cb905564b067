"""Makes the files of a compacted cube, and tells and removes former versions."""

import io
import json
from collections.abc import Mapping
from copy import replace
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

import obstore

from pixel_gather.core.claim import check_files
from pixel_gather.core.plan.cube_version import version_key
from pixel_gather.core.results.receipt import ReceiptFile
from pixel_gather.core.stores import RECEIPT_KEY, ROOT_KEY, FoundCube
from pixel_gather.core.task_group import all_of
from pixel_gather.io.cube.cube_files import CubeFiles
from pixel_gather.io.cube.row_table import ROWS_KEY, read_row_table, write_row_table
from pixel_gather.io.cube.stored_receipt import parse_receipt
from pixel_gather.io.cube.zarr_metadata import changed_group, gather_of
from pixel_gather.io.parquet.parquet_batches import blame_file
from pixel_gather.io.store.list_objects import list_objects
from pixel_gather.io.store.store_error_status import errors_of_store


async def compaction_files(cube: CubeFiles, found: FoundCube) -> Mapping[str, bytes]:
    """Return the table of rows with the shards' new ETags, its receipt, and the group's metadata.

    ``found`` is the cube as it was before.

    Raises:
        AppendRunningError: The files beside the arrays are those of an append that is not committed.
        StoreError: A file is missing or damaged.
    """
    root, table, receipt = [
        (await cube.read_needed(key)).content for key in (ROOT_KEY, ROWS_KEY, RECEIPT_KEY)
    ]
    told = parse_receipt(receipt, cube.place)
    arrays = await _row_arrays(cube, root, found.versions[-1].n_rows)
    check_files(found, n_rows=(_n_rows(cube, table), told.shape[0], *arrays))
    rows = _table_again(cube, table, found.version + 1)
    file = ReceiptFile(nbytes=len(rows), sha256=sha256(rows).hexdigest())
    told = replace(told, files=told.files | {ROWS_KEY: file}, version=found.version + 1)
    return {ROWS_KEY: rows, RECEIPT_KEY: told.to_bytes(), ROOT_KEY: _root_again(root, found)}


async def _row_arrays(cube: CubeFiles, root: bytes, n_rows: int) -> list[int]:
    """Return how many rows the arrays have that are of so many by the group's metadata."""
    described = json.loads(root)["consolidated_metadata"]["metadata"]
    names = [name for name, each in described.items() if each.get("shape", [None])[:1] == [n_rows]]
    stored = await all_of([cube.read_needed(f"{name}/{ROOT_KEY}") for name in names])
    return [json.loads(each.content)["shape"][0] for each in stored]


def _n_rows(cube: CubeFiles, content: bytes) -> int:
    """Count the rows of a table. All of it can be read then, so its writer meets no error."""
    with blame_file(f"{cube.place}: {ROWS_KEY}"):
        return sum(len(batch["href"]) for batch in read_row_table(content)[1])


def _table_again(cube: CubeFiles, content: bytes, version: int) -> bytes:
    metadata, batches = read_row_table(content)
    shards = []
    for key, *told in metadata["shards"]:
        try:
            meta = obstore.head(cube.store, key)
        except FileNotFoundError:  # the shard is lost: its entry stays, and verify reports it missing
            shards.append((key, *told))
            continue
        shards.append((key, meta["size"], meta["e_tag"] or ""))
    file = io.BytesIO()
    write_row_table(batches, file, metadata=metadata | {"shards": shards, "version": version})
    return file.getvalue()


def _root_again(content: bytes, found: FoundCube) -> bytes:
    root: dict[str, Any] = json.loads(content)
    gather = gather_of(root["attributes"])
    last = found.versions[-1]
    added = replace(
        last,
        number=last.number + 1,
        committed_at=datetime.now(UTC).isoformat(timespec="microseconds"),
        n_sources=0,
        n_failed=0,
        n_skipped=0,
        n_retried=0,
        n_recovered=0,
        kind="compact",
    )
    gather["versions"] = [each.to_json() for each in (*found.versions, added)]
    return changed_group(root, gather)


def kept_versions(cube: CubeFiles, found: FoundCube) -> frozenset[int]:
    """Return the numbers of the versions that can be opened. Blocks."""
    with errors_of_store(f"{cube.place}: the versions cannot be listed"):
        there = {item["path"] for item in list_objects(cube.store, "versions/")}
    kept = {each.number for each in found.versions if version_key(each.number) in there}
    return frozenset(kept | {found.version})


def forget_versions(cube: CubeFiles, numbers: frozenset[int]) -> None:
    """Remove what former versions need to be opened. Their rows stay: later versions have them. Blocks."""
    with errors_of_store(f"{cube.place}: a version cannot be removed"):
        obstore.delete(cube.store, [version_key(number) for number in sorted(numbers)])
