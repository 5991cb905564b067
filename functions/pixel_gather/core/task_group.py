"""Run coroutines concurrently. A failure leaves as one exception, never as an ``ExceptionGroup``.

Callers and the state machine select errors by their class. So all task groups are made here.
"""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any

from pixel_gather.core.errors import GatherError


async def all_of[T](works: Iterable[Coroutine[Any, Any, T]], *, at_once: int | None = None) -> list[T]:
    """Run all coroutines concurrently and return their results in order. A failure cancels the others.

    Only ``at_once`` of them run at one time, if it is given.

    Raises:
        GatherError: The first one, if any of the coroutines raised one.
        Exception: Otherwise the first exception.
    """
    every = list(works)
    if len(every) == 1:  # without the cost of a task
        return [await every[0]]
    slots = asyncio.Semaphore(at_once or len(every))

    async def in_turn(work: Coroutine[Any, Any, T]) -> T:
        async with slots:
            return await work

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work if at_once is None else in_turn(work)) for work in every]
    except ExceptionGroup as errors:
        foreseen = (error for error in errors.exceptions if isinstance(error, GatherError))
        raise next(foreseen, errors.exceptions[0]) from errors
    finally:
        for work in every:
            work.close()  # of one that never had its turn, Python would warn
    return [task.result() for task in tasks]
