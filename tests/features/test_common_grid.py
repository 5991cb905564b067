"""Gathers of bands of different resolution: cubes equal rasterio's arrays under NumPy's repeat and means.

No layout, no order and no second try changes a pixel.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from rasterio.windows import Window

from pixel_gather import Settings, make_plan, replay, verify
from pixel_gather.core.errors import RequestError
from pixel_gather.core.model.status import Status
from support.resolutions import NORTH, RESOLUTIONS, SIDE, WEST, scenes, write_band
from support.undrawn import gather_undrawn, opened

type Pixels = np.ndarray[Any, np.dtype[Any]]

BOX = (WEST + 410, NORTH - 2030, WEST + 1730, NORTH - 590)
REQUEST: dict[str, Any] = {"window": {"bbox": BOX, "crs": "source"}}


def whole(file: str) -> Pixels:
    """Return all pixels of a file, as rasterio reads them."""
    with rasterio.open(file) as source:
        found: Pixels = source.read(1)
        return found


def mean_of_blocks(pixels: Pixels, over: int) -> Pixels:
    """Return the means of whole blocks without the missing pixels, rounded, halves up."""
    height, width = (length // over * over for length in pixels.shape)
    cut = pixels[:height, :width].astype("int64").reshape(height // over, over, width // over, over)
    n = (cut != 0).sum(axis=(1, 3))
    return np.where(n, (2 * cut.sum(axis=(1, 3)) + n) // np.maximum(2 * n, 1), 0)


def mode_of_blocks(pixels: Pixels, over: int) -> Pixels:
    """Return the most frequent class of whole blocks, without the missing pixels; the least of several."""
    height, width = (length // over for length in pixels.shape)
    cut = pixels[: height * over, : width * over].reshape(height, over, width, over)
    counts = np.stack([(cut == each).sum(axis=(1, 3)) for each in range(12)])
    counts[0] = np.where(counts[1:].any(axis=0), 0, counts[0])
    return counts.argmax(axis=0)


def cut(pixels: Pixels, resolution: int) -> Pixels:
    """Return the box's part of pixels of the grid."""
    west, south, east, north = BOX
    left, right = (west - WEST) // resolution, -(-(east - WEST) // resolution)
    top, bottom = (NORTH - north) // resolution, -(-(NORTH - south) // resolution)
    return pixels[top:bottom, left:right]


def expected(name: str, file: str, resolution: int) -> Pixels:
    """Return what the cube holds of a file."""
    own, width = whole(file), RESOLUTIONS[name]
    if width >= resolution:
        times = width // resolution
        return cut(own.repeat(times, axis=0).repeat(times, axis=1), resolution)
    over = resolution // width
    return cut((mode_of_blocks if name == "scl" else mean_of_blocks)(own, over), resolution)


