"""Nodata: which number a text is in a dtype, and which pixels GDAL may mask besides."""

import math

import numpy as np
import pytest

from geotiff.small_tiffs import ASCII, SHORT, Tags, ifd_of
from pixel_gather.io.geotiff.ifd import Ifd, Tag
from pixel_gather.io.geotiff.nodata_tag import (
    hides_another_value,
    is_near_nodata,
    parse_nodata,
)
from pixel_gather.io.geotiff.unsupported import UnsupportedError


def told(text: str | None) -> Ifd:
    """Return a directory with this text."""
    tags: Tags = {} if text is None else {Tag.GDAL_NODATA: (ASCII, text.encode("latin-1") + b"\0")}
    return ifd_of({256: (SHORT, (1,)), **tags})


@pytest.mark.parametrize(
    ("dtype", "text", "expected"),
    [
        ("u1", None, None), ("u1", "", None),
        ("u1", "+7", 7), ("u1", " 7  ", 7), ("u1", "2.55e2", 255), ("u1", "255", 255), ("u1", "-1", None),
        ("u1", "256.0", None), ("u1", ".5", None), ("u1", "7.", 7), ("i1", "-128", -128),
        ("i1", "-129", None),
        ("i4", "-2147483648", -(2**31)), ("i4", "-2147483649", None), ("u4", "4294967295.0", 2**32 - 1),
        ("i1", "inf", None), ("u8", "7", 7),
        ("f4", "-inf", -math.inf), ("f4", "+Inf", math.inf), ("f4", "1.#INF", math.inf),
        ("f8", "-1.#INF", -math.inf), ("f4", "16777217", 16777216.0), ("f8", "16777217", 16777217.0),
        ("f2", "65504", 65504.0), ("f2", "-65504", -65504.0), ("f2", "65505", None), ("f2", "-7e4", None),
        ("f2", "inf", math.inf), ("f2", "-inf", -math.inf), ("f2", "0.1", 0.1),
        ("c8", "32767", 32767.0), ("c8", "-32767", -32767.0), ("c16", "0.5", 0.5), ("f4", "1e5", 1e5),
        ("u1", "0", 0), ("u1", "256", None), ("u1", "nan", None), ("u1", "0.5", None), ("u2", "-9999", None),
        ("i8", "9223372036854775807", 2**63 - 1), ("i8", "-9223372036854775808", -(2**63)),
        ("i8", "9223372036854775808", 2**63 - 1), ("i8", "-9223372036854775809", -(2**63)),
        ("u8", "18446744073709551615", 2**64 - 1), ("u8", "18446744073709551616", 2**64 - 1),
        ("u8", "-1", 2**64 - 1), ("u8", "-9999", 2**64 - 9999), ("u8", "-18446744073709551615", 1),
        ("u8", "-18446744073709551616", 2**64 - 1), ("f2", "1e6", None),
        ("f4", "0.1", float(np.float32(0.1))), ("f4", "1e39", math.inf), ("f8", "-1.7e308", -1.7e308),
        ("f4", "-1.79769313486232e+308", -math.inf),
    ],
)  # fmt: skip
def test_nodata_is_what_the_dtype_can_hold(dtype: str, text: str | None, expected: float | None) -> None:
    """None where it cannot hold it. Integers stay integers, and floats floats.

    Integers of 64 bits become what C makes of the text. For uint64, -1 becomes the largest integer.
    """
    nodata = parse_nodata(told(text), np.dtype(dtype))

    assert nodata == expected
    assert type(nodata) is type(expected)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_nodata_of_floats_may_be_no_number(dtype: str) -> None:
    """Floats have NaN; integers ignore it. Of complex numbers it is left to GDAL."""
    nodata = parse_nodata(told("nan"), np.dtype(dtype))

    assert nodata is not None
    assert math.isnan(nodata)
    assert parse_nodata(told("NaN"), np.dtype("i2")) is None
    with pytest.raises(UnsupportedError):
        parse_nodata(told("nan"), np.dtype("c8"))


