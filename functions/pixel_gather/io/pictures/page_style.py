"""What all pages share: how report, sheets of rankings, series and tables look, and their head."""

from functools import cache
from html import escape
from pathlib import Path
from typing import Final

from pixel_gather.io.atomic_write import replacing
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


def html_page(content: str, *, title: str, style: str, head_title: str | None = None) -> str:
    """Return a page that needs no other file.

    The title is plain text. The browser's tab shows it unless it has a title of its own. The style comes
    beside that of all pages.
    """
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="color-scheme" content="light dark"><title>{escape(head_title or title)}</title>'
        f"<style>{page_style()}{style}</style></head><body><main>\n<h1>{escape(title)}</h1>\n{content}"
        "</main></body></html>\n"
    )


def write_html(html: str, path: Path) -> None:
    """Write a page, or replace it.

    Raises:
        StoreError: The file cannot be written.
    """
    with replacing(path) as partial:
        partial.write_text(html, encoding="utf-8")
