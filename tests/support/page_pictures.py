"""Takes a picture of every page at each width, light and dark, for somebody to look at.

``PYTHONPATH=.:tests:scripts uv run python -m support.page_pictures FOLDER``.
"""

import sys
import tempfile
from pathlib import Path

from support.browser import opened_browser
from support.pages import SIZES, opened_pages


def take_pictures(folder: Path) -> None:
    """Write a PNG file of the whole page for each page, width and theme."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as made, opened_browser() as page, opened_pages(Path(made)) as pages:
        for name in pages:
            for width, height in SIZES:
                for theme in ("light", "dark"):
                    page.look(width=width, height=height, is_dark=theme == "dark")
                    pages.show(name, page)
                    (folder / f"{name.replace(' ', '_')}_{width}_{theme}.png").write_bytes(page.picture())


if __name__ == "__main__":
    take_pictures(Path(sys.argv[1]))
