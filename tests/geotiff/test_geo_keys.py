"""GeoKeys: integers in their list, numbers and texts in other tags; and the CRS that they name."""

import pytest

from geotiff.small_tiffs import ASCII, DOUBLE, LONG, SHORT, Tags, ifd_of
from pixel_gather.io.geotiff.geo_keys import GeoKeys, Key, parse_crs, parse_geo_keys
from pixel_gather.io.geotiff.ifd import Tag
from pixel_gather.io.geotiff.unsupported import UnknownCrsError, UnsupportedError


def keys_of(*values: int, doubles: tuple[float, ...] = (), text: bytes = b"", kind: int = SHORT) -> GeoKeys:
    """Return the GeoKeys of a file whose list has these values."""
    tags: Tags = {Tag.GEO_KEY_DIRECTORY: (kind, values)}
    more: Tags = {Tag.GEO_DOUBLE_PARAMS: (DOUBLE, doubles)} if doubles else {}
    texts: Tags = {Tag.GEO_ASCII_PARAMS: (ASCII, text)} if text else {}
    return parse_geo_keys(ifd_of({**tags, **more, **texts}))


def test_values_come_from_the_list_the_numbers_and_the_text() -> None:
    """Each key names its place. Several numbers of one key stay together."""
    in_list, one, two = (1024, 0, 1, 2), (2057, 34736, 1, 1), (2062, 34736, 2, 2)
    text = (3073, 34737, 4, 3)

    keys = keys_of(1, 1, 0, 4, *in_list, *one, *two, *text, doubles=(0.5, 1.5, 2.5, 3.5), text=b"abcdefg|\0")

    assert keys == {1024: 2, 2057: (1.5,), 2062: (2.5, 3.5), 3073: "defg"}
    assert parse_geo_keys(ifd_of({256: (SHORT, (1,))})) == {}
    assert keys_of(1, 1, 1, 0) == {}
    assert keys_of(1, 1, 0, 1, 1, 0, 1, 5) == {1: 5}


def test_what_follows_the_list_is_ignored() -> None:
    """Some writers leave a line of zeros."""
    assert keys_of(1, 1, 0, 1, 1024, 0, 1, 2, 0, 0, 0, 0) == {1024: 2}


def test_up_to_256_keys_are_read() -> None:
    """No CRS needs more."""
    keys = [part for key in range(256) for part in (1000 + key, 0, 1, key)]

    assert keys_of(1, 1, 0, 256, *keys) == {1000 + key: key for key in range(256)}
    with pytest.raises(UnsupportedError, match="number of values"):
        keys_of(1, 1, 0, 256, *keys, 0)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ((1, 1, 0), "broken"),
        ((1, 1, 2, 0), "broken"),
        ((1, 2, 0, 0), "broken"),
        ((2, 1, 0, 0), "broken"),
        ((1, 1, 0, 1, 1024, 0, 1), "broken"),
        ((1, 1, 0, 2, 1024, 0, 1, 2), "broken"),
        ((1, 1, 0, 2, 1025, 0, 1, 2, 1024, 0, 1, 2), "out of order"),
        ((1, 1, 0, 2, 1025, 0, 1, 2, 1025, 0, 1, 2), "out of order"),
        ((1, 1, 0, 1, 0, 0, 1, 2), "out of order"),
        ((1, 1, 0, 1, 1024, 0, 2, 2), "missing"),
        ((1, 1, 0, 1, 1024, 34735, 1, 2), "missing"),
        ((1, 1, 0, 1, 2057, 34736, 1, 2), "missing"),
        ((1, 1, 0, 1, 2057, 34736, 3, 0), "missing"),
        ((1, 1, 0, 1, 3073, 34737, 2, 2), "missing"),
    ],
)
def test_a_broken_list_is_refused(values: tuple[int, ...], reason: str) -> None:
    """GDAL may read it differently, or not at all."""
    with pytest.raises(UnsupportedError, match=reason):
        keys_of(*values, doubles=(0.5, 1.5), text=b"abc\0")


@pytest.mark.parametrize("values", [(1026, 34737, 0, 0), (2057, 34736, 0, 0), (1024, 0, 0, 2)])
def test_an_empty_value_in_a_tag_that_is_absent_is_refused(values: tuple[int, ...]) -> None:
    """GDAL then gives the file no CRS."""
    with pytest.raises(UnsupportedError, match="missing"):
        keys_of(1, 1, 0, 1, *values)


def test_an_empty_text_is_read() -> None:
    """Its tag is there."""
    assert keys_of(1, 1, 0, 1, 1026, 34737, 0, 0, text=b"\0") == {1026: ""}


def test_a_list_of_another_type_is_refused() -> None:
    """The list is of SHORTs."""
    with pytest.raises(UnsupportedError, match="broken"):
        keys_of(1, 1, 0, 1, 1024, 0, 1, 2, kind=LONG)


def test_numbers_and_texts_are_bounded() -> None:
    """The same limits as in libgeotiff, and 64 KiB of text."""
    one = (1, 1, 0, 1, 1024, 0, 1, 2)

    assert keys_of(*one, doubles=(0.0,) * 1024, text=bytes(1 << 16)) == {1024: 2}
    with pytest.raises(UnsupportedError):
        keys_of(*one, doubles=(0.0,) * 1025)
    with pytest.raises(UnsupportedError):
        keys_of(*one, text=bytes((1 << 16) + 1))


