"""Lays out a table for a terminal. Pure."""

from collections.abc import Iterator, Sequence


def in_columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield a line for each row, its cells flush left. A column is as wide as its widest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
