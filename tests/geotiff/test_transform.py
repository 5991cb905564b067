"""Transforms: from scale and tiepoint, or from the matrix, and which of them only GDAL can read."""

import math

import pytest

from geotiff.small_tiffs import DOUBLE, SHORT, Tags, ifd_of
from pixel_gather.core.model.window import Transform
from pixel_gather.io.geotiff.geo_keys import GeoKeys
from pixel_gather.io.geotiff.ifd import Tag
from pixel_gather.io.geotiff.transform import has_only_control_points, parse_heights, parse_transform
from pixel_gather.io.geotiff.unsupported import UnsupportedError

AREA: GeoKeys = {1025: 1}
POINT: GeoKeys = {1025: 2}


def scale(*values: float) -> Tags:
    """Return a pixel scale."""
    return {Tag.MODEL_PIXEL_SCALE: (DOUBLE, values)}


def tiepoint(*values: float) -> Tags:
    """Return one tiepoint or several: column, row, height, x, y, z."""
    return {Tag.MODEL_TIEPOINT: (DOUBLE, values)}


def matrix(*values: float) -> Tags:
    """Return a matrix."""
    return {Tag.MODEL_TRANSFORMATION: (DOUBLE, values)}


TIEPOINT = tiepoint(3.0, 4.0, 5.0, 1000.0, 2000.0, 6.0)
MATRIX = matrix(2, 1, 9, 50, 0.5, -3, 8, 70, *range(8))


def test_scale_and_tiepoint_place_the_corners() -> None:
    """Column 3 and row 4 are at the tiepoint. Rows run south, whatever the sign of the scale."""
    expected = Transform(10.0, 0.0, 970.0, 0.0, -20.0, 2080.0)

    for height in (20.0, -20.0):
        for more in ((), (0.0,), (7.0,)):
            assert parse_transform(ifd_of({**scale(10.0, height, *more), **TIEPOINT}), AREA) == expected
    assert parse_transform(ifd_of({**scale(10.0, 20.0), **TIEPOINT}), {}) == expected
    two = tiepoint(3.0, 4.0, 5.0, 1000.0, 2000.0, 6.0, *range(6))
    assert parse_transform(ifd_of({**scale(10.0, 20.0), **two}), AREA) == expected


def test_a_matrix_is_the_transform() -> None:
    """Its first two rows, without the column of heights."""
    assert parse_transform(ifd_of(MATRIX), AREA) == Transform(2, 1, 50, 0.5, -3, 70)


def test_pixels_that_are_points_have_their_centre_there() -> None:
    """The corner is half a pixel before it, along rows and columns."""
    assert parse_transform(ifd_of({**scale(10.0, 20.0), **TIEPOINT}), POINT) == Transform(
        10.0, 0.0, 965.0, 0.0, -20.0, 2090.0
    )
    assert parse_transform(ifd_of(MATRIX), POINT) == Transform(2, 1, 48.5, 0.5, -3, 71.25)


def test_without_scale_or_matrix_there_is_no_transform() -> None:
    """An identity matrix says nothing, so it gives none, either."""
    identity = matrix(1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1)

    assert parse_transform(ifd_of({256: (SHORT, (1,))}), {}) is None
    assert parse_transform(ifd_of(TIEPOINT), {}) is None
    assert parse_transform(ifd_of(identity), {}) is None


@pytest.mark.parametrize(
    ("tags", "reason"),
    [
        ({**MATRIX, Tag.INTERGRAPH_MATRIX: (DOUBLE, (1.0,) * 17)}, "Intergraph"),
        (scale(10.0, 20.0), "without a tiepoint"),
        ({**scale(10.0), **TIEPOINT}, "without a tiepoint"),
        ({**scale(0.0, 20.0), **TIEPOINT}, "without a tiepoint"),
        ({**scale(10.0, 0.0), **TIEPOINT}, "without a tiepoint"),
        ({**scale(10.0, 20.0), **TIEPOINT, **MATRIX}, "with a matrix too"),
        ({**scale(10.0, 20.0), **tiepoint(*range(5))}, "without a tiepoint"),
        ({**scale(1.0, 2.0, 3.0, 4.0), **TIEPOINT}, "number of values"),
        (matrix(*range(15)), "another size"),
        (matrix(*range(17)), "number of values"),
        ({**scale(10.0, math.inf), **TIEPOINT}, "not finite"),
        (matrix(math.nan, *range(15)), "not finite"),
        ({**scale(10.0, 20.0), **tiepoint(*range(6 * 4096 + 1))}, "number of values"),
    ],
)
def test_what_gdal_reads_in_a_way_of_its_own_is_refused(tags: Tags, reason: str) -> None:
    """The reason is named."""
    with pytest.raises(UnsupportedError, match=reason):
        parse_transform(ifd_of(tags), AREA)


def test_up_to_4096_tiepoints_are_read() -> None:
    """Of which the first counts."""
    assert parse_transform(ifd_of({**scale(10.0, 20.0), **tiepoint(*(0.0,) * 6 * 4096)}), AREA) is not None


def test_tiepoints_alone_are_control_points() -> None:
    """With a scale or a matrix they are not, and without any there are none."""
    assert has_only_control_points(ifd_of(TIEPOINT))
    assert has_only_control_points(ifd_of(tiepoint(*range(24))))
    assert not has_only_control_points(ifd_of({256: (SHORT, (1,))}))
    assert not has_only_control_points(ifd_of({**scale(1.0, 2.0), **TIEPOINT}))
    assert not has_only_control_points(ifd_of({**MATRIX, **TIEPOINT}))
    with pytest.raises(UnsupportedError, match="half a tiepoint"):
        has_only_control_points(ifd_of(tiepoint(*range(9))))


def test_heights_are_all_values_of_the_third_axis() -> None:
    """They are those of the scale, of each tiepoint and of the matrix."""
    tags = {**scale(10.0, 20.0, 30.0), **tiepoint(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11), **MATRIX}

    assert parse_heights(ifd_of(tags)) == ((30.0,), (2, 5, 8, 11), tuple(range(8)))
    assert parse_heights(ifd_of({256: (SHORT, (1,))})) == ((), (), ())
    with pytest.raises(UnsupportedError):
        parse_heights(ifd_of(scale(1.0, 2.0, 3.0, 4.0)))
    with pytest.raises(UnsupportedError):
        parse_heights(ifd_of(matrix(*range(17))))
