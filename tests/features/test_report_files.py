"""The report that every gather in process leaves beside its arrays."""

import json
import logging
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pixel_gather import gather
from pixel_gather.in_process.settings import Settings

SERIES = Path(__file__).parents[1] / "data/series/files/stactools-noaa-cdr"
FILES = sorted(SERIES.glob("heat_content_anomaly_0-2000*.tif"))
REQUEST = {"sources": [str(file) for file in FILES], "window": "centre"}
NAMES = ("view.html", "report.json", "report.txt", "report.html", "quicklooks.npz")


def test_gather_leaves_its_report_beside_the_arrays(tmp_path: Path) -> None:
    """The report is there as JSON, text and HTML, and the result names the page."""
    gathered = gather(REQUEST, to=tmp_path / "cube")

    assert gathered.page == str(tmp_path / "cube/report.html")
    assert all((tmp_path / "cube" / name).stat().st_size > 0 for name in NAMES)
    assert json.loads((tmp_path / "cube/report.json").read_text())["digest"] == gathered.report.digest
    assert (tmp_path / "cube/report.html").read_text().startswith("<!doctype html>")


def test_figures_of_a_run_in_json_have_one_level_of_names(tmp_path: Path) -> None:
    """Scripts read them. What is not known is null."""
    gather(REQUEST, to=tmp_path / "cube")

    (run,) = json.loads((tmp_path / "cube/report.json").read_text())["table"]

    assert sorted(run) == [
        *("bands", "bytes_per_source", "concurrency", "conditions", "cpu_s", "data_nbytes", "digest"),
        *("dtype", "engine", "machine", "mib_per_s", "n_failed", "n_read", "n_sources", "name", "open_s"),
        *("open_share", "peak_rss_mib", "read_s", "shape", "total_s", "typical_per_s", "wait_s", "wall_s"),
        "window",
    ]
    assert run["cpu_s"] is None


def test_gather_asked_for_again_leaves_its_report_as_it_is(tmp_path: Path) -> None:
    """An existing report is not drawn again."""
    first = gather(REQUEST, to=tmp_path / "cube")
    page = tmp_path / "cube/report.html"
    page.write_text("kept")

    again = gather(REQUEST, to=tmp_path / "cube")

    assert again.was_complete
    assert again.page == first.page
    assert page.read_text() == "kept"


def test_complete_cube_without_a_page_gets_one_when_it_is_asked_for_again(tmp_path: Path) -> None:
    """After a stop before the drawing, the same call draws the page and reads no pixel."""
    first = gather(REQUEST, to=tmp_path / "cube")
    for name in NAMES[:4]:
        (tmp_path / "cube" / name).unlink()

    again = gather(REQUEST, to=tmp_path / "cube")

    assert again.was_complete
    assert again.page == first.page
    assert all((tmp_path / "cube" / name).exists() for name in NAMES)


def test_gather_whose_report_cannot_be_drawn_is_complete_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The failure is logged, and the next call tries again."""

    def fail(*_: Any, **__: Any) -> None:
        raise MemoryError

    broken = ModuleType("broken")
    broken.report_files_of = fail  # type: ignore[attr-defined] # a module of our own
    with monkeypatch.context() as patch, caplog.at_level(logging.ERROR):
        patch.setitem(sys.modules, "pixel_gather.features.report.report_files", broken)
        gathered = gather(REQUEST, to=tmp_path / "cube")

    assert gathered.report.status_counts == {"ok": len(FILES)}
    assert gathered.page is None
    assert f"the report of {tmp_path / 'cube'} could not be drawn" in caplog.text
    assert "MemoryError" in caplog.text
    assert gather(REQUEST, to=tmp_path / "cube").page == str(tmp_path / "cube/report.html")


def test_report_that_cannot_be_written_is_told_of_in_one_sentence(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The log has one sentence and no traceback."""
    gather(REQUEST, to=tmp_path / "cube", settings=Settings(draws_report=False))
    (tmp_path / "cube/report.txt").mkdir()

    gathered = gather(REQUEST, to=tmp_path / "cube")

    assert gathered.was_complete
    (record,) = caplog.records
    assert record.getMessage().startswith(f"the report of {tmp_path / 'cube'} could not be written: ")
    assert record.exc_info is None


def test_request_without_a_report_has_all_but_that(tmp_path: Path) -> None:
    """The page of the pixels, the receipt and the table of rows are there. The same request ends at once."""
    request = REQUEST | {"output": {"report": False}}

    gathered, again = (gather(request, to=tmp_path / "cube") for _ in range(2))

    written = {path.name for path in (tmp_path / "cube").iterdir()}
    assert (gathered.page, again.page, again.was_complete) == (None, None, True)
    assert written >= {"view.html", "receipt.json", "rows.parquet", "quicklooks.npz"}
    assert written.isdisjoint({"report.json", "report.txt", "report.html"})


def test_gather_told_not_to_draws_none(tmp_path: Path) -> None:
    """Without a report, the cube still has all the data to draw one."""
    gathered = gather(REQUEST, to=tmp_path / "cube", settings=Settings(draws_report=False))

    assert gathered.page is None
    assert not any((tmp_path / "cube" / name).exists() for name in NAMES[:4])
