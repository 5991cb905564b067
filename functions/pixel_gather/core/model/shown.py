"""Short forms of results, as Python shows them. Pure."""

from collections.abc import Sequence
from typing import Final

_WIDTH: Final = 100
_MOST: Final = 5


def shown(head: str, lines: Sequence[str] = (), *, most: int = _MOST) -> str:
    """Return a head and its first lines, each cut to the width of a terminal."""
    texts = [head, *lines[:most]]
    if len(lines) > most:
        texts.append(f"and {len(lines) - most:,} more")
    return "<" + "\n  ".join(_cut(each) for each in texts) + ">"


def first_few(names: Sequence[str]) -> str:
    """Return the first names, separated by commas."""
    return ", ".join([*names[:_MOST], *(["..."] if len(names) > _MOST else [])])


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _WIDTH else f"{line[: _WIDTH - 3]}..."
