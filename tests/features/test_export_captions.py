"""What stands on and below exported pictures, measured in their pixels."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from pixel_gather import export
from support.viewed_cubes import MISSING, SIDE, gathered_scenes

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
