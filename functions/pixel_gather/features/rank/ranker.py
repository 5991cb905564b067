"""Read and measure scenes, each at the level that a round of the ranking wants."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from msgspec import Struct

from pixel_gather.core.errors import RequestError, SourceError
from pixel_gather.core.model.source import Cost
from pixel_gather.core.model.status import Status
from pixel_gather.core.ports import LevelReader, SourceLimiter
from pixel_gather.core.task_group import all_of
from pixel_gather.features.rank.area_on_images import AreaShapes
from pixel_gather.features.rank.choose_reads import KeptStatistics, RankedScene, Rounds, WantedRead, begun
from pixel_gather.features.rank.kept_ranges import KeptRanges
from pixel_gather.features.rank.measure import SceneReader
from pixel_gather.features.rank.measured_scene import MeasuredScene
from pixel_gather.features.rank.ranking_request import RankingRequest
from pixel_gather.features.rank.scenes import RankScene
from pixel_gather.io.crs import RasterioProjector
from pixel_gather.tables.pixel_gate import MOST_PIXELS, PixelGate

_ONE_FIRST: Final = 1
"""Scenes that are read before the others, to learn how long the first read of a file should be."""

type OnScene = Callable[[RankedScene], None]
"""Called each time that a scene has been read at a level."""

type OnRound = Callable[[int], None]
"""Called before each round with the number of scenes that it reads."""


class Ranker(Struct, frozen=True, kw_only=True):
    """Ranks scenes in this process. The caller owns what it reads with."""

    rounds: Rounds
    scenes: SceneReader
    limiter: SourceLimiter
    forget: Callable[[str], None]
    """Drops what is kept of a file's bytes, because it was replaced."""

    source_timeout_s: float
    most_ahead: int
    on_scene: OnScene = lambda _: None
    on_round: OnRound = lambda _: None

    async def rank(self, scenes: Iterable[RankScene]) -> list[RankedScene]:
        """Return all scenes in their order, those without a value last."""
        ranked = begun(scenes)
        while wanted := self.rounds.choose_reads(ranked):
            self.on_round(len(wanted))
            await self.measure(wanted)
        return self.rounds.sort(ranked)

    async def measure(self, wanted: Sequence[WantedRead]) -> None:
        """Measure scenes, each at its step; only ``most_ahead`` of them at one time."""

        async def one(each: WantedRead) -> None:
            await self._measure_one(each.ranked, each.step)
            self.on_scene(each.ranked)

        for some in (wanted[:_ONE_FIRST], wanted[_ONE_FIRST:]):
            await all_of((one(each) for each in some), at_once=self.most_ahead)

    async def _measure_one(self, ranked: RankedScene, step: int | None) -> None:
        ranked.step, ranked.was_kept = step, False
        started = asyncio.get_running_loop().time()
        cost = ranked.cost
        n_before = cost.needed_requests
        try:
            async with self.limiter.permit(ranked.scene.hrefs[0], weight=len(ranked.scene.hrefs)) as permit:
                async with asyncio.timeout(self.source_timeout_s):
                    ranked.measured = await self._read_scene(ranked.scene, step, cost)
                if cost.needed_requests > n_before:
                    permit.record_read(n_requests=cost.needed_requests - n_before)
            self.rounds.keep(ranked)
        except SourceError as error:
            ranked.fail(error.status, error.reason)
        except RequestError as error:  # PROJ finds no way to this source's CRS
            ranked.fail(Status.UNSUPPORTED, str(error))
        except TimeoutError:
            ranked.fail(Status.TIMED_OUT, f"not read within {self.source_timeout_s:g} s")
        ranked.seconds += asyncio.get_running_loop().time() - started

    async def _read_scene(self, scene: RankScene, step: int | None, cost: Cost) -> MeasuredScene:
        try:
            return await self.scenes.measure(scene, step=step, cost=cost)
        except SourceError as error:
            if error.status is not Status.CHANGED:
                raise
        for href in scene.hrefs:  # it was replaced since its header was kept
            self.forget(href)
        return await self.scenes.measure(scene, step=step, cost=cost)


def make_ranker(
    request: RankingRequest,
    *,
    reader: LevelReader,
    limiter: SourceLimiter,
    ranges: KeptRanges,
    kept: KeptStatistics,
    source_timeout_s: float,
    most_ahead: int,
    most_pixels: int = MOST_PIXELS,
) -> Ranker:
    """Return what ranks scenes.

    The reader reads through ``ranges``. The time-out is that of one scene at one level.
    """

    def learn(first: int, stop: int, nbytes: int, full_nbytes: float) -> None:
        ranges.learn(first_tile=first, stop=stop, nbytes=nbytes, full_nbytes=full_nbytes)

    shapes = AreaShapes(request.area, RasterioProjector())
    return Ranker(
        rounds=Rounds(request, kept),
        scenes=SceneReader(
            request=request, reader=reader, shapes=shapes, on_level=learn, gate=PixelGate(most_pixels)
        ),
        limiter=limiter,
        forget=ranges.forget,
        source_timeout_s=source_timeout_s,
        most_ahead=most_ahead,
    )
