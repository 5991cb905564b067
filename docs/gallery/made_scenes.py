"""Makes small images of a valley that does not exist, for notebooks that run without Internet.

A forest is cut in 2008 and grows again. Fields have their crops' seasons. A town grows. Clouds come and go.
"""

from datetime import date
from pathlib import Path

import numpy as np
import rasterio
from rasterio.transform import from_origin

WIDTH = 96
WEST, NORTH, PIXEL = 677_000, 5_153_000, 30
FOREST, TOWN = (slice(8, 40), slice(8, 44)), (slice(20, 76), slice(58, 92))
CROPS = {"wheat": 150, "maize": 215, "grass": 180}
"""Each crop, and the day of the year on which it is greenest."""


def field(number: int) -> tuple[slice, slice]:
    """Return rows and columns of one of the six fields."""
    row, column = divmod(number, 3)
    return slice(50 + 21 * row, 69 + 21 * row), slice(6 + 15 * column, 19 + 15 * column)


def write_scene(folder: Path, day: date) -> None:
    """Write red, near infrared and a mask of clouds of one day, one GeoTIFF each."""
    random = np.random.default_rng(day.toordinal())
    season = np.cos((day.timetuple().tm_yday - 190) / 365 * 2 * np.pi)
    ndvi = np.full((WIDTH, WIDTH), 0.35 + 0.15 * season)
    ndvi[FOREST] = 0.75 + 0.08 * season
    years_since = day.year + day.timetuple().tm_yday / 365 - 2008.4
    if years_since > 0:  # a quarter of the forest is cut, and young trees grow
        ndvi[12:36, 12:30] = 0.2 + 0.55 * (1 - np.exp(-years_since / 7)) + 0.08 * season
    grown = np.hypot(*np.mgrid[-28:28, -17:17]) < 6 + (day.year - 1990) * 0.55
    ndvi[TOWN][grown] = 0.12
    for number in range(6):
        peak = list(CROPS.values())[number % 3]
        ripe = np.exp(-(((day.timetuple().tm_yday - peak) / 35) ** 2))
        ndvi[field(number)] = 0.18 + (0.6 - 0.05 * (number // 3)) * ripe
    ndvi = np.clip(ndvi + random.normal(0, 0.02, ndvi.shape), 0, 0.95)
    nir = 0.28 + 0.12 * ndvi
    red = nir * (1 - ndvi) / (1 + ndvi)
    y, x = np.mgrid[:WIDTH, :WIDTH]
    clouds = np.zeros(ndvi.shape)
    for _ in range(random.integers(0, 9)):
        cy, cx, size = random.uniform(0, WIDTH), random.uniform(0, WIDTH), random.uniform(6, 22)
        clouds += np.exp(-((y - cy) ** 2 + (x - cx) ** 2) / size**2)
    cover = np.clip(clouds * 1.6 - 0.3, 0, 1)
    bands = {
        "red": np.rint(10_000 * (red + (0.6 - red) * cover)),
        "nir": np.rint(10_000 * (nir + (0.62 - nir) * cover)),
        "cloud": cover > 0.1,
    }
    for name, pixels in bands.items():
        with rasterio.open(
            folder / f"valley_{day:%Y%m%d}_{name}.tif",
            "w",
            driver="GTiff",
            width=WIDTH,
            height=WIDTH,
            count=1,
            dtype="uint16",
            tiled=True,
            blockxsize=32,
            blockysize=32,
            compress="deflate",
            crs="EPSG:32632",
            transform=from_origin(WEST, NORTH, PIXEL, PIXEL),
        ) as file:
            file.write(pixels.astype("uint16"), 1)
            file.scales = (1 if name == "cloud" else 1e-4,)


def write_scenes(folder: str | Path, days: list[date]) -> None:
    """Write the images of some days."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    for day in days:
        write_scene(Path(folder), day)
