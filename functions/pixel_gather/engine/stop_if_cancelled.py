"""Ends the work of an execution that somebody has cancelled."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, cast

from pixel_gather.core.errors import GatherCancelledError
from pixel_gather.core.task_group import all_of

type IsCancelled = Callable[[], Awaitable[bool]]
"""Asks whether somebody has cancelled an execution. Once it has been cancelled, it always is."""


async def check_not_cancelled(is_cancelled: IsCancelled) -> None:
    """Raise an error if the execution was cancelled.

    Raises:
        GatherCancelledError: It was.
    """
    if await is_cancelled():
        raise GatherCancelledError(
            "this gather was cancelled: submit its request again, which goes on with the missing shards"
        )


async def unless_cancelled[T](work: Coroutine[Any, Any, T], is_cancelled: IsCancelled) -> T:
    """Do work, but stop it if the execution had been cancelled before the work began.

    The check runs while the work runs. Waiting for it first would cost each shard a round trip.

    Raises:
        GatherCancelledError: The execution was cancelled.
    """
    done, _ = await all_of((work, check_not_cancelled(is_cancelled)))
    return cast("T", done)
