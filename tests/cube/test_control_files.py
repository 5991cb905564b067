"""Control files in a folder and in memory."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import obstore
import pytest
from obstore.store import LocalStore, MemoryStore

from pixel_gather.core.errors import StoreError
from pixel_gather.io.cube.control_files import ObjectControlStore
from pixel_gather.io.store.object_store import Store
from support.in_loop import in_loop


def in_memory(_: Path) -> Store:
    """Return a store in memory."""
    return MemoryStore()  # type: ignore[return-value] # serves as any other, in tests only


def in_folder(folder: Path) -> Store:
    """Return a store in a folder."""
    return LocalStore(folder, automatic_cleanup=True)


class ListedEarlier(ObjectControlStore, frozen=True):
    """Lists files that another process has removed since."""

    async def list_(self, prefix: str, *, skip_empty: bool = False) -> set[str]:
        """Return the keys that are there, and some that were."""
        found = await super().list_(prefix, skip_empty=skip_empty)
        return found | {"plan", "shards/00000.msgpack", "claim"}


@pytest.mark.parametrize("make", [in_memory, in_folder])
@in_loop
async def test_control_store_is_cleared_by_two_processes(
    tmp_path: Path, make: Callable[[Path], Store]
) -> None:
    """What the other one has removed is no error, and all the rest is removed."""
    control = ObjectControlStore(make(tmp_path), ".gather/")
    for key in ("list", "template", "shards/00001.msgpack", "shards/00002.msgpack"):
        await control.put(key, b"x")

    await ListedEarlier(control.store, ".gather/").clear()

    assert await control.list_("") == set()


@in_loop
async def test_sidecars_are_cleared_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who does not find one looks whether the plan is there, so it must be gone by then."""
    removed: list[list[str]] = []

    async def note(_: Store, keys: list[str]) -> None:
        removed.append(sorted(keys))

    control = ObjectControlStore(in_folder(tmp_path), ".gather/")
    for key in ("shards/00001.msgpack", "template", "list"):
        await control.put(key, b"x")
    monkeypatch.setattr(obstore, "delete_async", note)
    await control.clear()

    assert removed == [[".gather/list", ".gather/template"], [".gather/shards/00001.msgpack"]]


@pytest.mark.parametrize("make", [in_memory, in_folder])
@in_loop
async def test_empty_files_are_left_out_if_wanted(tmp_path: Path, make: Callable[[Path], Store]) -> None:
    """A machine that lost its power may have left one: it is no sidecar."""
    control = ObjectControlStore(make(tmp_path), ".gather/")
    await control.put("shards/0", b"x")
    await control.put("shards/1", b"")
    assert await control.list_("shards/") == {"shards/0", "shards/1"}
    assert await control.list_("shards/", skip_empty=True) == {"shards/0"}


@pytest.mark.parametrize("make", [in_memory, in_folder])
@in_loop
async def test_control_store_keeps_files(tmp_path: Path, make: Callable[[Path], Store]) -> None:
    """Files can be put, replaced, streamed, listed, read in part and removed, only below the prefix."""
    store = make(tmp_path)
    control, other = ObjectControlStore(store, ".gather/"), ObjectControlStore(store, ".gather2/")
    assert await control.get("plan") is None
    assert await control.list_("") == set()
    await control.clear()

    await control.put("plan", b"first")
    await control.put("plan", b"second")
    await control.put("shards/00001.msgpack", b"")
    await control.put_stream("list", iter([b"ab", b"", b"cdef"]))
    await other.put("plan", b"another's")

    assert await control.get("plan") == b"second"
    assert await control.get("shards/00001.msgpack") == b""
    assert await control.get_range("list", 1, 4) == b"bcd"
    assert await control.list_("shards/") == {"shards/00001.msgpack"}
    assert await control.list_("") == {"plan", "list", "shards/00001.msgpack"}

    await control.clear()

    assert await control.list_("") == set()
    assert await control.get("plan") is None
    assert await other.get("plan") == b"another's"


def test_control_store_streams_more_than_one_part_of_an_upload(tmp_path: Path) -> None:
    """The list of a million sources is longer than one part."""
    control = ObjectControlStore(in_folder(tmp_path), ".gather/")
    part = bytes(1_000_000)

    asyncio.run(control.put_stream("list", (part for _ in range(12))))

    assert (tmp_path / ".gather" / "list").stat().st_size == 12_000_000


def test_control_store_leaves_no_folder_behind(tmp_path: Path) -> None:
    """A complete cube has no control files."""
    control = ObjectControlStore(in_folder(tmp_path), ".gather/")
    asyncio.run(control.put("shards/00001.msgpack", b"x"))

    asyncio.run(control.clear())

    assert not (tmp_path / ".gather").exists()


def test_what_a_killed_writer_left_is_cleared_away(tmp_path: Path) -> None:
    """A file is written as ``NAME#NUMBER`` first. Obstore neither lists nor deletes such names."""
    control = ObjectControlStore(in_folder(tmp_path), ".gather/")
    for key in ("first/shards/00001.msgpack", "second/plan"):
        asyncio.run(control.put(key, b"x"))
        (tmp_path / ".gather" / f"{key}#1").write_bytes(b"ha")
    (tmp_path / ".gather/first/empty").mkdir()

    asyncio.run(control.clear(lambda key: not key.startswith("second")))
    left = {each.name for each in tmp_path.rglob("*")}
    asyncio.run(control.clear())

    assert left == {".gather", "second", "plan", "plan#1"}
    assert not (tmp_path / ".gather").exists()


def test_a_file_that_was_cleared_away_is_said_to_be_gone(tmp_path: Path) -> None:
    """Another process may complete the same cube and clear its control files."""
    control = ObjectControlStore(in_folder(tmp_path), ".gather/")

    with pytest.raises(StoreError, match=r"^the control file list is missing. Its gather has ended"):
        asyncio.run(control.get_range("list", 0, 1))


@pytest.mark.parametrize("may_list", [True, False])
def test_a_store_that_hides_what_is_missing_says_that_it_is(
    *, may_list: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S3 answers 403 for a missing object to those who may not list. To others, 403 is a refusal."""

    async def refused(*_: Any, **__: Any) -> Any:
        raise obstore.exceptions.PermissionDeniedError("403")

    for name in ("get_async", "get_range_async"):
        monkeypatch.setattr(f"obstore.{name}", refused)
    control = ObjectControlStore(in_folder(tmp_path), ".gather/", may_list=may_list)

    with pytest.raises(StoreError, match="could not be read" if may_list else "list is missing"):
        asyncio.run(control.get_range("list", 0, 1))
    if may_list:
        with pytest.raises(StoreError, match="could not be read"):
            asyncio.run(control.get("list"))
    else:
        assert asyncio.run(control.get("list")) is None


def test_control_store_says_what_could_not_be_done(tmp_path: Path) -> None:
    """The error has the store's message and names the file."""
    (tmp_path / ".gather").write_text("in the way")
    control = ObjectControlStore(in_folder(tmp_path), ".gather/")

    with pytest.raises(StoreError, match="plan could not be written"):
        asyncio.run(control.put("plan", b""))
    with pytest.raises(StoreError, match="plan could not be written"):
        asyncio.run(control.put_stream("plan", iter([b""])))
    with pytest.raises(StoreError, match="plan could not be read"):
        asyncio.run(control.get_range("plan", 0, 1))
