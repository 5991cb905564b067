"""CRSs by PROJ: east is x, curves are followed, unknown ones are named."""

import subprocess
import sys

import pytest
from rasterio.crs import CRS

from pixel_gather.adapters.crs import RasterioProjector, authority_code, grid_mapping, wkt2
from pixel_gather.errors import RequestError
from pixel_gather.window import Transform

_UTM_18 = "EPSG:32618"
_LON_LAT = "EPSG:4326"


def test_points_takes_longitude_first_whatever_the_authority_says() -> None:
    """EPSG:4326 is latitude first by its authority; here x is always east."""
    xs, ys = RasterioProjector().points([-75.0], [40.0], source_crs=_LON_LAT, target_crs=_UTM_18)

    assert xs == pytest.approx([500000.0])
    assert ys == pytest.approx([4427757.22], abs=0.01)


def test_points_comes_back_to_where_it_was() -> None:
    """There and back is the same place."""
    projector = RasterioProjector()
    there = projector.points([-76.0, -74.5], [39.0, 41.0], source_crs=_LON_LAT, target_crs=_UTM_18)
    xs, ys = projector.points(*there, source_crs=_UTM_18, target_crs=_LON_LAT)

    assert xs == pytest.approx([-76.0, -74.5])
    assert ys == pytest.approx([39.0, 41.0])


def test_bounds_follows_the_curve_of_an_edge() -> None:
    """The southern edge of a box in longitude and latitude is lowest between its corners."""
    projector = RasterioProjector()
    box = (-76.0, 39.0, -74.0, 41.0)
    bounds = projector.bounds(box, source_crs=_LON_LAT, target_crs=_UTM_18)
    _, corner_ys = projector.points([-76.0, -74.0], [39.0, 39.0], source_crs=_LON_LAT, target_crs=_UTM_18)

    assert bounds[1] < min(corner_ys) - 100


def test_projector_leaves_the_same_crs_untouched() -> None:
    """Equal names need no transformation, and no rounding."""
    box = (0.1, 0.2, 0.3, 0.4)

    assert RasterioProjector().bounds(box, source_crs=_UTM_18, target_crs=_UTM_18) == box
    assert RasterioProjector().points([0.1], [0.2], source_crs=_UTM_18, target_crs=_UTM_18) == ([0.1], [0.2])


def test_points_refuses_what_has_no_place_in_the_target() -> None:
    """A latitude beyond the pole is a wrong request, not an infinite pixel."""
    with pytest.raises(RequestError, match="cannot be transformed"):
        RasterioProjector().points([0.0], [95.0], source_crs=_LON_LAT, target_crs=_UTM_18)


@pytest.mark.parametrize("crs", ["EPSG:99999", "EPSG:", "hello", "", 'PROJCRS["half'])
def test_check_names_the_field(crs: str) -> None:
    """A CRS that PROJ does not know is refused with the name of the field it stood in."""
    with pytest.raises(RequestError, match="is no CRS that PROJ knows") as caught:
        RasterioProjector().check(crs, field="window.crs")

    assert caught.value.field == "window.crs"


@pytest.mark.parametrize(
    ("crs", "code"),
    [
        ("EPSG:32618", "EPSG:32618"),
        ("epsg:4326", "EPSG:4326"),
        ("ESRI:54009", "ESRI:54009"),
        ("OGC:CRS84", "OGC:CRS84"),
        ("+proj=laea +lat_0=12.5 +lon_0=7 +datum=WGS84", None),
    ],
)
def test_authority_code_is_given_only_where_it_is_exact(crs: str, code: str | None) -> None:
    """A code stands for the whole definition, so that a near match has none."""
    assert authority_code(crs) == code
    if code is not None:
        assert authority_code(wkt2(crs)) == code


def test_grid_mapping_can_be_read_back() -> None:
    """The attributes hold the CRS as WKT 2 and GDAL's transform."""
    attributes = grid_mapping(_UTM_18, transform=Transform(10, 0, 399960, 0, -10, 4500000))

    assert attributes["crs_wkt"].startswith("PROJCRS[")
    assert CRS.from_wkt(attributes["crs_wkt"]) == CRS.from_epsg(32618)
    assert attributes["GeoTransform"] == "399960.0 10.0 0.0 4500000.0 0.0 -10.0"
    assert "GeoTransform" not in grid_mapping(_UTM_18, transform=None)


def test_module_does_not_import_rasterio() -> None:
    """Rasterio costs up to 0.8 s, and workers do not transform."""
    code = "import sys, pixel_gather.adapters.crs; sys.exit('rasterio' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0  # noqa: S603 # our own code
