"""Turns figures into SVG that takes its colours from the page."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pixel_gather.features.report.plots.drawn import Drawn


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """One figure of a page."""

    name: str
    title: str
    caption: str
    svg: str
    """An ``<svg>`` element in the page's colours. Its text is escaped."""


def plots_of(drawn: "Mapping[str, Drawn]") -> tuple[Plot, ...]:
    """Return figures of the light theme as parts of a page, in the same order."""
    if not drawn:
        return ()
    from pixel_gather.features.report.plots.files import to_svg  # noqa: PLC0415 # matplotlib
    from pixel_gather.features.report.plots.theme import themed_svg  # noqa: PLC0415 # as above

    return tuple(
        Plot(name=name, title=each.title, caption=each.caption, svg=themed_svg(to_svg(each.figure)))
        for name, each in drawn.items()
    )
