"""How many answers a finish waits for, one after another: what the model counts on."""

import asyncio
import inspect
from dataclasses import replace
from typing import Any

from engine.test_whole_gathers import Gather
from pixel_gather.engine.finish_gather import finish_gather
from pixel_gather.engine.publish import put_all
from support.fakes import stores_of
from support.virtual_time import run_virtually


class Slow:
    """A store each of whose answers takes a second of virtual time."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if not inspect.iscoroutinefunction(found):
            return found

        async def slowly(*arguments: Any, **options: Any) -> Any:
            await asyncio.sleep(1.0)
            return await found(*arguments, **options)

        return slowly


def test_finish_waits_for_six_answers_besides_its_objects() -> None:
    """The cube and its shards; who is lost; sidecars; headers; the cube again; the commit."""
    gather = Gather()
    plan, tasks = gather.plan()
    for task in tasks:
        gather.shard(task, plan)

    async def finished() -> float:
        stores = stores_of(gather.cube, gather.control.below(plan.claim))
        slow = replace(stores, cube=Slow(stores.cube), control=Slow(stores.control))
        await finish_gather(plan=plan, tasks=tasks, stores=slow)
        return asyncio.get_running_loop().time()

    assert run_virtually(finished()) == 6.0


class Objects:
    """A cube with the metadata of one array."""

    def __init__(self) -> None:
        self.there = {"band_1/zarr.json": '"old"'}
        self.looked_at: list[str] = []

    async def etag_of(self, key: str) -> str | None:
        """Return an object's ETag."""
        self.looked_at.append(key)
        return self.there.get(key)

    async def put_object(self, key: str, content: Any, *, replaces: str | None) -> str | None:
        """Put an object if it is still this one."""
        del content
        if self.there.get(key) != replaces:
            return None
        self.there[key] = '"new"'
        return '"new"'


def put(objects: Objects, keys: list[str], not_there: set[str]) -> float:
    """Put objects, and return how many answers followed one another."""
    slow: Any = Slow(objects)

    async def still_ours() -> None:
        await asyncio.sleep(1.0)

    async def done() -> float:
        await put_all(slow, keys, lambda _: b"", still_ours=still_ours, not_there=not_there)
        return asyncio.get_running_loop().time()

    return run_virtually(done())


def test_objects_are_put_32_at_a_time_and_only_those_that_may_be_there_are_looked_at() -> None:
    """A look, a check, and two rounds of PUTs."""
    objects = Objects()
    new = [f"x/c/{n}" for n in range(60)]

    seconds = put(objects, [*new, "band_1/zarr.json"], set(new))

    assert seconds == 4.0
    assert objects.looked_at == ["band_1/zarr.json"]
    assert set(objects.there.values()) == {'"new"'}


def test_object_that_an_earlier_try_has_left_is_replaced_after_a_look() -> None:
    """The first PUT finds it, and changes nothing."""
    objects = Objects()
    objects.there["x/c/0"] = '"left"'

    seconds = put(objects, ["x/c/0", "x/c/1"], {"x/c/0", "x/c/1"})

    assert seconds == 5.0
    assert objects.looked_at == ["x/c/0"]
    assert objects.there["x/c/0"] == '"new"'
