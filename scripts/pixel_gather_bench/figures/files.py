"""A figure with its words, as SVG with selectable text and as PNG at twice the page's size. Reproducible.

A figure is drawn once, in light colours. In a page they become those of the page.
"""

import io
import re
import warnings
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

import matplotlib as mpl
from matplotlib.figure import Figure

from pixel_gather.features.report.page import Plot
from pixel_gather.io.pictures.theme import LIGHT, PREFIX

if TYPE_CHECKING:
    from matplotlib.typing import RcKeyType

_PNG_DPI: Final = 192
_RC: Final[dict["RcKeyType", Any]] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "pixel-gather",
    "font.family": ["sans-serif"],
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Helvetica", "Arial", "sans-serif"],
}
"""matplotlib measures text with its own DejaVu, which is at least as wide as a page's fallback fonts."""

_FOR_ALL_ELEMENTS: Final = re.compile(r"\s*<defs>\s*<style[^>]*>\*\{([^}]*)\}</style>\s*</defs>")
_WRITING: Final = Lock()
"""matplotlib reads these settings only from its global state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A figure that is ready to be written."""

    figure: Figure
    title: str
    """Plain text without names from outside."""

    caption: str
    """What the figure shows and how it was measured. Plain text."""


@contextmanager
def _writing() -> Iterator[None]:
    """Write one figure at a time with our settings."""
    with _WRITING, mpl.rc_context(_RC), warnings.catch_warnings():
        # for names in other scripts, pages find fonts and PNGs show boxes
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        warnings.filterwarnings("ignore", message="Matplotlib currently does not support .* natively")
        yield


def to_svg(figure: Figure) -> str:
    """Return a figure as an ``<svg>`` element, without XML declaration, to stand in a page or a file.

    Its ids are like those of no other figure, its style touches nothing beside it, and it refers to nothing
    outside itself.
    """
    written = io.StringIO()
    with _writing():
        _lay_out(figure)
        # no date and no address, so that equal figures are equal files
        figure.savefig(written, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    svg = written.getvalue()
    return _with_own_ids(_with_short_numbers(_with_own_style(svg[svg.index("<svg") :])))


def to_png(figure: Figure) -> bytes:
    """Return a figure as PNG with 192 pixels per inch."""
    written = io.BytesIO()
    with _writing():
        _lay_out(figure)
        figure.savefig(written, format="png", dpi=_PNG_DPI, metadata={"Software": None})
    return written.getvalue()


def put_figure(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write ``name.png`` and ``name.svg``. Return the files."""
    png, svg = folder / f"{name}.png", folder / f"{name}.svg"
    png.write_bytes(to_png(figure))
    svg.write_text(to_svg(figure), encoding="utf-8")
    return [png, svg]


def write_figures(folder: Path, *, light: Mapping[str, Drawn], dark: Mapping[str, Drawn]) -> None:
    """Write figures as PNG and SVG. Dark ones are called ``name-dark``."""
    for suffix, figures in (("", light), ("-dark", dark)):
        for name, drawn in figures.items():
            put_figure(drawn.figure, folder, f"{name}{suffix}")


def make_plots(drawn: Mapping[str, Drawn]) -> tuple[Plot, ...]:
    """Return figures of the light theme as parts of a page, in the same order."""
    return tuple(
        Plot(name=name, title=each.title, caption=each.caption, svg=themed_svg(to_svg(each.figure)))
        for name, each in drawn.items()
    )


def themed_svg(svg: str) -> str:
    """Replace the colours of ``LIGHT`` in an SVG by the CSS variables of the page around it."""
    names = {getattr(LIGHT, field.name): field.name for field in fields(LIGHT)}
    colours = re.compile(f'(?<=: )({"|".join(names)})(?=[;"])', re.IGNORECASE)
    return colours.sub(lambda colour: f"var({PREFIX}{names[colour[1].lower()]})", svg)


def _lay_out(figure: Figure) -> None:
    """Place the axes once. matplotlib would draw the whole figure for it each time that it is written."""
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)
        figure.set_layout_engine(None)


def _with_own_style(svg: str) -> str:
    """Move the style rule for ``*`` to the root element, or it would apply to the whole page."""
    rule = _FOR_ALL_ELEMENTS.search(svg)
    if rule is None:
        return svg
    return svg.replace(rule[0], "", 1).replace("<svg ", f'<svg style="{rule[1]}" ', 1)


def _with_short_numbers(svg: str) -> str:
    """Round coordinates to hundredths of a point. That halves the file and cannot be seen."""
    upright = re.sub(r' transform="rotate\(-0 [^"]*"', "", svg)
    return re.sub(
        r'(?<= )(d|x|y|width|height|transform)="[^"]*"',
        lambda attribute: re.sub(r"(\d\.\d\d)\d+", r"\1", attribute[0]),
        upright,
    )


def _with_own_ids(svg: str) -> str:
    prefix = f"f{zlib.crc32(svg.encode()):08x}-"
    return re.sub(r'( id="|url\(#|href="#)', rf"\g<1>{prefix}", svg)
