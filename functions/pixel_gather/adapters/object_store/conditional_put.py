"""Puts an object only if nothing has changed there since it was looked at."""

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError
from obstore.store import LocalStore

from pixel_gather.adapters.object_store.object_store import Store
from pixel_gather.adapters.object_store.store_error_status import classify_store_error
from pixel_gather.errors import StoreError

if TYPE_CHECKING:
    from obstore import PutMode

NO_ETAG: Final = "none"
"""Stands for the ETag if a store gives none."""

_PAUSES_S: Final = (0.1, 0.4, 1.6)
"""Longest pause before each further try. obstore itself tries again where a store answers 5xx, but not where
the connection broke, as the PUT may have happened."""

type Content = bytes | Sequence[bytes | bytearray | memoryview]


async def put_if(
    store: Store, key: str, content: Content, *, etag: str | None, failed: Callable[[Exception], StoreError]
) -> str | None:
    """Put an object if its ETag is still this one; None: if there is none.

    Local folders know no condition on an ETag. There it is read again right before the file is replaced.

    Args:
        store: Where.
        key: Key of the object.
        content: All of it, or its parts in order.
        etag: As `etag_of` returned it.
        failed: Returns the error to raise, from that of the store.

    Returns:
        The new ETag. None if it was not put, or was put by a try whose answer was lost.
    """
    for longest_s in (*_PAUSES_S, None):
        try:
            mode: PutMode = "create" if etag is None else {"e_tag": etag}
            if etag is not None and isinstance(store, LocalStore):
                if await etag_of(store, key) != etag:
                    return None
                mode = "overwrite"
            put = await obstore.put_async(store, key, content, mode=mode, use_multipart=False)
        except (AlreadyExistsError, PreconditionError):
            return None
        except (BaseError, OSError) as error:
            if longest_s is None or isinstance(store, LocalStore) or not classify_store_error(error)[2]:
                raise failed(error) from error
            await asyncio.sleep(random.uniform(0, longest_s))  # noqa: S311 # no secret
        else:
            return put["e_tag"] or NO_ETAG
    raise AssertionError  # the last try returns or raises


async def etag_of(store: Store, key: str) -> str | None:
    """Return the ETag of an object; None if there is none."""
    try:
        return (await obstore.head_async(store, key))["e_tag"] or NO_ETAG
    except FileNotFoundError:
        return None
