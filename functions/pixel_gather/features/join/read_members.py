"""Reads what cubes say of themselves: two GETs for each cube, and no pixel."""

import asyncio
from collections.abc import Mapping, Sequence
from copy import replace
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
import obstore
import zarr
from obstore.exceptions import BaseError

from pixel_gather.core.errors import StoreError
from pixel_gather.core.model.status import Status
from pixel_gather.core.results.join_member import Member, MemberShard, make_member
from pixel_gather.core.results.receipt import Receipt
from pixel_gather.core.results.row_coordinates import Values
from pixel_gather.core.stores import RECEIPT_KEY, ROOT_KEY
from pixel_gather.core.task_group import all_of
from pixel_gather.in_process.places import show_place
from pixel_gather.io.cube.row_table import ROWS_KEY, read_table
from pixel_gather.io.cube.stored_receipt import parse_receipt
from pixel_gather.io.store.object_store import Store, open_to_read, split_href
from pixel_gather.io.store.store_error_status import (
    errors_of_store,
    said_of_place,
    says_missing,
    without_addresses,
)
from pixel_gather.io.store.store_settings import StoreSettings

IN_FLIGHT: Final = 64
"""Members that are read at one time."""

_NO_FOLDER: Final = "Not a directory"
"""What obstore says of a place below a file. It has no class of its own for it."""

_SAME_TIME_S: Final = 1e-3
"""ETags have microseconds, and Python's times are rounded."""


@dataclass(slots=True)
class MemberReader:
    """Reads members, and counts what it asks for."""

    settings: StoreSettings
    n_requests: int = 0
    fetched_nbytes: int = 0
    _stores: dict[str, Store] = field(default_factory=dict)

    async def read(
        self, places: Sequence[str], *, columns: Sequence[str] | None, lists_shards: bool = False
    ) -> list[Member]:
        """Return the cubes in the given order.

        Args:
            places: Their folders, as hrefs.
            columns: What to keep of their rows; None for all columns.
            lists_shards: Take sizes and ETags of the shards that are there now, not those of the time when
                the cube was finished. This costs a listing for each measurement.

        Raises:
            StoreError: A cube is missing, incomplete, damaged, or has changed since it was finished.
        """

        async def one(place: str) -> Member:
            root, version = await self._get(place, ROOT_KEY)
            content, _ = await self._get(place, ROWS_KEY)
            return await asyncio.to_thread(made, place, root, version, content)

        def made(place: str, root: bytes, version: str, content: bytes) -> Member:
            shown = show_place(place)
            table, values = read_table(content, columns, place=shown)
            found = make_member(place, root, shown=shown, version=version, table=table, columns=values)
            if lists_shards:
                return replace(found, shards=self._list_shards(found))
            _check_local_shards(found)
            return found

        return await all_of((one(place) for place in places), at_once=IN_FLIGHT)

    async def tables(self, places: Sequence[str], names: Sequence[str]) -> list[Mapping[str, Values]]:
        """Return some columns of each cube's rows, with one GET for each cube."""

        async def one(place: str) -> Mapping[str, Values]:
            content, _ = await self._get(place, ROWS_KEY)
            return (await asyncio.to_thread(read_table, content, names, place=show_place(place)))[1]

        return await all_of((one(place) for place in places), at_once=IN_FLIGHT)

    async def receipts(self, members: Sequence[Member]) -> list[Receipt]:
        """Return the receipt of each cube, with one GET for each.

        Raises:
            StoreError: One is missing, damaged, or of another version of its cube.
        """

        async def one(member: Member) -> Receipt:
            content, _ = await self._get(member.place, RECEIPT_KEY)
            found = parse_receipt(content, member.shown)
            if (found.digest, found.shape) != (member.digest, member.shape):
                raise StoreError(f"{member.shown}: it has changed since its receipt.json was written")
            return found

        return await all_of((one(member) for member in members), at_once=IN_FLIGHT)

    def store(self, place: str) -> tuple[Store, str]:
        """Return the client of a cube's bucket, which its cubes share, and the cube's prefix in it."""
        root, path = split_href(place)
        if root not in self._stores:
            self._stores[root] = open_to_read(root if root != "file://" else "file:///", self.settings)
        return self._stores[root], path

    def check_shards(self, members: Sequence[Member]) -> None:
        """Compare the ETags of all shards, or their times on a local disk, with those that are told. Blocks.

        Raises:
            StoreError: A shard is missing or has changed.
        """
        for member in members:
            if member.place.startswith("file://"):
                _check_local_shards(member)
                continue
            for told, found in zip(member.shards, self._list_shards(member), strict=True):
                if (told.nbytes, told.etag) != (found.nbytes, found.etag):
                    raise StoreError(f"{member.shown}: it has changed since it was finished: {told.key}")

    async def _get(self, place: str, key: str) -> tuple[bytes, str]:
        store, path = self.store(place)
        self.n_requests += 1
        try:
            answer = await obstore.get_async(store, f"{path}/{key}")
            content = bytes(await answer.bytes_async())
        except (BaseError, OSError) as error:
            is_a_file = _NO_FOLDER in without_addresses(error)  # the place is one
            if is_a_file or says_missing(error, may_list=True):
                raise StoreError(_missing(place, key)) from error
            raise StoreError(f"{show_place(place)}: {key} cannot be read: {said_of_place(error)}") from error
        self.fetched_nbytes += len(content)
        return content, answer.meta["e_tag"] or ""

    def _list_shards(self, member: Member) -> tuple[MemberShard, ...]:
        """Return the shards that are there now."""
        store, path = self.store(member.place)
        there: dict[str, Any] = {}
        with errors_of_store(f"{member.shown}: it cannot be listed"):
            for name in member.measurements:
                for page in obstore.list(store, f"{path}/{name}/c/"):
                    self.n_requests += 1
                    there |= {item["path"]: item for item in page}
        found = []
        for each in member.shards:
            item = there.get(f"{path}/{each.key}")
            if item is None:
                raise StoreError(f"{member.shown}: it has changed: {each.key} is missing")
            found.append(replace(each, nbytes=item["size"], etag=item["e_tag"] or ""))
        return tuple(found)


