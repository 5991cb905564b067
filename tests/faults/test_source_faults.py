"""One gather of sources that each meet another fault. Every row has its own pixels, or says why not."""

from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import pytest
import xarray as xr
from rasterio.io import MemoryFile

from faults.source_faults import FAULTS, SourceFault, faults_text
from pixel_gather import Gathered, Settings, StoreSettings, gather
from support.local_server import Answer, Asked, serving

PROJECT = Path(__file__).parents[2]
SIDE = 32


def _pixels(index: int) -> np.ndarray[Any, np.dtype[np.uint16]]:
    return np.random.default_rng(index).integers(1, 60_000, (SIDE, SIDE), "uint16")


def _tiff(pixels: np.ndarray[Any, Any]) -> bytes:
    with MemoryFile() as memory:
        with memory.open(
            driver="GTiff", width=SIDE, height=SIDE, count=1, dtype="uint16", nodata=0,
            tiled=True, blockxsize=SIDE, blockysize=SIDE, compress="deflate",
        ) as file:  # fmt: skip
            file.write(pixels, 1)
        return bytes(memory.read())


@pytest.fixture(scope="module")
def gathered(tmp_path_factory: pytest.TempPathFactory) -> tuple[Gathered, xr.Dataset]:
    """Return one cube with a row for each fault."""
    folder = tmp_path_factory.mktemp("faults")
    contents = {f"{index:02d}.tif": _tiff(_pixels(index)) for index in range(len(FAULTS))}
    counts: dict[str, int] = dict.fromkeys(contents, 0)
    lock = Lock()

    def answer(asked: Asked) -> Answer:
        name = asked.path.rpartition("/")[2]
        with lock:
            before = counts[name]
            counts[name] += asked.range_ is not None and not asked.range_.startswith("bytes=0-")
        return FAULTS[int(name[:2])].behaviour(contents[name], asked, before)

    with serving(answer) as server:
        gathered = gather(
            {
                "sources": [f"s3://bucket/{name}" for name in contents],
                "window": {"pixels": [0, 0, SIDE, SIDE]},
            },
            to=folder / "cube.zarr",
            settings=Settings(
                stores=StoreSettings(
                    endpoint=server.root,
                    unsigned=True,
                    region="us-east-1",
                    first_byte_timeout_s=3.0,
                    stall_timeout_s=3.0,
                    max_retries=2,
                    first_backoff_s=0.02,
                ),
                header_nbytes=512,
                source_timeout_s=60.0,
                draws_report=False,
            ),
        )
        return gathered, xr.open_zarr(folder / "cube.zarr").load()


@pytest.mark.long
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.id)
def test_row_has_its_pixels_or_says_why_not(
    gathered: tuple[Gathered, xr.Dataset], fault: SourceFault
) -> None:
    """A row that is ok has the source's pixels to the bit. Any other row is empty, and has a reason."""
    report, cube = gathered[0].report, gathered[1]
    row = FAULTS.index(fault)

    reasons = [each.reason for each in report.causes if f"s3://bucket/{row:02d}.tif" in each.hrefs]
    assert int(cube.status[row]) == fault.expected, reasons
    if fault.expected == 0:
        np.testing.assert_array_equal(cube.band_1[row].fillna(0), _pixels(row))
    else:
        assert bool(cube.band_1[row].isnull().all())
        assert len(reasons) == 1
        assert fault.reason in str(reasons[0])


def test_documented_faults_are_those_that_are_injected() -> None:
    """docs/faults.md has the table of these cases."""
    assert faults_text() in (PROJECT / "docs/faults.md").read_text()


def test_tile_is_read_by_a_request_of_its_own() -> None:
    """Otherwise no fault could come between header and tile."""
    assert len(_tiff(_pixels(0))) > 3 * 512
