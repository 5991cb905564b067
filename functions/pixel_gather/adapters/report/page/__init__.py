"""The page of a gather or of several runs: one HTML file with all its figures and pictures, for any browser.

``page_of`` is for one gather, ``comparison_of`` for several runs. Everything that comes from requests and
lists is escaped by the template; the page's own policy lets it load nothing and run its one script alone.
"""

from pixel_gather.adapters.report.page.page import comparison_of, page_of

__all__ = ["comparison_of", "page_of"]
