"""Sources that are warped onto a grid in another CRS, read into a shard."""

import threading
import warnings
from copy import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from pixel_gather.core.errors import SourceError
from pixel_gather.core.model.grid_step import Resampling
from pixel_gather.core.model.status import Status
from pixel_gather.core.model.window import Transform, Window
from pixel_gather.core.plan.locate_window import Grid
from pixel_gather.core.plan.warped_grid import lay_warp, places_on
from pixel_gather.core.read.warp_pixels import WarpedBlock, _Maps, _positions, warp_pixels
from support.fakes import UTM, FakeImage, FakeProjector, FakeReader, header_of, table_of
from support.plans import planned
from support.read_rows import read_rows

type Pixels = np.ndarray[Any, np.dtype[Any]]

GRID = {"crs": "EPSG:32630", "resolution": 10}
BOX = {"bbox": [UTM.c + 40, UTM.f - 200, UTM.c + 160, UTM.f - 40], "crs": "EPSG:32631"}


def image(width: float, **more: Any) -> FakeImage:
    """Return an image of 240 m with pixels of this width."""
    n = round(240 / width)
    pixels = np.random.default_rng(1).integers(1, 999, (1, n, n), "uint16")
    transform = Transform(width, 0.0, UTM.c, 0.0, -width, UTM.f)
    return FakeImage(pixels=pixels, header={"transform": transform, "nodata": 0, **more})


def test_source_of_far_more_pixels_than_all_of_the_sample_is_unlike() -> None:
    """The plan has no memory for it. Somewhat more are read."""
    reader = FakeReader({"a": image(10)})
    plan = planned(reader, table_of("a"), window=BOX, grid=GRID)

    for width, status in ((9.5, Status.OK), (5, Status.UNLIKE)):
        other = FakeReader({"a": image(width)})
        _, (outcome,) = read_rows(plan, other, "a")
        assert outcome.status is status
        assert bool(other.windows) is (status is Status.OK)
    assert outcome.reason is not None
    assert outcome.reason.startswith("it has ")
    assert outcome.reason.endswith("by the sources that were sampled")


def test_row_keeps_the_nodata_of_the_cube_where_its_source_has_none() -> None:
    """It fills what lies beside the source, and is told with the row."""
    reader = FakeReader({"a": image(10)})
    plan = planned(reader, table_of("a"), window=BOX | {"bbox": [UTM.c - 30, *BOX["bbox"][1:]]}, grid=GRID)
    bare = FakeReader({"a": image(10, nodata=None)})

    pixels, (outcome,) = read_rows(plan, bare, "a")

    assert outcome.nodata == 0
    assert outcome.extent == (3, 0, 19, 16)
    assert not pixels[0][:, :3].any()
    np.testing.assert_array_equal(pixels[0][:, 3:], bare.images["a"].pixels[0, 4:20, :16])  # type: ignore[union-attr] # an image


def test_places_on_turned_pixels_are_their_columns_and_rows() -> None:
    """Also if rows and columns of a source do not run along its axes."""
    turned = Transform(8.0, 3.0, 100.0, 2.0, -9.0, 700.0)
    target = Grid(
        width=9, height=9, transform=Transform(1, 0, 90, 0, -1, 710), crs="a", tile_width=9, tile_height=9
    )
    own = Grid(width=9, height=9, transform=turned, crs="b", tile_width=9, tile_height=9)
    at_cols, at_rows = np.array([0.5, 30.5]), np.array([7.5, 2.5])

    cols, rows = places_on(target, own, at_cols, at_rows, FakeProjector(shift=4))

    for col, row, x, y in zip(cols, rows, 94 + at_cols, 710 - at_rows, strict=True):
        np.testing.assert_allclose(turned.xy(col, row), (x, y))


@pytest.mark.parametrize(("west", "longitude"), [(170.0, -175.0), (-190.0, 175.0), (170.0, 185.0)])
def test_longitudes_lie_within_half_a_turn_of_the_middle_of_a_source(west: float, longitude: float) -> None:
    """A source across 180 degrees has places whose longitudes are written in another way."""
    target = Grid(
        width=1,
        height=1,
        transform=Transform(1, 0, longitude, 0, -1, 0),
        crs="a",
        tile_width=1,
        tile_height=1,
    )
    own = replace(target, width=20, transform=Transform(1, 0, west, 0, -1, 0), crs="EPSG:4326")

    cols, _ = places_on(target, own, np.array([0.5]), np.array([0.5]), FakeProjector())

    assert cols.tolist() == [15.5 if west > 0 else 5.5]


