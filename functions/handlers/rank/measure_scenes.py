"""Lambda entry point: measure the scenes of one child of a large ranking's map.

The event has the ranking's name and round (``gather``) and an item of the manifest (``tasks``). A first try
has ``limit_s``, the seconds that the state machine waits. At a second try, scenes that were not read in time
get the status timed out.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.deployment.settings import Settings
from handlers.deployment.spending import Spending, report_spending
from handlers.deployment.stores import Deployment
from handlers.rank.open_ranker import open_ranker
from handlers.rank.rank_request import AdmittedRanking, admit_ranking
from pixel_gather.core.read.time_limits import in_time
from pixel_gather.core.stores import needed_file
from pixel_gather.features.rank.map_rounds import RankTask, measure_task
from pixel_gather.features.rank.rounds import NothingKept, RankedScene, Wanted
from pixel_gather.io.aws.metrics import EmfMetrics

_TO_STORE_S: Final = 20.0
_LONGEST_SCENE_S: Final = 180.0

settings = Settings.from_environment()
logger = Logger()
metrics = EmfMetrics(stage=settings.stage)
deployment = Deployment(settings)


@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Measure the scenes of an item and return how many there were."""
    ranking, _, number = event["gather"].rpartition("/")
    tasks = msgspec.convert(event["tasks"], list[RankTask])
    logger.append_keys(ranking=ranking, round=int(number))
    limit_s = event.get("limit_s")
    left_s = context.get_remaining_time_in_millis() / 1000 - _TO_STORE_S
    with report_spending(metrics, memory_mib=settings.memory_mib, ranking=ranking) as spent:
        work = _measure(ranking, int(number), tasks, longest_s=left_s / len(tasks), spent=spent)
        n_scenes = deployment.run(in_time(work, limit_s=limit_s))
    logger.info("scenes measured", extra={"n_scenes": n_scenes, "requests": spent.n_gets})
    return {"n_scenes": n_scenes}


async def _measure(
    ranking: str, number: int, tasks: Sequence[RankTask], *, longest_s: float, spent: Spending
) -> int:
    files = deployment.ranking_files(ranking, may_list=False)
    asked = admit_ranking(json.loads(await needed_file(files, "request.json")), settings)
    n_scenes = 0
    for task in tasks:
        measure = _Measurer(asked, spent)
        n_scenes += await measure_task(task, files, number, measure=measure.measure, longest_s=longest_s) or 0
    return n_scenes


class _Measurer:
    """Reads the scenes of one task, and counts their requests."""

    def __init__(self, asked: AdmittedRanking, spent: Spending) -> None:
        self._asked = asked
        self._spent = spent

    async def measure(self, wanted: Sequence[Wanted], done: Callable[[RankedScene], None]) -> None:
        before = sum(each.ranked.cost.requests for each in wanted)
        try:
            async with open_ranker(
                self._asked,
                deployment,
                kept=NothingKept(),
                source_timeout_s=_LONGEST_SCENE_S,
                on_scene=done,
            ) as (ranker, _):
                await ranker.measure(wanted)
        finally:
            self._spent.n_shards += 1
            self._spent.n_puts += 1
            self._spent.n_gets += sum(each.ranked.cost.requests for each in wanted) - before
