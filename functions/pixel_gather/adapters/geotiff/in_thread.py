"""Work in a thread that is never left behind."""

import asyncio
from collections.abc import Callable
from contextlib import suppress


async def in_thread[T](work: Callable[[], T]) -> T:
    """Run ``work`` in the loop's default executor and wait for its end, even when cancelled.

    asyncio.to_thread returns at once on cancellation while its thread goes on; one that decodes into
    a shared array would then write over what another reader has put there since.
    """
    future = asyncio.get_running_loop().run_in_executor(None, work)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        while not future.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([future])
        future.exception()  # seen: asyncio would report it as never retrieved
        raise
