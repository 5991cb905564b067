"""How files are put that others may put at the same time: after a look and a check, until each one is put."""

import asyncio
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from pixel_gather.engine import publish_version


@dataclass
class Contested:
    """A cube of one object. Somebody else puts it just before the first PUT."""

    etag: str
    others: str
    """ETag of what somebody else puts."""

    calls: list[str] = field(default_factory=list)

    async def etag_of(self, _: str) -> str:
        """Look."""
        self.calls.append("look")
        return self.etag

    async def put_object(self, _: str, __: Any, *, replaces: str | None) -> str | None:
        """Put, unless somebody else was first."""
        is_first = "put" not in self.calls
        self.calls.append("put")
        if is_first:
            self.etag = self.others
            return None
        if replaces != self.etag:
            return None
        self.etag = "ours"
        return self.etag

    async def check(self) -> None:
        """Note that somebody asks whether the work may go on."""
        self.calls.append("check")


def test_what_was_refused_is_looked_at_checked_and_put_again() -> None:
    """The check comes between the look and the PUT. So the PUT of who was stopped after it is refused."""
    cube: Any = Contested(etag="before", others="others")

    asyncio.run(publish_version.put_all(cube, ["x"], lambda _: b"", still_ours=cube.check))

    assert cube.calls == ["look", "check", "put"] * 2
    assert cube.etag == "ours"


def test_what_was_seen_before_is_not_looked_at_until_it_is_refused() -> None:
    """So a new cube costs one request a file."""
    cube: Any = Contested(etag="before", others="others")

    asyncio.run(
        publish_version.put_all(cube, ["x"], lambda _: b"", still_ours=cube.check, seen={"x": "before"})
    )

    assert cube.calls == ["check", "put", "look", "check", "put"]
    assert cube.etag == "ours"


def test_a_commit_that_is_refused_for_no_reason_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """S3 may refuse one of two PUTs at the same time, also if neither of them has come through."""
    monkeypatch.setattr(publish_version, "_LONGEST_PAUSE_S", 0.0)
    cube: Any = Contested(etag="before", others="before")
    found: Any = SimpleNamespace(version=0, etag="before")

    asyncio.run(publish_version.commit(cube, b"", found=found, still_ours=cube.check))

    assert cube.calls == ["check", "put", "check", "put"]
    assert cube.etag == "ours"
