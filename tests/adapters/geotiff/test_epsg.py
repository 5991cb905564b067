"""EPSG codes that the fast path reads without GDAL."""

import pytest
from rasterio.crs import CRS

from pixel_gather.adapters.geotiff.epsg import is_plain_geographic, is_plain_projected
from pixel_gather.adapters.geotiff.epsg_codes import GEOGRAPHIC, METRIC_PROJECTED


def firsts(ranges: str) -> list[int]:
    """Return the first code of every range."""
    return [int(part.partition("-")[0]) for part in ranges.split()]


@pytest.mark.parametrize("code", firsts(METRIC_PROJECTED)[::30])
def test_projected_codes_are_current_and_in_metres(code: int) -> None:
    """PROJ knows each of them as a projected CRS in metres."""
    crs = CRS.from_epsg(code)

    assert crs.is_projected
    assert crs.linear_units_factor[1] == 1
    assert is_plain_projected(code, geodetic=None)


@pytest.mark.parametrize("code", firsts(GEOGRAPHIC)[::20])
def test_geographic_codes_are_geographic(code: int) -> None:
    """PROJ knows each of them as a geographic CRS."""
    assert CRS.from_epsg(code).is_geographic
    assert is_plain_geographic(code)


@pytest.mark.parametrize("code", [None, 0, 1023, 2225, 26591, 32600, 32767, 65535])
def test_other_codes_are_not_plain(code: int | None) -> None:
    """A missing code is left to GDAL, and so are codes in feet, deprecated, unknown or user-defined."""
    assert not is_plain_projected(code, geodetic=None)
    assert not is_plain_geographic(code)