@pytest.mark.parametrize(
    ("col", "row", "is_read"), [(4, 6, True), (6, 7, True), (3, 6, False), (7, 6, False)]
)
@pytest.mark.parametrize("is_turned", [False, True])
def test_a_place_beside_what_was_read_is_refused(
    col: int, row: int, *, is_read: bool, is_turned: bool
) -> None:
    """On each of the four sides. Otherwise another pixel would stand for it."""
    window = Window(col_off=4, row_off=6, width=3, height=2)
    if is_turned:
        window = Window(col_off=6, row_off=4, width=2, height=3)
        col, row = row, col
    cols, rows = np.array([window.col_off, col]), np.array([window.row_off, row])

    if is_read:
        places = [0, (row - window.row_off) * window.width + col - window.col_off]
        assert _positions(cols, rows, window).tolist() == places
    else:
        with pytest.raises(SourceError, match="places that do not lie between those of its edges"):
            _positions(cols, rows, window)


def turned_image(pixels: Pixels) -> FakeImage:
    """Return an image whose rows rise to the right, so that a window lies aslant on its tiles."""
    transform = Transform(9.0, -5.0, UTM.c + 200, -4.0, -9.5, UTM.f + 600)
    return FakeImage(pixels=pixels, header={"transform": transform, "nodata": 0})


@pytest.mark.long
@pytest.mark.parametrize("box", [(0, 0, 900, 700), (300, -900, 640, -520), (-900, -900, 0, 0)])
@pytest.mark.parametrize("resampling", ["nearest", "bilinear", "cubic"])
def test_only_tiles_that_change_a_pixel_are_read(resampling: str, box: tuple[int, int, int, int]) -> None:
    """Every other pixel of the file may be any, and the row is the same."""
    window = {"bbox": [UTM.c + box[0], UTM.f + box[1], UTM.c + box[2], UTM.f + box[3]], "crs": "EPSG:32631"}
    grid = {"crs": "EPSG:32630", "resolution": 10, "resampling": resampling}
    pixels = np.random.default_rng(1).integers(1, 60_000, (1, 200, 240), "uint16")
    reader = FakeReader({"a": turned_image(pixels)})
    plan = planned(reader, table_of("a"), window=window, grid=grid)
    found, (outcome,) = read_rows(plan, reader, "a")
    assert outcome.status is Status.OK

    is_read = np.zeros(pixels.shape[1:], int)
    for _, part, _ in reader.windows:
        is_read[part.row_off : part.row_stop, part.col_off : part.col_stop] += 1
    assert is_read.max() == 1  # no pixel twice
    tiles = [(slice(y, y + 16), slice(x, x + 16)) for y in range(0, 200, 16) for x in range(0, 240, 16)]
    read_tiles = [tile for tile in tiles if is_read[tile].any()]
    assert 3 < len(read_tiles) < len(tiles) - 20
    for tile in tiles:
        others = pixels.copy()
        others[0][tile] ^= 0x0FFF
        changed, _ = read_rows(plan, FakeReader({"a": turned_image(others)}), "a")
        assert np.array_equal(changed, found) is (tile not in read_tiles)


