"""The files of a report: for programs, terminals and browsers."""

import asyncio
import io
import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import obstore
import pytest
from obstore.store import LocalStore
from PIL import Image

from pixel_gather.core.errors import StoreError
from pixel_gather.core.results.own_checksum import file_with_checksum
from pixel_gather.features.report.report_writer import write_report, write_report_files
from pixel_gather.io.cube.written_report import view_page
from support.report_cubes import MadeCube


@pytest.mark.slow
def test_report_files_lie_in_the_cube_with_their_types() -> None:
    """The page has the content type of HTML, so that browsers show it."""
    store = MadeCube(failed=frozenset({1})).stored()

    asyncio.run(write_report_files(store, place="s3://b/cube.zarr", usd_by_service={"s3": 0.5, "lambda": 1}))

    types = {
        name: obstore.get(store, name).attributes["Content-Type"]
        for name in ("report.json", "report.txt", "report.html")
    }
    assert types == {
        "report.json": "application/json",
        "report.txt": "text/plain; charset=utf-8",
        "report.html": "text/html; charset=utf-8",
    }
    told = json.loads(bytes(obstore.get(store, "report.json").bytes()))
    assert (told["gather"], told["cube"], told["n_failed"]) == ("cube", "s3://b/cube.zarr", 1)
    assert (told["usd"], told["usd_by_service"]) == (1.5, {"s3": 0.5, "lambda": 1})
    assert told["request"] == {"sources": "list.csv", "window": "centre"}
    assert told["table"][0]["n_read"] == 9
    text = bytes(obstore.get(store, "report.txt").bytes()).decode()
    assert "missing            1  no such object" in text


@pytest.mark.long
@pytest.mark.parametrize(
    ("cube", "colour"),
    [
        (MadeCube(), None),
        (MadeCube(bands=dict.fromkeys(("red", "green", "blue"), frozenset())), None),
        (
            MadeCube(said={"band_1": {"flag_values": [130], "flag_meanings": "x", "flag_colors": "#00ff00"}}),
            (0, 255, 0),
        ),
    ],
    ids=["one band", "colours", "classes"],
)
def test_the_viewer_begins_with_a_picture_of_the_first_row(
    cube: MadeCube, colour: tuple[int, int, int] | None
) -> None:
    """In the stretch of its chunk, or in the colours of its classes. Nodata is transparent."""
    store = cube.stored()

    asyncio.run(write_report_files(store, place="s3://b/cube.zarr"))

    found = obstore.get(store, "preview.webp")
    pixels = np.asarray(Image.open(io.BytesIO(bytes(found.bytes()))).convert("RGBA"))
    assert found.attributes["Content-Type"] == "image/webp"
    assert pixels.shape == (8, 16, 4)
    assert (pixels[:2, :2, 3] == 0).all()
    if colour is None:
        assert pixels[7, 0, :3].max() < 30
        assert pixels[7, 15, :3].min() > 225
    else:
        assert tuple(pixels[7, 15, :3]) == colour


@pytest.mark.long
@pytest.mark.parametrize(
    "cube",
    [
        MadeCube(failed=frozenset({0})),
        MadeCube(has_quicklooks=False),
        MadeCube(bands={"red": frozenset({0}), "green": frozenset(), "blue": frozenset()}),
    ],
)
def test_a_first_row_that_was_not_read_has_no_picture(cube: MadeCube) -> None:
    """Another row's would be wrong."""
    store = cube.stored()

    asyncio.run(write_report_files(store, place="s3://b/cube.zarr"))

    with pytest.raises(FileNotFoundError):
        obstore.head(store, "preview.webp")


@pytest.mark.slow
def test_report_files_of_a_gather_in_process_say_that_nothing_was_paid(tmp_path: Path) -> None:
    """Local files have no content types. The estimate for AWS is not given as a price that was paid."""
    memory = MadeCube().stored()
    store: Any = LocalStore(tmp_path)
    for page in obstore.list(memory):
        for item in page:
            obstore.put(store, item["path"], obstore.get(memory, item["path"]).bytes())

    asyncio.run(write_report_files(store, place=str(tmp_path)))
    asyncio.run(write_report_files(store, place=str(tmp_path)))

    told = json.loads((tmp_path / "report.json").read_text())
    assert told["usd"] is None
    assert told["usd_by_service"] is None
    assert told["usd_on_aws"] > 0
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")


@pytest.mark.slow
def test_report_files_hold_no_controls_and_no_halves_of_characters() -> None:
    """Hrefs and locations cannot steer a terminal. Every file is UTF-8."""
    store = MadeCube(failed=frozenset({1}), hrefs={1: "s3://b/\x1b[31m.tif"}).stored()

    asyncio.run(write_report_files(store, place="/out/\udcff$^{.zarr"))

    text = bytes(obstore.get(store, "report.txt").bytes()).decode()
    assert "s3://b/?[31m.tif" in text
    assert all(each.isprintable() or each == "\n" for each in text)
    assert "\x1b" not in bytes(obstore.get(store, "report.json").bytes()).decode()
    assert "?[31m" not in (page := bytes(obstore.get(store, "report.html").bytes()).decode())
    assert "</html>" in page


def test_page_of_the_pixels_needs_no_report(caplog: pytest.LogCaptureFixture) -> None:
    """It is there with the type of HTML, also where the report could not be drawn."""
    store: Any = obstore.store.MemoryStore()

    written = asyncio.run(
        write_report(store, place="s3://b/c", usd_by_service=None, log=logging.getLogger(__name__))
    )

    found = obstore.get(store, "view.html")
    assert found.attributes["Content-Type"] == "text/html; charset=utf-8"
    assert bytes(found.bytes()) == file_with_checksum("view.html", view_page())
    assert not written.has_page
    assert "could not be written" in caplog.text


def test_report_files_are_of_finished_cubes() -> None:
    """Nothing is written if there is no cube."""
    store: Any = obstore.store.MemoryStore()

    with pytest.raises(StoreError, match="no cube"):
        asyncio.run(write_report_files(store, place="s3://b/c"))

    assert not obstore.list(store).collect()
