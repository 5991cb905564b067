"""A packed header of somebody else's index."""

import asyncio
from contextlib import suppress
from typing import Final

import numpy as np

from fuzz.mutations import mutated_bytes as mutated
from fuzz.targets import header
from geotiff.small_tiffs import HREF, MemoryObject
from pixel_gather.core.errors import SourceError
from pixel_gather.core.model.source import Cost
from pixel_gather.core.model.window import Window
from pixel_gather.io.geotiff.geotiff_settings import GeoTiffSettings
from pixel_gather.io.geotiff.packed_header import peek, unpack
from pixel_gather.io.geotiff.reader import GeoTiffReader
from pixel_gather.io.geotiff.unsupported import UnsupportedError

__all__ = ["fuzz_one", "mutated", "seeds"]

_OBJECT: Final = MemoryObject(bytes(4096))
_SETTINGS: Final = GeoTiffSettings(max_tile_nbytes=1 << 20)


def seeds() -> list[bytes]:
    """Return the packed headers of small files."""
    return [packed for each in header.seeds() if (packed := _packed(each)) is not None]


def fuzz_one(content: bytes) -> None:
    """Open a packed header, and read a window of another object by it."""
    peek(content)
    restored = unpack(content, href=HREF, overview=None)
    if restored is not None:
        with suppress(UnsupportedError, SourceError):
            header._loop().run_until_complete(_read(content))


async def _read(content: bytes) -> None:
    reader = GeoTiffReader(_OBJECT, settings=_SETTINGS)
    opened = await reader.open_(HREF, overview=None, cost=Cost(), packed_header=content)
    told = opened.header
    window = Window(col_off=0, row_off=0, width=min(told.width, 40), height=min(told.height, 40))
    out = np.zeros((1, window.height, window.width), told.dtype)
    await opened.read_into([(out, window)], [1], masked=False)


def _packed(content: bytes) -> bytes | None:
    async def opened() -> bytes | None:
        found = await GeoTiffReader(MemoryObject(content)).open_(HREF, overview=None, cost=Cost())
        with suppress(UnsupportedError):
            await found.fetch_all_tiles()
        return found.packed_header

    try:
        return asyncio.run(opened())
    except UnsupportedError:
        return None
