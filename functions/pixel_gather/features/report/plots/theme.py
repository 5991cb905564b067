"""How figures of matplotlib take the colours of `pixel_gather.io.pictures.theme`.

A figure is drawn once, in light colours. In a page they become those of the page.
"""

import re
from dataclasses import fields
from typing import Final

from pixel_gather.io.pictures.theme import DARK, LIGHT, PREFIX, Theme, css_variables

__all__ = ["DARK", "LIGHT", "LINES", "MARKERS", "Theme", "css_variables", "themed_svg"]

MARKERS: Final = ("o", "s", "^", "v", "P")
LINES: Final = ("solid", (0, (6, 1.5)), (0, (2, 1.2)), (0, (6, 1.5, 1.5, 1.5)), (0, (1, 1)))
"""Line styles of matplotlib, so that series differ by more than colour."""


def themed_svg(svg: str) -> str:
    """Replace the colours of ``LIGHT`` in an SVG by the CSS variables of the page around it."""
    names = {getattr(LIGHT, field.name): field.name for field in fields(LIGHT)}
    colours = re.compile(f'(?<=: )({"|".join(names)})(?=[;"])', re.IGNORECASE)
    return colours.sub(lambda colour: f"var({PREFIX}{names[colour[1].lower()]})", svg)
