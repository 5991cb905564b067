"""Puts an object only if nothing has changed there since it was looked at."""

import asyncio
import os
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError
from obstore.store import GCSStore, LocalStore

from pixel_gather.core.errors import BusyError, StoreError
from pixel_gather.io.store.file_lock import CAN_LOCK, try_lock
from pixel_gather.io.store.object_store import Store
from pixel_gather.io.store.store_error_status import (
    classify_store_error,
    errors_of_store,
    said_of_place,
    says_missing,
    without_addresses,
)

if TYPE_CHECKING:
    from obstore import ObjectMeta, PutMode, PutResult

    from pixel_gather.core.stores import Content

_COMMIT_KEY: Final = "zarr.json"
"""`pixel_gather.core.stores.ROOT_KEY`, whose PUT commits a version. A search imports no cubes for it."""

_IN_FLIGHT: Final = "<Code>ConditionalRequestConflict<"
"""S3 answers so while another request changes the object, and asks for another try."""

NO_ETAG: Final = "none"
"""Stands for the ETag if a store gives none."""

_PAUSES_S: Final = (0.1, 0.4, 1.6)
"""Longest pause before each further try. obstore itself tries again where a store answers 5xx, or 409 to a
PUT with an ETag, but not where the connection broke, as the PUT may have happened."""

_LONGEST_WAIT_S: Final = 60.0
"""Longest wait for another process that looks and puts in the same folder."""

_LOOK_AGAIN_S: Final = 0.05


async def put_if(store: Store, key: str, content: "Content", *, etag: str | None, what: str) -> str | None:
    """Put an object if its ETag is still this one; None: if there is none.

    Local folders know no condition on an ETag. There it is read again right before the file is replaced, and
    no other process on this machine does so meanwhile. Google knows conditions on the generation of an object
    alone. So it is asked for the generation that has the ETag.

    Args:
        store: Where.
        key: Key of the object.
        content: All of it, or its parts in order.
        etag: As `etag_of` returned it.
        what: Start of the message if the store fails, such as ``cube.zarr could not be written``.

    Returns:
        The new ETag. None if it was not put, or was put by a try whose answer was lost.

    Raises:
        BusyError: Another process on this machine has been replacing a file of the same folder for a minute.
        StoreError: The store failed.
    """
    for longest_s in (*_PAUSES_S, None):
        try:
            if etag is not None and isinstance(store, LocalStore):
                return await _replace_file(store, key, content, etag)
            mode: PutMode = "create" if etag is None else {"e_tag": etag}
            if etag is not None and isinstance(store, GCSStore):
                generation = await _generation(store, key, etag)
                if generation is None:
                    return None
                mode = {"version": generation}
            put = await _put(store, key, content, mode=mode)
        except (AlreadyExistsError, PreconditionError) as error:
            if longest_s is None or etag is not None or _IN_FLIGHT not in without_addresses(error):
                return None
        except (BaseError, OSError) as error:
            if longest_s is None or isinstance(store, LocalStore) or not classify_store_error(error)[2]:
                raise StoreError(f"{what}: {said_of_place(error)}") from error
        else:
            return put["e_tag"] or NO_ETAG
        await asyncio.sleep(random.uniform(0, longest_s))  # noqa: S311 # no secret
    raise AssertionError  # the last try returns or raises


async def _replace_file(store: LocalStore, key: str, content: "Content", etag: str) -> str | None:
    """Replace a file if its ETag is still this one. Return its new ETag; None if it was not replaced.

    A process that is stopped between the look and the PUT holds the others back until it goes on or ends.
    """
    if await etag_of(store, key) != etag:
        return None
    async with _alone_in(Path(store.prefix or "/", key).parent):
        if await etag_of(store, key) != etag:
            return None
        put = await _put(store, key, content, mode="overwrite")
        return put["e_tag"] or NO_ETAG


async def _generation(store: GCSStore, key: str, etag: str) -> str | None:
    """Return the generation of an object if its ETag is still this one."""
    try:
        there = await obstore.head_async(store, key)
    except FileNotFoundError:
        return None
    return there["version"] if there["e_tag"] == etag else None


async def _put(store: Store, key: str, content: "Content", *, mode: "PutMode") -> "PutResult":
    if key == _COMMIT_KEY:
        return await put_commit(store, content, mode=mode)
    return await obstore.put_async(store, key, content, mode=mode, use_multipart=False)


@asynccontextmanager
async def _alone_in(folder: Path) -> AsyncIterator[None]:
    """Let nobody else on this machine be here meanwhile.

    A process that has ended holds nothing back. Some network file systems know no locks; there it changes
    nothing.
    """
    if not CAN_LOCK:
        yield
        return
    until = time.monotonic() + _LONGEST_WAIT_S
    opened = os.open(folder, os.O_RDONLY)
    try:
        while not try_lock(opened):
            if time.monotonic() > until:
                raise BusyError(
                    f"{folder}: another process writes here and does not go on, perhaps because it is "
                    "stopped: let it go on or end it, and run again"
                )
            await asyncio.sleep(_LOOK_AGAIN_S)
        yield
    finally:
        os.close(opened)


async def put_commit(store: Store, content: "Content", *, mode: "PutMode") -> "PutResult":
    """Put the group's metadata, which commit a version.

    On a local disk, all bytes are on the disk before the name is theirs. Otherwise a loss of power could
    leave an empty file where the cube's metadata were.
    """
    if not isinstance(store, LocalStore) or mode != "overwrite":
        return await obstore.put_async(store, _COMMIT_KEY, content, mode=mode, use_multipart=False)
    await asyncio.to_thread(_replace_on_disk, Path(store.prefix or "/", _COMMIT_KEY), content)
    put = await obstore.head_async(store, _COMMIT_KEY)
    return {"e_tag": put["e_tag"], "version": None}


def _replace_on_disk(file: Path, content: "Content") -> None:
    partial = file.with_name(f"{file.name}#{random.getrandbits(32)}")  # obstore lists no such name
    try:
        with partial.open("wb") as opened:
            opened.writelines([content] if isinstance(content, bytes) else content)
            opened.flush()
            os.fsync(opened.fileno())
        partial.replace(file)
    finally:
        partial.unlink(missing_ok=True)
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the name is on the disk, too
    finally:
        os.close(folder)


async def etag_of(store: Store, key: str, *, may_list: bool = True) -> str | None:
    """Return the ETag of an object; None if there is none. Errors are the store's own."""
    try:
        return (await obstore.head_async(store, key))["e_tag"] or NO_ETAG
    except (BaseError, OSError) as error:
        if says_missing(error, may_list=may_list):
            return None
        raise


async def read_if_there(
    store: Store, key: str, *, may_list: bool, what: str
) -> "tuple[bytes, ObjectMeta] | None":
    """Return the content of an object and what the store says of it; None if there is none.

    Args:
        store: Where.
        key: Key of the object.
        may_list: Whether listing is allowed. If not, S3 answers 403 for a missing object.
        what: As for `put_if`.

    Raises:
        StoreError: The store failed.
    """
    with errors_of_store(what):
        try:
            answer = await obstore.get_async(store, key)
            return bytes(await answer.bytes_async()), answer.meta
        except (BaseError, OSError) as error:
            if says_missing(error, may_list=may_list):
                return None
            raise
