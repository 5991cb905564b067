"""Work in a thread that is never left behind."""

import asyncio
import functools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress


async def in_thread[T](work: Callable[[], T]) -> T:
    """Run ``work`` in one of as many threads as there are cores and wait for its end, even when cancelled.

    More threads decode no faster and take turns with the event loop's own: on 2 cores, 2 threads read
    660 tiles a second where the default executor's 6 read 615.

    asyncio.to_thread returns at once on cancellation while its thread goes on; one that decodes into
    a shared array would then write over what another reader has put there since.
    """
    future = asyncio.get_running_loop().run_in_executor(_threads(), work)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        while not future.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([future])
        future.exception()  # seen: asyncio would report it as never retrieved
        raise


@functools.cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(os.process_cpu_count() or 1, thread_name_prefix="decode")
