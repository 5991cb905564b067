"""A program that is run twice: from a bundle, by a Python without other packages, and here.

Arguments: ``read`` or ``gather``, and a folder to write to. Standard input: paths of files, as JSON. Prints
the result of each as JSON. The output must not depend on where it runs.
"""

import asyncio
import hashlib
import json
import sys
from pathlib import Path
from typing import Any, Final

import numpy as np

import pixel_gather
from pixel_gather.core.errors import SourceError
from pixel_gather.core.model.source import Cost
from pixel_gather.core.model.window import Window
from pixel_gather.io.crs import RasterioProjector
from pixel_gather.io.gdal.reader import GdalReader
from pixel_gather.io.gdal.settings import GdalSettings
from pixel_gather.io.geotiff.geotiff_settings import GeoTiffSettings
from pixel_gather.io.reader import CogReader
from pixel_gather.io.store.object_store import Objects
from pixel_gather.io.store.store_settings import StoreSettings

_LARGEST_NBYTES: Final = 16 * 2**20
"""Largest raster that is read whole, in bytes. Of larger ones a piece from the middle is read."""

_CODECS: Final = ("blosc-lz4", "blosc-zstd", "zstd", "none", "zfp")


async def read(files: list[str]) -> dict[str, Any]:
    """Return header and pixels of each file, by the joined reader and by GDAL alone."""
    objects, settings = Objects(StoreSettings()), GdalSettings(max_children=1)
    joined = CogReader.over(objects, fast=GeoTiffSettings(), fall_back=settings)
    gdal = GdalReader(objects, settings=settings)
    try:
        return {
            f"{file} by {name}": await _read_one(reader, file)
            for file in files
            for name, reader in (("the joined reader", joined), ("GDAL", gdal))
        }
    finally:
        await joined.aclose()
        await gdal.aclose()


async def _read_one(reader: CogReader | GdalReader, file: str) -> list[str]:
    try:
        source = await reader.open_(f"file://{file}", overview=None, cost=Cost())
        header = source.header
        width, height = header.width, header.height
        if width * height * header.n_bands * np.dtype(header.dtype).itemsize > _LARGEST_NBYTES:
            width, height = min(width, 256), min(height, 256)
        left, top = (header.width - width) // 2, (header.height - height) // 2
        pixels: Any = np.zeros((header.n_bands, height, width), header.dtype)
        window = Window(col_off=left, row_off=top, width=width, height=height)
        await source.read_into([(pixels, window)], range(1, header.n_bands + 1), masked=False)
    except SourceError as error:
        return [error.status.name, str(error)]
    return [repr(header), hashlib.sha256(pixels.tobytes()).hexdigest()]


def gather(files: list[str], folder: Path) -> dict[str, Any]:
    """Return the stored pixels of the same cube in every codec, and PROJ's answers."""
    listed = folder / "sources.csv"
    listed.write_text("\n".join(["href", *files]))
    told: dict[str, Any] = {}
    undrawn = pixel_gather.Settings(draws_report=False)
    for codec in _CODECS:
        output: dict[str, Any] = {"codec": codec} | ({"zfp_tolerance": 0.1} if codec == "zfp" else {})
        cube = folder / codec
        request = {"sources": str(listed), "window": "centre", "output": output}
        report = pixel_gather.gather(request, to=cube, settings=undrawn).report
        stored = sorted(path for path in cube.glob("band_*/**/*") if path.is_file())
        contents = {path.relative_to(cube).as_posix(): path.read_bytes() for path in stored}
        told[codec] = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
        told[codec]["report"] = report.digest
    proj = RasterioProjector()
    points = proj.points([11.5], [48.1], source_crs="EPSG:4326", target_crs="EPSG:32632")
    return told | {"points": points, "crs": repr(proj.describe("EPSG:3035"))}


if __name__ == "__main__":
    _, what, scratch = sys.argv
    given = json.load(sys.stdin)
    json.dump(asyncio.run(read(given)) if what == "read" else gather(given, Path(scratch)), sys.stdout)
