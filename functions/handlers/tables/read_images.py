"""Lambda entry point: read the images of one child of a table's map.

The event has the table's name and round (``gather``) and an item of the manifest (``tasks``). A first try
has ``limit_s``, the seconds that the state machine waits. At a second try, images that were not read in time
get the status timed out.
"""

from typing import Any, Final

import msgspec
from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.deployment.report_spending import Spending, report_spending
from handlers.deployment.settings import Settings
from handlers.deployment.stores import Deployment
from handlers.tables.kinds import Workflow, kind_of_name
from pixel_gather.core.read.time_limits import in_time
from pixel_gather.io.aws.metrics import EmfMetrics
from pixel_gather.tables.map_tasks import MapTask

_TO_STORE_S: Final = 20.0

settings = Settings.from_environment()
logger = Logger()
metrics = EmfMetrics(stage=settings.stage)
deployment = Deployment(settings)
workflow = Workflow.of(deployment)


@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Read the images of an item and return how many there were."""
    name, _, number = event["gather"].rpartition("/")
    tasks = msgspec.convert(event["tasks"], list[MapTask])
    logger.append_keys(table=name, round=int(number))
    left_s = context.get_remaining_time_in_millis() / 1000 - _TO_STORE_S
    with report_spending(metrics, memory_mib=settings.memory_mib, table=name) as spent:
        work = _read(name, int(number), tasks, longest_s=left_s / len(tasks), spent=spent)
        n_scenes = deployment.run(in_time(work, limit_s=event.get("limit_s")))
    logger.info("images read", extra={"n_scenes": n_scenes, "requests": spent.n_gets})
    return {"n_scenes": n_scenes}


async def _read(name: str, number: int, tasks: list[MapTask], *, longest_s: float, spent: Spending) -> int:
    read = workflow.readers[kind_of_name(name)]
    return sum([await read(name, number, task, longest_s=longest_s, spent=spent) for task in tasks])
