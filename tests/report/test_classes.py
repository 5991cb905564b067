"""Measurements whose values are classes are found, and painted with one colour for each class."""

from typing import Any

import numpy as np
import pytest

from pixel_gather.core.model.band_meaning import BandClass, BandMeaning
from pixel_gather.io.pictures.classes import count_classes, legend_of, painted_classes

_RANDOM = np.random.default_rng(4)


@pytest.mark.parametrize(
    ("name", "pixels", "n_classes"),
    [
        ("SCL", _RANDOM.integers(0, 12, (2, 32, 32), "uint8"), 12),
        ("band_1", _RANDOM.integers(3, 7, (2, 32, 32), "uint8"), 4),
        ("qa_pixel", _RANDOM.integers(21_800, 21_840, (2, 32, 32), "uint16"), 13),
        ("mask", np.ones((1, 8, 8), "uint8"), 1),
        ("band_1", _RANDOM.integers(0, 2, (1, 32, 32)) == 1, 2),
        ("band_1", _RANDOM.integers(0, 40, (2, 32, 32), "uint8"), 0),
        ("band_1", _RANDOM.integers(0, 3, (2, 32, 32)).astype("float32"), 0),
        ("band_1", np.ones((1, 32, 32), "uint8"), 0),
        ("band_1", np.arange(9, dtype="uint8").reshape(1, 3, 3), 0),
    ],
    ids=["scl", "few", "flags", "named", "bool", "many", "fractions", "constant", "few pixels"],
)
def test_classes_are_few_whole_numbers_or_have_a_name(name: str, pixels: Any, n_classes: int) -> None:
    """The most frequent come first, and the shares of all are 1."""
    found = count_classes(name, pixels, np.ones(pixels.shape, dtype=bool))

    assert len(found) == n_classes
    assert sum(each.share for each in found) == pytest.approx(float(n_classes > 0))
    shares = [each.share for each in found if each.value is not None]
    assert shares == sorted(shares, reverse=True)


def test_values_with_a_unit_are_no_classes() -> None:
    """However few they are, such as counts. A name, or what the file says, goes before that."""
    pixels = _RANDOM.integers(0, 4, (2, 32, 32), "uint16")
    is_valid = np.ones(pixels.shape, dtype=bool)

    assert not count_classes("band_1", pixels, is_valid, meaning=BandMeaning(unit="1"))
    assert len(count_classes("SCL", pixels, is_valid, meaning=BandMeaning(unit="1"))) == 4


def test_what_the_file_says_goes_before_the_name() -> None:
    """Its names, its colours, and black for what its palette leaves out, however many classes there are."""
    pixels = np.repeat(np.arange(100, dtype="uint8"), 2).reshape(1, 10, 20)
    said = tuple(BandClass(value=n, name=f"kind {n}", colour=f"#0000{n:02x}") for n in range(1, 90))
    meaning = BandMeaning(colour="palette", classes=said)

    found = count_classes("SCL", pixels, np.ones(pixels.shape, dtype=bool), meaning=meaning)
    colours = {each.value: (each.name, each.colour) for each in found}
    legend = legend_of(found)

    assert len(colours) == 100
    assert colours[4] == ("4 kind 4", "#000004")
    assert colours[95] == ("95", "#000000")
    assert legend[:-1] == found[:24]
    assert (legend[-1].value, legend[-1].name) == (None, "76 others")
    assert legend[-1].share == pytest.approx(0.76)


def test_pixels_have_the_colour_of_their_class() -> None:
    """Scene classes have those of their format. What is not valid is transparent, and counts for nothing."""
    pixels = np.array([[4, 4], [6, 9]], "uint8")
    is_valid = np.array([[True, True], [True, False]])

    found = count_classes("SCL", pixels, is_valid)
    painted = painted_classes(pixels, is_valid, found)

    assert [each.name for each in found] == ["4 vegetation", "6 water"]
    assert painted[0, 0].tolist() == [0, 160, 0, 255]
    assert painted[1, 0].tolist() == [0, 0, 255, 255]
    assert painted[1, 1, 3] == 0
