"""What plan and run print in few lines."""

import pytest

from pixel_gather.core.plan.cube_plan import OVERHANG_IS_ZERO
from pixel_gather_cli.details import WARNING, Line, in_few_lines

STRIPS = "8 of 8 sampled sources of band {} are stored in strips, not tiles"
OTHER_GRID = (
    "7 of 8 sampled sources of band {} lie on another grid, such as {}.tif: their status will be unlike"
)
OF_BANDS = [
    (WARNING, text.format(band, band)) for band in ("B2", "B4", "B5") for text in (STRIPS, OTHER_GRID)
]


def test_what_is_said_of_several_bands_is_one_line() -> None:
    """With the names of all of them, and the example of the first."""
    striped, elsewhere = (text for _, text in in_few_lines(OF_BANDS, most=5))

    assert striped == STRIPS.format("B2, B4, B5").replace(" band ", " bands ")
    assert elsewhere == OTHER_GRID.format("B2, B4, B5", "B2").replace(" band ", " bands ")


def test_other_numbers_of_sources_are_other_lines() -> None:
    """A line must not say of a band what is not so."""
    told = [(WARNING, STRIPS.format("B2")), (WARNING, STRIPS.format("B4").replace("8 of 8", "1 of 8"))]

    assert in_few_lines(told, most=5) == told


@pytest.mark.parametrize(
    ("remarks", "first", "last"),
    [
        (
            [*((WARNING, f"remark {n}") for n in range(9)), (WARNING, OTHER_GRID.format("B2", "B2"))],
            (WARNING, OTHER_GRID.format("B2", "B2")),
            (WARNING, "8 more, which --verbose shows"),
        ),
        (
            [*(("  unlike", f"{n}: why") for n in range(9)), (WARNING, OVERHANG_IS_ZERO)],
            (WARNING, OVERHANG_IS_ZERO),
            ("  unlike", "8 more, which --verbose shows"),
        ),
        (
            [*(("  unlike", f"{n}: why") for n in range(9)), (WARNING, "a remark")],
            ("  unlike", "0: why"),
            ("more", "8 more, which --verbose shows"),
        ),
    ],
)
def test_what_pixels_mean_and_what_costs_sources_comes_first_if_lines_are_left_out(
    remarks: list[Line], first: Line, last: Line
) -> None:
    """The last line says how many are left out, under their label if they share one."""
    found = in_few_lines(remarks, most=3)

    assert (len(found), found[0], found[-1]) == (3, first, last)
