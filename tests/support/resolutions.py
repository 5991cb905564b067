"""Files of bands of different resolution, on one lattice, as Sentinel-2 has them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from support.images import TILES_OF_64, write_image

WEST: Final = 300_000
NORTH: Final = 5_000_040
SIDE: Final = 3840
"""Metres: whole pixels of 10, 20 and 60."""

RESOLUTIONS: Final[Mapping[str, int]] = {"red": 10, "scl": 20, "aot": 60}


def write_band(folder: Path, name: str, width: float, *, seed: int, shift: float = 0.0) -> Path:
    """Write a band of classes, or of reflectances with missing pixels, in tiles."""
    n = int(SIDE // width)
    random = np.random.default_rng(seed)
    pixels = random.integers(0, 12, (n, n)) if name == "scl" else random.integers(1, 10_000, (n, n))
    pixels[random.random((n, n)) < 0.1] = 0
    file = folder / f"{name}_{seed}.tif"
    place: dict[str, Any] = {"west": WEST + shift, "north": NORTH, "size": width}
    write_image(file, pixels.astype("uint8" if name == "scl" else "uint16"), **place, **TILES_OF_64)
    return file


def scenes(folder: Path, n: int, bands: Mapping[str, int] = RESOLUTIONS) -> dict[str, Any]:
    """Write scenes, and return the sources of a request for them."""
    rows = [
        {
            "href": str(write_band(folder, name, width, seed=10 * at + index)),
            "band": name,
            "scene": f"s{at}",
            "time": f"2024-01-{at + 1:02}",
        }
        for at in range(n)
        for index, (name, width) in enumerate(bands.items())
    ]
    return {"rows": rows}
