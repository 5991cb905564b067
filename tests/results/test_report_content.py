"""The texts and rankings of a report."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixel_gather.core.results.report_content import (
    MaskedQuicklooks,
    is_shown,
    name_of,
    slowest_first,
    window_in_words,
)


@pytest.mark.parametrize(
    ("window", "said"),
    [
        ("centre", "centre tile"),
        ({"tile": "centre"}, "centre tile"),
        ({"tile": [8, 9]}, "tile 8_9"),
        ({"pixels": [3, 4, 10, 20]}, "pixels from column 3, row 4"),
        ({"bbox": [1.5, 2, 3, 4], "crs": "EPSG:32632"}, "box 1.5, 2, 3, 4 in EPSG:32632"),
        ({"point": [11.35, 46.5]}, "pixels around 11.35, 46.5"),
        (None, "as requested"),
        ({}, "as requested"),
    ],
)
def test_window_is_said_as_one_asks_for_it(window: Any, said: str) -> None:
    """Rows and columns of tiles are written as in the published report."""
    assert window_in_words(window) == said


@pytest.mark.parametrize(
    ("place", "name"),
    [("s3://b/p/bolzano.zarr", "bolzano"), ("/out/cube/", "cube"), ("cube.zarr", "cube"), ("/", "/")],
)
def test_cube_is_called_by_the_end_of_its_place(place: str, name: str) -> None:
    """A cube's name is never empty."""
    assert name_of(place) == name


@given(totals=st.lists(st.floats(0, 100), max_size=50), n=st.integers(1, 12))
def test_slowest_first_agrees_with_sorting(totals: list[float], n: int) -> None:
    """The result equals sorting all sources."""
    found = [totals[place] for place in slowest_first(totals, n)]

    assert found == sorted(totals, reverse=True)[:n]


@pytest.mark.parametrize(
    ("pixels", "nodata", "shown"),
    [
        (np.array([0, 1], "uint8"), 0, [False, True]),
        (np.array([0, 1], "uint8"), None, [True, True]),
        (np.array([np.nan, np.inf, 1], "float32"), None, [False, False, True]),
        (np.array([np.nan, -9999, 1], "float32"), -9999, [False, False, True]),
        (np.array([np.nan, 1], "float32"), float("nan"), [False, True]),
        (np.array([1j, complex(np.nan, 0)]), None, [True, False]),
        (np.array([True, False]), None, [True, True]),
    ],
)
def test_pixels_are_values_unless_they_are_nodata_or_nan(
    pixels: Any, nodata: float | None, shown: list[bool]
) -> None:
    """This holds for every dtype."""
    assert is_shown(pixels, nodata).tolist() == shown


def test_quicklooks_of_other_lengths_are_refused() -> None:
    """Each picture needs a row. Otherwise it would be shown under another name."""
    pixels = np.zeros((2, 8, 8))

    with pytest.raises(ValueError, match="1 quicklooks"):
        MaskedQuicklooks(measurement="a", rows=np.array([1]), pixels=pixels, is_valid=pixels > 0, step=1)
