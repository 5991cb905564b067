"""Statistics and digests of the rows, against NumPy on the same pixels."""

import math
from unittest.mock import patch

import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from pixel_gather.core.model.outcome import BandStats, Outcome
from pixel_gather.core.model.status import Status
from pixel_gather.core.read import measure_rows as measure_rows_
from pixel_gather.core.read.measure_rows import digest_of, measure_rows
from pixel_gather.core.read.shard_buffers import Pixels
from support.strategies import COMPLEXES, FLOATS, INTEGERS, images


def whole(pixels: Pixels, nodata: float | None = None) -> Outcome:
    """Return the outcome of a window that lies wholly on its source."""
    return Outcome(status=Status.OK, nodata=nodata, extent=(0, 0, pixels.shape[2], pixels.shape[1]))


def of_one_row(pixels: Pixels, outcome: Outcome) -> list[BandStats]:
    """Measure a row of shape (band, y, x)."""
    (stats,) = measure_rows(pixels[:, None], [outcome])
    return stats


@pytest.mark.long
@given(
    pixels=images((2, 4, 5), (*INTEGERS, "float32", "float64")),
    nodata=st.sampled_from((None, 0, 255, math.nan)),
)
def test_measure_rows_agrees_with_numpy(pixels: Pixels, nodata: float | None) -> None:
    """Nodata and NaN are not valid. Infinities are."""
    if pixels.dtype.kind != "f" and nodata is not None:
        nodata = 0 if math.isnan(nodata) else min(nodata, int(np.iinfo(pixels.dtype).max))

    stats = of_one_row(pixels, whole(pixels, nodata))

    for band, found in zip(pixels, stats, strict=True):
        valid = [value for value in band.ravel().tolist() if value == value and value != nodata]  # noqa: PLR0124 # NaN
        assert found.digest == digest_of(band)
        assert found.n_valid == len(valid)
        if valid:
            assert (found.min, found.max) == (float(min(valid)), float(max(valid)))
            with np.errstate(all="ignore"):
                mean = np.mean(np.array(valid, "float64"))
            assert found.mean == pytest.approx(mean, rel=1e-6, abs=1e-30, nan_ok=True)
        else:
            assert math.isnan(found.min)
            assert math.isnan(found.mean)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16"])
@pytest.mark.parametrize("end", ["min", "max"])
def test_measure_rows_sums_the_longest_lines_exactly(dtype: str, end: str) -> None:
    """The mean is that of float64 to the last bit, also where a line's sum fills its 32 bits."""
    pixels = np.full((1, 3, 1 << 16), getattr(np.iinfo(dtype), end), dtype)
    pixels[0, 1, :7] = 0

    [stats] = of_one_row(pixels, whole(pixels))

    assert stats.mean == pixels.mean(dtype="float64")


def test_measure_rows_of_opposite_infinities_has_no_mean() -> None:
    """Their mean is NaN. NumPy gives no warning for each source."""
    pixels = np.array([[[np.inf, -np.inf]]], "float32")

    (stats,) = of_one_row(pixels, whole(pixels))

    assert (stats.n_valid, stats.min, stats.max) == (2, -math.inf, math.inf)
    assert math.isnan(stats.mean)


def test_measure_rows_counts_only_pixels_on_the_raster() -> None:
    """Pixels outside the source are not valid, even without nodata."""
    pixels = np.arange(20, dtype="uint8").reshape(1, 4, 5)

    (stats,) = of_one_row(pixels, Outcome(status=Status.OK, extent=(1, 2, 3, 4)))

    assert (stats.n_valid, stats.min, stats.max, stats.mean) == (4, 11, 17, 14)


