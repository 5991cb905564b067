"""What tests of tables of points and zones share: images of one grid, what serves them, and lines."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow.parquet as pq

from rank.rasters import landscape, make_cog
from support.local_server import LocalServer, ranged, serving

CRS: Final = "EPSG:32633"
LEFT, TOP, SIZE, SIDE = 500_000.0, 5_000_000.0, 10.0, 512
"""Upper left corner, and size and number of pixels, of the images that `rank.rasters` makes."""

FIELD: Final = {
    "type": "Polygon",
    "coordinates": [[[500_100, 4_999_900], [500_900, 4_999_800], [500_500, 4_999_100], [500_100, 4_999_900]]],
}


def rows_of(table: Path) -> list[dict[str, Any]]:
    """Return the lines of a table."""
    rows: list[dict[str, Any]] = pq.read_table(table).to_pylist()
    return rows


@contextmanager
def serving_files(content: Mapping[str, bytes]) -> Iterator[LocalServer]:
    """Serve files by their path, and count. A file may be taken away meanwhile."""
    with serving(lambda asked: ranged(content.get(asked.path, b""), asked)) as server:
        yield server


def content_of(folder: Path) -> dict[str, bytes]:
    """Return all images of a folder, by the path at which they are served."""
    return {f"/{file.name}": file.read_bytes() for file in folder.glob("*.tif")}


def make_images(folder: Path, n: int, **options: Any) -> Path:
    """Write images of one grid with nodata in a corner, one a day, and their list. Return the folder."""
    lines = ["href,time"]
    for number in range(n):
        pixels = landscape(number)
        pixels[:40, :40] = 0
        make_cog(folder / f"{number}.tif", pixels, nodata=0, **options)
        lines.append(f"{number}.tif,2024-06-{number + 1:02d}")
    (folder / "list.csv").write_text("\n".join(lines))
    return folder


def make_scenes(folder: Path, n: int, *, rise: int = 0, gap: int = 0) -> str:
    """Write scenes: red and nir of 10 m with scale and offset, classes of 20 m. Return their list.

    Args:
        folder: Where to.
        n: Number of scenes.
        rise: How much brighter the red of each scene is than that of the one before.
        gap: Side of a corner without data, in red, in pixels.
    """
    lines = ["href,time,band,scene"]
    for number in range(n):
        classes = np.random.default_rng(number).choice([4, 5, 8, 9], (256, 256), p=[0.5, 0.3, 0.1, 0.1])
        make_cog(folder / f"scl{number}.tif", classes.astype("uint8"), size=20.0, nodata=0)
        red, nir = landscape(number, level=2500 + rise * number), landscape(10 + number, level=4500)
        red[:gap, :gap] = 0
        for name, pixels in (("red", red), ("nir", nir)):
            make_cog(folder / f"{name}{number}.tif", pixels, nodata=0, scaling=(0.0001, -0.1))
        lines += [
            f"{name}{number}.tif,2024-06-{number + 1:02d},{name},scene {number}"
            for name in ("red", "nir", "scl")
        ]
    (folder / "list.csv").write_text("\n".join(lines))
    return str(folder / "list.csv")
