"""The control files that steps leave for one another, and what they find committed."""

import asyncio
from copy import replace
from hashlib import blake2b
from pathlib import Path

import msgspec
import numpy as np
import obstore
import pytest
from obstore.store import MemoryStore

from pixel_gather.core.errors import ArrayExistsError, StoreError
from pixel_gather.core.model.outcome import ShardResult
from pixel_gather.core.plan.cube_plan import CubePlan
from pixel_gather.core.plan.cut_tasks import cut_tasks
from pixel_gather.engine.step_files import (
    LIST_KEY,
    PLAN_FORMAT,
    PLAN_KEY,
    TASKS_KEY,
    both,
    decode_plan,
    encode_plan,
    find_committed,
    is_planned,
    load_tasks,
    read_committed,
    read_rows,
    sidecar_key,
)
from pixel_gather.io.cube.control_files import ObjectControlStore
from pixel_gather.io.cube.zarr_cube import ZarrCube
from support.appends import in_memory
from support.fakes import FakeControl, FakeReader, stores_of, table_of
from support.plans import planned


def test_is_planned_tells_whether_the_plan_is_there() -> None:
    """It is there as soon as its file is."""
    control = ObjectControlStore(MemoryStore(), "gather/")  # type: ignore[arg-type] # serves as any other, in tests only

    assert asyncio.run(is_planned(control)) is False
    asyncio.run(control.put(PLAN_KEY, b"plan"))
    assert asyncio.run(is_planned(control)) is True


A = np.zeros((2, 8, 8), "uint8")
PLAN = planned(FakeReader({"a": A}), table_of("a"))
(TASK,) = cut_tasks(PLAN, [0])
RED, NIR = TASK.object_keys(PLAN)
RESULT = ShardResult(index=0, rows=[], read_s=1, write_s=2, stored_nbytes=3, peak_rss_mib=4)
KEY = sidecar_key(0, '"0"')
"""A store in memory counts its PUTs, and an ETag is such a number."""

CONTENT = msgspec.msgpack.encode(RESULT)


def stored(
    *puts: str, sidecar: bytes | None = CONTENT
) -> tuple[dict[int, str], ShardResult | Exception | None]:
    """Return which tasks a finish and a worker find committed.

    Args:
        puts: Keys of objects in the order of their PUTs.
        sidecar: That of the first object's first version.
    """
    store = in_memory()
    for key in puts:
        obstore.put(store, key, b"")
    files = {} if sidecar is None else {KEY: sidecar}
    stores = stores_of(ZarrCube(store, "place"), FakeControl(files=files))

    async def work() -> tuple[dict[int, str], ShardResult | Exception | None]:
        found = await find_committed(PLAN, (TASK,), stores=stores)
        try:
            return found, await read_committed(TASK, plan=PLAN, stores=stores)
        except StoreError as error:
            return found, error

    return asyncio.run(work())


def test_task_is_committed_if_all_objects_are_there_and_the_sidecar_is_of_the_first() -> None:
    """Otherwise a worker fills it again. An empty sidecar says that its version was given up."""
    assert stored(RED, NIR) == ({0: KEY}, RESULT)
    assert stored(RED) == ({}, None)
    assert stored(NIR) == ({}, None)
    assert stored() == ({}, None)
    assert stored(RED, NIR, RED) == ({}, None)
    assert stored(RED, NIR, NIR) == ({0: KEY}, RESULT)
    assert stored(RED, NIR, sidecar=b"") == ({}, None)
    assert stored(RED, NIR, sidecar=None) == ({}, None)


def test_damaged_sidecar_is_named() -> None:
    """It is not taken for none."""
    _, error = stored(RED, NIR, sidecar=b"\xc1")

    assert isinstance(error, StoreError)
    assert str(error).startswith(f"{KEY} is damaged")


def test_sidecar_has_a_key_of_its_task_and_of_the_version_of_its_object() -> None:
    """In the order of the tasks."""
    version = blake2b(b'"a"', digest_size=8).hexdigest()
    assert sidecar_key(7, '"a"') == f"shards/00007-{version}.msgpack"
    assert sidecar_key(7, "a") != sidecar_key(7, "b")
    assert sorted(sidecar_key(n, "a") for n in (10, 9, 100)) == [sidecar_key(n, "a") for n in (9, 10, 100)]


def test_rows_of_a_task_are_its_part_of_the_list() -> None:
    """Another number of rows is an error: the list would not be that of the plan."""
    rows = list(table_of("a", "b", "c").all_rows)
    parts = [msgspec.msgpack.encode(rows[:1]), msgspec.msgpack.encode(rows[1:])]
    control = FakeControl(files={LIST_KEY: b"".join(parts)})
    task = replace(TASK, row_start=1, row_stop=3, list_start=len(parts[0]), list_stop=len(b"".join(parts)))

    assert asyncio.run(read_rows(task, control)) == rows[1:]
    with pytest.raises(StoreError, match="task 0 has 4 rows, its part of the list 2"):
        asyncio.run(read_rows(replace(task, row_stop=5), control))
    with pytest.raises(StoreError, match=r"plan.msgpack is damaged"):
        asyncio.run(read_rows(replace(task, list_start=1), control))


def test_damaged_tasks_are_named_by_the_file_whose_removal_writes_them_again() -> None:
    """That is the plan."""
    with pytest.raises(StoreError, match=r"plan.msgpack is damaged"):
        asyncio.run(load_tasks(FakeControl(files={TASKS_KEY: b"[{"})))
    with pytest.raises(StoreError, match=r"tasks\.json is missing"):
        asyncio.run(load_tasks(FakeControl()))


def test_both_have_ended_before_an_error_is_raised() -> None:
    """Of two errors, it is the first one's."""
    ended = []

    async def work(name: str, *, fails: bool, pauses: int) -> str:
        for _ in range(pauses):
            await asyncio.sleep(0)
        ended.append(name)
        if fails:
            raise StoreError(name)
        return name

    async def run(*, first: bool, second: bool) -> tuple[str, str]:
        ended.clear()
        return await both(work("a", fails=first, pauses=1), work("b", fails=second, pauses=5))

    assert asyncio.run(run(first=False, second=False)) == ("a", "b")
    for first, second, name in ((True, False, "a"), (False, True, "b"), (True, True, "a")):
        with pytest.raises(StoreError, match=f"^{name}$"):
            asyncio.run(run(first=first, second=second))
        assert ended == ["a", "b"]


STORED = Path(__file__).with_name("plans") / f"format-{PLAN_FORMAT}.msgpack"


def test_plan_of_todays_format_is_read_and_written_as_it_was() -> None:
    """Where this fails, plans have changed: raise PLAN_FORMAT, and store a new file beside this one."""
    content = STORED.read_bytes()

    assert encode_plan(decode_plan(content)) == content
    assert len(msgspec.msgpack.decode(content.partition(b"\n")[2])) == len(CubePlan.__struct_fields__)


@pytest.mark.parametrize("head", [b"", b"plan 0\n", b"plan 999\n"], ids=["none", "former", "later"])
def test_plan_of_another_format_is_refused_in_words(head: bytes) -> None:
    """Its shards may be cut in another way, so nothing goes on with it."""
    content = head + STORED.read_bytes().partition(b"\n")[2]

    with pytest.raises(ArrayExistsError, match=r"another version of Pixel Gather.*submit it again"):
        decode_plan(content)


def test_damaged_plan_is_called_damaged() -> None:
    """It is no plan of another version."""
    with pytest.raises(StoreError, match="is damaged"):
        decode_plan(STORED.read_bytes()[:-9])
