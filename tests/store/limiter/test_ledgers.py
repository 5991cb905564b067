"""The ledgers of hosts as objects, and processes that share them."""

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import pytest
from obstore.store import LocalStore, MemoryStore

from pixel_gather.core.errors import StoreError
from pixel_gather.io.store.concurrency import AdaptiveLimiter
from pixel_gather.io.store.limiter.ledgers import HostBudgets, ObjectLedger, open_users_folder
from support.in_loop import in_loop

ROOT = "https://example.org"


def budgets_in(folder: Path, **per_s: float) -> HostBudgets:
    """Return budgets whose ledgers lie in a folder."""
    return HostBudgets({ROOT: 100.0} | per_s, open_store=lambda: (LocalStore(folder), "pace/"))


@pytest.mark.parametrize("store", [MemoryStore(), None], ids=["bucket", "folder"])
@in_loop
async def test_ledger_is_replaced_only_as_it_was_seen(store: Any, tmp_path: Path) -> None:
    """Of two workers that have seen the same, the later one has to look again."""
    ledger = ObjectLedger(store or LocalStore(tmp_path), "pace/host.json")

    assert await ledger.read() == (b"", None)
    assert await ledger.replace(b"one", None)
    assert not await ledger.replace(b"two", None)
    content, version = await ledger.read()
    assert content == b"one"
    assert await ledger.replace(b"three", version)
    assert not await ledger.replace(b"four", version)
    assert (await ledger.read())[0] == b"three"


def test_clock_is_that_of_the_store(tmp_path: Path) -> None:
    """It is told by the object that was written, in whole seconds."""
    before_s = time.time()
    written_s = asyncio.run(ObjectLedger(LocalStore(tmp_path), "pace/host.json").touch())

    assert before_s - 2 <= written_s <= time.time() + 1
    assert written_s == int(written_s)


@in_loop
async def test_object_that_is_too_long_is_no_ledger(tmp_path: Path) -> None:
    """It is not read, but replaced."""
    (tmp_path / "pace").mkdir()
    (tmp_path / "pace" / "host.json").write_bytes(b"x" * (2**21 + 1))
    ledger = ObjectLedger(LocalStore(tmp_path), "pace/host.json")

    content, version = await ledger.read()
    assert not content
    assert await ledger.replace(b"{}", version)


def test_ledger_out_of_reach_is_named(tmp_path: Path) -> None:
    """The message says which limit it is about."""
    (tmp_path / "pace").write_bytes(b"a file where a folder has to be")

    with pytest.raises(StoreError, match=r"pace/clock, which holds limits\.requests_per_s, is out of reach"):
        asyncio.run(ObjectLedger(LocalStore(tmp_path), "pace/host.json").touch())


def test_host_without_a_budget_is_not_governed(tmp_path: Path) -> None:
    """Nothing is written for it."""
    budgets = budgets_in(tmp_path)

    assert budgets.governor("s3://other") is None
    assert budgets.governor(ROOT) is budgets.governor(ROOT)
    assert not list(tmp_path.iterdir())


def test_lower_one_of_two_budgets_holds(tmp_path: Path) -> None:
    """The deployment's hold for every gather. Those of a gather hold for it alone."""
    budgets = budgets_in(tmp_path)
    governor = budgets.governor(ROOT)
    assert governor is not None

    budgets.use({ROOT: 5.0, "s3://b": 7.0}, n_workers=3)
    strict, other = budgets.governor(ROOT), budgets.governor("s3://b")
    assert strict is governor
    assert (governor.budget.per_s, governor.budget.n_workers) == (5.0, 3)
    assert other is not None
    budgets.use({ROOT: 1000.0}, n_workers=1)

    assert budgets.governor("s3://b") is None
    assert budgets.governor(ROOT) is governor
    assert governor.budget.per_s == 100.0


@in_loop
async def test_limiter_asks_for_a_turn_and_for_few_requests_in_flight(tmp_path: Path) -> None:
    """More would wait for their turns until they time out."""
    limiter = AdaptiveLimiter(most=256, budgets=budgets_in(tmp_path, **{"s3://slow": 1.0}))

    for _ in range(3):
        await limiter.turn(ROOT)

    assert limiter.governs(ROOT)
    assert not limiter.governs("s3://other")
    assert limiter.bounds("s3://slow").highest == 4
    assert limiter.bounds(ROOT).highest == 200
    assert limiter.bounds("s3://other").highest == 256
    assert [each.name for each in (tmp_path / "pace").iterdir() if each.name != "clock"] == [
        "https-example.org.json"
    ]


def test_processes_of_a_user_share_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only this user may look into it."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    store, prefix = open_users_folder()

    folder = tmp_path / f"pixel-gather-pace-{os.getuid()}"
    assert Path(str(store.prefix)) == folder  # type: ignore[union-attr] # it is a local one
    assert prefix == ""
    assert folder.stat().st_mode & 0o777 == 0o700
    assert open_users_folder()


def test_folder_of_somebody_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link in the common folder may lead anywhere."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / f"pixel-gather-pace-{os.getuid()}").symlink_to(tmp_path)

    with pytest.raises(StoreError, match="it is another user's"):
        open_users_folder()
