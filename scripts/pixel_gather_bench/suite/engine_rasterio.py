"""The engine ``rasterio``: each of several threads opens and reads one file after another."""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any, Final

import numpy as np
import rasterio
from rasterio.errors import RasterioError

from pixel_gather.core.model.window import Window
from pixel_gather_bench.gdal_options import apply, gdal_options, gdal_path
from pixel_gather_bench.suite.job import Raster, SuiteJob
from pixel_gather_bench.suite.source_times import Sheet

_LONGEST_REASON: Final = 300


def read_all(job: SuiteJob, out: np.ndarray[Any, Any], sheet: Sheet) -> dict[str, str]:
    """Read all sources into ``out``, shape (source, y, x). Note their times in the sheet.

    Returns:
        Settings of GDAL.
    """
    options = gdal_options(
        job.hrefs, job.stores, header_nbytes=job.header_nbytes, environment=dict(os.environ)
    )
    apply(options)
    if job.warm_up:
        scratch, n_sources = np.empty(job.target.shape, job.target.dtype), len(job.hrefs)
        _read_source(job, n_sources - 1, scratch, lane=0, sheet=Sheet(n_sources))
    lanes, mine = count(), threading.local()

    def number_thread() -> None:
        mine.lane = next(lanes)

    def read_one(position: int) -> None:
        _read_source(job, position, out[position], lane=mine.lane, sheet=sheet)

    with ThreadPoolExecutor(job.configuration.concurrency, initializer=number_thread) as threads:
        sheet.start()
        for _ in threads.map(read_one, range(len(job.hrefs))):
            pass
        sheet.stop()
    sheet.count_cpu()
    return options | {"GDAL": rasterio.__gdal_version__}


def _read_source(job: SuiteJob, position: int, out: np.ndarray[Any, Any], *, lane: int, sheet: Sheet) -> None:
    href, target = job.hrefs[position], job.target
    columns = sheet.columns
    with sheet.timed(position, lane):
        began_s = time.perf_counter()
        try:
            with rasterio.open(gdal_path(href)) as dataset:
                opened_s = time.perf_counter()
                columns.open_s[position] = opened_s - began_s
                window = target.window_on(_raster_of(dataset, target.band), href=href)
                rows, cols = (window.row_off, window.row_stop), (window.col_off, window.col_stop)
                dataset.read(target.band, window=(rows, cols), out=out)
                columns.read_s[position] = time.perf_counter() - opened_s
                columns.nbytes[position] = _stored_nbytes(dataset, window, target.band)
        except RasterioError as error:
            sheet.fail(position, "failed", f"GDAL says: {_reason(error, href)}")


def _reason(error: RasterioError, href: str) -> str:
    """Return GDAL's message without the file's name. So one cause has the same text for all files."""
    said = str(error.__cause__ or error)
    for name in (gdal_path(href), href):
        said = said.replace(f"'{name}'", "the file").replace(f"{name}: ", "").replace(name, "the file")
    return said[:_LONGEST_REASON]


def _raster_of(dataset: Any, band: int) -> Raster:
    known = min(band, dataset.count) - 1
    tile_height, tile_width = dataset.block_shapes[known]
    return Raster(
        height=dataset.height,
        width=dataset.width,
        tile_height=tile_height,
        tile_width=tile_width,
        n_bands=dataset.count,
        dtype=dataset.dtypes[known],
    )


def _stored_nbytes(dataset: Any, window: Window, band: int) -> int:
    """Return the stored size of the tile; 0 if the format does not tell."""
    height, width = dataset.block_shapes[band - 1]
    name = f"BLOCK_SIZE_{window.col_off // width}_{window.row_off // height}"
    return int(dataset.get_tag_item(name, "TIFF", bidx=band) or 0)
