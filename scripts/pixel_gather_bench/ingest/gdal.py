"""The way of GDAL's virtual file system. The object's bytes are the rows of a raster without a header.

So any object can be read, and only ``/vsis3`` and ``/vsicurl`` are measured, no decoder.
"""

import os
import warnings
from collections.abc import Iterable, Iterator
from typing import Any, Final
from xml.sax.saxutils import escape

import rasterio
from rasterio.errors import NotGeoreferencedWarning
from rasterio.windows import Window

from pixel_gather_bench.gdal_options import apply, gdal_options, gdal_path
from pixel_gather_bench.ingest.job import IngestJob, Puller, Read
from pixel_gather_bench.ingest.ways import IngestObject

_ROW_NBYTES: Final = 64 * 1024
_ANY_SOURCE: Final = "GDAL_VRT_RAWRASTERBAND_ALLOWED_SOURCE"
_VRT: Final = """<VRTDataset rasterXSize="{width}" rasterYSize="{height}">
<VRTRasterBand dataType="Byte" band="1" subClass="VRTRawRasterBand">
<SourceFilename relativeToVRT="0">{path}</SourceFilename>
<ImageOffset>{offset}</ImageOffset><PixelOffset>1</PixelOffset><LineOffset>{width}</LineOffset>
</VRTRasterBand></VRTDataset>"""


class GdalWay(Puller):
    """Reads by rasterio, one read after another."""

    def __init__(self, job: IngestJob) -> None:
        """Set GDAL's options for this process."""
        super().__init__(job)
        self._opened: dict[int, _RawRows] = {}
        options = gdal_options(
            [each.href for each in job.objects], job.stores, header_nbytes=None, environment=os.environ
        )
        apply(options | {_ANY_SOURCE: "ALL"})
        warnings.simplefilter("ignore", NotGeoreferencedWarning)

    def reads(self, reads: Iterable[Read]) -> Iterator[bytes]:
        """Yield the bytes of each range."""
        for read in reads:
            if read.index not in self._opened:
                self._opened[read.index] = _RawRows(self._job.objects[read.index])
            yield self._opened[read.index].read(read.start, read.stop)


class _RawRows:
    """One object as rows of equal length, and a shorter one at its end."""

    def __init__(self, stored: IngestObject) -> None:
        self._path = gdal_path(stored.href)
        self._n_rows, self._rest = divmod(stored.nbytes, _ROW_NBYTES)
        self._whole = self._raster(_ROW_NBYTES, self._n_rows, 0) if self._n_rows else None
        self._end = self._raster(self._rest, 1, self._n_rows * _ROW_NBYTES) if self._rest else None

    def read(self, start: int, stop: int) -> bytes:
        """Return bytes [start, stop), which lie inside the object."""
        first, last = start // _ROW_NBYTES, -(-stop // _ROW_NBYTES)
        content = b""
        if first < self._n_rows and self._whole is not None:
            height = min(last, self._n_rows) - first
            content = self._whole.read(1, window=Window(0, first, _ROW_NBYTES, height)).tobytes()
        if last > self._n_rows and self._end is not None:
            content += self._end.read(1).tobytes()
        begin = start - first * _ROW_NBYTES
        return content[begin : begin + stop - start]

    def _raster(self, width: int, height: int, offset: int) -> Any:
        path = escape(self._path)
        return rasterio.open(_VRT.format(width=width, height=height, offset=offset, path=path))
