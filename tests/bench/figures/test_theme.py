"""The colours of figures."""

import re
from itertools import combinations

import numpy as np
import pytest
from msgspec.structs import asdict

from pixel_gather.io.pictures.theme import DARK, LIGHT, Theme, css_variables
from pixel_gather_bench.figures.look import themed_svg

THEMES = pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
LINES = ("blue", "vermilion", "green", "purple", "brown", "published", "quiet")

# how eyes without one kind of cone see linear light: Machado, Oliveira and Fernandes, 2009
SIGHTS = {
    "all cones": np.eye(3),
    "no red": np.array([[0.1523, 1.0526, -0.2049], [0.1145, 0.7863, 0.0992], [-0.0039, -0.0481, 1.0520]]),
    "no green": np.array([[0.3673, 0.8606, -0.2280], [0.2801, 0.6725, 0.0474], [-0.0118, 0.0429, 0.9689]]),
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
WHITE = TO_XYZ.sum(axis=1)


def linear(colour: str) -> np.ndarray:
    """Return the linear light of a colour, red, green and blue from 0 to 1."""
    values = np.array([int(colour[start : start + 2], 16) for start in (1, 3, 5)]) / 255
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours by WCAG, from 1 on."""
    dark, light = sorted(float(TO_XYZ[1] @ linear(colour)) for colour in (one, other))
    return (light + 0.05) / (dark + 0.05)


def lab(light: np.ndarray) -> np.ndarray:
    """Return linear light in CIELAB, where a distance of 10 is clearly visible."""
    x, y, z = np.cbrt((TO_XYZ @ light.clip(1e-4, 1)) / WHITE)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@THEMES
def test_lines_and_words_stand_out_from_the_background(theme: Theme) -> None:
    """Lines and marks have WCAG's contrast of 3:1, and words 4.5:1."""
    for name in LINES:
        assert contrast(getattr(theme, name), theme.background) >= 3, name
    for name in ("text", "muted"):
        assert contrast(getattr(theme, name), theme.background) >= 4.5, name


@THEMES
@pytest.mark.parametrize("sight", SIGHTS)
def test_lines_differ_for_every_sight(theme: Theme, sight: str) -> None:
    """Readers without red or green cones can distinguish two lines."""
    seen = {name: lab(SIGHTS[sight] @ linear(getattr(theme, name))) for name in LINES}

    for one, other in combinations(seen, 2):
        assert np.linalg.norm(seen[one] - seen[other]) >= 10, (one, other)


@THEMES
def test_every_colour_is_unlike_the_others(theme: Theme) -> None:
    """Each role has a colour of its own, so that a page can change it."""
    colours = list(asdict(theme).values())

    assert len(set(colours)) == len(colours)
    assert all(re.fullmatch("#[0-9a-f]{6}", colour) for colour in colours)


def test_themed_svg_refers_to_variables_that_css_defines() -> None:
    """Every colour in an SVG's styles becomes a CSS variable. Text is not changed."""
    svg = f'<path style="fill: {LIGHT.blue}; stroke: {LIGHT.grid.upper()}"/><text>{LIGHT.blue}</text>'

    themed = themed_svg(svg)

    used = set(re.findall(r"var\((--[a-z-]+)\)", themed))
    assert used == {"--figure-blue", "--figure-grid"}
    assert used <= set(re.findall(r"(--[a-z-]+): #", css_variables(DARK)))
    assert themed.endswith(f"<text>{LIGHT.blue}</text>")
