"""Write an EOPatch of eo-learn as GeoTIFFs with overviews, and the list of them.

``python -m pixel_gather_bench.eopatch FOLDER --to SERIES`` takes its bands NDVI and CLM (1 where there is a
cloud). There is a real series in eo-learn's repository, in ``example_data/TestEOPatch``: 68 Sentinel-2
scenes.
"""

import json
from pathlib import Path
from typing import Any, Final

import click
import numpy as np
import rasterio
import rasterio.shutil
from rasterio.enums import Resampling
from rasterio.transform import from_bounds

_BANDS: Final = {"NDVI": ("data/NDVI.npy", "average"), "CLM": ("mask/CLM.npy", "nearest")}
_TILE: Final = 64


def write_series(patch: Path, folder: Path) -> int:
    """Write two files for each time of a patch, and ``list.csv``. Return how many times there are."""
    folder.mkdir(parents=True, exist_ok=True)
    times: list[str] = json.loads((patch / "timestamps.json").read_text())
    box = json.loads((patch / "bbox.geojson").read_text())
    corners = np.array(box["coordinates"][0])
    bounds = (*corners.min(axis=0), *corners.max(axis=0))
    code = box["crs"]["properties"]["name"].rpartition(":")[2]
    lines = ["href,time,band,scene"]
    for band, (place, resampling) in _BANDS.items():
        pixels = np.load(patch / place)[..., 0]
        for time, image in zip(times, pixels, strict=True):
            name = f"{band}_{time[:19].replace(':', '')}.tif"
            _write(folder / name, image, bounds=bounds, crs=f"EPSG:{code}", resampling=resampling)
            lines.append(f"{name},{time},{band},{time[:19]}")
    (folder / "list.csv").write_text("\n".join(lines) + "\n")
    return len(times)


def _write(path: Path, image: Any, *, bounds: tuple[float, ...], crs: str, resampling: str) -> None:
    height, width = image.shape
    with rasterio.MemoryFile() as memory:
        profile = {"driver": "GTiff", "width": width, "height": height, "count": 1, "dtype": image.dtype}
        transform = from_bounds(*bounds, width, height)
        with memory.open(**profile, crs=crs, transform=transform) as plain:
            plain.write(image, 1)
            plain.build_overviews([2], Resampling[resampling])
        options = {"BLOCKSIZE": str(_TILE), "COMPRESS": "DEFLATE", "OVERVIEW_RESAMPLING": resampling.upper()}
        with memory.open() as plain:
            rasterio.shutil.copy(plain, path, driver="COG", **options)


@click.command()
@click.argument("patch", metavar="FOLDER")
@click.option("--to", required=True, metavar="SERIES", help="Folder of the files and of list.csv.")
def main(*, patch: str, to: str) -> None:
    """Write the series of the EOPatch in FOLDER."""
    n = write_series(Path(patch), Path(to))
    click.echo(f"{n} scenes, two files each: {Path(to) / 'list.csv'}")


if __name__ == "__main__":
    main()
