"""What plan and run print in few lines."""

from pixel_gather_cli.details import WARNING, in_few_lines

STRIPS = "8 of 8 sampled sources of band {} are stored in strips, not tiles"
OTHER_GRID = (
    "7 of 8 sampled sources of band {} lie on another grid, such as {}.tif: their status will be unlike"
)
FINE = "nearest takes few of the pixels of band {}: they are 5.3 times as fine as those of the grid"
PARTLY = "8 of 8 sampled sources of band {}, with 30.42% of its pixels outside file:///{}.tif: it is nodata"
OF_BANDS = [
    (WARNING, text.format(band, band))
    for band in ("B2", "B4", "B5")
    for text in (STRIPS, OTHER_GRID, FINE, PARTLY)
]


def test_what_is_said_of_several_bands_is_one_line() -> None:
    """With the names of all of them, and the example of the first."""
    striped, elsewhere, fine, partly = (text for _, text in in_few_lines(OF_BANDS, most=5))

    assert striped == STRIPS.format("B2, B4, B5").replace(" band ", " bands ")
    assert elsewhere == OTHER_GRID.format("B2, B4, B5", "B2").replace(" band ", " bands ")
    assert fine == FINE.format("B2, B4, B5").replace(" band ", " bands ")
    assert partly == PARTLY.format("B2, B4, B5", "B2").replace(" band ", " bands ")


def test_other_numbers_of_sources_are_other_lines() -> None:
    """A line must not say of a band what is not so."""
    told = [(WARNING, STRIPS.format("B2")), (WARNING, STRIPS.format("B4").replace("8 of 8", "1 of 8"))]

    assert in_few_lines(told, most=5) == told


def test_the_first_come_first_if_lines_are_left_out() -> None:
    """The last line says how many are left out, under their label if they share one."""
    warnings = [(WARNING, f"remark {n}") for n in range(10)]

    assert in_few_lines(warnings, most=3) == [
        *warnings[:2],
        (WARNING, "8 more, which --verbose shows"),
    ]
    assert in_few_lines([("  unlike", "why"), *warnings], most=1) == [
        ("more", "11 more, which --verbose shows")
    ]
