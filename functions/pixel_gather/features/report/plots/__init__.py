"""Draws the figures of one or several runs by matplotlib. They are those of the report of 2018.

``draw_figures(runs, *, with_published, theme) -> dict[str, Drawn]`` returns them by name, in the page's
order. A figure that would be empty is left out. A `Drawn` has ``figure``, ``title`` and ``caption``.

``to_svg(figure) -> str`` and ``to_png(figure) -> bytes`` encode a figure. The ids in each SVG are unique,
so one page can hold several. A page with a light and a dark theme draws with ``LIGHT``, inlines
``themed_svg(svg)`` and defines the colours by ``css_variables(LIGHT)`` and ``css_variables(DARK)``. Other
figures are built with ``new_figure``, ``finish_axes``, ``legend`` and ``short_label``. Text from outside
must pass ``short_label``.
"""
