"""Uploads a file that a thread writes while its content is still being gathered on the event loop."""

import asyncio
import concurrent.futures
import io
from collections.abc import AsyncIterator, Buffer, Callable, Iterator
from typing import IO, TYPE_CHECKING, Final, cast

import obstore

from pixel_gather.io.store.object_store import Store

if TYPE_CHECKING:
    from obstore import WritableFile

_LOOK_EVERY_S: Final = 0.05


async def upload[Batch](
    batches: AsyncIterator[Batch],
    write: Callable[[Iterator[Batch], IO[bytes]], None],
    store: Store,
    key: str,
    *,
    on_bytes: Callable[[bytes], None] = lambda _: None,
) -> None:
    """Write a file to a store in parts while its batches arrive.

    Nothing is written without batches, after an error, or when cancelled: an existing file then stays
    unchanged. On return ``batches`` is no longer being iterated. ``write`` writes all batches to the file, in
    a thread. ``on_bytes`` is called there with the content, part by part.

    Raises:
        Exception: Whatever the store, ``write`` or ``batches`` raises.
    """
    first = await anext(batches, None)
    if first is None:
        return
    taken = _Taken(batches, first)

    def write_all() -> None:
        file = obstore.open_writer(store, key)
        write(taken.batches(), cast("IO[bytes]", _Sink(file, on_bytes)))
        file.close()

    writing = asyncio.ensure_future(asyncio.to_thread(write_all))
    try:
        await asyncio.shield(writing)
    except asyncio.CancelledError:
        await taken.cancel(writing)
        raise
    except Exception:
        if taken.failed is not None:
            raise taken.failed from None
        raise


class _Taken[Batch]:
    """Hands batches from an event loop to the thread that writes them."""

    def __init__(self, entries: AsyncIterator[Batch], first: Batch) -> None:
        self.failed: BaseException | None = None
        """Error of the entries. Kept, because arro3 replaces it by its own."""

        self._entries = entries
        self._first = first
        self._loop = asyncio.get_running_loop()
        self._taking = asyncio.Lock()
        self._next: concurrent.futures.Future[Batch | None] | None = None
        self._is_cancelled = False

    def batches(self) -> Iterator[Batch]:
        """Yield the batches, in the thread."""
        batch: Batch | None = self._first
        while batch is not None:
            yield batch
            try:
                batch = self._wait()
            except BaseException as error:
                self.failed = error
                raise

    async def cancel(self, writing: asyncio.Future[None]) -> None:
        """Make the thread fail. Wait until the thread and the entries have stopped."""
        self._is_cancelled = True
        while not writing.done():  # the thread waits for a batch, or soon will
            if self._next is not None:
                self._next.cancel()
            await asyncio.wait((writing,), timeout=_LOOK_EVERY_S)
        async with self._taking:
            writing.exception()  # retrieved here, or asyncio would log it

    def _wait(self) -> Batch | None:
        self._next = asyncio.run_coroutine_threadsafe(self._take(), self._loop)
        batch = self._next.result()
        if self._is_cancelled:  # even if the entries ignored the cancellation
            raise concurrent.futures.CancelledError
        return batch

    async def _take(self) -> Batch | None:
        async with self._taking:
            return await anext(self._entries, None)


class _Sink(io.RawIOBase):
    """Wraps obstore's writer for arro3, which wants a ``seek`` but never calls it."""

    def __init__(self, file: "WritableFile", on_bytes: Callable[[bytes], None]) -> None:
        self._file = file
        self._on_bytes = on_bytes

    def writable(self) -> bool:
        return True

    def write(self, content: Buffer) -> int:
        part = bytes(content)
        self._on_bytes(part)
        return self._file.write(part)