def test_measure_rows_of_complex_pixels_counts_them_only() -> None:
    """Complex numbers have no order."""
    pixels = np.array([[[1 + 2j, np.nan, 3]]], "complex64")

    (stats,) = of_one_row(pixels, whole(pixels, nodata=3))

    assert stats.n_valid == 1
    assert math.isnan(stats.min)


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.OK])
def test_measure_rows_of_a_failed_source_finds_nothing_valid(status: Status) -> None:
    """Its fill value is stored and has a digest, but is not valid."""
    pixels = np.ones((2, 3, 3), "uint8")

    stats = of_one_row(pixels, Outcome(status=status, extent=(0, 0, 3, 3)))

    assert [each.n_valid for each in stats] == [0, 0]
    assert [each.digest for each in stats] == [digest_of(pixels[0])] * 2


@given(pixels=images((3, 4), INTEGERS + FLOATS + COMPLEXES))
def test_digest_of_is_that_of_the_little_endian_bytes(pixels: Pixels) -> None:
    """Strides and byte order do not change the digest. A single bit does."""
    expected = xxhash.xxh3_128_hexdigest(pixels.astype(pixels.dtype.newbyteorder("<")).tobytes())

    assert digest_of(pixels) == expected
    assert digest_of(np.asfortranarray(pixels)) == expected
    assert digest_of(pixels.astype(pixels.dtype.newbyteorder(">"))) == expected


def test_digest_of_tells_minus_zero_from_zero() -> None:
    """Equal digests mean equal bits."""
    assert digest_of(np.array([[0.0]])) != digest_of(np.array([[-0.0]]))


@pytest.mark.filterwarnings("error")
def test_measure_rows_of_a_strip_beside_its_source_finds_nothing_valid() -> None:
    """Without pixels the statistics are NaN. NumPy gives no warning."""
    (found,) = of_one_row(np.ones((1, 2, 2), "float32"), Outcome(status=Status.OK))

    assert found.n_valid == 0
    assert math.isnan(found.mean)


@pytest.mark.parametrize("shape", [(1, 1, 70_000), (1, 70_000, 1)])
def test_measure_rows_sums_no_line_that_32_bits_cannot_hold(shape: tuple[int, int, int]) -> None:
    """This holds for a wide window of one line and for a high one of one column."""
    pixels = np.full(shape, 65_535, "uint16")

    [stats] = of_one_row(pixels, whole(pixels))

    assert stats.mean == 65_535


@pytest.mark.parametrize("nodata", [None, math.nan, 7.0])
def test_measure_rows_leaves_nan_out(nodata: float | None) -> None:
    """Whether it is nodata, or another value is, or none."""
    pixels = np.array([[[1.0, np.nan], [3.0, np.nan]]], "float32")

    (stats,) = of_one_row(pixels, whole(pixels, nodata))

    assert (stats.n_valid, stats.min, stats.max, stats.mean) == (2, 1, 3, 2)


ROWS = st.builds(
    Outcome,
    status=st.sampled_from([Status.OK, Status.OK, Status.OK, Status.MISSING]),
    nodata=st.sampled_from([None, 0, 7]),
    extent=st.sampled_from([(0, 0, 3, 2), (0, 0, 3, 2), (1, 0, 3, 2), (0, 0, 0, 0)]),
)


@given(
    pixels=npst.arrays(
        st.sampled_from(["uint8", "int16", "int32", "float32"]), (2, 6, 2, 3), elements=st.integers(0, 8)
    ),
    outcomes=st.lists(ROWS, min_size=6, max_size=6),
    together=st.integers(1, 24),
)
def test_measure_rows_measures_each_row_as_alone(
    pixels: Pixels, outcomes: list[Outcome], together: int
) -> None:
    """Rows of other extents, nodata and status lie between, however many are measured in one go."""
    with patch.object(measure_rows_, "_MEASURED_TOGETHER", together):
        found = measure_rows(pixels, outcomes)

    alone = [of_one_row(pixels[:, at], outcome) for at, outcome in enumerate(outcomes)]
    assert repr(found) == repr(alone)  # NaN differs from itself
