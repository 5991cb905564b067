"""Tables as text: aligned for a terminal, or as Markdown."""

from collections.abc import Iterator, Sequence

type Rows = Sequence[Sequence[str]]


def aligned(rows: Rows) -> Iterator[str]:
    """Yield a line for each row: the first column flush left, the others flush right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for first, *others in rows:
        cells = (cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))
        yield "  ".join((first.ljust(widths[0]), *cells)).rstrip()


def markdown(rows: Rows) -> Iterator[str]:
    """Yield a table whose head is the first row."""
    head, *others = rows
    for row in (head, ["---"] * len(head), *others):
        yield f"| {' | '.join(row)} |"
