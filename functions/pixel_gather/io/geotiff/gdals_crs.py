"""CRSs that only GDAL can build. GDAL is asked once for each set of GeoKeys, not for each file."""

import asyncio
from copy import replace
from dataclasses import dataclass, field
from hashlib import blake2b
from time import perf_counter
from typing import Final, Protocol

import numpy as np

from pixel_gather.core.model.source import Cost, Header
from pixel_gather.io.geotiff.ifd import Ifd, Tag
from pixel_gather.io.geotiff.nodata_tag import as_rasterio_tells
from pixel_gather.io.geotiff.transform import parse_heights
from pixel_gather.io.geotiff.unsupported import UnsupportedError

_MOST_ANSWERS: Final = 1024
"""Most answers that are kept. A WKT has a few KB."""
_MAX_NBYTES: Final = 1 << 16
"""Most bytes of one tag. ``geo_keys_of`` has refused longer ones."""


class ReadHeaderByGdal(Protocol):
    """Reads a header by GDAL."""

    async def __call__(self, href: str, *, overview: int | None, etag: str | None, cost: Cost) -> Header:
        """Return GDAL's header of one version of a source.

        Raises:
            SourceError: GDAL cannot open it.
        """


def crs_digest(ifd: Ifd, header: Header) -> bytes:
    """Return a digest of the tags from which GDAL builds the CRS.

    Files with equal digests have the same CRS. Scales, units and heights are part of the digest: under a
    vertical CRS, GDAL takes a band's scale from the height in the pixel scale. It takes the unit from the CRS
    where the band has none. So if GDAL agrees with one file's header, it agrees with the headers of all files
    that have the same digest.
    """
    tags = (Tag.GEO_KEY_DIRECTORY, Tag.GEO_DOUBLE_PARAMS, Tag.GEO_ASCII_PARAMS)
    keys = [ifd.raw(tag, most_nbytes=_MAX_NBYTES) for tag in tags]
    units = [each.unit for each in header.meanings]
    parts = (ifd.format.byte_order, keys, parse_heights(ifd), header.scales, header.offsets, units)
    return blake2b(repr(parts).encode(), digest_size=16).digest()


@dataclass(slots=True)
class _Answer:
    """GDAL's answer for one digest. The first task to hold the lock asks; the others find the answer."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    told: Header | None = None
    """GDAL's header of the first file, once it has come."""

    differs: bool = False
    """Whether it differed in more than the CRS. GDAL then has to read such files."""


@dataclass(slots=True)
class GdalsCrs:
    """GDAL's answers so far. Belongs to one event loop."""

    read_header: ReadHeaderByGdal
    _answers: dict[bytes, _Answer] = field(default_factory=dict, init=False)

    async def complete(self, digest: bytes, header: Header, *, overview: int | None, cost: Cost) -> Header:
        """Return a header with the CRS and the units that GDAL gives to files with this digest.

        The time to wait and to ask is added to the cost.

        Raises:
            UnsupportedError: GDAL's header differs in another field.
            SourceError: GDAL cannot open the file. The next file with this digest asks again.
        """
        answer = self._answers.get(digest)
        if answer is None:
            if len(self._answers) >= _MOST_ANSWERS:
                del self._answers[next(iter(self._answers))]
            answer = self._answers[digest] = _Answer()
        started = perf_counter()
        async with answer.lock:
            cost.open_s += perf_counter() - started
            if (told := answer.told) is None:
                told = await self.read_header(header.href, overview=overview, etag=header.etag, cost=cost)
                answer.told, answer.differs = told, not _is_alike(header, told)
        if answer.differs:
            raise UnsupportedError("GDAL reads the header differently")
        units = [each.unit for each in told.meanings]
        if not any(units):
            return replace(header, crs=told.crs)
        said = (header.meaning(band) for band in range(1, header.n_bands + 1))
        meanings = tuple(replace(each, unit=unit) for each, unit in zip(said, units, strict=True))
        return replace(header, crs=told.crs, meanings=meanings)


def _is_alike(header: Header, gdal_header: Header) -> bool:
    """Compare all fields except ``crs`` and ``is_tiled``. Nodata is compared as rasterio tells it.

    GDAL cannot tell whether a single column of blocks consists of tiles or of strips.
    """
    nodata = as_rasterio_tells(header.nodata, np.dtype(header.dtype))
    expected = replace(header, crs=gdal_header.crs, is_tiled=gdal_header.is_tiled, nodata=nodata)
    return repr(gdal_header) == repr(expected)  # as text, for NaN equals NaN there
