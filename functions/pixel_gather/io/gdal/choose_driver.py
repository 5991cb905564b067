"""Choose the GDAL driver of an object by its first bytes, never by its name."""

from collections.abc import Buffer
from typing import Final

from pixel_gather.core.errors import SourceError
from pixel_gather.core.model.status import Status
from pixel_gather.io.store.store_error_status import EMPTY

_DRIVERS: Final = (
    (b"II*\0", "GTiff"),
    (b"MM\0*", "GTiff"),
    (b"II+\0", "GTiff"),
    (b"MM\0+", "GTiff"),
    (b"\0\0\0\x0cjP  \r\n\x87\n", "JP2OpenJPEG"),
    (b"\xff\x4f\xff\x51", "JP2OpenJPEG"),
)
_OTHER_RASTERS: Final = (
    (b"<VRTDataset", "a VRT, which can name any other file"),
    (b"\x89HDF", "HDF5 or netCDF-4"),
    (b"CDF", "netCDF"),
    (b"\x89PNG", "PNG"),
    (b"\xff\xd8\xff", "JPEG"),
    (b"GRIB", "GRIB"),
)


def choose_driver(start: Buffer, *, href: str) -> str:
    """Return the short name of the only GDAL driver that may open an object with these first bytes.

    Raises:
        SourceError: It is neither TIFF nor JPEG 2000. The status is UNSUPPORTED for another raster format,
            else CORRUPT.
    """
    head = bytes(memoryview(start)[:64])
    if not head:
        raise SourceError(EMPTY, href=href, status=Status.CORRUPT)
    for magic, driver in _DRIVERS:
        if head.startswith(magic):
            return driver
    for magic, what in _OTHER_RASTERS:
        if head.lstrip().startswith(magic):
            raise SourceError(
                f"is {what}; only GeoTIFF and JPEG 2000 are read", href=href, status=Status.UNSUPPORTED
            )
    raise SourceError("is not a raster: neither TIFF nor JPEG 2000", href=href, status=Status.CORRUPT)
