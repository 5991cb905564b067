"""Reads and writes the control files of one gather, in a folder or under an S3 prefix."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from copy import replace
from itertools import chain
from typing import Final

import obstore
from msgspec import Struct

from pixel_gather.core.stores import missing_file
from pixel_gather.io.store.conditional_put import NO_ETAG, etag_of, put_if, read_if_there
from pixel_gather.io.store.list_objects import list_objects
from pixel_gather.io.store.object_store import Store
from pixel_gather.io.store.store_error_status import errors_of_store, says_missing
from pixel_gather.io.store.unfinished_files import remove_unfinished

_SHORT_NBYTES: Final = 4 << 20
"""An upload in parts takes three requests at least. A part that is not the last has 5 MiB or more."""


class ObjectControlStore(Struct, frozen=True):
    """Implements `pixel_gather.core.stores.ControlStore` on any object store."""

    store: Store
    prefix: str
    """Ends in a slash. Every key starts with it."""

    may_list: bool = True
    """Whether listing is allowed. If not, S3 answers 403 for a missing object."""

    def below(self, folder: str) -> "ObjectControlStore":
        """Return a store for the files of one folder."""
        return replace(self, prefix=f"{self.prefix}{folder}/")

    async def put(self, key: str, content: bytes) -> None:
        """Write a whole file."""
        with errors_of_store(f"{key} could not be written"):
            await obstore.put_async(self.store, self.prefix + key, content, use_multipart=False)

    async def put_new(self, key: str, content: bytes) -> bool:
        """Write a file if there is none."""
        return await self.put_if(key, content, etag=None)

    async def put_if(self, key: str, content: bytes, *, etag: str | None) -> bool:
        """Write a file if its ETag is still this one; None: if there is none. Return whether it was written.

        False may also mean that an earlier try was, whose answer was lost.
        """
        what = f"{key} could not be written"
        return await put_if(self.store, self.prefix + key, content, etag=etag, what=what) is not None

    async def get_with_etag(self, key: str) -> tuple[bytes, str] | None:
        """Return the content of a file and its ETag, or None if it does not exist."""
        what = f"{key} could not be read"
        there = await read_if_there(self.store, self.prefix + key, may_list=self.may_list, what=what)
        return None if there is None else (there[0], there[1]["e_tag"] or NO_ETAG)

    async def put_stream(self, key: str, parts: Iterator[bytes]) -> None:
        """Write a file of any length from parts. A short one takes one request."""
        begun: list[bytes] = []
        nbytes = 0
        for part in parts:
            begun.append(part)
            nbytes += len(part)
            if nbytes > _SHORT_NBYTES:
                break
        else:
            await self.put(key, b"".join(begun))
            return
        with errors_of_store(f"{key} could not be written"):
            await asyncio.to_thread(obstore.put, self.store, self.prefix + key, chain(begun, parts))

    async def exists(self, key: str) -> bool:
        """Return whether there is such a file."""
        with errors_of_store(f"{key} could not be read"):
            return await etag_of(self.store, self.prefix + key, may_list=self.may_list) is not None

    async def get(self, key: str) -> bytes | None:
        """Return the content of a file, or None if it does not exist."""
        found = await self.get_with_etag(key)
        return None if found is None else found[0]

    async def get_range(self, key: str, start: int, stop: int) -> bytes:
        """Read bytes [start, stop) of a file."""
        with errors_of_store(f"{key} could not be read"):
            try:
                content = await obstore.get_range_async(self.store, self.prefix + key, start=start, end=stop)
            except (obstore.exceptions.BaseError, OSError) as error:
                if says_missing(error, may_list=self.may_list):
                    raise missing_file(key) from error
                raise
            return bytes(content)

    async def list_(self, prefix: str, *, skip_empty: bool = False) -> set[str]:
        """Return the keys below a prefix."""
        with errors_of_store(f"{self.prefix}{prefix} could not be listed"):
            found = await asyncio.to_thread(list_objects, self.store, self.prefix + prefix)
        return {item["path"].removeprefix(self.prefix) for item in found if item["size"] or not skip_empty}

    async def clear(self, is_done: Callable[[str], bool] = lambda _: True) -> None:
        """Remove files. Sidecars go last: who does not find one looks whether the plan is there.

        Args:
            is_done: Tells by its key whether a file is removed. All of them if not given.
        """
        keys = [key for key in await self.list_("") if is_done(key)]
        with errors_of_store(f"{self.prefix} could not be removed"):
            for are_sidecars in (False, True):
                some = [self.prefix + key for key in keys if ("shards/" in key) is are_sidecars]
                try:
                    await obstore.delete_async(self.store, some)
                except FileNotFoundError:  # on disk: another process removes them, too
                    for key in some:
                        with suppress(FileNotFoundError):
                            await obstore.delete_async(self.store, key)
            await asyncio.to_thread(remove_unfinished, self.store, self.prefix, is_removed=is_done)
