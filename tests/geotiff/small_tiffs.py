"""Helpers: small TIFFs that are written for a test, served from memory, and read by rasterio."""

import asyncio
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import rasterio
import tifffile

from pixel_gather.core.errors import SourceError
from pixel_gather.core.model.source import Cost
from pixel_gather.core.model.status import Status
from pixel_gather.core.model.window import Window
from pixel_gather.io.geotiff.geotiff_settings import GeoTiffSettings
from pixel_gather.io.geotiff.header_bytes import HeaderBytes
from pixel_gather.io.geotiff.ifd import Ifd, parse_format, parse_ifd
from pixel_gather.io.geotiff.opened_geotiff import OpenedGeoTiff
from pixel_gather.io.geotiff.reader import GeoTiffReader
from pixel_gather.io.store.fetched import Fetched

type Array = np.ndarray[Any, Any]
type ExtraTag = tuple[int, str, int, Any, bool]
type Tags = Mapping[int, tuple[int, Sequence[float] | bytes]]
"""Field type and values by tag."""

HREF = "s3://bucket/small.tif"

BYTE, ASCII, SHORT, LONG, DOUBLE, LONG8 = 1, 2, 3, 4, 12, 16
"""Field types of TIFF."""

STORED_AT: Final = 16
"""Where `handwritten` puts the stored bytes of pixels."""

_LETTERS: Final = {BYTE: "B", ASCII: "B", SHORT: "H", LONG: "I", DOUBLE: "d", LONG8: "Q"}


@dataclass(slots=True)
class MemoryObject:
    """One object in memory. It records the ranges that were requested."""

    content: bytes
    etag: str | None = "v1"
    ranges: list[tuple[int, int]] = field(default_factory=list)
    etags: list[str | None] = field(default_factory=list)

    async def get_range(self, href: str, start: int, stop: int, *, etag: str | None, cost: Cost) -> Fetched:
        """Answer as ``object_store.Objects`` does."""
        await asyncio.sleep(0)
        self.ranges.append((start, stop))
        self.etags.append(etag)
        cost.requests += 1
        if etag is not None and etag != self.etag:
            raise SourceError("replaced while it was being read", href=href, status=Status.CHANGED)
        part = memoryview(self.content)[start:stop]
        cost.nbytes += part.nbytes
        return Fetched(content=part, etag=self.etag, object_nbytes=len(self.content))


def opened(
    content: bytes | MemoryObject, *, overview: int | None = None, settings: GeoTiffSettings | None = None
) -> OpenedGeoTiff:
    """Open a file from memory."""
    source = content if isinstance(content, MemoryObject) else MemoryObject(content)
    reader = GeoTiffReader(source, settings=settings or GeoTiffSettings())
    return asyncio.run(reader.open_(HREF, overview=overview, cost=Cost()))


def pixels(
    source: OpenedGeoTiff,
    window: Window | None = None,
    bands: Sequence[int] | None = None,
    *,
    fill: float = 0,
    masked: bool = False,
) -> Array:
    """Read a window, or all of it, into an array that holds ``fill``."""
    header = source.header
    window = window or Window(col_off=0, row_off=0, width=header.width, height=header.height)
    bands = bands or range(1, header.n_bands + 1)
    out = np.full((len(bands), window.height, window.width), fill, header.dtype)
    asyncio.run(source.read_into([(out, window)], bands, masked=masked))
    return out


def tiff(path: Path, image: Array, *extratags: ExtraTag, **options: Any) -> bytes:
    """Write a TIFF by tifffile, with any further tags."""
    options.setdefault("photometric", "minisblack")
    tifffile.imwrite(path, image, extratags=extratags, metadata=None, **options)
    return path.read_bytes()


def geotiff(path: Path, image: Array, **options: Any) -> bytes:
    """Write a GeoTIFF of shape (band, y, x) by GDAL, with ``overviews`` of these factors."""
    count, height, width = image.shape
    overviews = options.pop("overviews", ())
    options = {"width": width, "height": height, "count": count, "dtype": image.dtype} | options
    with rasterio.open(path, "w", driver="GTiff", **options) as target:
        target.write(image)
    if overviews:
        with rasterio.open(path, "r+") as target:
            target.build_overviews(overviews)
    return path.read_bytes()


def noise(shape: tuple[int, ...], dtype: str, *, seed: int = 0) -> Array:
    """Return random numbers in runs, so that they compress."""
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind in "fc":
        return np.round(rng.normal(0, 100, shape), 1).astype(dtype)
    limits = np.iinfo(dtype)
    steps = rng.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)
    return np.where(rng.random(shape) < 0.5, steps, np.asarray(7, dtype))  # half of them alike


def handwritten(
    *directories: Tags, stored: bytes = b"", byte_order: str = "<", is_big: bool = False
) -> bytes:
    """Write a TIFF of these directories, one after the other, with nothing added.

    Values that do not fit into a directory follow it. Bytes of pixels lie before all directories.
    """
    count, entry, offset = ("Q", "HHQ", "Q") if is_big else ("H", "HHI", "I")
    content = bytearray(STORED_AT) + stored
    place = 8 if is_big else 4
    for tags in directories:
        struct.pack_into(byte_order + offset, content, place, len(content))
        head = struct.pack(byte_order + count, len(tags))
        width = struct.calcsize(byte_order + offset)
        beyond = len(content) + len(head) + len(tags) * (struct.calcsize(byte_order + entry) + width) + width
        entries, values = b"", b""
        for tag, (kind, told) in tags.items():
            packed = struct.pack(f"{byte_order}{len(told)}{_LETTERS[kind]}", *told)
            entries += struct.pack(byte_order + entry, tag, kind, len(told))
            if len(packed) <= width:
                entries += packed.ljust(width, b"\0")
            else:
                entries += struct.pack(byte_order + offset, beyond + len(values))
                values += packed
        content += head + entries
        place = len(content)
        content += bytes(width) + values
    magic = struct.pack(byte_order + "2sH", b"II" if byte_order == "<" else b"MM", 43 if is_big else 42)
    content[:4] = magic
    if is_big:
        content[4:8] = struct.pack(byte_order + "HH", 8, 0)
    return bytes(content)


def ifd_of(tags: Tags, *, byte_order: str = "<") -> Ifd:
    """Return the directory of a BigTIFF with these tags, in the order of their numbers."""
    content = handwritten(dict(sorted(tags.items())), byte_order=byte_order, is_big=True)
    header_bytes = HeaderBytes(len(content))
    header_bytes.add(0, memoryview(content))
    tiff_format = parse_format(header_bytes)
    return parse_ifd(header_bytes, tiff_format, tiff_format.first_ifd)
