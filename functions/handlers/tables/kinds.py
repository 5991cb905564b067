"""The kinds of tables, and what the workflow does with each: one state machine, the kinds as data.

A table's name begins with its kind, so the functions of the workflow know from the name what to do.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Protocol

from msgspec import Struct

from handlers.deployment.stores import Deployment
from handlers.rank.measure_scenes import measure_scenes
from handlers.rank.ranking_rounds import RankingRounds
from handlers.tables.feature_steps import FeatureSteps
from handlers.tables.image_worker import ImageWorker
from handlers.tables.table_body import KINDS

RANKING = "ranking"


class TableSteps(Protocol):
    """What the function that plans and finishes tables does for one kind. Answers are verdicts."""

    async def begin(self, given: Any, *, execution: str, left_s: float) -> dict[str, Any]:
        """Begin a table, or go on with one of the same name. Safe to run twice.

        Raises:
            RequestError: The request is wrong.
            BudgetError: It would be over a limit.
            TimeoutError: The list takes too long to read.
        """

    async def after(self, name: str, number: int, *, execution: str) -> dict[str, Any]:
        """Go on when a round has ended: plan another one, or write the table. Safe to run twice."""


type ReadTask = Callable[..., Awaitable[int]]
"""``read(name, number, task, longest_s=, spent=)`` reads the scenes of a task, and returns how many."""


class Workflow(Struct, frozen=True):
    """The kinds of tables of one deployment."""

    steps: Mapping[str, TableSteps]
    """By kind."""

    readers: Mapping[str, ReadTask]
    """By kind."""

    @classmethod
    def of(cls, deployment: Deployment) -> "Workflow":
        """Return the workflow of a deployment."""
        features, worker = FeatureSteps(deployment), ImageWorker(deployment)
        return cls(
            steps={RANKING: RankingRounds(deployment)} | dict.fromkeys(KINDS, features),
            readers={RANKING: partial(measure_scenes, deployment)} | dict.fromkeys(KINDS, worker.measure),
        )


def kind_of_request(given: Any) -> str:
    """Return the kind that a request asks for. What names no features is a ranking."""
    named = [kind for kind in KINDS if isinstance(given, Mapping) and kind in given]
    return named[0] if named else RANKING


def kind_of_name(name: str) -> str:
    """Return the kind of a table of this name."""
    return name.partition("-")[0]
