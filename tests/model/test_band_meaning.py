"""What is said of a band becomes attributes, and is read from them."""

import pytest

from pixel_gather.core.model.band_meaning import NO_MEANING, BandClass, BandMeaning, kept_unit, true_colour

FOREST = BandClass(value=10, name="Tree cover, closed", colour="#016400")
UNNAMED = BandClass(value=20)


def test_classes_become_cf_flags() -> None:
    """Words have underscores. A class without a name or a colour has a stand-in."""
    said = BandMeaning(colour="palette", classes=(FOREST, UNNAMED)).attributes("uint8")

    assert said == {
        "color_interpretation": "palette",
        "flag_values": [10, 20],
        "flag_meanings": "Tree_cover_closed class_20",
        "flag_colors": "#016400 -",
    }
    assert BandMeaning.of_attributes(said) == BandMeaning(
        colour="palette",
        classes=(BandClass(value=10, name="Tree cover closed", colour="#016400"), UNNAMED),
    )


def test_a_dtype_has_only_the_classes_that_it_can_hold() -> None:
    """Fractions have none."""
    meaning = BandMeaning(classes=(FOREST, BandClass(value=300)))

    assert meaning.attributes("uint8")["flag_values"] == [10]
    assert meaning.attributes("uint16")["flag_values"] == [10, 300]
    assert meaning.attributes("float32") == {}
    assert BandMeaning(classes=(BandClass(value=300),)).attributes("uint8") == {}


@pytest.mark.parametrize(
    "attributes",
    [{}, {"flag_values": 3}, {"flag_values": ["x"], "flag_meanings": "x"}, {"color_interpretation": 7}],
)
def test_damaged_attributes_say_nothing(attributes: dict[str, object]) -> None:
    """They may be anybody's."""
    assert BandMeaning.of_attributes(attributes) == NO_MEANING


def test_a_catalog_adds_names_to_the_colours_of_a_file() -> None:
    """What it does not say stays."""
    file = BandMeaning(classes=(BandClass(value=10, colour="#016400"), BandClass(value=30, colour="#ffff4c")))

    both = file.with_classes([BandClass(value=10, name="forest"), BandClass(value=5, name="water")])

    assert both.classes == (
        BandClass(value=5, name="water"),
        BandClass(value=10, name="forest", colour="#016400"),
        BandClass(value=30, colour="#ffff4c"),
    )


def test_true_colour_is_what_the_files_say_and_never_classes() -> None:
    """Then names count."""
    red, green, blue = (BandMeaning(colour=each) for each in ("red", "green", "blue"))
    classes = BandMeaning(classes=(UNNAMED,))

    assert true_colour({"band_1": blue, "band_2": green, "band_3": red}) == ("band_3", "band_2", "band_1")
    assert true_colour({"band_1": NO_MEANING, "band_2": NO_MEANING, "band_3": NO_MEANING}) == ()
    assert true_colour(dict.fromkeys(("B04", "B03", "B02"), NO_MEANING)) == ("B04", "B03", "B02")
    assert true_colour({"red": classes, "green": NO_MEANING, "blue": NO_MEANING}) == ()


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (" mm ", "mm"),
        ("\u00b0C", "\u00b0C"),
        ("days", "day"),
        ("days since 2000-01-01", ""),
        ("m" * 65, ""),
        ("a\nb", ""),
    ],
)
def test_a_unit_is_kept_unless_readers_would_change_the_pixels(given: str, kept: str) -> None:
    """Xarray makes durations of ``days`` and dates of ``days since``."""
    assert kept_unit(given) == kept
    assert BandMeaning(unit=kept).attributes("float32") == ({"units": kept} if kept else {})
    assert BandMeaning.of_attributes({"units": given}).unit == kept


def test_the_files_unit_goes_before_the_catalogs() -> None:
    """The pixels are the file's."""
    file, catalog = BandMeaning(unit="mm"), BandMeaning(unit="m", classes=(FOREST,))

    assert file.with_claims(catalog) == BandMeaning(unit="mm", classes=(FOREST,))
    assert NO_MEANING.with_claims(catalog) == catalog
    assert file.with_claims(NO_MEANING) == file
