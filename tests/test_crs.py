"""CRSs by PROJ: x is east, curved edges are followed, and errors name unknown CRSs."""

import subprocess
import sys

import pytest
from rasterio.crs import CRS

from pixel_gather.core.errors import RequestError
from pixel_gather.io.crs import RasterioProjector

_UTM_18 = "EPSG:32618"
_LON_LAT = "EPSG:4326"


def test_points_takes_longitude_first_whatever_the_authority_says() -> None:
    """EPSG:4326 is defined latitude first, but here x is always east."""
    xs, ys = RasterioProjector().points([-75.0], [40.0], source_crs=_LON_LAT, target_crs=_UTM_18)

    assert xs == pytest.approx([500000.0])
    assert ys == pytest.approx([4427757.22], abs=0.01)


def test_points_comes_back_to_where_it_was() -> None:
    """A point that is transformed there and back is the same."""
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
    """A CRS that PROJ does not know is refused, and the error names its field."""
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
def test_described_crs_has_a_code_only_where_it_is_exact(crs: str, code: str | None) -> None:
    """A CRS that only resembles a code's definition gets no code."""
    described = RasterioProjector().describe(crs)

    assert described is not None
    assert described.code == code
    again = RasterioProjector().describe(described.wkt2)
    assert again is not None
    assert again.code == code


@pytest.mark.parametrize(("crs", "is_geographic"), [(_UTM_18, False), (_LON_LAT, True)])
def test_described_crs_can_be_read_back(crs: str, is_geographic: bool) -> None:  # noqa: FBT001 # a parameter
    """The description holds the CRS as WKT 2."""
    described = RasterioProjector().describe(crs)

    assert described is not None
    assert described.is_geographic is is_geographic
    assert CRS.from_wkt(described.wkt2) == CRS.from_user_input(crs)


@pytest.mark.parametrize(
    "crs", ["ESRI:102113", "ESRI:102100", "EPSG:900913", "EPSG:32662", "ESRI:102021", "EPSG:2400"]
)
def test_described_crs_that_is_deprecated_keeps_its_name(crs: str) -> None:
    """ESRI:102113 is marked as deprecated. Otherwise GDAL takes it for EPSG:3857."""
    described = RasterioProjector().describe(crs)
    parsed = CRS.from_user_input(crs)

    assert described is not None
    again = CRS.from_wkt(described.wkt2)
    assert again == parsed
    assert again.to_wkt().partition(",")[0] == parsed.to_wkt().partition(",")[0]
    assert described.wkt2.startswith("PROJCRS[")


def test_crs_that_proj_does_not_know_has_no_description() -> None:
    """Sources of an unknown CRS are gathered, and the cube has no CRS."""
    assert RasterioProjector().describe("EPSG:99999") is None


def test_module_does_not_import_rasterio() -> None:
    """Rasterio costs up to 0.8 s, and workers do not transform."""
    code = "import sys, pixel_gather.io.crs; sys.exit('rasterio' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0  # noqa: S603 # our own code
