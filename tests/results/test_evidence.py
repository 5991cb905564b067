"""The texts and rankings of a report."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixel_gather.core.results.evidence import (
    MaskedQuicklooks,
    SourceRow,
    is_shown,
    name_of,
    slowest_first,
    why_worst,
    window_in_words,
    worst_of,
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


def test_worst_is_the_least_valid_and_of_those_the_slowest() -> None:
    """Validity counts before time."""
    assert worst_of(np.array([1.0, 0.2, 0.2, 0.5]), np.array([9.0, 1.0, 2.0, 8.0])) == 2


@pytest.mark.parametrize(
    ("share", "n_alike", "said"),
    [
        (1.0, 9, "every window is wholly valid"),
        (0.0, 2, "with none of their pixels"),
        (0.5, 1, "with 50.00% of its pixels"),
        (1e-9, 1, "with 0.01% of its pixels"),
        (0.99999, 1, "with 99.99% of its pixels"),
    ],
)
def test_reason_for_the_worst_claims_neither_all_nor_nothing_falsely(
    share: float, n_alike: int, said: str
) -> None:
    """A window that lacks one pixel is not wholly valid."""
    source = SourceRow(row=1, label="", href="a", total_s=1, open_s=1, nbytes=1, valid_share=share)

    assert said in why_worst(source, n_alike)


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
