"""Faults on our side that no other test injects, and the table of all of them."""

import ast
import asyncio
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import obstore
import pytest
from obstore.exceptions import GenericError
from obstore.store import LocalStore, MemoryStore

from engine.test_commit_shard import Place
from faults.own_faults import FAULTS, OwnFault, own_faults_text
from pixel_gather.core.errors import RequestError, StoreError
from pixel_gather.core.plan.cut_tasks import ShardTask
from pixel_gather.core.request.request import parse_request
from pixel_gather.core.stores import ROOT_KEY
from pixel_gather.engine.header_cache import PACKED_HEADERS_KEY, load_packed_headers
from pixel_gather.engine.step_files import PLAN_KEY, load_plan, load_tasks
from pixel_gather.io.cube.control_files import ObjectControlStore
from support.appends import GrownPlace, paused
from support.fakes import FakeControl, table_of
from support.whole_gather import IMAGES, NAMES, Gather

PROJECT = Path(__file__).parents[2]


@cache
def _tests_of(module: str) -> frozenset[str]:
    tree = ast.parse((PROJECT / "tests" / module).read_text())
    return frozenset(each.name for each in tree.body if isinstance(each, ast.FunctionDef))


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.injected)
def test_fault_is_injected_by_a_test_that_is_there(fault: OwnFault) -> None:
    """A row of the table cannot outlive its test."""
    module, _, name = fault.shown_by.partition("::")

    assert name in _tests_of(module)


def test_documented_faults_are_those_that_are_injected() -> None:
    """docs/faults.md has the table of these cases."""
    assert own_faults_text() in (PROJECT / "docs/faults.md").read_text()


def test_finish_that_is_killed_before_complete_is_repeated() -> None:
    """Everything is written but the mark of a complete cube. The next finish reads no source."""
    gather = Gather()
    plan, tasks = gather.fill_from(0)

    async def killed() -> None:
        raise OSError("the machine was switched off")

    paused(gather, killed, ("put", ROOT_KEY))
    with pytest.raises(OSError, match="switched off"):
        gather.finish(plan, tasks)
    is_complete = gather.is_complete()
    gather.reader.opened.clear()

    report = gather.finish(plan, tasks)

    assert not is_complete
    assert gather.reader.opened == []
    assert report.digest == Gather().run().digest


@pytest.fixture
def losing(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], list[str]]]:
    """Lose the answer to the next PUT of a key that begins like this. Returns the keys of all PUTs."""
    puts: list[str] = []
    put = obstore.put_async

    def lose(begin: str) -> list[str]:
        async def put_and_lose(store: Any, key: str, content: Any, **how: Any) -> Any:
            is_first = key.startswith(begin) and not any(each.startswith(begin) for each in puts)
            puts.append(key)
            done = await put(store, key, content, **how)
            if is_first:
                raise GenericError(
                    "Generic S3 error: HTTP error: request or response body error, kind: Request"
                )
            return done

        monkeypatch.setattr(obstore, "put_async", put_and_lose)
        return puts

    return lose  # type: ignore[return-value] # a fixture that ends nothing


def _in_stores() -> Place:
    store: Any = MemoryStore()
    control = ObjectControlStore(store, "control/")
    asyncio.run(control.put(PLAN_KEY, b"planned"))
    return Place(control=control)


def test_shard_whose_answer_is_lost_is_committed_once(losing: Callable[[str], list[str]]) -> None:
    """The worker cannot know that the object is its own. It replaces it."""
    place = _in_stores()
    puts = losing("band_1/")

    result = asyncio.run(place.commit(3))

    assert sum(each.startswith("band_1/") for each in puts) == 3
    assert place.values() == [3, 3]
    assert place.told() == result


def test_sidecar_whose_answer_is_lost_is_the_workers_own(losing: Callable[[str], list[str]]) -> None:
    """The second try finds what the first one has put."""
    place = _in_stores()
    puts = losing("control/shards/")

    result = asyncio.run(place.commit(3))

    assert sum(each.startswith("band_1/") for each in puts) == 1
    assert place.told() == result


