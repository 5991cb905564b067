"""Ask a store whether the files of kept statistics are still the same."""

import asyncio
from collections.abc import Sequence

from pixel_gather.core.errors import SourceError
from pixel_gather.core.model.source import Cost
from pixel_gather.core.ports import SourceLimiter
from pixel_gather.core.task_group import all_of
from pixel_gather.features.rank.kept_statistics import SqliteStatistics
from pixel_gather.features.rank.scenes import RankScene
from pixel_gather.io.store.object_store import Ranges


async def drop_replaced(
    scenes: Sequence[RankScene],
    kept: SqliteStatistics,
    *,
    objects: Ranges,
    limiter: SourceLimiter,
    most_ahead: int,
) -> None:
    """Drop the kept statistics of files that have been replaced, by reading one byte of each.

    Files of which nothing is kept are not asked for.
    """
    ahead = asyncio.Semaphore(most_ahead)

    async def check(href: str) -> None:
        known = kept.known_etag(href)
        if known is None:
            return
        try:
            async with ahead, limiter.permit(href, weight=1):
                fetched = await objects.get_range(href, 0, 1, etag=None, cost=Cost())
        except SourceError:
            kept.drop(href)
            return
        if fetched.etag != known:
            kept.drop(href)

    await all_of(check(href) for href in {href: None for scene in scenes for href in scene.hrefs})
