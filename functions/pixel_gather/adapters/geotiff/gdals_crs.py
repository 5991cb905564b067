"""CRSs that only GDAL can name: it is asked once for every set of GeoKeys, not for every file."""

import asyncio
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from time import perf_counter
from typing import Final, Protocol

from pixel_gather.adapters.geotiff.ifd import Ifd
from pixel_gather.adapters.geotiff.placement import heights_of
from pixel_gather.adapters.geotiff.tags import Tag
from pixel_gather.adapters.geotiff.unsupported import UnsupportedError
from pixel_gather.model.source import Cost, Header

_MOST_ANSWERS: Final = 1024
"""Kept at one time; a WKT has a few KB."""
_MAX_NBYTES: Final = 1 << 16
"""Of one tag; ``geo_keys_of`` has refused longer ones."""


class ReadHeaderByGdal(Protocol):
    """What is needed of GDAL."""

    async def __call__(self, href: str, *, overview: int | None, etag: str | None, cost: Cost) -> Header:
        """Return what GDAL tells of one version of a source; fails with a SourceError."""


def crs_digest(ifd: Ifd, header: Header) -> bytes:
    """Return what is equal only for files of which GDAL builds the same CRS.

    Scales and heights count because GDAL takes a band's scale from the pixel scale's height under a
    vertical CRS: where one file's header is right, so are those of all files with its digest.
    """
    tags = (Tag.GEO_KEY_DIRECTORY, Tag.GEO_DOUBLE_PARAMS, Tag.GEO_ASCII_PARAMS)
    keys = [ifd.raw(tag, most_nbytes=_MAX_NBYTES) for tag in tags]
    told = (ifd.format.byte_order, keys, heights_of(ifd), header.scales, header.offsets)
    return blake2b(repr(told).encode(), digest_size=16).digest()


@dataclass(slots=True)
class _Answer:
    """Whoever holds the lock first asks; the others find the answer."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    is_known: bool = False
    crs: str | None = None
    is_unlike: bool = False
    """Whether GDAL's header differed in more than the CRS, so that it reads such files otherwise."""


@dataclass(slots=True)
class GdalsCrs:
    """GDAL's answers so far; belongs to one event loop."""

    read_header: ReadHeaderByGdal
    _answers: dict[bytes, _Answer] = field(default_factory=dict, init=False)

    async def crs_of(self, digest: bytes, header: Header, *, overview: int | None, cost: Cost) -> str | None:
        """Return the CRS that GDAL gives to files with this digest.

        Args:
            digest: As ``crs_digest`` gives it.
            header: All but the CRS, as this path reads it.
            overview: The one that the header is of.
            cost: Adds up waiting and asking.

        Raises:
            UnsupportedError: GDAL reads other fields of the header otherwise.
            SourceError: GDAL cannot open the file; the next one with this digest will be asked of again.
        """
        answer = self._answers.get(digest)
        if answer is None:
            if len(self._answers) >= _MOST_ANSWERS:
                del self._answers[next(iter(self._answers))]
            answer = self._answers[digest] = _Answer()
        started = perf_counter()
        async with answer.lock:
            cost.open_s += perf_counter() - started
            if not answer.is_known:
                told = await self.read_header(header.href, overview=overview, etag=header.etag, cost=cost)
                answer.crs = told.crs
                answer.is_unlike = not _is_alike(header, told)
                answer.is_known = True
        if answer.is_unlike:
            raise UnsupportedError("GDAL reads the header otherwise")
        return answer.crs


def _is_alike(header: Header, told: Header) -> bool:
    """Compare all but the CRS, and whether a single column of blocks is of tiles, which GDAL cannot tell."""
    expected = replace(header, crs=told.crs, is_tiled=told.is_tiled)
    return repr(told) == repr(expected)  # as text, for NaN equals NaN there
