"""EPSG codes that the fast path reads without GDAL."""

import pytest
from rasterio.crs import CRS

from pixel_gather.io.geotiff.epsg_codes import GEOGRAPHIC, METRIC_PROJECTED
from pixel_gather.io.geotiff.geo_keys import _bounds, is_plain_geographic, is_plain_projected


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


@pytest.mark.parametrize(
    ("code", "geodetic", "is_plain"),
    [
        *((code, 4326, True) for code in (3857, 32601, 32660, 32701, 32760)),
        *((code, 4269, True) for code in (26901, 26923)),
        *((code, 4269, False) for code in (3857, 32633, 32733, 26924)),
        *((code, 4326, False) for code in (3035, 32661, 32761, 26901)),
        *((code, None, True) for code in (3035, 32661, 32761, 26901, 32633)),
    ],
)
def test_a_geodetic_crs_may_be_named_where_it_is_the_own_one(
    code: int, geodetic: int | None, *, is_plain: bool
) -> None:
    """That is known of UTM and of Web Mercator."""
    assert is_plain_projected(code, geodetic=geodetic) is is_plain


@pytest.mark.parametrize("code", [1999, 2008, 2036, 2066, 2303 - 1, 1 << 20, 0, -5])
def test_codes_beside_a_range_are_not_plain(code: int) -> None:
    """Ranges end with their last code, and some have a single one."""
    _bounds.cache_clear()
    assert is_plain_projected(code, geodetic=None) is False
    assert is_plain_geographic(code) is False


def test_both_ends_of_ranges_are_plain() -> None:
    """And codes that are ranges by themselves."""
    assert all(is_plain_projected(code, geodetic=None) for code in (2000, 2007, 2065, 2154))
    assert all(is_plain_geographic(code) for code in (4326, 4258, 4979))
