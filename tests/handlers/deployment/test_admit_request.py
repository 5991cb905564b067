"""No list blocks a function: neither an empty one nor an endless one."""

import gzip
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from handlers.deployment import admit_request
from pixel_gather.core.model.source import Source
from pixel_gather.io.lists.source_list import SourceList
from support.api_bridge import told
from support.lambda_functions import Context, StateMachine, cold_start

WINDOW: dict[str, Any] = {"window": {"pixels": [0, 0, 40, 30]}}


class EndlessList:
    """A list that never yields a source. It records whether its reader has stopped."""

    def __init__(self) -> None:
        self.ended = threading.Event()

    def named(self, *_: Any, check: Callable[[], None], **__: Any) -> SourceList:
        """Replace ``named_sources``."""
        return SourceList(name="endless", is_typed=True, sources=self._sources(check))

    def _sources(self, check: Callable[[], None]) -> Iterator[Source]:
        try:
            while True:
                check()
                time.sleep(0.001)
        finally:
            self.ended.set()
        yield Source(href="s3://sources/never.tif")


def test_dry_run_stops_reading_a_list_before_it_answers(s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that reads the list must not run on in the next invocation."""
    del s3
    endless = EndlessList()
    with cold_start(monkeypatch, "dry_run") as module:
        monkeypatch.setattr(admit_request, "named_sources", endless.named)
        given = WINDOW | {"sources": {"prefix": "s3://sources/landsat"}}
        code, problem = told(module.app, "POST", "/plans", given, left_s=4.0)
        has_ended = endless.ended.is_set()

    assert has_ended
    assert code == 504
    assert "submit the gather" in problem["detail"]


def test_plan_gather_refuses_a_list_that_takes_too_long(s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan is refused before Lambda ends the function and it is tried again."""
    del s3
    with cold_start(monkeypatch, "plan_gather") as module:
        monkeypatch.setattr(admit_request, "named_sources", EndlessList().named)
        event = {"request": WINDOW | {"sources": {"prefix": "s3://sources/landsat"}}, "execution": "x"}
        verdict = module.handler(event, Context(left_s=0.2))

    assert (verdict["verdict"], verdict["error"]) == ("refused", "BudgetError")
    assert "the list takes longer to read than" in verdict["cause"]


@pytest.mark.long
@pytest.mark.parametrize(
    "sources",
    [
        {"list": "s3://sources/lists/blank.txt"},
        {"prefix": "s3://sources/landsat", "glob": "*.no"},
        {"list": "s3://sources/lists/blank"},
    ],
    ids=["list", "prefix", "list of no kind"],
)
def test_plan_gather_gives_up_a_list_that_names_nothing(
    sources: dict[str, str], machine: StateMachine
) -> None:
    """The time is checked although no source comes out."""
    for name in ("blank.txt", "blank"):
        machine.s3.put_object(Bucket="sources", Key=f"lists/{name}", Body=gzip.compress(b"\n" * 900_000))

    event = {"request": WINDOW | {"sources": sources}, "execution": "x"}
    verdict = machine.plan.handler(event, Context(left_s=0.0))

    assert (verdict["verdict"], verdict["error"]) == ("refused", "BudgetError")
    assert "the list takes longer to read than" in verdict["cause"]
