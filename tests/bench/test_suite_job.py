"""The numbers that a suite is asked for, and the tile that it reads of every source."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixel_gather.core.errors import SourceError
from pixel_gather.core.model.status import Status
from pixel_gather.core.model.window import TileIndex, Window
from pixel_gather_bench.suite.job import MOST, Raster, TileTarget, parse_concurrencies, tile_window


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("12", (12,)),
        ("12,1, 4,12", (1, 4, 12)),  # sorted and each once
        ("1-4", (1, 2, 3, 4)),  # with both ends
        ("1-56:5", (1, 6, 11, 16, 21, 26, 31, 36, 41, 46, 51, 56)),
        ("auto,49,1-2", (1, 2, 49, None)),  # auto comes last
        ("auto", (None,)),
    ],
)
def test_parse_concurrencies_understands(text: str, numbers: tuple[int | None, ...]) -> None:
    """What the help shows is what is understood."""
    assert parse_concurrencies(text) == numbers


@pytest.mark.parametrize("text", ["", "0", "513", "5-1", "1-10:0", "-3", "1,,2", "many", "1-2-3", "1.5"])
def test_parse_concurrencies_refuses_naming_the_part(text: str) -> None:
    """No number that cannot be run slips through, nor is one guessed."""
    with pytest.raises(ValueError, match="'"):
        parse_concurrencies(text)


@pytest.mark.long
@given(st.sets(st.integers(1, MOST), min_size=1))
def test_parse_concurrencies_returns_what_was_written(numbers: set[int]) -> None:
    """Any set of numbers comes back, ascending."""
    assert parse_concurrencies(",".join(map(str, numbers))) == tuple(sorted(numbers))


RASTER = Raster(height=1000, width=700, tile_height=256, tile_width=128, n_bands=2, dtype="uint16")


@pytest.mark.parametrize(
    ("tile", "window"),
    [
        (None, Window(col_off=256, row_off=256, width=128, height=256)),
        (TileIndex(column=0, row=0), Window(col_off=0, row_off=0, width=128, height=256)),
        (TileIndex(column=5, row=3), Window(col_off=640, row_off=768, width=60, height=232)),
        (TileIndex(column=0, row=4), None),
        (TileIndex(column=6, row=0), None),
    ],
)
def test_tile_window_is_the_part_of_the_tile_on_the_raster(
    tile: TileIndex | None, window: Window | None
) -> None:
    """Rows are rows and columns are columns, also where tiles are not square and at the edges."""
    assert tile_window(RASTER, tile) == window


@pytest.mark.parametrize(
    ("raster", "status", "reason"),
    [
        (RASTER._replace(n_bands=1), Status.UNLIKE, "it has 1 band"),
        (RASTER._replace(dtype="float32"), Status.UNLIKE, "it is float32, the others uint16"),
        (RASTER._replace(tile_width=256), Status.UNLIKE, "256 x 256, the others 256 x 128"),
        (RASTER._replace(height=200), Status.OUTSIDE, "outside its 200 x 700"),
    ],
)
def test_window_on_refuses_what_does_not_fit_between_the_others(
    raster: Raster, status: Status, reason: str
) -> None:
    """All windows lie in one array, whatever the engine."""
    target = TileTarget(tile=TileIndex(column=1, row=1), band=2, shape=(256, 128), dtype="uint16")

    with pytest.raises(SourceError, match=reason) as caught:
        target.window_on(raster, href="file:///a.tif")

    assert caught.value.status is status
    assert target.nbytes == 256 * 128 * 2
