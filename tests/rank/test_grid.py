"""Positions of one band of a scene on another."""

from copy import replace
from typing import Any

import numpy as np
import pytest

from pixel_gather.core.errors import SourceError
from pixel_gather.core.model.window import Transform
from pixel_gather.features.rank.grid import lookup
from support.fakes import UTM, header_of

FINE = header_of(np.zeros((1, 6, 8), "uint16"), "a")
COARSE = header_of(np.zeros((1, 3, 4), "uint8"), "b", transform=UTM.scaled(2, 2))
TURNED = Transform(UTM.a, 1, UTM.c, 1, UTM.e, UTM.f)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"crs": "EPSG:32632"}, "its CRS is not that of the scene's finest band"),
        ({"transform": None}, "its CRS is not that of the scene's finest band"),
        ({"transform": TURNED}, "its grid is turned"),
    ],
)
def test_a_band_on_another_map_is_not_looked_up(changes: dict[str, Any], why: str) -> None:
    """Its pixels would be those of another place."""
    cols, rows = np.array([0.0, 4.0]), np.array([2.0, 3.0])

    found = lookup(cols, rows, of=FINE, on=COARSE)

    assert [each.tolist() for each in found] == [[0.0, 2.0], [1.0, 1.5]]
    with pytest.raises(SourceError, match=why):
        lookup(cols, rows, of=FINE, on=replace(COARSE, **changes))
