"""Makes the reader of sources for the functions that read them."""

from typing import Final

from handlers.deployment.stores import Deployment
from pixel_gather.core.ports import Projector, SourceAccess
from pixel_gather.io.gdal.settings import GdalSettings
from pixel_gather.io.geotiff.geotiff_settings import GeoTiffSettings
from pixel_gather.io.reader import CogReader

_LONGEST_SOURCE_S: Final = 180.0


class Readers:
    """This process's readers, one for each way of signing, to be used on the deployment's event loop."""

    def __init__(self, deployment: Deployment, *, holds_a_shard: bool) -> None:
        self._deployment = deployment
        self._fall_back = GdalSettings.within_memory(
            deployment.settings.memory_mib, holds_a_shard=holds_a_shard
        )
        self._readers: dict[str, CogReader] = {}

    def of(self, sign: str) -> CogReader:
        """Return the reader for a request's ``sources.sign``."""
        if sign not in self._readers:
            objects = self._deployment.signed_objects(sign)
            self._readers[sign] = CogReader.over(objects, fast=GeoTiffSettings(), fall_back=self._fall_back)
        return self._readers[sign]

    def sources(self, sign: str, projector: Projector) -> SourceAccess:
        """Return how sources are read for a request's ``sources.sign``."""
        return SourceAccess(
            reader=self.of(sign),
            projector=projector,
            limiter=self._deployment.limiter,
            timeout_s=_LONGEST_SOURCE_S,
        )

    async def aclose(self) -> None:
        """End the readers' child processes."""
        for reader in self._readers.values():
            await reader.aclose()
