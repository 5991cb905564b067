"""The header of somebody else's GeoTIFF, and windows of it."""

import asyncio
import functools
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np

from fuzz.mutations import mutated_bytes as mutated
from geotiff.small_tiffs import HREF, MemoryObject, geotiff, noise, tiff
from pixel_gather.core.errors import SourceError
from pixel_gather.core.model.source import Cost
from pixel_gather.core.model.window import Window
from pixel_gather.io.geotiff.geotiff_settings import GeoTiffSettings
from pixel_gather.io.geotiff.packed_header import unpack
from pixel_gather.io.geotiff.reader import GeoTiffReader
from pixel_gather.io.geotiff.unsupported import UnsupportedError

__all__ = ["fuzz_one", "mutated", "seeds"]

_SETTINGS: Final = GeoTiffSettings(head_nbytes=512, learns_head=False, max_tile_nbytes=1 << 20)
_MOST_PIXELS: Final = 1 << 16
_TILED: Final = {"tiled": True, "blockxsize": 16, "blockysize": 16}


def seeds() -> list[bytes]:
    """Return small files of each compression, layout and byte order, with overviews, masks and CRSs."""
    found = []
    with TemporaryDirectory() as folder:
        path = Path(folder) / "seed.tif"
        for number, compress in enumerate(("none", "deflate", "lzw", "zstd", "packbits", "lzma")):
            image = noise((2, 20, 24), "int16", seed=number)
            options = {"crs": "EPSG:32632", "nodata": 7, "compress": compress, **_TILED}
            found.append(geotiff(path, image, **options))
        floats = noise((1, 20, 24), "float32")
        found.append(geotiff(path, floats, compress="deflate", predictor=3, **_TILED))
        found.append(geotiff(path, floats, compress="lzw", predictor=2, bigtiff="yes", nodata=float("nan")))
        found.append(geotiff(path, noise((3, 9, 9), "uint8"), photometric="rgb", interleave="band"))
        found.append(tiff(path, noise((20, 24), "uint16"), byteorder=">", compression="zlib", tile=(16, 16)))
        found.append(tiff(path, noise((8, 8, 4), "uint8"), photometric="rgb", extrasamples=["unassalpha"]))
    return found


def fuzz_one(content: bytes) -> None:
    """Open a file and its overviews, and read windows. GDAL is left out: it has a process of its own."""
    with suppress(UnsupportedError, SourceError):
        _loop().run_until_complete(_read(content))


@functools.cache
def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop()


async def _read(content: bytes) -> None:
    source = MemoryObject(content)
    reader = GeoTiffReader(source, settings=_SETTINGS)
    opened = await reader.open_(HREF, overview=None, cost=Cost())
    header = opened.header
    window = Window(col_off=0, row_off=0, width=min(header.width, 40), height=min(header.height, 40))
    bands = range(1, min(header.n_bands, 3) + 1)
    packed = opened.packed_header
    if packed is not None:
        again = unpack(packed, href=HREF, overview=None)
        assert again is not None
        assert repr(again.header) == repr(header)
    for masked in (False, True):
        with suppress(UnsupportedError):
            out = np.zeros((len(bands), window.height, window.width), header.dtype)
            await opened.read_into([(out, window)], bands, masked=masked)
    with suppress(UnsupportedError):
        await opened.stored_span(window, bands)
    if window.width * window.height * len(bands) <= _MOST_PIXELS:
        with suppress(UnsupportedError):
            await opened.read_tiles(window, bands)
    for each in await opened.overviews():
        with suppress(UnsupportedError):
            await each.stored_span(Window(col_off=0, row_off=0, width=1, height=1), [1])
