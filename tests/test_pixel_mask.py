"""Which pixels do not count, by one band: the rule of gathers, rankings and tables. The judge is scipy."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import ndimage

from pixel_gather.core.errors import RequestError
from pixel_gather.core.pixel_mask import PixelMask
from pixel_gather.core.read.hide_pixels import dilate


@given(
    shape=st.tuples(st.integers(1, 30), st.integers(1, 30)),
    by=st.integers(0, 12),
    seed=st.integers(0, 999),
    share=st.sampled_from([0.0, 0.01, 0.1, 1.0]),
)
def test_dropped_pixels_grow_by_squares(shape: tuple[int, int], by: int, seed: int, share: float) -> None:
    """As scipy's binary dilation with a structure of ones. Nothing comes from beyond an edge."""
    dropped = np.random.default_rng(seed).random(shape) < share
    before = dropped.copy()

    grown = dilate(dropped, by)

    np.testing.assert_array_equal(grown, ndimage.binary_dilation(dropped, np.ones((2 * by + 1, 2 * by + 1))))
    np.testing.assert_array_equal(dropped, before)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int16", "int32", "uint32", "int64"])
def test_values_and_bits_drop_pixels(dtype: str) -> None:
    """Whatever integers hold them."""
    stored = np.arange(100).astype(dtype).reshape(10, 10)

    assert np.flatnonzero(PixelMask(band="a", drop=(3, 97)).drops(stored)).tolist() == [3, 97]
    of_bits = PixelMask(band="a", bits=(3, 6)).drops(stored).ravel()
    assert of_bits.tolist() == [bool(each & 0b1001000) for each in range(100)]
    assert not PixelMask(band="a", bits=(40,)).drops(stored).any()
    assert not PixelMask(band="a", bits=(40, 63)).drops(stored).any()
    assert PixelMask(band="a", bits=(63,)).drops(np.array([1 << 63], "uint64")).all()
    assert not PixelMask(band="a", drop=(1000,)).drops(stored).any()


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"band": "scl", "drop": [3, 8]}, PixelMask(band="scl", drop=(3, 8))),
        ({"band": "qa", "bits": [3, 4]}, PixelMask(band="qa", bits=(3, 4))),
        (
            {"band": "qa", "bits": {"cloud": 3, "shadow": 4}, "dilate": 2},
            PixelMask(band="qa", bits=(3, 4), dilate=2),
        ),
    ],
)
def test_mask_is_read(given: dict[str, Any], found: PixelMask) -> None:
    """Names of bits only help to read."""
    assert PixelMask.of(given, may_dilate=True) == found


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"band": "scl"}, "give either drop, the values that hide a pixel, or bits"),
        (
            {"band": "scl", "drop": [1], "bits": [1]},
            "give either drop, the values that hide a pixel, or bits",
        ),
        (
            {"band": "scl", "drop": [1], "grow": 2},
            "there is no field grow; there are band; drop, the values",
        ),
        ({"band": "scl", "drop": [1.5]}, "write whole numbers"),
        ({"band": "scl", "bits": {"cloud": "3"}}, "write whole numbers"),
        ({"band": "scl", "bits": [64]}, "bits are counted from 0 to 63"),
        ({"band": "scl", "drop": [3, 2**64]}, "no pixel has such a value"),
        ({"band": "scl", "drop": [-(2**63) - 1]}, "no pixel has such a value"),
        ({"band": "scl", "drop": [1], "dilate": 65}, "write 0 to 64 pixels"),
        ({"band": "scl", "drop": [1], "dilate": -1}, "write 0 to 64 pixels"),
        ({"drop": [1]}, "write {band: scl, drop"),
    ],
)
def test_wrong_mask_is_refused(given: dict[str, Any], said: str) -> None:
    """In words."""
    with pytest.raises(RequestError, match=said):
        PixelMask.of(given, may_dilate=True)


def test_only_gathers_dilate() -> None:
    """A ranking reads overviews, whose pixels are larger."""
    with pytest.raises(RequestError, match="only a gather's mask is dilated; leave dilate out"):
        PixelMask.of({"band": "scl", "drop": [1], "dilate": 1})
