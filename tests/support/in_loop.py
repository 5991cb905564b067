"""Tests that are coroutines, each in an event loop of its own."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

from support.virtual_time import run_virtually


def in_loop[**P](test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run a test in asyncio's own loop."""

    @wraps(test)
    def run(*args: P.args, **named: P.kwargs) -> None:
        asyncio.run(test(*args, **named))

    return run


def in_virtual_time[**P](test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run a test in virtual time; see `run_virtually`."""

    @wraps(test)
    def run(*args: P.args, **named: P.kwargs) -> None:
        run_virtually(test(*args, **named))

    return run
