"""What stands on and below exported pictures, measured in their pixels."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from PIL import Image

from pixel_gather import PictureStyle, export, gather, join
from pixel_gather.features.export.cube_rows import CubeRows
from support.images import TILES_OF_64, write_image
from support.viewed_cubes import MISSING, SIDE, gathered_months, gathered_scenes

LINE = 18
WIDTH = 240
NAME = "scenes_of_the_valley_between_two_long_mountain_ranges"


@pytest.fixture(scope="module")
def cube(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the place of a cube in colour whose name is too long for a caption."""
    place = Path(gathered_scenes(tmp_path_factory.mktemp("scenes")).place)
    return place.rename(place.with_name(f"{NAME}.zarr"))


def frame(cube: Path, to: Path, row: int, **options: Any) -> Any:
    """Return the pixels of one frame of a film."""
    export(cube, to=to, **options)
    with Image.open(to) as film:
        film.seek(row)
        return np.asarray(film.convert("RGB")).astype(int)


@pytest.mark.long
def test_legend_says_which_band_is_which_colour(cube: Path, tmp_path: Path) -> None:
    """A line for each, with its swatch. The caption is below the picture."""
    pixels = frame(cube, tmp_path / "x.webp", 0)

    assert pixels.shape == (SIDE + 4 * LINE, WIDTH, 3)
    for channel in range(3):
        top = SIDE + (1 + channel) * LINE
        swatch = pixels[top + 8, 7]
        assert swatch.argmax() == channel
        assert swatch[channel] > 200
        assert (pixels[top : top + LINE, LINE:].max(axis=-1) < 100).any()


@pytest.mark.long
def test_reason_stands_in_the_middle_of_the_blank_picture(cube: Path, tmp_path: Path) -> None:
    """Also where the caption is wider than the picture."""
    blank = frame(cube, tmp_path / "x.webp", MISSING, measurements=["B08"])[:SIDE, :SIDE]
    down, across = np.nonzero(blank.max(axis=-1) < 100)

    assert abs(across.min() + across.max() - SIDE) < 6
    assert abs(down.min() + down.max() - SIDE) < 8


@pytest.mark.long
def test_long_name_is_cut_and_not_made_small(cube: Path, tmp_path: Path) -> None:
    """The time stands whole. The letters are as high as those of the line below, and end inside."""
    pixels = frame(cube, tmp_path / "x.webp", 0, measurements=["B08"])
    dark = pixels.max(axis=-1) < 120
    title, values = dark[SIDE : SIDE + LINE], dark[SIDE + LINE : SIDE + 2 * LINE, : WIDTH // 8]

    assert not title[:, -3:].any()
    assert title[:, WIDTH // 2 :].any()
    assert title.any(axis=1).sum() >= values.any(axis=1).sum() - 2


def grown_backwards(folder: Path) -> Path:
    """Gather days 1, 5 and 9 of January, then days 3 and 7. All pixels of an image are ten times the day."""
    place = folder / "x.zarr"
    for days, to in (((1, 5, 9), place), ((3, 7), None)):
        rows = [
            {
                "href": write_image(
                    folder / f"{day}.tif", np.full((64, 64), 10 * day, "uint8"), nodata=None, **TILES_OF_64
                ),
                "time": f"2024-01-{day:02}",
            }
            for day in days
        ]
        request: dict[str, Any] = {"sources": {"rows": rows}, "window": {"pixels": [0, 0, 64, 64]}}
        gather(request if to else request | {"output": {"append_to": str(place)}}, to=to)
    return place


@pytest.mark.parametrize("suffix", [".gif", ".png"])
def test_pictures_are_in_order_of_time_where_a_cube_has_grown_backwards(tmp_path: Path, suffix: str) -> None:
    """Rows that were added later may be earlier than those before them, and each keeps its own time."""
    place = grown_backwards(tmp_path)
    export(place, to=tmp_path / f"x{suffix}", style=PictureStyle(stretch=(0, 255)))

    with Image.open(tmp_path / f"x{suffix}") as found:
        if suffix == ".gif":
            frames = range(found.n_frames)  # type: ignore[attr-defined]
            greys = [np.asarray(_seek(found, n).convert("L"))[9, 9] for n in frames]
        else:
            greys = list(np.asarray(found.convert("L"))[9::364, 9::324].ravel()[:5])
    assert [int(each) for each in greys] == [10, 30, 50, 70, 90]


def _seek(film: Image.Image, frame: int) -> Image.Image:
    film.seek(frame)
    return film


def test_rows_in_order_of_time_keep_their_names(tmp_path: Path) -> None:
    """A part has rows whose positions ascend."""
    place = grown_backwards(tmp_path)
    rows = CubeRows.of(zarr.open_group(place, mode="r"), rows=None, measurements=())
    parts = list(rows.in_order_of_time())

    assert [part.rows.tolist() for part in parts] == [[0, 3], [1, 4], [2]]
    assert [part.names() for part in parts] == [
        ["2024-01-01", "2024-01-03"],
        ["2024-01-05", "2024-01-07"],
        ["2024-01-09"],
    ]


@pytest.mark.parametrize("first", [0, 5])
def test_caption_names_the_colour_of_missing_pixels(tmp_path: Path, first: int) -> None:
    """Only below a picture that has some: this grey is also one of a scale of greys."""
    pixels = np.full((64, 64), 5, "uint8")
    pixels[0, 0] = first
    image = write_image(tmp_path / "a.tif", pixels, nodata=0, **TILES_OF_64)
    request = {"sources": {"rows": [{"href": image, "time": "2024-01-01"}]}}
    place = tmp_path / "x.zarr"
    gather({**request, "window": {"pixels": [0, 0, 64, 64]}}, to=place)
    right = frame(place, tmp_path / "x.gif", 0)[320 : 320 + LINE, 160:]

    assert (right == 214).all(axis=-1).any() == (first == 0)


def test_caption_of_a_month_has_no_day(tmp_path: Path) -> None:
    """A median of a month is of no day."""
    place = gathered_months(tmp_path).place
    rows = CubeRows.of(zarr.open_group(place, mode="r"), rows=None, measurements=())

    assert rows.names()[:2] == ["2025-01", "2025-02"]
    join([place], to=tmp_path / "copy.zarr", mode="copy")
    copied = CubeRows.of(zarr.open_group(tmp_path / "copy.zarr", mode="r"), rows=None, measurements=())
    assert copied.names() == rows.names()
