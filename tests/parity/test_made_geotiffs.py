"""GeoTIFFs of random kinds, as GDAL writes them, are read as rasterio reads them.

``PIXEL_GATHER_MADE=5000 uv run pytest tests/parity/test_made_geotiffs.py`` tries more of them.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
import rasterio
from rasterio.crs import CRS
from rasterio.enums import MaskFlags
from rasterio.errors import RasterioIOError
from rasterio.windows import Window as RasterioWindow

from parity.made_geotiffs import Maker
from parity.readers import Readings
from parity.truth import AS_FOR_THE_TRUTH, fitting_nodata
from pixel_gather.core.model.window import Window

pytestmark = [
    pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning"),
    pytest.mark.filterwarnings("ignore::rasterio.errors.NodataShadowWarning"),
]

_ONCE_DIFFERED: Final = (1174,)
"""GDAL complains of this file once its overviews are looked for, and reads it."""

_SEEDS: Final = (*_ONCE_DIFFERED, *range(int(os.environ.get("PIXEL_GATHER_MADE", "150"))))
_LEAST_COMPARED: Final = 0.3
"""Share of the seeds that have a file which rasterio can read. It is some 0.4."""

_SHOWN: Final = 7
"""What masked pixels have, as they are not read."""


@pytest.mark.long
@pytest.mark.timeout(3600 if "PIXEL_GATHER_MADE" in os.environ else 300)
@pytest.mark.parametrize("readings", ["joined"], indirect=True)
def test_reader_gives_rasterios_answers(readings: Readings, tmp_path: Path) -> None:
    """Header, windows, masks and overviews of every file that GDAL writes and rasterio reads are equal."""
    differing, n_compared = {}, 0
    with Maker() as maker:
        for seed in _SEEDS:
            path = tmp_path / f"{seed}.tif"
            if maker.make(seed, path):
                try:
                    differing[seed] = list(_differences(readings, path, seed))
                    n_compared += 1
                except RasterioIOError:  # GDAL does not read what it has written
                    pass
            path.unlink(missing_ok=True)

    assert {seed: found for seed, found in differing.items() if found} == {}
    assert n_compared > _LEAST_COMPARED * len(_SEEDS)


def _differences(readings: Readings, path: Path, seed: int) -> Iterator[str]:
    """Name what is not as rasterio reads it."""
    rng = np.random.default_rng(seed)
    with rasterio.Env(**AS_FOR_THE_TRUTH), rasterio.open(path) as dataset:
        whole, shown = dataset.read(), dataset.read_masks() != 0
        source = readings.open_(f"file://{path}")
        yield from _differences_of_header(source.header, dataset)
        for _ in range(3):
            window = _draw_window(rng, whole.shape)
            rows, cols = window.toslices()
            bands = np.unique(rng.integers(1, dataset.count + 1, 2)).tolist()
            of_bands = [band - 1 for band in bands]
            expected = whole[of_bands, rows, cols]
            found = readings.read_into(source, np.zeros_like(expected), _ours(window), bands)
            if found.tobytes() != expected.tobytes():
                yield f"pixels of bands {bands} in {window}"
            if _has_mask(dataset):
                expected = np.where(shown[of_bands, rows, cols], expected, expected.dtype.type(_SHOWN))
                out = np.full_like(expected, _SHOWN)
                found = readings.read_into(source, out, _ours(window), bands, masked=True)
                if found.tobytes() != expected.tobytes():
                    yield f"mask of bands {bands} in {window}"
        levels = range(len(dataset.overviews(1)))
    for level in levels:
        with rasterio.Env(**AS_FOR_THE_TRUTH), rasterio.open(path, overview_level=level) as overview:
            expected = overview.read()
        source = readings.open_(f"file://{path}", overview=level)
        out, window = np.zeros_like(expected), RasterioWindow(0, 0, *expected.shape[:0:-1])
        found = readings.read_into(source, out, _ours(window), range(1, len(expected) + 1))
        if found.tobytes() != expected.tobytes():
            yield f"overview {level}"


def _differences_of_header(header: Any, dataset: Any) -> Iterator[str]:
    crs = None if header.crs is None else CRS.from_user_input(header.crs)
    transform = rasterio.Affine.identity() if header.transform is None else header.transform
    pairs = {
        "shape": ((header.n_bands, header.height, header.width), (dataset.count, *dataset.shape)),
        "dtype": (header.dtype, np.dtype(_stored(dataset.dtypes[0])).name),
        "nodata": (repr(header.nodata), repr(fitting_nodata(dataset.nodata, np.dtype(header.dtype)))),
        "crs": (crs, dataset.crs),
        "transform": (tuple(transform)[:6], tuple(dataset.transform)[:6]),
        "scales": (tuple(header.scales), tuple(dataset.scales)),
        "offsets": (tuple(header.offsets), tuple(dataset.offsets)),
    }
    for name, (ours, theirs) in pairs.items():
        if ours != theirs:
            yield f"{name}: {ours}, not {theirs}"


def _stored(dtype: str) -> str:
    """Return the dtype of the pixels that rasterio gives."""
    return "complex64" if dtype == "complex_int16" else dtype


def _draw_window(rng: np.random.Generator, shape: tuple[int, int, int]) -> RasterioWindow:
    _, height, width = shape
    row, col = int(rng.integers(height)), int(rng.integers(width))
    n_cols, n_rows = int(rng.integers(1, width - col + 1)), int(rng.integers(1, height - row + 1))
    return RasterioWindow(col, row, n_cols, n_rows)


def _ours(window: RasterioWindow) -> Window:
    return Window(col_off=window.col_off, row_off=window.row_off, width=window.width, height=window.height)


def _has_mask(dataset: Any) -> bool:
    """Return whether more hides pixels than their value being nodata, which readers leave to the cube."""
    plain = {MaskFlags.nodata, MaskFlags.all_valid}
    return any(flag not in plain for flags in dataset.mask_flag_enums for flag in flags)