@pytest.mark.parametrize(
    ("dtype", "text"),
    [
        ("u1", "x"), ("u1", "7 7"), ("f4", "1e"), ("f4", "x1"), ("f4", "--1"), ("u8", "7.0"), ("i8", "1e3"),
        ("i8", "nan"), ("c8", "32768"), ("c16", "-32768"), ("c8", "inf"), ("f4", "1_0"), ("f4", "infinity"),
        ("u1", "7abc"), ("u1", "1,5"), ("u1", "0x10"), ("u1", "1_0"),
        ("f4", "  "), ("u1", " "), ("i8", " "),
    ],
)  # fmt: skip
def test_texts_that_only_gdal_can_read_are_refused(dtype: str, text: str) -> None:
    """GDAL parses 64-bit integers as integers, and complex integers look like complex numbers here."""
    with pytest.raises(UnsupportedError):
        parse_nodata(told(text), np.dtype(dtype))


def test_long_texts_are_refused() -> None:
    """A number has at most 256 characters, with its closing NUL."""
    assert parse_nodata(told("0" * 254 + "7"), np.dtype("u1")) == 7
    assert not hides_another_value(told("0" * 254 + "7"), np.dtype("u1"))
    for look in (parse_nodata, hides_another_value):
        with pytest.raises(UnsupportedError):
            look(told("0" * 255 + "7"), np.dtype("u1"))


@pytest.mark.parametrize(
    ("dtype", "text", "hides"),
    [
        ("u1", "0.5", True), ("u1", "254.5", True), ("u1", "255.5", False), ("u1", "-0.5", False),
        ("i1", "-0.5", True), ("u1", "7", False), ("u1", " 0.5 ", True), ("u1", "7.0", False),
        ("u1", None, False), ("u1", "x", False), ("f4", "0.5", False), ("u1", "nan", False),
        ("u1", "255.0", False), ("c8", "0.5", False),
    ],
)  # fmt: skip
def test_gdal_hides_the_integer_below_a_fraction(dtype: str, text: str | None, *, hides: bool) -> None:
    """It truncates 0.5 to 0. Integers within the dtype, and floats, hide only themselves."""
    assert hides_another_value(told(text), np.dtype(dtype)) is hides


@pytest.mark.parametrize(
    ("pixels", "nodata", "is_near"),
    [
        ([1e6 + 10.0], 1e6, True),
        ([1e6 - 10.0], 1e6, True),
        ([1e6 + 10.1], 1e6, False),
        ([1e6 + 10.0], -1e6, False),
        ([-1e6 + 1.0], -1e6, True),
        ([1e6, 5.0], 1e6, False),
        ([1e6, 1e6 + 1], 1e6, True),
        ([1e-9], 0.0, False),
        ([math.nan, math.inf], 7.0, False),
        ([math.nan, 7.00001], 7.0, True),
        ([math.inf], math.inf, False),
        ([math.nan], math.nan, False),
        ([7.00001], None, False),
        ([-1.7e308], -1e308, True),
        ([1.7e308], -1e308, False),
        ([-math.inf], -1e308, False),
    ],
)
def test_floats_close_to_nodata_are_near(pixels: list[float], nodata: float | None, *, is_near: bool) -> None:
    """Closer than a hundred-thousandth of it, without being equal. GDAL may mask such a pixel."""
    assert is_near_nodata(np.array(pixels), nodata) is is_near


def test_only_floats_and_complex_numbers_are_near() -> None:
    """GDAL compares the real part of complex numbers alone."""
    assert not is_near_nodata(np.array([1_000_001]), 1_000_000)
    assert is_near_nodata(np.array([1e6 + 1 + 5j]), 1e6)
    assert is_near_nodata(np.array([1e6 + 5j]), 1e6)
    assert not is_near_nodata(np.array([1e6 + 0j]), 1e6)
