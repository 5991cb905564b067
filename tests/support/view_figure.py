"""Makes docs/figures/view.png, the page of all pixels, in the browser of the tests.

``PYTHONPATH=tests uv run python -m support.view_figure``. The cube is that of the made-up valley.
"""

import base64
import sys
import tempfile
from pathlib import Path
from typing import Final

from pixel_gather.features.view.view import serving_cube
from support.browser import CHARTED, opened_browser
from support.local_server import in_thread
from support.viewed_cubes import gathered_valley

_FIGURE: Final = Path(__file__).parents[2] / "docs" / "figures" / "view.png"
_VIEW: Final = "row=5&rgb=nir,red,green&part=50,100,30,30"
_HIDE_FOLDERS: Final = "document.getElementById('href').textContent = 'file:///data/valley_005_nir.tif'"
"""Hides the names of this machine's folders."""


def view_picture(folder: Path) -> bytes:
    """Return the page as PNG: a rectangle is chosen, and the pointer lies on a pixel."""
    place = gathered_valley(folder, n_rows=9).place
    with serving_cube(place) as server, in_thread(server), opened_browser() as page:
        page.look(width=1440, height=900)
        page.open_(f"{server.url}#{_VIEW}", until=CHARTED)
        page.wait("document.getElementById('href').textContent")
        page.send("Input.dispatchMouseEvent", type="mouseMoved", x=420, y=300)
        page.wait("document.getElementById('probe').textContent.includes('nir')")
        page.run(_HIDE_FOLDERS)
        return base64.standard_b64decode(page.send("Page.captureScreenshot", format="png")["data"])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        _FIGURE.write_bytes(view_picture(Path(made)))
    sys.stdout.write(f"{_FIGURE}\n")
