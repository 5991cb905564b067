"""The two readers that must agree with rasterio, with synchronous methods."""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from pixel_gather.core.model.source import Cost
from pixel_gather.core.model.window import Window
from pixel_gather.core.ports import OpenedSource
from pixel_gather.io.gdal.reader import GdalReader
from pixel_gather.io.gdal.settings import GdalSettings
from pixel_gather.io.geotiff.geotiff_settings import GeoTiffSettings
from pixel_gather.io.reader import CogReader
from pixel_gather.io.store.object_store import Objects
from pixel_gather.io.store.store_settings import StoreSettings

READERS: Final = ("joined", "gdal")
TIMEOUT_S: Final = 60.0


class Readings:
    """Reads on its own event loop."""

    def __init__(self, runner: asyncio.Runner, kind: str) -> None:
        self.runner = runner
        self.kind = kind
        self.objects = Objects(StoreSettings())
        self.settings = GdalSettings(max_children=1, timeout_s=TIMEOUT_S)
        self.reader: CogReader | GdalReader = (
            CogReader.over(self.objects, fast=GeoTiffSettings(), fall_back=self.settings)
            if kind == "joined"
            else GdalReader(self.objects, settings=self.settings)
        )

    async def aclose(self) -> None:
        """End the reader's child processes."""
        await self.reader.aclose()

    def children(self) -> list[int]:
        """Return the process ids of GDAL's children."""
        gdal: Any = self.reader
        if isinstance(self.reader, CogReader):
            gdal = getattr(self.reader._fall_back, "_reader")  # noqa: B009 # the fall-back is a protocol
        if gdal is None:  # no source was for GDAL
            return []
        assert isinstance(gdal, GdalReader)
        return [child.process.pid for child in gdal._children._idle]

    def open_(self, href: str, *, overview: int | None = None, cost: Cost | None = None) -> OpenedSource:
        """Open a source."""
        return self.runner.run(self.reader.open_(href, overview=overview, cost=cost or Cost()))

    def read_into(
        self,
        source: OpenedSource,
        out: np.ndarray[Any, Any],
        window: Window,
        bands: Sequence[int],
        *,
        masked: bool = False,
    ) -> np.ndarray[Any, Any]:
        """Read a window into an array and return it."""
        self.runner.run(source.read_into([(out, window)], bands, masked=masked))
        return out
