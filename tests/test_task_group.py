"""Concurrent work raises one error, of a class that callers know."""

import ast
import asyncio
import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from pixel_gather.core.errors import StoreError
from pixel_gather.core.task_group import all_of

ROOT = Path(__file__).parents[1]
MODULES = [*ROOT.glob("functions/**/*.py"), *ROOT.glob("scripts/**/*.py")]


async def _after(delay_s: float, result: int | Exception, ended: list[float]) -> int:
    try:
        await asyncio.sleep(delay_s)
    finally:
        ended.append(delay_s)
    if isinstance(result, Exception):
        raise result
    return result


def test_all_of_returns_results_in_order() -> None:
    """The order does not depend on which ends first."""
    assert asyncio.run(all_of(_after(delay_s, n, []) for n, delay_s in enumerate((0.02, 0.0, 0.01)))) == [
        0,
        1,
        2,
    ]


def test_all_of_raises_the_error_itself_and_leaves_nothing_under_way() -> None:
    """The error is not in a group, even if it was raised in nested groups."""
    ended: list[float] = []

    async def nested() -> int:
        return sum(await all_of([_after(0.0, StoreError("disk is full"), ended), _after(9.0, 1, ended)]))

    with pytest.raises(StoreError, match="disk is full"):
        asyncio.run(all_of([_after(8.0, 1, ended), nested()]))

    assert sorted(ended) == [0.0, 8.0, 9.0]


def test_all_of_raises_what_was_foreseen_before_anything_else() -> None:
    """Of two errors at the same moment, a GatherError is raised."""
    errors = (KeyError("bug"), StoreError("disk is full"))

    with pytest.raises(StoreError):
        asyncio.run(all_of(_after(0.0, error, []) for error in errors))


def test_all_of_one_needs_no_task() -> None:
    """Most sources need one range, and most shards have one object. A task for each would cost time."""

    async def own() -> tuple[asyncio.Task[None] | None, list[asyncio.Task[None] | None]]:
        async def task() -> asyncio.Task[None] | None:
            return asyncio.current_task()

        return asyncio.current_task(), await all_of([task()])

    ours, theirs = asyncio.run(own())

    assert theirs == [ours]


def test_all_of_runs_no_more_than_so_many_at_once(recwarn: pytest.WarningsRecorder) -> None:
    """After a failure, those that never had their turn are closed, of which Python would warn."""
    running: list[int] = []
    most: list[int] = []

    async def one(number: int) -> int:
        running.append(number)
        most.append(len(running))
        await asyncio.sleep(0)
        running.remove(number)
        if number == 4:
            raise StoreError("disk is full")
        return number

    assert asyncio.run(all_of(map(one, range(4)), at_once=2)) == [0, 1, 2, 3]
    with pytest.raises(StoreError, match="disk is full"):
        asyncio.run(all_of(map(one, range(9)), at_once=2))
    gc.collect()
    assert max(most) == 2
    assert not list(recwarn)


def _nodes(kind: type[ast.AST]) -> Iterator[tuple[str, ast.AST]]:
    for module in MODULES:
        for node in ast.walk(ast.parse(module.read_text())):
            if isinstance(node, kind):
                yield module.name, node


@pytest.mark.slow
def test_there_is_one_place_that_makes_task_groups() -> None:
    """Another task group would raise an ExceptionGroup, which no caller and no Retry expects."""
    made = {name for name, node in _nodes(ast.Attribute) if getattr(node, "attr", "") == "TaskGroup"}

    assert made == {"task_group.py"}


@pytest.mark.slow
def test_nothing_is_added_to_across_an_await() -> None:
    """``x += await y`` reads x before it waits, and so loses what others add meanwhile."""
    wrong = [
        name
        for name, node in _nodes(ast.AugAssign)
        if isinstance(node, ast.AugAssign)
        and isinstance(node.target, ast.Attribute | ast.Subscript)
        and any(isinstance(each, ast.Await) for each in ast.walk(node.value))
    ]

    assert wrong == []
