"""Short forms of results, as Python and notebooks show them. Pure."""

import re
from collections.abc import Iterable, Sequence
from typing import Final
from urllib.parse import quote, unquote_to_bytes

_WIDTH: Final = 100
_MOST: Final = 5
_LEFT: Final = 'style="text-align: left"'
_ENCODED: Final = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_MOST_WHOLE: Final = 2**53
"""Below it, float64 holds every whole number."""

_OF_AN_ADDRESS: Final = frozenset("%/?#")
"""Letters that mean something else in an address if they are not encoded."""


def shown(head: str, lines: Sequence[str] = (), *, most: int = _MOST) -> str:
    """Return a head and its first lines, each cut to the width of a terminal."""
    texts = [head, *lines[:most]]
    if len(lines) > most:
        texts.append(f"and {len(lines) - most:,} more")
    return "<" + "\n  ".join(_cut(each) for each in texts) + ">"


def facts_in_html(head: str, facts: Iterable[tuple[str, str]], notes: Sequence[str] = ()) -> str:
    """Return what a notebook shows of a result: a head, a table of names and values, and notes below.

    Args:
        head: One line.
        facts: Name and value of each line of the table.
        notes: Sentences, such as warnings.
    """
    below = "".join(f"<p>{_escape(note)}</p>" for note in notes)
    return f"<p><b>{_escape(head)}</b></p>{facts_table(facts)}{below}"


def facts_table(facts: Iterable[tuple[str, str]]) -> str:
    """Return names and values as an HTML table."""
    lines = "".join(
        f"<tr><th {_LEFT}>{_escape(name)}</th><td {_LEFT}>{_escape(value)}</td></tr>" for name, value in facts
    )
    return f"<table>{lines}</table>"


def table_in_html(head: str, titles: Sequence[str], rows: Iterable[Sequence[str]], *, below: str = "") -> str:
    """Return what a notebook shows of a list of results: a head, a table with titles, and a line below."""
    first = "".join(f'<th scope="col" {_LEFT}>{_escape(each)}</th>' for each in titles)
    lines = "".join(
        f"<tr>{''.join(f'<td {_LEFT}>{_escape(each)}</td>' for each in row)}</tr>" for row in rows
    )
    table = f"<table><tr>{first}</tr>{lines}</table>" if lines else ""
    last = f"<p>{_escape(below)}</p>" if below else ""
    return f"<p><b>{_escape(head)}</b></p>{table}{last}"


def linked(text: str, href: str | None) -> str:
    """Return a text as HTML, and as a link if the href is on the web. The text may be an href, too."""
    said = _escape(shown_href(text))
    if href is None or not href.startswith(("https://", "http://")):
        return said
    return f'<a href="{_escape(href)}" rel="noreferrer">{said}</a>'


def _escape(text: str) -> str:
    from html import escape  # noqa: PLC0415 # 1 ms of a worker's start

    return escape(text)


def shown_href(href: str) -> str:
    """Return an href for people to read: ``rain für.tif`` for ``rain%20f%C3%BCr.tif``.

    A list of sources may have this form, and means the same file. A link needs the href as it was. The
    letters ``%``, ``/``, ``?`` and ``#`` stay encoded: decoded, they would change the address.
    """
    if not href.startswith(("file://", "https://", "http://")):
        return href  # keys of buckets are never encoded
    path, mark, query = href.partition("?")
    return _ENCODED.sub(_decoded, path) + mark + query


def _decoded(found: re.Match[str]) -> str:
    try:
        text = unquote_to_bytes(found[0]).decode()
    except UnicodeDecodeError:
        return found[0]
    return "".join(
        each if each.isprintable() and each not in _OF_AN_ADDRESS else quote(each, safe="") for each in text
    )


def value_in_words(value: float) -> str:
    """Return a value of pixels to read or copy: six digits, or all of them of a whole number below 2**53."""
    return f"{value:.0f}" if abs(value) < _MOST_WHOLE and value == round(value) else f"{value:.6g}"


def first_few(names: Sequence[str]) -> str:
    """Return the first names, separated by commas."""
    return ", ".join([*names[:_MOST], *(["..."] if len(names) > _MOST else [])])


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _WIDTH else f"{line[: _WIDTH - 3]}..."
