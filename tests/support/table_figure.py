"""Makes docs/figures/table.png, the page of a table of zones, in the browser of the tests.

``PYTHONPATH=tests uv run python -m support.table_figure``. Images and
fields are made up: an NDVI with a summer.
"""

import sys
import tempfile
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Final

import numpy as np

from pixel_gather import write_table_page, zones
from rank.rasters import landscape, make_cog
from support.browser import LOADED, opened_browser
from support.geojson import collection, feature, polygon

_FIGURE: Final = Path(__file__).parents[2] / "docs" / "figures" / "table.png"
_CRS: Final = "EPSG:32633"
_LEFT, _TOP = 500_000, 5_000_000
_N_IMAGES: Final = 24
_CLOUD: Final = 4
"""In every fourth image, clouds hide the upper part."""

_GONE: Final = "S2B_MSIL2A_20241229T101109_R022_T33TWM_20241229T121533"


def table_picture(folder: Path) -> bytes:
    """Return the whole page of a table of 24 fields as PNG."""
    table = folder / "ndvi-fields.parquet"
    zones(_fields(), {"rows": _images(folder)}, to=table, id="name", crs=_CRS, statistics="mean,stdev")
    write_table_page(table, folder / "page.html")
    with opened_browser() as page:
        page.look(width=900, height=900)
        page.open_((folder / "page.html").as_uri(), until=LOADED)
        return page.picture()


def _images(folder: Path) -> list[dict[str, Any]]:
    rows = []
    for n in range(_N_IMAGES):
        summer = np.sin(np.pi * n / (_N_IMAGES - 1))
        pixels = 0.3 + 0.4 * summer + (landscape(7).astype("float32") - 2000) / 4000
        pixels += np.random.default_rng(n).normal(scale=0.02, size=pixels.shape)
        if n % _CLOUD == _CLOUD - 1:
            pixels[:200] = np.nan
        file = make_cog(folder / f"{n}.tif", pixels.astype("float32"), nodata=np.nan)
        rows.append({"href": str(file), "time": str(date(2024, 1, 1) + timedelta(15 * n))})
    return [*rows, {"href": str(folder / f"{_GONE}.tif"), "time": "2024-12-29", "scene": _GONE}]


def _fields() -> dict[str, Any]:
    """Return fields in four lines of six, each of a shape of its own."""
    rng = np.random.default_rng(3)
    fields = []
    for n in range(24):
        x, y = _LEFT + 150 + 820 * (n % 6), _TOP - 1000 - 1200 * (n // 6)
        wide, high = int(rng.integers(400, 700)), int(rng.integers(500, 900))
        corners = [(x, y), (x + wide, y + 60), (x + wide - 80, y + high), (x + 30, y + high - 50), (x, y)]
        fields.append(feature(polygon(*corners), name=f"field {n + 1}"))
    return collection(fields)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        _FIGURE.write_bytes(table_picture(Path(made)))
    sys.stdout.write(f"{_FIGURE}\n")
