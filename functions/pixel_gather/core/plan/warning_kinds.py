"""Kinds of warnings, by which a plan and a report put the gravest first.

A plan and a report store warnings as texts alone.
"""

from collections.abc import Iterable


class PixelWarning(str):
    """Pixels may mean something else than they seem to."""

    __slots__ = ()


class LossWarning(str):
    """Sources will give no pixels. Their status counts them, too."""

    __slots__ = ()


def gravest_first(warnings: Iterable[str]) -> tuple[str, ...]:
    """Return warnings as texts: first those on what pixels mean, then those on sources that are lost."""
    kinds = (PixelWarning, LossWarning)
    return tuple(map(str, sorted(warnings, key=lambda each: [not isinstance(each, kind) for kind in kinds])))
