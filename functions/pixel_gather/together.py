"""Work that is done at one time. What fails leaves as one error, never as an ``ExceptionGroup``.

This is the only place that makes a task group: callers catch errors by their class, and the state machine
retries them by it.
"""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any

from pixel_gather.errors import GatherError


async def all_of[T](works: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Do everything at one time and return the results in order. After a failure the rest is cancelled.

    Raises:
        GatherError: One of them raised it.
        Exception: Otherwise the first that one of them raised.
    """
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work) for work in works]
    except ExceptionGroup as errors:
        foreseen = (error for error in errors.exceptions if isinstance(error, GatherError))
        raise next(foreseen, errors.exceptions[0]) from errors
    return [task.result() for task in tasks]
