"""What users do today: rasterio in a pool of threads, each opening and reading one file after another.

Twice: as the report of 2018 published it, and the best that we could find today (README.md has the search).
GDAL is set by environment variables, which it reads whenever it opens a file.
"""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final
from urllib.parse import urlsplit

import numpy as np
import rasterio

from benchmarks.peers.scenes import unsigned_s3

_PUBLISHED: Final = {
    "GDAL_DISABLE_READDIR_ON_OPEN": "EMPTY_DIR",  # it wrote TRUE, which GDAL has since given another meaning
    "CPL_VSIL_CURL_ALLOWED_EXTENSIONS": ".tif",
    "VSI_CACHE": "FALSE",
}
MODERN: Final = _PUBLISHED | {
    "GDAL_INGESTED_BYTES_AT_OPEN": "16384",
    "GDAL_BAND_BLOCK_CACHE": "HASHSET",
    "CPL_VSIL_CURL_CACHE_SIZE": "134217728",  # 16 MB by default: less than 49 tiles, so some came twice
    "GDAL_HTTP_MULTIPLEX": "YES",
    "GDAL_HTTP_MERGE_CONSECUTIVE_RANGES": "YES",
}


def read_published(hrefs: Sequence[str], out: np.ndarray[Any, Any], *, concurrency: int) -> None:
    """Fill ``out``, shape (source, y, x), with each source's centre tile, by way of ``/vsicurl/``."""
    os.environ.update(_PUBLISHED)

    def read_one(index: int) -> None:
        with rasterio.open(f"/vsicurl/{hrefs[index]}") as source:
            source.read(1, window=centre_of(source), out=out[index])

    with ThreadPoolExecutor(concurrency) as threads:
        for _ in threads.map(read_one, range(len(hrefs))):
            pass


def read_modern(hrefs: Sequence[str], out: np.ndarray[Any, Any], *, concurrency: int) -> None:
    """Fill ``out`` in the same way with all that helps.

    ``/vsis3/`` sends no HEAD before its first GET, one rasterio environment lives as long as its thread, and
    no other driver is asked whether the file is its own.
    """
    os.environ.update(MODERN | unsigned_s3(hrefs))

    unread = iter(enumerate(hrefs))  # shared: whichever thread is free takes the next

    def read_some() -> None:
        with rasterio.Env():
            for index, href in unread:
                path = f"/vsis3{urlsplit(href).path}"
                with rasterio.open(path, driver="GTiff", sharing=False) as source:
                    source.read(1, window=centre_of(source), out=out[index])

    with ThreadPoolExecutor(concurrency) as threads:
        for done in [threads.submit(read_some) for _ in range(concurrency)]:
            done.result()


def centre_of(source: Any) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the rows and columns of an opened source's centre tile."""
    height, width = source.block_shapes[0]
    row = -(-source.height // height) // 2
    column = -(-source.width // width) // 2
    return (row * height, (row + 1) * height), (column * width, (column + 1) * width)