def block(n: int) -> WarpedBlock:
    """Return a block of this many bytes."""
    return WarpedBlock(index=np.zeros(n // 4, np.int32), inside=None, extent=None)


def test_map_is_made_once_for_all_threads_and_kept_while_there_is_room() -> None:
    """The one that was used least recently goes first."""
    maps, made, at_once = _Maps(1000), [], threading.Barrier(3)

    def make(name: str) -> WarpedBlock:
        made.append(name)
        return block(400)

    def get() -> None:
        at_once.wait(5)
        maps.get("a", partial(make, "a"))

    threads = [threading.Thread(target=get) for _ in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert made == ["a"]

    for name in "babcab":
        maps.get(name, partial(make, name))
    assert made == ["a", "b", "c", "a", "b"]


def warped_aside(pixels: Pixels, *, resampling: Resampling, nodata: float | None = None) -> Pixels:
    """Return pixels on a grid whose middles lie 0.25 of a pixel right of theirs, and 0.375 below."""
    height, width = pixels.shape
    place = Transform(1.0, 0.0, 0.25, 0.0, -1.0, -0.375)
    target = Grid(width=width - 1, height=height - 1, transform=place, crs="a", tile_width=9, tile_height=9)
    header = header_of(pixels[None], "a", transform=Transform(1.0, 0.0, 0.0, 0.0, -1.0, 0.0), crs="a")
    out = np.empty((1, height - 1, width - 1), pixels.dtype)
    warp = lay_warp(header, target, FakeProjector())
    warp_pixels(
        pixels[None],
        out,
        warp=warp,
        resampling=resampling,
        nodata=nodata,
        fill_value=0 if nodata is None else nodata,
        projector=FakeProjector(),
    )
    found: Pixels = out[0]
    return found


def test_cubic_means_are_exact_for_parabolas() -> None:
    """As Keys shows for his kernel. At the edges of a source they are bilinear."""
    rows, cols = np.mgrid[:9, :12] + 0.0

    found = warped_aside(2 * cols**2 - 3 * cols * rows + rows**2 + 7, resampling="cubic")

    cols, rows = cols[:-1, :-1] + 0.25, rows[:-1, :-1] + 0.375
    expected = 2 * cols**2 - 3 * cols * rows + rows**2 + 7
    np.testing.assert_allclose(found[1:-1, 1:-1], expected[1:-1, 1:-1], rtol=1e-12)
    of_four = warped_aside(2 * np.mgrid[:9, :12][1] ** 2.0, resampling="bilinear")
    beside = warped_aside(2 * np.mgrid[:9, :12][1] ** 2.0, resampling="cubic")
    for edge in (np.s_[0], np.s_[-1], np.s_[:, 0], np.s_[:, -1]):
        np.testing.assert_array_equal(beside[edge], of_four[edge])
    assert not np.isclose(beside[1:-1, 1:-1], of_four[1:-1, 1:-1]).any()


def test_cubic_means_beside_a_missing_pixel_are_bilinear() -> None:
    """All whose 4 x 4 pixels hold it, and no others."""
    pixels = np.random.default_rng(3).integers(1, 1000, (12, 14)) + 0.0
    bare, pixels[5, 7] = pixels.copy(), -1

    found = warped_aside(pixels, resampling="cubic", nodata=-1)

    is_beside = np.zeros(found.shape, dtype=bool)
    is_beside[3:7, 5:9] = True
    np.testing.assert_array_equal(
        found[is_beside], warped_aside(pixels, resampling="bilinear", nodata=-1)[is_beside]
    )
    np.testing.assert_array_equal(found[~is_beside], warped_aside(bare, resampling="cubic")[~is_beside])


def test_cubic_means_end_at_the_last_numbers_of_a_dtype() -> None:
    """Beside a step they would lie beyond both pixels."""
    pixels = np.where(np.arange(10) < 5, 0, 255) * np.ones((8, 1))

    as_bytes = warped_aside(pixels.astype("uint8"), resampling="cubic")
    as_floats = warped_aside(pixels, resampling="cubic")

    assert as_floats.min() < 0
    assert as_floats.max() > 255
    np.testing.assert_array_equal(as_bytes, np.floor(np.clip(as_floats, 0, 255) + 0.5))


@pytest.mark.parametrize("resampling", ["bilinear", "cubic"])
@pytest.mark.parametrize("nodata", [-np.inf, None])
def test_infinite_pixels_are_warped_without_a_warning(resampling: Resampling, nodata: float | None) -> None:
    """Also if they mark what is missing."""
    pixels = np.random.default_rng(1).random((12, 14))
    pixels[3, 4], pixels[8, 8], pixels[8, 9] = -np.inf, np.inf, -np.inf

    with warnings.catch_warnings(action="error"):
        found = warped_aside(pixels, resampling=resampling, nodata=nodata)

    assert 0 < np.isfinite(found).mean() < 1