@pytest.mark.parametrize(
    "content", [None, b"\xc1 no MessagePack", b"\x92\x01"], ids=["missing", "damaged", "short"]
)
@pytest.mark.parametrize("key", ["plan.msgpack", "tasks.json", "sources.msgpack", "shards/00001"])
def test_damaged_control_file_is_named(key: str, content: bytes | None) -> None:
    """Steps that need the file fail by the class that the state machine knows. No cube is complete."""
    gather = Gather()
    plan, tasks = gather.fill_from(0)
    control = gather.control.below(plan.claim)
    (path,) = (each for each in gather.control.files if each.startswith(control.folder + key))
    if content is None:
        del gather.control.files[path]
    else:
        gather.control.files[path] = content

    async def load() -> None:
        await load_plan(control)
        await load_tasks(control)

    def go_on() -> None:
        asyncio.run(load())
        gather.finish(plan, tasks)

    with pytest.raises(StoreError, match=r"run .*again|is missing"):
        go_on()

    assert not gather.is_complete()


def test_damaged_packed_headers_are_not_used() -> None:
    """They only save requests."""
    control = FakeControl(files={PACKED_HEADERS_KEY: b"\xc1\xc1\xc1"})
    task = ShardTask(
        index=0, row_start=0, row_stop=1, y_start=0, y_stop=1, list_start=0, list_stop=1, headers_stop=3
    )

    assert asyncio.run(load_packed_headers(task, control)) == ()


def _goes_on_after(error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Refuse PUTs of the second shard with an error, then gather again. Return what was said."""
    put = obstore.put_async

    async def refuse(store: Any, key: str, content: Any, **how: Any) -> Any:
        if key.startswith("band_1/c/1/"):
            raise error
        return await put(store, key, content, **how)

    place = GrownPlace(
        images=IMAGES,
        request={"output": {"layout": {"chunk": [1, 6, 8], "shard_rows": 2}}},
        store=LocalStore(tmp_path),
    )
    monkeypatch.setattr(obstore, "put_async", refuse)
    with pytest.raises(StoreError) as refused:
        place.gather(table_of(*NAMES[:4]))
    monkeypatch.setattr(obstore, "put_async", put)
    place.reader.opened.clear()

    report = place.gather(table_of(*NAMES[:4]))

    assert report.status_counts == {"ok": 4}
    assert len(place.reader.opened) == 2
    np.testing.assert_array_equal(
        place.open()["band_1"].values, np.stack([IMAGES[name][0, 3:9, 2:10] for name in NAMES[:4]])
    )
    return str(refused.value)


def test_full_disk_is_one_error_and_the_gather_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was committed before is not read again."""
    full = GenericError(
        "Generic LocalFileSystem error: Unable to copy data: No space left on device (os error 28)"
    )

    said = _goes_on_after(full, tmp_path, monkeypatch)

    assert said.startswith("place could not be written: ")
    assert "No space left on device" in said


def test_credentials_that_expire_amid_a_run_are_one_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says what to do."""
    expired = GenericError("Generic S3 error: status code: 400: <Error><Code>ExpiredToken</Code></Error>")

    said = _goes_on_after(expired, tmp_path, monkeypatch)

    assert said.startswith("place could not be written: the AWS credentials have expired")


def test_no_source_is_refused() -> None:
    """The error names the field."""
    with pytest.raises(RequestError, match="sources"):
        parse_request({"sources": [], "window": "centre"})


def test_one_source_is_a_cube_of_one_row() -> None:
    """No step needs a second one."""
    gather = Gather(table=table_of(NAMES[0]))

    report = gather.run()

    assert report.status_counts == {"ok": 1}
    np.testing.assert_array_equal(gather.array("band_1"), IMAGES[NAMES[0]])
