"""A figure and its words."""

from dataclasses import dataclass

from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """One figure, ready to be written."""

    figure: Figure
    title: str
    """Plain text, without names from outside."""

    caption: str
    """What is seen and how it was measured, in a sentence or two; plain text as the title."""
