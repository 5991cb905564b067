"""The reader of sources, for the functions that open them."""

from handlers.steps.memory import gdal_settings
from handlers.wiring import Deployment
from pixel_gather.adapters.geotiff.settings import GeoTiffSettings
from pixel_gather.adapters.source_reader import CogReader


def reader_of(deployment: Deployment, *, holds_a_shard: bool) -> CogReader:
    """Return the one reader of this process, to be used on the deployment's loop and closed there.

    Args:
        deployment: Whose sources are read.
        holds_a_shard: Whether most of the memory is for pixels.
    """
    return CogReader.over(
        deployment.objects,
        fast=GeoTiffSettings(),
        fall_back=gdal_settings(deployment.settings.memory_mib, holds_a_shard=holds_a_shard),
    )
