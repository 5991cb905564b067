"""The figures of one run or of several, by matplotlib: those of the report of 2018, with our runs in them.

``draw_figures(runs, *, with_published, theme) -> dict[str, Drawn]``: by name, in the page's order, only
those that the runs fill (never an empty one). A `Drawn` has ``figure``, ``title`` and ``caption``.

``to_svg(figure) -> str`` and ``to_png(figure) -> bytes`` write one; an SVG's ids are its own,
so several fit into one page. A page that follows its reader's choice of light or dark draws with
``LIGHT``, inlines ``themed_svg(svg)`` and defines the colours by ``css_variables(LIGHT)``
and ``css_variables(DARK)``. Other figures are built with ``new_figure``, ``finish_axes``,
``legend`` and ``short_label`` (any text from outside passes through it), then written as above.
Importing this package imports matplotlib.
"""

from pixel_gather.adapters.report.plots.axes import finish_axes, legend, new_figure
from pixel_gather.adapters.report.plots.draw import draw_figures
from pixel_gather.adapters.report.plots.drawn import Drawn
from pixel_gather.adapters.report.plots.files import to_png, to_svg
from pixel_gather.adapters.report.plots.labels import short_label
from pixel_gather.adapters.report.plots.theme import DARK, LIGHT, Theme, css_variables, themed_svg

__all__ = [
    "DARK",
    "LIGHT",
    "Drawn",
    "Theme",
    "css_variables",
    "draw_figures",
    "finish_axes",
    "legend",
    "new_figure",
    "short_label",
    "themed_svg",
    "to_png",
    "to_svg",
]
