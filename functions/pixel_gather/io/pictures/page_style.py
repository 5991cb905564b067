"""The look that all pages share: report, sheets of rankings."""

from functools import cache
from pathlib import Path
from typing import Final

from pixel_gather.io.pictures.theme import DARK, LIGHT, css_variables

_STYLE: Final = Path(__file__).parent / "look.css"


@cache
def page_style() -> str:
    """Return CSS: the colours of both themes, and how text, tables, pictures and colour bars look.

    A page is light or dark as its reader prefers. ``data-theme`` on the root element overrules that. Paper is
    light.
    """
    light = f"color-scheme: light; {css_variables(LIGHT)}"
    dark = f"color-scheme: dark; {css_variables(DARK)}"
    not_light = ':root:not([data-theme="light"])'
    chosen = ':root[data-theme="dark"]'
    return (
        f":root {{ {light} }}\n@media (prefers-color-scheme: dark) {{ {not_light} {{ {dark} }} }}\n"
        f"{chosen} {{ {dark} }}\n@media print {{ :root, {chosen}, {not_light} {{ {light} }} }}\n"
        + _STYLE.read_text(encoding="utf-8")
    )
