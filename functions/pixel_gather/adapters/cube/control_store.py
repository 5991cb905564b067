"""Control files of one gather, kept in a folder or under an S3 prefix."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self

import obstore

from pixel_gather.adapters.object_store.object_store import Store
from pixel_gather.adapters.object_store.store_errors import said_of_place
from pixel_gather.errors import StoreError


@dataclass(frozen=True, slots=True)
class ObjectControlStore:
    """Implements `pixel_gather.stores.ControlStore` on any object store."""

    store: Store
    prefix: str
    """Ends in a slash; every key lies below it."""

    may_list: bool = True
    """Whether listing is allowed: to who may not, S3 says 403 where nothing is."""

    def below(self, folder: str) -> Self:
        """Return the store of the files in one folder."""
        return replace(self, prefix=f"{self.prefix}{folder}/")

    async def put(self, key: str, content: bytes) -> None:
        """Write a file whole."""
        try:
            await obstore.put_async(self.store, self.prefix + key, content, use_multipart=False)
        except (obstore.exceptions.BaseError, OSError) as error:
            raise _in_words("written", key, error) from error

    async def put_stream(self, key: str, parts: Iterator[bytes]) -> None:
        """Write a file of any length from parts."""
        try:
            await asyncio.to_thread(obstore.put, self.store, self.prefix + key, parts)
        except (obstore.exceptions.BaseError, OSError) as error:
            raise _in_words("written", key, error) from error

    async def get(self, key: str) -> bytes | None:
        """Read a file, or None where there is none."""
        try:
            answer = await obstore.get_async(self.store, self.prefix + key)
            return bytes(await answer.bytes_async())
        except FileNotFoundError:
            return None
        except obstore.exceptions.PermissionDeniedError as error:
            if not self.may_list:
                return None
            raise _in_words("read", key, error) from error
        except (obstore.exceptions.BaseError, OSError) as error:
            raise _in_words("read", key, error) from error

    async def get_range(self, key: str, start: int, stop: int) -> bytes:
        """Read bytes [start, stop) of a file that is there."""
        try:
            return bytes(await obstore.get_range_async(self.store, self.prefix + key, start=start, end=stop))
        except (obstore.exceptions.BaseError, OSError) as error:
            raise _in_words("read", key, error) from error

    async def list_(self, prefix: str) -> set[str]:
        """Return the keys below a prefix."""
        pages = obstore.list(self.store, prefix=self.prefix + prefix)
        try:
            return {item["path"].removeprefix(self.prefix) async for page in pages for item in page}
        except (obstore.exceptions.BaseError, OSError) as error:
            raise _in_words("listed", self.prefix + prefix, error) from error

    async def clear(self) -> None:
        """Remove every file."""
        paths = [self.prefix + key for key in await self.list_("")]
        try:
            await obstore.delete_async(self.store, paths)
        except (obstore.exceptions.BaseError, OSError) as error:
            raise _in_words("removed", self.prefix, error) from error


def _in_words(verb: str, key: str, error: Exception) -> StoreError:
    return StoreError(f"{key} could not be {verb}: {said_of_place(error)}")
