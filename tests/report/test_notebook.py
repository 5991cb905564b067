"""What a notebook shows of a finished gather."""

import base64
import io
import re
from copy import replace
from typing import Any

import numpy as np
import pytest
from PIL import Image as Pillow

from pixel_gather.core.errors import StoreError
from pixel_gather.features.report.notebook import notebook_html
from support.report_cubes import REPORT, MadeCube

THREE = {"red": frozenset[int](), "green": frozenset({0}), "blue": frozenset[int]()}


def shown(store: Any, *names: str, place: str = "rain.zarr", page: str | None = None) -> str:
    """Return the HTML for a cube in a store."""
    report = replace(REPORT, measurements=names, dtypes=("uint16",) * len(names), shape=(10, 16, 32))
    return notebook_html(lambda: store, report, place=place, page=page)


def picture_in(html: str) -> Any:
    """Return the picture, shape (y, x, 4)."""
    (uri,) = re.findall(r'src="data:image/webp;base64,([^"]+)"', html)
    return np.asarray(Pillow.open(io.BytesIO(base64.standard_b64decode(uri))).convert("RGBA"))


def test_notebook_shows_the_first_picture_and_a_table() -> None:
    """Nodata is transparent. The table says where the cube and its report are."""
    html = shown(MadeCube(failed=frozenset({0})).stored(), "band_1", page="rain.zarr/report.html")

    pixels = picture_in(html)
    assert pixels.shape == (8, 16, 4)
    assert (pixels[:2, :2, 3] == 0).all()
    assert (np.diff(pixels[4, :, 0].astype(int)) >= 0).all()
    assert 'alt="band_1, row 1"' in html
    for name, value in (
        ("shape", "10 rows of 16 x 32 pixels"),
        ("measurements", "band_1 (uint16)"),
        ("report", "rain.zarr/report.html"),
        ("all pixels", ".view(), or in a terminal: pixel-gather view rain.zarr"),
    ):
        assert re.search(f">{name}</th><td[^>]*>{re.escape(value)}</td>", html)


def test_notebook_shows_red_green_and_blue_of_the_first_row_that_has_all() -> None:
    """The first row has no green."""
    assert 'alt="red, green, blue, row 1"' in shown(MadeCube(bands=THREE).stored(), *THREE)


def test_notebook_shows_the_colours_that_the_files_say() -> None:
    """Bands without names are put in their order, as in the report."""
    said = {"a": "blue", "b": "green", "c": "red"}
    cube = MadeCube(
        bands=dict.fromkeys(said, frozenset[int]()),
        said={name: {"color_interpretation": colour} for name, colour in said.items()},
    )

    assert 'alt="c, b, a, row 0"' in shown(cube.stored(), *said)


def test_notebook_shows_classes_in_their_colours() -> None:
    """They are not stretched."""
    said = {"flag_values": [100, 130], "flag_meanings": "a b", "flag_colors": "#ff0000 #00ff00"}

    pixels = picture_in(shown(MadeCube(said={"band_1": said}).stored(), "band_1"))

    assert pixels[-1, 0].tolist() == [255, 0, 0, 255]
    assert pixels[-1, -1].tolist() == [0, 255, 0, 255]


@pytest.mark.parametrize("names", [("band_1",), ("red", "green", "blue")])
def test_notebook_without_quicklooks_shows_the_table(names: tuple[str, ...]) -> None:
    """Very small windows have none."""
    html = shown(MadeCube(has_quicklooks=False).stored(), *names)

    assert "<img" not in html
    assert "10 rows" in html


def test_notebook_shows_the_table_of_a_cube_that_is_away() -> None:
    """Nothing is raised: the gather is done, and its figures are known."""

    def open_() -> Any:
        raise StoreError("no cube is there")

    html = notebook_html(open_, REPORT, place="<script>.zarr", page=None)

    assert "<img" not in html
    assert "&lt;script&gt;.zarr" in html
    assert "<script>" not in html
