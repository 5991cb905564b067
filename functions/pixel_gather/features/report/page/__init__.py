"""Renders the page of a gather or of several runs: one HTML file with all figures and pictures.

``page_of`` is for one gather, ``comparison_of`` for several runs. The template escapes all text from requests
and lists. The page's content security policy allows its own script only, and lets it load nothing.
"""

from pixel_gather.features.report.page.page import Plot, comparison_of, page_of

__all__ = ["Plot", "comparison_of", "page_of"]