UTM: GeoKeys = {Key.MODEL_TYPE: 1, Key.RASTER_TYPE: 1, Key.PROJECTED_CRS: 32633}
WGS84: GeoKeys = {Key.MODEL_TYPE: 2, Key.RASTER_TYPE: 1, Key.GEODETIC_CRS: 4326}
GRS80 = (6378137.0, 298.257222101)


def ellipsoid(axis: float, flattening: float) -> GeoKeys:
    """Return the keys by which GDAL writes an ellipsoid."""
    return {Key.SEMI_MAJOR_AXIS: (axis,), Key.INVERSE_FLATTENING: (flattening,)}


@pytest.mark.parametrize(
    ("keys", "crs"),
    [
        ({}, None),
        (UTM, "EPSG:32633"),
        (UTM | {Key.LINEAR_UNITS: 9001}, "EPSG:32633"),
        (
            UTM | {Key.GEODETIC_CRS: 4326, Key.CITATION: "WGS 84 / UTM 33N", Key.TO_WGS84: (0.0,)},
            "EPSG:32633",
        ),
        (
            UTM | {Key.ANGULAR_UNITS: 9102, Key.PROJECTED_CITATION: "a", Key.GEODETIC_CITATION: "b"},
            "EPSG:32633",
        ),
        (UTM | {Key.PROJECTED_CRS: 3857, Key.GEODETIC_CRS: 4326}, "EPSG:3857"),
        (UTM | {Key.PROJECTED_CRS: 26901, Key.GEODETIC_CRS: 4269}, "EPSG:26901"),
        (WGS84, "EPSG:4326"),
        (WGS84 | {Key.ANGULAR_UNITS: 9102}, "EPSG:4326"),
        (WGS84 | {Key.LINEAR_UNITS: 9002, Key.LINEAR_UNIT_SIZE: (0.3,)}, "EPSG:4326"),
        (WGS84 | ellipsoid(6378137.0, 298.257223563), "EPSG:4326"),
        (WGS84 | {Key.GEODETIC_CRS: 4267} | ellipsoid(6378206.4, 294.978698213898), "EPSG:4267"),
        *(
            (WGS84 | {Key.GEODETIC_CRS: code} | ellipsoid(*GRS80), f"EPSG:{code}")
            for code in (4167, 4258, 4269, 4283, 4490, 4612, 4617, 4674, 6318, 6668, 7844)
        ),
        (WGS84 | {Key.GEODETIC_CRS: 4979} | ellipsoid(6378137.0, 298.257223563), "EPSG:4979"),
        (WGS84 | {Key.SEMI_MAJOR_AXIS: (6378137.0,)}, "unknown"),
        (WGS84 | {Key.INVERSE_FLATTENING: (298.257223563,)}, "unknown"),
        (WGS84 | {Key.SEMI_MAJOR_AXIS: 6378137} | {Key.INVERSE_FLATTENING: (298.257223563,)}, "unknown"),
        (WGS84 | ellipsoid(*GRS80), "unknown"),
        (WGS84 | ellipsoid(6378137.001, 298.257223563), "unknown"),
        (
            WGS84 | {Key.SEMI_MAJOR_AXIS: (6378137.0, 1.0), Key.INVERSE_FLATTENING: (298.257223563,)},
            "unknown",
        ),
        (WGS84 | {Key.GEODETIC_CRS: 4170} | ellipsoid(*GRS80), "unknown"),
        (WGS84 | {Key.ANGULAR_UNITS: 9105}, "unknown"),
        (WGS84 | {Key.PROJECTED_CRS: 32633}, "unknown"),
        (WGS84 | {Key.TO_WGS84: (0.0,)}, "unknown"),
        (WGS84 | {Key.GEODETIC_CRS: 32767}, "unknown"),
        (WGS84 | {Key.GEODETIC_CRS: (4326.0,)}, "unknown"),
        (WGS84 | {Key.MODEL_TYPE: 3}, "unknown"),
        (UTM | {Key.MODEL_TYPE: 2}, "unknown"),
        (UTM | {Key.LINEAR_UNITS: 9002}, "unknown"),
        (UTM | {Key.LINEAR_UNIT_SIZE: (1.0,)}, "unknown"),
        (UTM | ellipsoid(6378137.0, 298.257223563), "unknown"),
        (UTM | {4096: 5773}, "unknown"),
        (UTM | {Key.GEODETIC_CRS: 4267}, "unknown"),
        ({Key.MODEL_TYPE: 1}, "unknown"),
        ({Key.RASTER_TYPE: 1}, "unknown"),
    ],
)
def test_only_keys_that_say_no_more_than_a_code_are_that_code(keys: GeoKeys, crs: str | None) -> None:
    """Names and default units change nothing. Of anything else, only GDAL can build the CRS."""
    if crs == "unknown":
        with pytest.raises(UnknownCrsError):
            parse_crs(keys)
    else:
        assert parse_crs(keys) == crs
