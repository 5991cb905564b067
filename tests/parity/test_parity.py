"""Headers, windows, whole arrays, points and masks of real files equal rasterio's, bit by bit."""

from collections.abc import Callable
from typing import Final

import numpy as np
import pytest
import rasterio
from rasterio.crs import CRS

from parity.readers import Readings
from parity.truth import AS_FOR_THE_TRUTH, SMALL, Truth, fitting_nodata, full_data, sha256, truths
from pixel_gather.core.model.source import Header
from pixel_gather.core.model.window import Window
from pixel_gather.core.ports import OpenedSource

_LARGEST_NBYTES: Final = 64 * 2**20
"""Largest raster that is read whole, in bytes."""

_MOST_OVERVIEW_PIXELS: Final = 32 * 2**20
"""Pixels that are read of a large overview, of all bands together."""


def _cases(wanted: Callable[[Truth], bool] = lambda _: True) -> list[object]:
    """Return the project's files, then the rest of the collection."""
    small = truths(SMALL)
    known = {truth.file for truth in small}
    folder = full_data()
    rest = [] if folder is None else [truth for truth in truths(folder) if truth.file not in known]
    absent = pytest.mark.skip(reason="the folder of real files is absent: set PIXEL_GATHER_DATA")
    return [
        *(pytest.param(truth, id=truth.file) for truth in small if wanted(truth)),
        *(pytest.param(truth, id=truth.file, marks=pytest.mark.full_data) for truth in rest if wanted(truth)),
        *([] if folder else [pytest.param(None, id="full", marks=[pytest.mark.full_data, absent])]),
    ]


CASES: Final = _cases()


@pytest.mark.parametrize("truth", CASES)
def test_reader_gives_rasterios_header_and_pixels(readings: Readings, truth: Truth) -> None:
    """Size, bands, dtype, nodata, transform and CRS are rasterio's, and so are the bytes of all pixels."""
    source = readings.open_(truth.href)

    _compare_header(source.header, truth)
    _compare_pixels(readings, source, truth)


def _compare_header(header: Header, truth: Truth) -> None:
    assert (header.n_bands, header.height, header.width) == truth.shape
    assert header.driver == truth.answers["driver"]
    assert header.dtype == truth.dtype.name
    np.testing.assert_equal(header.nodata, fitting_nodata(truth.answers["nodata"][0], truth.dtype))
    np.testing.assert_equal(header.transform, truth.transform)
    assert (header.crs is None) == (truth.answers["crs_wkt"] is None)
    if header.crs is not None:
        assert CRS.from_user_input(header.crs) == CRS.from_wkt(truth.answers["crs_wkt"])


def _compare_pixels(readings: Readings, source: OpenedSource, truth: Truth) -> None:
    """Compare every window, the whole array and three single pixels."""
    bands = range(1, truth.shape[0] + 1)
    read = {
        name: sha256(readings.read_into(source, truth.filled(window), window, bands))
        for name, (window, _) in truth.windows.items()
    }
    if truth.nbytes <= _LARGEST_NBYTES:
        whole = Window(col_off=0, row_off=0, width=truth.shape[2], height=truth.shape[1])
        pixels = readings.read_into(source, np.zeros(truth.shape, truth.dtype), whole, bands)
        read["whole"] = sha256(pixels)
    points = [
        readings.read_into(source, np.zeros((len(bands), 1, 1), truth.dtype), _pixel(point), bands).ravel()
        for point in truth.answers["points"]
    ]

    expected = {name: digest for name, (_, digest) in truth.windows.items()}
    expected["whole"] = truth.answers["array_sha256"]
    assert read == {name: expected[name] for name in read}
    for values, point in zip(points, truth.answers["points"], strict=True):
        np.testing.assert_equal(values, np.array(point["values"]).astype(truth.dtype))


@pytest.mark.long
@pytest.mark.parametrize("truth", _cases(lambda truth: truth.has_mask))
@pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
def test_reader_leaves_masked_pixels_as_they_are(readings: Readings, truth: Truth) -> None:
    """Where a band's mask or alpha is 0, ``out`` is unchanged. Elsewhere it has the pixels."""
    with rasterio.Env(**AS_FOR_THE_TRUTH), rasterio.open(truth.path) as dataset:
        expected = dataset.read()
        expected[dataset.read_masks() == 0] = 77
    whole = Window(col_off=0, row_off=0, width=truth.shape[2], height=truth.shape[1])
    out = np.full(truth.shape, 77, truth.dtype)

    readings.read_into(readings.open_(truth.href), out, whole, range(1, truth.shape[0] + 1), masked=True)

    np.testing.assert_array_equal(out, expected)


@pytest.mark.long
@pytest.mark.parametrize("truth", _cases(lambda truth: truth.n_overviews > 0))
@pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
def test_reader_gives_rasterios_overviews(readings: Readings, truth: Truth) -> None:
    """An overview's size, transform and pixels are rasterio's. Of a large one, the upper rows are read."""
    for level in {0, truth.n_overviews - 1}:
        with (
            rasterio.Env(**AS_FOR_THE_TRUTH),
            rasterio.open(truth.path, overview_level=level) as overview,
        ):
            size, transform = (overview.width, overview.height), overview.transform[:6]
            height = min(overview.height, _MOST_OVERVIEW_PIXELS // (overview.width * overview.count))
            expected = overview.read(window=((0, height), (0, overview.width)))
        source = readings.open_(truth.href, overview=level)
        rows = Window(col_off=0, row_off=0, width=size[0], height=height)
        out = readings.read_into(source, np.zeros_like(expected), rows, range(1, len(expected) + 1))

        assert len(source.header.overviews) == truth.n_overviews
        assert source.header.overviews[level] == size
        np.testing.assert_array_equal(out, expected)
        if source.header.transform is not None:
            np.testing.assert_allclose(source.header.transform, transform, rtol=1e-12)


def _pixel(point: dict[str, int]) -> Window:
    return Window(col_off=point["col"], row_off=point["row"], width=1, height=1)


def test_project_holds_every_way_of_storing_pixels() -> None:
    """The project's own files cover all ways, without the full collection."""
    known = truths(SMALL)

    assert {truth.answers["driver"] for truth in known} == {"GTiff", "JP2OpenJPEG"}
    assert len({truth.dtype for truth in known}) >= 11
    assert all(truth.path.is_file() for truth in known)
