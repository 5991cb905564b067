"""Cut a range into parts, fetch them concurrently and join their bytes."""

from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise

import numpy as np

from pixel_gather.core.in_thread import in_thread
from pixel_gather.core.task_group import all_of

type Fetch = Callable[[int, int], Awaitable[memoryview]]
"""Fetches bytes [start, stop) of one version of one object. Returns all of them or fails."""


def cut_range(start: int, stop: int, *, part_nbytes: int | None, most: int) -> list[tuple[int, int]]:
    """Cut bytes [start, stop) into equal parts of about ``part_nbytes``, at most ``most`` parts.

    Returns:
        The parts [start, stop) in order. A single part if ``part_nbytes`` is None.
    """
    nbytes = stop - start
    n = 1 if part_nbytes is None else max(min(-(-nbytes // part_nbytes), most), 1)
    edges = [start + nbytes * part // n for part in range(n + 1)]
    return list(pairwise(edges))


async def fetch_ranges(fetch: Fetch, ranges: Sequence[tuple[int, int]]) -> memoryview:
    """Fetch ranges that follow each other, concurrently, and return their bytes as one.

    A single range is returned without a copy. Decoders need contiguous bytes, so several ranges are copied
    once, each as it arrives. Only ranges in flight are held twice.
    """
    if len(ranges) == 1:
        return await fetch(*ranges[0])
    first, last = ranges[0][0], ranges[-1][1]
    whole = np.empty(last - first, np.uint8)

    async def fetch_part(start: int, stop: int) -> None:
        content = await fetch(start, stop)
        # In a thread: touching fresh memory can take longer than the copy, 2 ms per MiB in a virtual machine.
        await in_thread(
            lambda: np.copyto(whole[start - first : stop - first], np.frombuffer(content, np.uint8))
        )

    await all_of(fetch_part(start, stop) for start, stop in ranges)
    return memoryview(whole)
