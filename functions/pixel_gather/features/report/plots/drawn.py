"""A figure with its title and caption."""

from dataclasses import dataclass

from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A figure that is ready to be written."""

    figure: Figure
    title: str
    """Plain text without names from outside."""

    caption: str
    """What the figure shows and how it was measured. Plain text."""