@pytest.mark.long
@pytest.mark.parametrize("layout", ["balanced", {"chunk": [1, 16, 16], "shard_rows": 1}])
@pytest.mark.parametrize("resolution", [10, 60])
def test_cube_of_three_resolutions_equals_rasterio_and_numpy(
    tmp_path: Path, resolution: int, layout: Any
) -> None:
    """Bit for bit, for every band, in every layout. x and y are those of the grid."""
    sources = scenes(tmp_path, 3)
    request = REQUEST | {
        "sources": sources,
        "grid": {"resolution": "finest" if resolution == 10 else "coarsest"},
        "output": {"layout": layout},
    }

    gathered = gather_undrawn(request, to=tmp_path / "cube")

    cube = opened(tmp_path / "cube")
    assert gathered.report.n_failed == 0
    assert verify(tmp_path / "cube").is_same
    assert abs(float(cube.x[1] - cube.x[0])) == resolution
    assert float(cube.x[0]) == WEST + (410 // resolution + 0.5) * resolution
    assert float(cube.y[0]) == NORTH - (590 // resolution + 0.5) * resolution
    for row in sources["rows"]:
        at = int(row["scene"][1:])
        np.testing.assert_array_equal(
            cube[row["band"]].values[at], expected(row["band"], row["href"], resolution)
        )


@pytest.mark.long
def test_windows_in_strips_hold_the_same_pixels(tmp_path: Path) -> None:
    """A strip may begin within a pixel of a source."""
    request = REQUEST | {"sources": scenes(tmp_path, 2), "grid": {"resolution": 10}}
    gather_undrawn(request, to=tmp_path / "whole")
    narrow = Settings(max_task_nbytes=15_000)
    strips = request | {"output": {"layout": {"chunk": [1, 7, 132]}}}

    assert make_plan(strips, settings=narrow).n_strips > 5
    gather_undrawn(strips, to=tmp_path / "strips", settings=narrow)

    for name in RESOLUTIONS:
        np.testing.assert_array_equal(opened(tmp_path / "whole")[name], opened(tmp_path / "strips")[name])


def test_window_that_hangs_over_is_filled_there(tmp_path: Path) -> None:
    """The part inside is that of the source. A pixel of the grid that is not wholly inside is missing."""
    file = write_band(tmp_path, "red", 10, seed=1)
    east, south = WEST + SIDE, NORTH - SIDE
    request = {
        "sources": {"hrefs": [str(file)]},
        "window": {"bbox": [east - 250, south - 150, east + 90, south + 250], "crs": "source"},
        "grid": {"resolution": 50},
    }

    gathered = gather_undrawn(request, to=tmp_path / "cube")

    found = opened(tmp_path / "cube")["band_1"].values[0]
    blocks = mean_of_blocks(whole(str(file)), 5)
    assert gathered.report.n_overhanging == 1
    inside = blocks[(SIDE - 250) // 50 :, (SIDE - 250) // 50 :]
    assert found.shape == (9, 8)
    np.testing.assert_array_equal(found[: inside.shape[0], : inside.shape[1]], inside)
    assert not found[inside.shape[0] :].any()
    assert not found[:, inside.shape[1] :].any()


def test_neighbouring_tiles_of_one_zone_share_one_lattice(tmp_path: Path) -> None:
    """Both rows lie on the same x and y. One that is shifted is unlike, and its reason says by how much."""
    files = [
        write_band(tmp_path, "red", 10, seed=1),
        write_band(tmp_path, "red", 20, seed=2, shift=300),
        write_band(tmp_path, "red", 10, seed=3, shift=4),
    ]
    request = REQUEST | {"sources": {"hrefs": list(map(str, files))}, "grid": {"resolution": 10}}

    gathered = gather_undrawn(request, to=tmp_path / "cube")

    cube = opened(tmp_path / "cube")
    assert gathered.report.is_aligned
    assert cube.status.values.tolist() == [Status.OK, Status.OK, Status.UNLIKE]
    (cause,) = gathered.report.causes
    assert cause.reason == (
        "its pixels lie 0.4 of a pixel along x and 0 along y beside those of the grid, and a gather "
        "shifts no pixel"
    )
    with rasterio.open(files[1]) as source:
        part = source.read(1, window=Window(5, 29, 67, 73))
    repeated = part.repeat(2, axis=0).repeat(2, axis=1)
    np.testing.assert_array_equal(cube["band_1"].values[1], repeated[1:145, 1:133])


@pytest.mark.long
def test_rows_that_are_added_lie_on_the_grid_of_the_cube(tmp_path: Path) -> None:
    """Also if they all come from coarser sources, and their request says nothing of a grid."""
    sources = scenes(tmp_path, 4)
    first, later = (
        {"rows": [each for each in sources["rows"] if (each["scene"] < "s2") is early]}
        for early in (True, False)
    )
    request = REQUEST | {"grid": {"resolution": "finest"}}
    gather_undrawn(request | {"sources": sources}, to=tmp_path / "whole")

    gather_undrawn(request | {"sources": first}, to=tmp_path / "cube")
    append = REQUEST | {"sources": later, "output": {"append_to": str(tmp_path / "cube")}}
    assert gather_undrawn(append).n_appended == 2

    for name in RESOLUTIONS:
        np.testing.assert_array_equal(opened(tmp_path / "whole")[name], opened(tmp_path / "cube")[name])
    assert verify(tmp_path / "cube").is_same
    with pytest.raises(RequestError, match="the cube has pixels of 10; the new rows would have pixels of 20"):
        gather_undrawn(append | {"sources": scenes(tmp_path, 5), "grid": {"resolution": 20}})


@pytest.mark.long
def test_rows_that_failed_are_tried_again_on_the_grid(tmp_path: Path) -> None:
    """The second try puts the same pixels as a first one would have. The window of a tile stays in place."""
    sources = scenes(tmp_path, 2, {"scl": 20, "red": 10})
    request = {"sources": sources, "window": {"tile": [3, 4]}, "grid": {"resolution": 10}}
    gather_undrawn(request, to=tmp_path / "whole")
    lost = Path(sources["rows"][0]["href"])
    away = lost.rename(tmp_path / "away")
    gather_undrawn(request, to=tmp_path / "cube")
    assert opened(tmp_path / "cube").status.values.tolist() == [[Status.MISSING, 0], [0, 0]]

    away.rename(lost)
    gather_undrawn(request | {"output": {"append_to": str(tmp_path / "cube")}})

    assert not opened(tmp_path / "cube").status.values.any()
    for name in ("red", "scl"):
        np.testing.assert_array_equal(opened(tmp_path / "whole")[name], opened(tmp_path / "cube")[name])


def test_replay_reads_the_same_pixels(tmp_path: Path) -> None:
    """The receipt holds the grid."""
    request = REQUEST | {
        "sources": {"hrefs": [str(write_band(tmp_path, "red", 10, seed=1))]},
        "grid": {"resolution": 30},
    }
    gather_undrawn(request, to=tmp_path / "cube")

    receipt = json.loads((tmp_path / "cube/receipt.json").read_text())
    assert receipt["request"]["grid"] == {"resolution": 30.0}
    assert replay(tmp_path / "cube").counts == {"same": 1}
