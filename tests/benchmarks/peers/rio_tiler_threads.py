"""rio-tiler: its reader in a pool of threads, with the settings that titiler's documentation recommends."""

import os
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final
from urllib.parse import urlsplit

import numpy as np
from rasterio.crs import CRS
from rio_tiler.errors import NoOverviewWarning
from rio_tiler.io import Reader

from benchmarks.peers.scenes import BOUNDS, EPSG, unsigned_s3

_SETTINGS: Final = {
    "GDAL_BAND_BLOCK_CACHE": "HASHSET",
    "GDAL_DISABLE_READDIR_ON_OPEN": "EMPTY_DIR",
    "GDAL_HTTP_MERGE_CONSECUTIVE_RANGES": "YES",
    "GDAL_HTTP_MULTIPLEX": "YES",
    "GDAL_INGESTED_BYTES_AT_OPEN": "32768",
    "CPL_VSIL_CURL_ALLOWED_EXTENSIONS": ".tif",
    "CPL_VSIL_CURL_CACHE_SIZE": "200000000",
    # VSI_CACHE=TRUE, which it recommends too, is for tiles of one file and costs a third request here
}


def read_tiles(hrefs: Sequence[str], out: np.ndarray[Any, Any], *, concurrency: int) -> None:
    """Fill ``out``, shape (source, y, x), with each source's centre tile."""
    os.environ.update(_SETTINGS | unsigned_s3(hrefs))
    warnings.simplefilter("ignore", NoOverviewWarning)  # one for every file; only the full resolution is read
    projection = CRS.from_epsg(EPSG)

    def read_one(index: int) -> None:
        with Reader(f"/vsis3{urlsplit(hrefs[index]).path}") as source:
            image = source.part(BOUNDS, bounds_crs=projection, dst_crs=projection)
        out[index] = image.array.data[0]

    with ThreadPoolExecutor(concurrency) as threads:
        for _ in threads.map(read_one, range(len(hrefs))):
            pass
