"""Which pixels of a source a suite reads, and which sources it does not."""

import pytest

from pixel_gather.core.errors import SourceError
from pixel_gather.core.model.status import Status
from pixel_gather.core.model.window import Window
from pixel_gather_bench.suite.target import Raster, Target, tile_window

RASTER = Raster(height=1000, width=700, tile_height=256, tile_width=128, n_bands=2, dtype="uint16")


@pytest.mark.parametrize(
    ("tile", "window"),
    [
        (None, Window(col_off=256, row_off=256, width=128, height=256)),
        ((0, 0), Window(col_off=0, row_off=0, width=128, height=256)),
        ((3, 5), Window(col_off=640, row_off=768, width=60, height=232)),
        ((4, 0), None),
        ((0, 6), None),
    ],
)
def test_tile_window_is_the_part_of_the_tile_on_the_raster(
    tile: tuple[int, int] | None, window: Window | None
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
    target = Target(tile=(1, 1), band=2, shape=(256, 128), dtype="uint16")

    with pytest.raises(SourceError, match=reason) as caught:
        target.window_on(raster, href="file:///a.tif")

    assert caught.value.status is status
    assert target.nbytes == 256 * 128 * 2
