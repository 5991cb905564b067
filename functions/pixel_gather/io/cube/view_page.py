"""The page that shows a cube's pixels in a browser. It lies beside the cube and reads it by range requests.

``scripts/viewer`` has its source. ``scripts/build_viewer.py`` builds it. docs/view.md describes it.
"""

from pathlib import Path
from typing import Final

BUILT_PAGE: Final = Path(__file__).parent / "view.html"


def view_page() -> bytes:
    """Return the page. It is the same for every cube."""
    return BUILT_PAGE.read_bytes()
