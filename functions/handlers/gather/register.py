"""Enters a gather into the register of those that run, and takes it out again.

A register that is out of reach, or that others change all the time, holds up no gather: it then has the
workers that it wants, and Lambda throttles what is too much.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import Final

from pixel_gather.core.errors import StoreError
from pixel_gather.core.estimate.assumptions import S3_GETS
from pixel_gather.core.share_workers import (
    Register,
    admit_gather,
    common_reads,
    entry_of,
    parse_register,
    register_content,
)
from pixel_gather.io.store.limiter.govern_host import Ledger

type Content = tuple[bytes, str | None]
"""The register's content and its version."""

_TRIES: Final = 10
_LONGEST_PAUSE_S: Final = 0.2


async def enter(  # what its entry says
    register: Ledger,
    name: str,
    *,
    wants: int,
    most: int,
    seconds: float,
    reads: str = "",
    gets_per_s: float = 0.0,
    first_read: Awaitable[Content] | None = None,
) -> int:
    """Enter a gather and return its workers.

    Args:
        register: The register's object.
        name: The execution's.
        wants: Workers that are useful to it.
        most: Of all gathers together.
        seconds: What it takes by its forecast.
        reads: What the addresses of all its sources begin with.
        gets_per_s: GETs a second that so many workers send, by its forecast.
        first_read: The register as it was some moments ago. If it has changed since, it is read again.
    """
    granted = wants

    def change(running: Register, now_s: float) -> Register:
        nonlocal granted
        others = _without(running, name)
        wanted = entry_of(
            wants, now_s=now_s, seconds=seconds, reads=common_reads(reads), gets_per_s=gets_per_s
        )
        entry = admit_gather(others, wanted, most=most, gets_per_s=S3_GETS.value)
        granted = entry.workers
        return {**others, name: entry}

    return granted if await _change(register, change, first_read) else wants


async def leave(register: Ledger, name: str) -> None:
    """Take a gather out."""
    await _change(register, lambda running, _: _without(running, name))


def _without(running: Register, name: str) -> Register:
    return {each: found for each, found in running.items() if each != name}


async def _change(
    register: Ledger,
    change: Callable[[Register, float], Register],
    first_read: Awaitable[Content] | None = None,
) -> bool:
    """Replace the register by what ``change`` makes of it. Return whether that could be done."""
    try:
        for _ in range(_TRIES):
            now_s = time.time()
            content, version = await (first_read or register.read())
            first_read = None
            running = parse_register(content, now_s=now_s)
            changed = change(running, now_s)
            if changed == running or await register.replace(register_content(changed), version):
                return True
            await asyncio.sleep(random.uniform(0, _LONGEST_PAUSE_S))  # noqa: S311 # no secret
    except StoreError:
        return False
    return False
