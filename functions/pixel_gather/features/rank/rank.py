"""Rank scenes in this process by what their pixels show in an area."""

import os
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from copy import replace
from typing import Any, Final

import numpy as np

from pixel_gather.core.errors import RequestError, SourceError
from pixel_gather.core.model.source import Cost
from pixel_gather.core.request.check_arguments import check_arguments
from pixel_gather.core.request.href_policy import path_here
from pixel_gather.core.request.request import parse_sources
from pixel_gather.core.task_group import all_of
from pixel_gather.features.rank.choose_reads import KeptStatistics, NothingKept, RankedScene
from pixel_gather.features.rank.forecast import FirstScene, RoundForecast, check_ranking
from pixel_gather.features.rank.kept_ranges import KeptRanges
from pixel_gather.features.rank.kept_statistics import SqliteStatistics, drop_replaced
from pixel_gather.features.rank.ranker import Ranker, make_ranker
from pixel_gather.features.rank.ranking_body import catalog_sources
from pixel_gather.features.rank.ranking_plan import RankingPlan
from pixel_gather.features.rank.ranking_request import DEFAULT_PRECISION, RankingRequest
from pixel_gather.features.rank.scenes import list_scenes
from pixel_gather.features.rank.table import Ranking
from pixel_gather.in_process.job import Job, opened_job
from pixel_gather.in_process.progress import Progress
from pixel_gather.in_process.settings import Settings
from pixel_gather.io.event_loop import run
from pixel_gather.io.store.object_store import Objects
from pixel_gather.tables.table_limits import TableLimits

_PICTURE_SIDE: Final = 96
"""Pixels along the longer side of a picture, at most twice as many."""

_SAMPLES: Final = 3
"""Scenes that are tried for a plan until the headers of one can be read."""

type Picture = Mapping[str, np.ndarray[Any, np.dtype[np.floating[Any]]]]

__all__ = ["RankedScene", "Ranking", "catalog_sources", "plan_ranking", "rank", "rank_async"]


@check_arguments
def rank(  # noqa: PLR0913 # each option of the command has a name of its own here
    sources: Any,
    *,
    by: str,
    bbox: Sequence[float] | None = None,
    geojson: Mapping[str, Any] | None = None,
    mask: Mapping[str, Any] | None = None,
    statistic: str = "mean",
    precision: float | str = DEFAULT_PRECISION,
    order: str = "desc",
    top: int | None = None,
    bands: Mapping[str, str] | None = None,
    raw: bool = False,
    statistics: str | os.PathLike[str] | None = None,
    check_kept: bool = True,
    limits: Mapping[str, float] | None = None,
    settings: Settings | None = None,
) -> Ranking:
    """Rank scenes by a statistic of their pixels in an area, and say how sure each rank is.

    Scenes are read at their coarsest overview first. Only scenes whose rank is still open are read finer. A
    scene that cannot be read is included, with its status and the reason.

    Args:
        sources: As a request's ``sources``: a list file, hrefs, a prefix, or scenes of a catalog.
        by: ``red``, ``green``, ``blue``, ``brightness``, ``ndvi``, ``ndwi``, ``nbr``, ``clear``, ``valid``,
            ``cloud``, or an expression of bands such as ``(nir - red) / (nir + red)``.
        bbox: The area: [west, south, east, north] in degrees.
        geojson: The area as a polygon. Without bbox and geojson, it is the whole of each scene.
        mask: Pixels that do not count: ``{"band": "scl", "drop": [3, 8, 9, 10]}``, or ``bits`` instead of
            ``drop``.
        statistic: ``mean``, ``median``, ``p10``, ``share_above:0.3``.
        precision: The largest standard error that is good enough, as a number or as a share of the spread of
            all values such as ``2%``; or ``coarse``, ``exact``, ``every:5``.
        order: ``desc`` for the highest value first, or ``asc``.
        top: How many places have to be decided. All scenes are listed.
        bands: The band of the list, or the asset of the catalog, that each name in ``by`` stands for.
        raw: Whether to use stored values, without scale and offset.
        statistics: A file that keeps statistics, so that a later ranking reads only what is not kept.
        check_kept: Whether to ask if the files of kept statistics are still the same, by one request of one
            byte for each file. Reading a file takes at least as many requests, and more bytes.
        limits: ``{"usd": 0.5, "seconds": 60}``: refuse a ranking whose forecast, after its first scene, is
            higher.
        settings: How this machine is used.

    Raises:
        RequestError: A field is wrong. The error names it.
        BudgetError: The forecast is over a limit.
        StoreError: The kept statistics cannot be read or written.
        DeniedError: There are no AWS credentials, or the requested profile does not exist.
    """
    request = RankingRequest.of(
        by=by,
        bbox=bbox,
        geojson=geojson,
        mask=mask,
        statistic=statistic,
        precision=precision,
        order=order,
        top=top,
        bands=bands,
        raw=raw,
    )
    found = rank_async(
        sources,
        request,
        statistics=statistics,
        check_kept=check_kept,
        limits=TableLimits.of(limits),
        settings=settings,
    )
    ranking, _ = run(found)
    return ranking


