"""Names of bands: colours, classes, and what no name tells."""

import pytest

from pixel_gather.core.model.band_names import common_name, is_of_classes, named_band, red_green_blue


@pytest.mark.parametrize(
    ("names", "three"),
    [
        (("blue", "green", "nir", "red"), ("red", "green", "blue")),
        (("B02", "B03", "B04", "B08", "SCL"), ("B04", "B03", "B02")),
        (("B04_10m", "B03_10m", "B02_10m"), ("B04_10m", "B03_10m", "B02_10m")),
        (("red-jp2", "green-jp2", "blue-jp2"), ("red-jp2", "green-jp2", "blue-jp2")),
        (("b04", "green", "Blue"), ("b04", "green", "Blue")),
        (
            ("sur_refl_b01", "sur_refl_b02", "sur_refl_b03", "sur_refl_b04"),
            ("sur_refl_b01", "sur_refl_b04", "sur_refl_b03"),
        ),
        (("band_1", "band_2", "band_3"), ()),
        (
            ("SR_B4", "SR_B3", "SR_B2"),
            (),
        ),  # nir, red and green of Landsat 5, or red, green and blue of Landsat 8
        (("vv", "vh", "scl"), ()),
        (("red", "green"), ()),
    ],
)
def test_names_say_which_bands_make_true_colour(names: tuple[str, ...], three: tuple[str, ...]) -> None:
    """The order of the bands says nothing."""
    assert red_green_blue(names) == three
    assert red_green_blue(names[::-1]) == three


def test_files_go_before_names() -> None:
    """A file knows its own bands. If it tells no three colours, names count."""
    names = ("band_1", "band_2", "band_3", "red", "green", "blue")
    said = {"band_1": "blue", "band_2": "green", "band_3": "red"}

    assert red_green_blue(names, said) == ("band_3", "band_2", "band_1")
    assert red_green_blue(names, {"band_1": "red", "band_2": "alpha"}) == ("red", "green", "blue")


def test_a_name_is_common_or_of_classes_or_neither() -> None:
    """Case and suffixes do not count."""
    assert [common_name(each) for each in ("B08", "nir08", "B8A", "rain")] == ["nir", "nir", None, None]
    assert [is_of_classes(each) for each in ("SCL", "scl_20m", "QA_PIXEL", "red")] == [
        True,
        True,
        True,
        False,
    ]
    assert named_band("nir", ["nir08", "B08"]) == "B08"
    assert named_band("rain", ["RAIN"]) == "RAIN"
