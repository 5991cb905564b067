"""Pixels of a scene's finest band, looked up on its other bands."""

from copy import replace
from typing import Any

import numpy as np
import pytest

from pixel_gather.core.errors import SourceError
from pixel_gather.tables.open_scene import lookup_pixels
from support.fakes import UTM, header_of

FINE = header_of(np.zeros((1, 6, 8), "uint16"), "a")
COARSE = header_of(np.zeros((1, 5, 5), "uint8"), "b", transform=UTM.shifted(-1, -1).scaled(2, 2))
"""It begins half a pixel before, and goes on beyond the finest band."""


def test_a_pixel_is_that_below_its_middle_and_none_beyond_the_finest_band() -> None:
    """A wider band may have pixels beyond the finest one. They are not read."""
    cols, rows = np.array([0, 1, 7, 8, -1, 3, 3]), np.array([0, 1, 5, 5, 0, 6, -1])

    found = lookup_pixels(cols, rows, of=FINE, on=COARSE)

    assert found[0].tolist() == [0, 1, 4, -1, -1, -1, -1]
    assert found[1][:3].tolist() == [0, 1, 3]
    same = lookup_pixels(cols, rows, of=FINE, on=replace(FINE, href="c"))
    assert (same[0].tolist(), same[1].tolist()) == (cols.tolist(), rows.tolist())


@pytest.mark.parametrize("changes", [{"crs": "EPSG:32632"}, {"transform": None}])
def test_bands_in_another_crs_are_not_looked_up(changes: dict[str, Any]) -> None:
    """Their pixels would be those of another place."""
    places = np.array([0]), np.array([0])

    with pytest.raises(SourceError, match="its CRS is not that of the scene's finest band"):
        lookup_pixels(*places, of=FINE, on=replace(COARSE, **changes))
