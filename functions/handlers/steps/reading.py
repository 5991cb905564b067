"""Makes the reader of sources for the functions that read them."""

from handlers.wiring import Deployment
from pixel_gather.adapters.gdal.settings import GdalSettings
from pixel_gather.adapters.geotiff.settings import GeoTiffSettings
from pixel_gather.adapters.source_reader import CogReader


def reader_of(deployment: Deployment, *, holds_a_shard: bool) -> CogReader:
    """Return this process's reader. Use it and close it on the deployment's event loop.

    Args:
        deployment: Whose sources are read.
        holds_a_shard: Whether most of the memory is needed for the pixels of a shard.
    """
    return CogReader.over(
        deployment.objects,
        fast=GeoTiffSettings(),
        fall_back=GdalSettings.within_memory(deployment.settings.memory_mib, holds_a_shard=holds_a_shard),
    )
