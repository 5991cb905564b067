"""Run coroutines concurrently. A failure leaves as one exception, never as an ``ExceptionGroup``.

Callers and the state machine select errors by their class. So all task groups are made here.
"""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any

from pixel_gather.core.errors import GatherError


async def all_of[T](works: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Run all coroutines concurrently and return their results in order. A failure cancels the others.

    Raises:
        GatherError: The first one, if any of the coroutines raised one.
        Exception: Otherwise the first exception.
    """
    every = list(works)
    if len(every) == 1:  # without the cost of a task
        return [await every[0]]
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work) for work in every]
    except ExceptionGroup as errors:
        foreseen = (error for error in errors.exceptions if isinstance(error, GatherError))
        raise next(foreseen, errors.exceptions[0]) from errors
    return [task.result() for task in tasks]
