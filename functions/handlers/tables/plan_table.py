"""Lambda entry point: begin a table, and decide after each round of the map what comes next.

An event with ``request`` begins a table. An event with ``gather``, the table's name and the round that has
ended, goes on with it. Both have ``execution``, the name of the state machine's execution. The answer is a
verdict: planned (a round of the map), complete or refused.
"""

from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.deployment.admit_request import refuse
from handlers.deployment.settings import Settings
from handlers.deployment.stores import Deployment
from handlers.tables.kinds import Workflow, kind_of_name, kind_of_request
from pixel_gather.core.errors import BudgetError, RequestError, SourceError
from pixel_gather.io.aws.metrics import EmfMetrics

settings = Settings.from_environment()
logger = Logger()
metrics = EmfMetrics(stage=settings.stage)
deployment = Deployment(settings)
workflow = Workflow.of(deployment)


@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Begin a table or go on with it, and return the verdict."""
    if "gather" in event:
        name, _, number = event["gather"].rpartition("/")
        logger.append_keys(table=name)
        steps = workflow.steps[kind_of_name(name)]
        try:
            verdict = deployment.run(steps.after(name, int(number), execution=event["execution"]))
        except RequestError as error:  # another job has made another table of this name meanwhile
            verdict = refuse(error, metrics)
    else:
        verdict = _begin(event, context)
    shown = ("verdict", "gather", "n_missing", "workers", "result", "error", "cause")
    logger.info("round decided", extra={name: verdict[name] for name in shown if name in verdict})
    return verdict


def _begin(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    left_s = context.get_remaining_time_in_millis() / 1000
    execution, given = event["execution"], event["request"]
    logger.append_keys(execution=execution)
    steps = workflow.steps[kind_of_request(given)]
    try:
        return deployment.run(steps.begin(given, execution=execution, left_s=left_s))
    except (RequestError, BudgetError) as error:
        return refuse(error, metrics)
    except SourceError as error:  # none of the first images can be opened
        return refuse(RequestError(str(error), field="sources"), metrics)
    except TimeoutError as error:
        return refuse(
            BudgetError(str(error) or "the list takes longer to read than the function may run"), metrics
        )
