"""What a worker does for a large ranking: it measures the scenes of one task."""

from collections.abc import Callable, Sequence
from typing import Final

from handlers.deployment.report_spending import Spending
from handlers.deployment.stores import Deployment
from handlers.rank.open_ranker import open_ranker
from handlers.rank.rank_request import noted_request
from pixel_gather.features.rank.choose_reads import NothingKept, RankedScene, WantedRead
from pixel_gather.features.rank.map_rounds import measure_task
from pixel_gather.tables.map_tasks import MapTask

_LONGEST_SCENE_S: Final = 180.0


async def measure_scenes(
    deployment: Deployment, name: str, number: int, task: MapTask, *, longest_s: float, spent: Spending
) -> int:
    """Measure the scenes of a task, commit it, and return how many there were; 0 if it is committed.

    Scenes that were not read within ``longest_s`` get the status timed out. ``spent`` is added to.
    """
    files = deployment.table_files(name, may_list=False)
    asked = await noted_request(files, deployment.settings)

    async def measure(wanted: Sequence[WantedRead], done: Callable[[RankedScene], None]) -> None:
        before = sum(each.ranked.cost.requests for each in wanted)
        try:
            async with open_ranker(
                asked, deployment, kept=NothingKept(), source_timeout_s=_LONGEST_SCENE_S, on_scene=done
            ) as (ranker, _):
                await ranker.measure(wanted)
        finally:
            spent.n_shards += 1
            spent.n_puts += 1
            spent.n_gets += sum(each.ranked.cost.requests for each in wanted) - before

    return await measure_task(task, files, number, measure=measure, longest_s=longest_s) or 0
