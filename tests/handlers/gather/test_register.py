"""Gathers that run at the same time know of each other."""

import asyncio
import json
from copy import replace
from dataclasses import dataclass, field
from math import ceil
from typing import Any

import pytest

from handlers.gather.register import enter, leave
from pixel_gather.core.errors import StoreError
from pixel_gather.core.samples import N_SAMPLES, PIXELS, key_of, request_of, sample
from support.in_loop import in_loop
from support.lambda_functions import EXECUTION, StateMachine

KEY = "pace/gathers.json"


@dataclass
class FakeLedger:
    """A register in memory. Others change it ``n_races`` times before a replacement succeeds."""

    content: bytes = b""
    n_races: int = 0
    is_out_of_reach: bool = False
    is_read_only: bool = False
    n_puts: int = field(default=0, init=False)

    async def touch(self) -> float:
        """Nobody asks for the time."""
        raise AssertionError

    async def read(self) -> tuple[bytes, str | None]:
        """Return the content."""
        if self.is_out_of_reach:
            raise StoreError("out of reach")
        return self.content, str(self.n_puts)

    async def replace(self, content: bytes, version: str | None) -> bool:
        """Replace it, unless somebody else was faster."""
        assert version == str(self.n_puts)
        if self.is_read_only:
            raise StoreError("denied")
        self.n_puts += 1
        if self.n_races:
            self.n_races -= 1
            other = {"workers": 400, "until_s": 1e12}
            self.content = json.dumps({"another": other}).encode()
            return False
        self.content = content
        return True


def entered(ledger: FakeLedger, name: str, wants: int) -> int:
    """Enter a gather and return its workers."""
    return asyncio.run(enter(ledger, name, wants=wants, most=900, seconds=60.0))


def stored(machine: StateMachine, key: str) -> dict[str, Any]:
    """Return a JSON object of the control bucket."""
    content: dict[str, Any] = json.loads(machine.s3.get_object(Bucket="control", Key=key)["Body"].read())
    return content


def test_gather_that_is_overtaken_looks_again() -> None:
    """What another has taken meanwhile counts. A second try of the same plan takes the place of the first."""
    ledger = FakeLedger(n_races=1)

    first, again = entered(ledger, "a", 800), entered(ledger, "a", 800)

    assert (first, again) == (500, 500)
    assert json.loads(ledger.content).keys() == {"another", "a"}


@in_loop
async def test_register_that_was_read_before_is_read_again_if_it_has_changed() -> None:
    """A plan reads it when it begins, and enters much later."""
    ledger = FakeLedger(n_races=1)

    before = asyncio.ensure_future(ledger.read())
    assert await enter(ledger, "a", wants=800, most=900, seconds=60.0, first_read=before) == 500


def test_register_that_fails_or_is_always_changed_holds_up_no_gather() -> None:
    """The gather then has what it wants, and can leave what it never entered."""
    out_of_reach, busy = FakeLedger(is_out_of_reach=True), FakeLedger(n_races=100)
    full = json.dumps({"another": {"workers": 400, "until_s": 1e12}}).encode()
    read_only = FakeLedger(content=full, is_read_only=True)

    assert (entered(out_of_reach, "a", 500), entered(busy, "a", 800)) == (500, 800)
    assert entered(read_only, "a", 800) == 800
    asyncio.run(leave(out_of_reach, "a"))


def test_gather_that_has_not_entered_leaves_without_a_put() -> None:
    """A complete cube without a report is finished without workers."""
    ledger = FakeLedger()

    asyncio.run(leave(ledger, "a"))

    assert ledger.n_puts == 0


@pytest.mark.long
def test_plan_takes_what_others_leave_and_finish_gives_it_back(machine: StateMachine) -> None:
    """Of 24 workers, a second gather has its half. Status warns of it. When the first ends, all are free."""
    for index in range(N_SAMPLES):
        machine.s3.put_object(Bucket="control", Key=key_of(index), Body=sample(index))
    plan: Any = machine.plan
    plan.deployment.settings = replace(plan.deployment.settings, all_workers=24)

    def planned(name: str) -> dict[str, Any]:
        return machine.planned(request_of("control", name=name, report=False), execution=name)

    first, second = planned("canary-1"), planned("canary-2")
    summary = json.loads(
        machine.s3.get_object(Bucket="control", Key="summaries/canary-2.json")["Body"].read()
    )
    result = machine.run(request_of("control", name="canary-3", report=False))
    left = stored(machine, KEY)

    assert (first["workers"], second["workers"]) == (20, 12)
    assert summary["n_workers"] == 12
    assert summary["worker_warnings"] == ["other gathers run: this one has 12 of 20 workers"]
    assert (result["status"], result["digest"]) == ({"ok": N_SAMPLES}, PIXELS)
    assert {name: each["workers"] for name, each in left.items()} == {"canary-1": 20, "canary-2": 12}
    assert EXECUTION not in left


@pytest.mark.long
def test_plan_has_fewer_workers_where_many_gathers_read_one_prefix(machine: StateMachine) -> None:
    """S3 answers only so many GETs a second of it. The account has room for all of its workers."""
    for index in range(N_SAMPLES):
        machine.s3.put_object(Bucket="control", Key=key_of(index), Body=sample(index))

    def planned(name: str, *, others_read: str) -> int:
        other = {"workers": 1, "until_s": 1e12, "reads": others_read, "gets_per_s": 10.0}
        others = {f"other-{n}": other for n in range(549)}
        machine.s3.put_object(Bucket="control", Key=KEY, Body=json.dumps(others).encode())
        verdict = machine.planned(request_of("control", name=name, report=False), execution=name)
        return int(verdict["workers"])

    alone = planned("canary-4", others_read="s3://control/elsewhere/")
    entry = stored(machine, KEY)["canary-4"]
    beside = planned("canary-5", others_read="s3://control/samples/")
    shared = stored(machine, KEY)["canary-5"]

    assert alone == 20
    assert entry["reads"].startswith("s3://control/samples/")
    assert entry["gets_per_s"] > 10
    assert beside == ceil(20 * 10 / entry["gets_per_s"]) < 20
    assert shared["gets_per_s"] == pytest.approx(entry["gets_per_s"] * beside / 20)
