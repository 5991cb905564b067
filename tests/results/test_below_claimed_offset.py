"""Pixels that a catalog's claim does not allow."""

from typing import Any

import pytest

from pixel_gather.core.model.outcome import BandStats
from pixel_gather.core.model.scaling import is_below_claim
from pixel_gather.core.model.source import Source

SENTINEL_2 = {"scale_claimed": 0.0001, "offset_claimed": -0.1}


@pytest.mark.parametrize(
    ("columns", "darkest", "is_below"),
    [
        (SENTINEL_2, 120, True),  # water, after the offset was applied
        (SENTINEL_2, 1020, False),  # water, before
        (SENTINEL_2, 960, False),  # noise
        (SENTINEL_2, 499, True),
        (SENTINEL_2, 501, False),
        ({"scale_claimed": 1.0, "offset_claimed": -1000}, 120, True),
        ({"offset_claimed": -1000}, 120, True),
        ({"offset_claimed": 0.0, "scale_claimed": 0.1}, -5, False),
        ({"offset_claimed": 149.0, "scale_claimed": 0.00341802}, 1, False),  # Landsat's temperatures
        ({"scale_claimed": 0.0001}, 1, False),
        ({**SENTINEL_2, "nodata_claimed": 0}, 0, False),  # perhaps no data, which the file does not declare
        ({**SENTINEL_2, "nodata_claimed": 0}, 1, True),
        ({"scale_claimed": -1, "offset_claimed": -10}, 1, True),
        ({"offset_claimed": "-10"}, 1, False),
    ],
)
def test_dark_pixels_tell_of_an_offset_that_was_applied(
    columns: dict[str, Any], darkest: float, *, is_below: bool
) -> None:
    """Darker than half of the offset is more than noise."""
    source = Source(href="s3://b/a.tif", columns=columns)

    assert is_below_claim(source, BandStats(n_valid=4, min=darkest, max=9000, mean=2000)) is is_below


def test_a_window_without_valid_pixels_tells_nothing() -> None:
    """A place without a source tells nothing, either."""
    assert not is_below_claim(Source(href="s3://b/a.tif", columns=SENTINEL_2), BandStats())
    assert not is_below_claim(None, BandStats(n_valid=1, min=0.0))
