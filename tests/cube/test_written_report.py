"""Which report files lie beside a cube."""

import asyncio
from typing import Any

import obstore
import pytest
from obstore.exceptions import GenericError
from obstore.store import MemoryStore

from pixel_gather.io.cube.written_report import REPORT_KEY, WrittenReport, look_for_report


def test_a_report_counts_as_missing_if_the_store_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cube is complete, so its gather must not fail for this."""
    store: Any = MemoryStore()
    obstore.put(store, REPORT_KEY, b"{}")
    found = asyncio.run(look_for_report(store))

    async def refuse(*_: Any) -> None:
        raise GenericError("no answer")

    monkeypatch.setattr(obstore, "head_async", refuse)

    assert found == WrittenReport(has_figures=True, has_page=False)
    assert asyncio.run(look_for_report(store)) == WrittenReport(has_figures=False, has_page=False)
