"""Opens what ranks scenes of a deployment, for the function that answers at once and for workers."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from copy import replace
from typing import Final

from handlers.deployment.stores import Deployment
from handlers.rank.rank_request import AdmittedRanking
from handlers.rank.statistics_on_s3 import open_kept_statistics
from pixel_gather.features.rank.choose_reads import KeptStatistics, RankedScene
from pixel_gather.features.rank.kept_ranges import KeptRanges
from pixel_gather.features.rank.kept_statistics import drop_replaced
from pixel_gather.features.rank.ranker import OnScene, Ranker, make_ranker
from pixel_gather.features.rank.scenes import RankScene
from pixel_gather.io.gdal.settings import GdalSettings
from pixel_gather.io.geotiff.geotiff_settings import GeoTiffSettings
from pixel_gather.io.reader import CogReader

_NBYTES_PER_PIXEL: Final = 200
"""Memory of a function for each pixel. Measuring one takes up to 100 bytes; the rest is for the process."""


def _ignore(_: RankedScene) -> None: ...


@asynccontextmanager
async def open_ranker(
    asked: AdmittedRanking,
    deployment: Deployment,
    *,
    kept: KeptStatistics,
    source_timeout_s: float,
    on_scene: OnScene = _ignore,
) -> AsyncIterator[tuple[Ranker, KeptRanges]]:
    """Open a ranker, and the ranges that it reads through, until the context ends.

    The time-out is that of one scene at one level. ``on_scene`` is called each time that one was read.
    """
    ranges = KeptRanges(deployment.signed_objects(asked.gather.sources.sign))
    settings = GdalSettings.within_memory(deployment.settings.memory_mib, holds_a_shard=False)
    async with CogReader.over(ranges, fast=GeoTiffSettings(), fall_back=settings) as reader:
        ranker = make_ranker(
            asked.request,
            reader=reader,
            limiter=deployment.limiter,
            ranges=ranges,
            kept=kept,
            source_timeout_s=source_timeout_s,
            most_ahead=2 * deployment.settings.concurrency,
            most_pixels=deployment.settings.memory_mib * 2**20 // _NBYTES_PER_PIXEL,
        )
        yield replace(ranker, on_scene=on_scene), ranges


@asynccontextmanager
async def open_ranker_with_kept(
    asked: AdmittedRanking,
    deployment: Deployment,
    *,
    scenes: Sequence[RankScene],
    source_timeout_s: float,
    on_scene: OnScene = _ignore,
) -> AsyncIterator[Ranker]:
    """Open a ranker that uses the statistics of earlier rankings, until the context ends.

    Some files may have been replaced since their statistics were made. The statistics of those files are
    dropped first, unless the request says otherwise. For the rest, see `open_ranker`.
    """
    async with (
        open_kept_statistics(deployment.results, asked.request) as kept,
        open_ranker(asked, deployment, kept=kept, source_timeout_s=source_timeout_s, on_scene=on_scene) as (
            ranker,
            ranges,
        ),
    ):
        if asked.checks_kept is not False:
            await drop_replaced(
                scenes,
                kept,
                objects=ranges.objects,
                limiter=ranker.limiter,
                most_ahead=ranker.most_ahead,
            )
        yield ranker
