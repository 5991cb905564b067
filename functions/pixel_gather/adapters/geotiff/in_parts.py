"""Ranges that are fetched side by side, and become one."""

from collections.abc import Awaitable, Callable, Sequence

import numpy as np

from pixel_gather.adapters.geotiff.in_thread import in_thread
from pixel_gather.together import all_of

type Fetch = Callable[[int, int], Awaitable[memoryview]]
"""Fetches bytes [start, stop) of one version of one object, all of them or it fails."""


async def fetch_ranges(fetch: Fetch, ranges: Sequence[tuple[int, int]]) -> memoryview:
    """Return the bytes of ranges that follow each other, fetched at one time.

    A single one is returned as it came. Parts are copied once, each as it comes, so that no more than what is
    under way is held twice: decoders want their bytes in one piece.
    """
    if len(ranges) == 1:
        return await fetch(*ranges[0])
    first, last = ranges[0][0], ranges[-1][1]
    whole = np.empty(last - first, np.uint8)

    async def fetch_part(start: int, stop: int) -> None:
        content = await fetch(start, stop)
        # in a thread: to touch fresh memory may take longer than the copy, 2 ms a MiB in a virtual machine
        await in_thread(
            lambda: np.copyto(whole[start - first : stop - first], np.frombuffer(content, np.uint8))
        )

    await all_of(fetch_part(start, stop) for start, stop in ranges)
    return memoryview(whole)
