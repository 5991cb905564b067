"""Which tiles hold the wanted pixels: against a plain loop, for few and for very many tiles."""

import numpy as np
import pytest

from pixel_gather.tables.sample_at_pixels import cut_runs
from support.fakes import header_of


@pytest.mark.parametrize(("side", "tile"), [(100, 16), (70, 16), (4200, 16)])
def test_each_pixel_is_in_one_run_at_its_place(side: int, tile: int) -> None:
    """Also beyond 65,536 tiles."""
    header = header_of(np.zeros((1, side, side), np.uint16), "a.tif", tile_width=tile, tile_height=tile)
    rng = np.random.default_rng(side)
    cols, rows = rng.integers(0, side, (2, 3000))
    cols[0] = rows[0] = side - 1

    runs = cut_runs(cols, rows, header)

    which = np.concatenate([run.which for run in runs])
    assert sorted(which.tolist()) == list(range(3000))
    for run in runs:
        window = run.window
        down, across = np.divmod(run.at, window.width)
        assert (down + window.row_off == rows[run.which]).all()
        assert (across + window.col_off == cols[run.which]).all()
        assert window.height <= tile
        assert window.row_off % tile == window.col_off % tile == 0
    boxes = {(run.window.col_off, run.window.row_off) for run in runs}
    assert len(boxes) == len(runs)
    n_tiles = len(set(zip((cols // tile).tolist(), (rows // tile).tolist(), strict=True)))
    assert sum(run.n_tiles for run in runs) == n_tiles