async def rank_async(
    sources: Any,
    request: RankingRequest,
    *,
    statistics: str | os.PathLike[str] | None = None,
    check_kept: bool = True,
    limits: TableLimits | None = None,
    settings: Settings | None = None,
    n_pictures: int = 0,
    on_progress: Callable[[Progress], None] = lambda _: None,
) -> tuple[Ranking, list[Picture]]:
    """Rank scenes; see `rank`.

    Progress is that of each round of reading.

    Returns:
        The ranking, and the bands of the first scenes in the area, by name.
    """
    started = time.perf_counter()
    async with _open_ranking(sources, request, settings or Settings()) as (asked, job, ranges):
        with ExitStack() as stack:
            kept = None
            if statistics is not None:
                path = path_here(statistics, "statistics", said="the statistics are")
                kept = stack.enter_context(SqliteStatistics(path, inputs=asked.inputs_digest()))
            scenes = list_scenes(job.table, asked)
            if kept is not None and check_kept:
                await drop_replaced(
                    scenes,
                    kept,
                    objects=ranges.objects,
                    limiter=job.limiter,
                    most_ahead=job.most_ahead,
                )
            # The first scene that is read tells what all will take, and may end the ranking.
            counter = _Counter(on_progress)
            asked_limits = limits or TableLimits()

            def check(forecast: RoundForecast) -> None:
                check_ranking(asked_limits, len(scenes), seconds=forecast.seconds, usd=forecast.usd)

            first = FirstScene(
                n_scenes=len(scenes),
                in_flight=job.in_flight,
                reads_on=asked.reads_on,
                on_forecast=check,
            )

            def look(ranked: RankedScene) -> None:
                first.look(ranked)
                counter.count(ranked)

            ranker = _ranker_of(asked, job, ranges, kept or NothingKept())
            ranker = replace(ranker, on_scene=look, on_round=counter.begin)
            ranked = await ranker.rank(scenes)
        # Pictures are of the first scenes, so they come after the order.
        seconds = time.perf_counter() - started
        pictures = await all_of(_picture(ranker, each) for each in ranked[:n_pictures])
        notes = (*job.table.notes, *ranker.rounds.notes(ranked))
        found = Ranking(request=asked, scenes=tuple(ranked), seconds=seconds, notes=notes)
        return found, pictures


async def plan_ranking(
    sources: Any, request: RankingRequest, *, settings: Settings | None = None
) -> RankingPlan:
    """Return what a ranking would take at each level. Reads the headers of one scene, and no pixel.

    Raises:
        SourceError: None of the first scenes can be read.
    """
    async with _open_ranking(sources, request, settings or Settings()) as (asked, job, ranges):
        scenes = list_scenes(job.table, asked)
        ranker = _ranker_of(asked, job, ranges, NothingKept())
        failed: SourceError | None = None
        for scene in [each for each in scenes if each.missing is None][:_SAMPLES]:
            try:
                levels = await ranker.scenes.level_costs(scene, cost=Cost())
            except SourceError as error:
                failed = failed or error
                continue
            return RankingPlan(
                n_scenes=len(scenes),
                n_files=len(scene.hrefs),
                like=scene.id,
                levels=tuple(levels),
                in_flight=job.in_flight,
            )
    if failed is not None:
        raise failed
    raise RequestError("no scene has all of the bands", field="by")


@asynccontextmanager
async def _open_ranking(
    sources: Any, request: RankingRequest, settings: Settings
) -> AsyncIterator[tuple[RankingRequest, Job, KeptRanges]]:
    """Open the list and what reads it. The request is returned as it holds for this list."""
    parsed = parse_sources(sources)
    opened: list[KeptRanges] = []

    def over(objects: Objects) -> KeptRanges:
        opened.append(KeptRanges(objects))
        return opened[0]

    async with opened_job(parsed, settings, over=over) as job:
        yield request.for_sources(parsed), job, opened[0]


def _ranker_of(request: RankingRequest, job: Job, ranges: KeptRanges, kept: KeptStatistics) -> Ranker:
    return make_ranker(
        request,
        reader=job.reader,
        limiter=job.limiter,
        ranges=ranges,
        kept=kept,
        source_timeout_s=job.settings.source_timeout_s,
        most_ahead=job.most_ahead,
    )


class _Counter:
    """Counts the scenes of each round."""

    def __init__(self, on_progress: Callable[[Progress], None]) -> None:
        self._on_progress = on_progress
        self._progress = Progress(n_sources=0)

    def begin(self, n_scenes: int) -> None:
        """Begin a round."""
        self._progress = Progress(n_sources=n_scenes)

    def count(self, ranked: RankedScene) -> None:
        """Count one scene that was read, or that could not be."""
        done = self._progress
        self._progress = replace(done, n_done=done.n_done + 1, n_failed=done.n_failed + ranked.is_failed)
        self._on_progress(self._progress)


async def _picture(ranker: Ranker, ranked: RankedScene) -> Picture:
    """Return a scene's bands in the area, small; empty if it cannot be read."""
    if ranked.measured is None:
        return {}
    try:
        async with ranker.limiter.permit(ranked.scene.hrefs[0], weight=len(ranked.scene.hrefs)):
            return await ranker.scenes.picture(ranked.scene, side=_PICTURE_SIDE, cost=Cost())
    except SourceError:
        return {}
