"""Broken and malicious files: each gives GDAL's pixels or an error, soon, in little memory, and no crash."""

import asyncio
import csv
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
import rasterio

from hostile.memory import peak_rss_mib, reset_peak
from parity.readers import READERS, Readings
from parity.truth import AS_FOR_THE_TRUTH, SMALL, full_data, sha256
from pixel_gather.core.errors import SourceError
from pixel_gather.core.model.source import Cost
from pixel_gather.core.model.status import Status
from pixel_gather.core.model.window import Window
from pixel_gather.core.ports import OpenedSource

_MAX_REQUESTS: Final = 120
_MAX_GROWTH_MIB: Final = 256
"""Most memory that the reading process may need beyond what it held before the first broken file."""

_MAX_CHILD_RSS_MIB: Final = 256
MAX_CPU_S: Final = 20.0
"""Most time that one file may keep the reading process busy. Time in which others are busy does not count."""

_BROKEN: Final = frozenset({Status.CORRUPT, Status.UNSUPPORTED})
_GOOD_TILES: Final = "good tiles as gdal, the broken tile an error"
_VRT: Final = "hostile/public/gdal-autotest__IMAGERY.TIF"
"""The only file that is not read as rasterio does, on purpose: a VRT can name any other file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hostile:
    """A broken file, and the expected result."""

    file: str
    path: Path
    expected: str
    centre64_sha256: str


def _cases(wanted: Callable[[Hostile], bool] = lambda _: True) -> list[object]:
    folders: list[tuple[Path, tuple[pytest.MarkDecorator, ...]]] = [(SMALL, ())]
    full = full_data()
    if full is not None:
        folders.append((full, (pytest.mark.full_data,)))
    cases: dict[str, object] = {}
    for folder, marks in folders:
        with (folder / "hostile" / "hostile_catalog.csv").open(newline="") as lines:
            for row in csv.DictReader(lines):
                case = Hostile(
                    file=row["file"],
                    path=folder / row["file"],
                    expected="refused" if row["file"] == _VRT else row["expected"],
                    centre64_sha256=row["centre64_sha256"],
                )
                if not wanted(case):
                    continue
                cases.setdefault(case.file, pytest.param(case, id=Path(case.file).name, marks=marks))
    return list(cases.values())


@pytest.fixture(scope="module", params=READERS)
def readings(request: pytest.FixtureRequest) -> Iterator[Readings]:
    """Read with the joined reader, then with GDAL alone; afterwards look at the memory used."""
    reset_peak()
    before_mib = peak_rss_mib("self")
    with asyncio.Runner() as runner:
        opened = Readings(runner, request.param)
        yield opened
        runner.run(opened.aclose())
    assert peak_rss_mib("self") - before_mib < _MAX_GROWTH_MIB


@pytest.mark.parametrize("case", _cases())
def test_reader_answers_a_broken_file_as_gdal_does(readings: Readings, case: Hostile) -> None:
    """The answer is the expected one, with little work, few requests and no other exception."""
    cost = Cost()
    began_s = time.process_time()
    answer = _centre64(readings, case, cost)

    assert time.process_time() - began_s < MAX_CPU_S
    assert cost.requests <= _MAX_REQUESTS
    assert all(peak_rss_mib(pid) < _MAX_CHILD_RSS_MIB for pid in readings.children())
    if case.expected == "error":
        assert isinstance(answer, SourceError)
        assert answer.status in _BROKEN
        assert "vsiriopener" not in answer.reason
    elif case.expected == "refused":
        assert isinstance(answer, SourceError)
        assert answer.status is Status.UNSUPPORTED
    else:
        assert not isinstance(answer, SourceError)
        assert sha256(answer) == case.centre64_sha256


@pytest.mark.parametrize("case", _cases(lambda case: case.expected == _GOOD_TILES))
def test_reader_reads_the_good_tiles_beside_a_broken_one(readings: Readings, case: Hostile) -> None:
    """Each tile of a cut-off file gives rasterio's pixels, or an error where rasterio has one."""
    with rasterio.Env(**AS_FOR_THE_TRUTH), rasterio.open(case.path) as dataset:
        tiles = [window for _, window in dataset.block_windows(1)]
        expected = [_rasterio_tile(dataset, window) for window in tiles]
    source = readings.open_(f"file://{case.path}")

    for tile, pixels in zip(tiles, expected, strict=True):
        window = Window(col_off=tile.col_off, row_off=tile.row_off, width=tile.width, height=tile.height)
        out = np.zeros((1, tile.height, tile.width), source.header.dtype)
        if pixels is None:
            with pytest.raises(SourceError) as caught:
                readings.read_into(source, out, window, [1])
            assert caught.value.status is Status.CORRUPT
        else:
            np.testing.assert_array_equal(readings.read_into(source, out, window, [1]), pixels)


def _rasterio_tile(dataset: Any, window: Any) -> np.ndarray[Any, Any] | None:
    try:
        pixels: np.ndarray[Any, Any] = dataset.read([1], window=window)
    except rasterio.errors.RasterioIOError:
        return None
    return pixels


def _centre64(readings: Readings, case: Hostile, cost: Cost) -> np.ndarray[Any, Any] | SourceError:
    """Read the centred 64 x 64 pixels of the first four bands, or return the error."""
    try:
        source: OpenedSource = readings.open_(f"file://{case.path}", cost=cost)
        header = source.header
        width, height = min(64, header.width), min(64, header.height)
        window = Window(
            col_off=(header.width - width) // 2,
            row_off=(header.height - height) // 2,
            width=width,
            height=height,
        )
        bands = range(1, min(header.n_bands, 4) + 1)
        return readings.read_into(source, np.zeros((len(bands), height, width), header.dtype), window, bands)
    except SourceError as error:
        return error