def is_same_file(href: str, etag: str) -> bool:
    """Return whether a local file has the size and the time of an ETag. True of a file that is not there."""
    told, (_, path) = mtime_of(etag), split_href(href)
    try:
        found = Path("/", path).stat()
    except OSError:
        return True  # its reader says so
    is_same_size = found.st_size == int(etag.strip('"').rpartition("-")[2], 16) if told else False
    return told is not None and is_same_size and abs(told.timestamp() - found.st_mtime) < _SAME_TIME_S


def mtime_of(etag: str) -> datetime | None:
    """Return when a local file was written, from the ETag that obstore gave it; None of any other ETag.

    It is made of the file's number, its time in microseconds and its size, each in hexadecimal digits.
    """
    parts = etag.strip('"').split("-")
    if len(parts) != 3:  # noqa: PLR2004 # as described
        return None
    try:
        return datetime.fromtimestamp(int(parts[1], 16) / 1e6, UTC)
    except (ValueError, OverflowError):
        return None


def _check_local_shards(member: Member) -> None:
    """Compare local shards with what they were when the cube was finished. On S3 their reader does that."""
    root, path = split_href(member.place)
    if root != "file://":
        return
    for each in member.shards:
        try:
            found = Path("/", path, each.key).stat()
        except OSError as error:
            raise StoreError(f"{member.shown}: it has changed: {each.key} is missing") from error
        told = mtime_of(each.etag)
        is_same_time = told is not None and abs(told.timestamp() - found.st_mtime) < _SAME_TIME_S
        if found.st_size != each.nbytes or not is_same_time:
            raise StoreError(
                f"{member.shown}: it has changed since it was finished, or it is a copy: {each.key} has "
                "another size or time. Run `pixel-gather verify` on it. If its pixels are the same, "
                "join with --list-shards"
            )


def _missing(place: str, key: str) -> str:
    if key == ROOT_KEY:
        return f"{show_place(place)}: no cube is there; name the folder that a gather has written"
    said = f"it has no {key}, so it cannot be joined: it is not complete. Gather it again"
    return f"{show_place(place)}: {said}"


def changed_rows(group: zarr.Group, measurements: Sequence[str]) -> dict[str, str]:
    """Return the rows of chunks whose local file has another size or time than when it was referred to.

    Returns:
        The files by keys such as ``red/c/3``.
    """
    arrays: dict[str, Any] = {name: group[name] for name in ("href", "etag", "status")}
    n_rows = arrays["href"].shape[0]
    hrefs, etags, status = (np.asarray(each[...]).reshape(n_rows, -1).tolist() for each in arrays.values())
    found: dict[str, str] = {}
    for row, (of_row, versions, codes) in enumerate(zip(hrefs, etags, status, strict=True)):
        for slot, (href, etag) in enumerate(zip(of_row, versions, strict=True)):
            of_slot = measurements if len(of_row) == 1 else measurements[slot : slot + 1]
            is_read = codes[min(slot, len(codes) - 1)] == Status.OK and href.startswith("file://")
            if is_read and not is_same_file(href, etag):
                found |= {f"{name}/c/{row}": href for name in of_slot}
    return found
