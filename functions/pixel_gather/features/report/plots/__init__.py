"""Draws the figures of one or several runs by matplotlib. They are those of the report of 2018.

``draw_figures(runs, *, with_published, theme) -> dict[str, Drawn]`` returns them by name, in the page's
order. A figure that would be empty is left out. A `Drawn` has ``figure``, ``title`` and ``caption``.

``to_svg(figure) -> str`` and ``to_png(figure) -> bytes`` encode a figure. The ids in each SVG are unique,
so one page can hold several. A page with a light and a dark theme draws with ``LIGHT``, inlines
``themed_svg(svg)`` and defines the colours by ``css_variables(LIGHT)`` and ``css_variables(DARK)``. Other
figures are built with ``new_figure``, ``finish_axes``, ``legend`` and ``short_label``. Text from outside
must pass ``short_label``. Importing this package imports matplotlib.
"""

from pixel_gather.features.report.plots.axes import finish_axes, legend, new_figure
from pixel_gather.features.report.plots.draw import draw_figures
from pixel_gather.features.report.plots.drawn import Drawn
from pixel_gather.features.report.plots.files import to_png, to_svg
from pixel_gather.features.report.plots.labels import short_label
from pixel_gather.features.report.plots.theme import DARK, LIGHT, Theme, css_variables, themed_svg

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
