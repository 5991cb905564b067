"""Lambda entry point: POST /rankings ranks scenes at once, or starts a large ranking, which is a table.

A ranking is large if its first scene shows that one function would take too long.
"""

import asyncio
import json
import secrets
from collections.abc import Callable, Mapping
from copy import replace
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from typing import Any, Final

from aws_lambda_powertools import Logger
from msgspec import Struct

from handlers.api.answer_size import MOST_ANSWER_NBYTES, answer_nbytes
from handlers.api.resolver import Resolver, handler_of, read_body
from handlers.deployment.admit_request import open_table, unread_list
from handlers.deployment.settings import Settings
from handlers.deployment.stores import Deployment
from handlers.rank.open_ranker import open_ranker_with_kept
from handlers.rank.rank_request import AdmittedRanking, admit_ranking, ranking_name
from handlers.rank.routes import ROUTES
from pixel_gather.features.rank.choose_reads import RankedScene
from pixel_gather.features.rank.forecast import FirstScene, RoundForecast, check_ranking
from pixel_gather.features.rank.scenes import list_scenes
from pixel_gather.features.rank.table import Ranking
from pixel_gather.io.aws.executions import Executions
from pixel_gather.io.lists.source_table import SqliteSourceTable

_TO_ANSWER_S: Final = 3.0
_LONGEST_S: Final = 20.0
"""A ranking whose forecast is longer is given to the state machine."""

_MOST_SCENES: Final = 5_000
_SALT_NBYTES: Final = 8


class _LargerError(Exception):
    """The ranking is too large for one function."""


@dataclass(slots=True)
class _List:
    digest: str = ""
    """Digest of the list of scenes; empty until it was read."""


class RankService(Struct, frozen=True):
    """Ranks scenes of one deployment."""

    deployment: Deployment
    executions: Callable[[], Executions]
    """Returns the executions of large rankings."""

    async def rank(self, given: Any, *, left_s: float, is_async: bool = False) -> dict[str, Any] | str:
        """Rank scenes.

        If it is asynchronous, the caller wants a large ranking, however few scenes there are.

        Returns:
            The table; or the name of the large ranking that has to be started instead.

        Raises:
            RequestError: The request is wrong.
            BudgetError: It would be over a limit, or the month's budget is spent.
        """
        asked = admit_ranking(given, self.deployment.settings)
        await self.deployment.check_not_halted()
        scenes = _List()
        try:
            answer = await self._at_once(asked, left_s, scenes, is_async=is_async)
        except (_LargerError, TimeoutError):
            salt = secrets.token_hex(_SALT_NBYTES) if asked.checks_kept else ""
            return ranking_name(given, scenes.digest or unread_list(), salt=salt)
        return answer

    async def _at_once(
        self, asked: AdmittedRanking, left_s: float, scenes: _List, *, is_async: bool
    ) -> dict[str, Any]:
        started = asyncio.get_running_loop().time()
        async with (
            asyncio.timeout(left_s),
            open_table(asked.gather, self.deployment, left_s=left_s) as table,
        ):
            scenes.digest = table.digest
            if is_async or table.n_rows > _MOST_SCENES:
                raise _LargerError
            ranked, notes = await self._rank(asked, table, left_s)
        seconds = asyncio.get_running_loop().time() - started
        found = Ranking(
            request=asked.request, scenes=tuple(ranked), seconds=seconds, notes=(*table.notes, *notes)
        )
        answer = found.to_json()
        if answer_nbytes(answer["scenes"]) > MOST_ANSWER_NBYTES:
            raise _LargerError  # its statistics are kept, so nothing is read again
        return answer

    async def _rank(
        self, asked: AdmittedRanking, table: SqliteSourceTable, left_s: float
    ) -> tuple[list[RankedScene], list[str]]:
        scenes = list_scenes(table, asked.request)
        first = FirstScene(
            n_scenes=len(scenes),
            in_flight=self.deployment.settings.concurrency,
            reads_on=asked.request.reads_on,
            on_forecast=_forecast_check(asked, len(scenes)),
        )
        async with open_ranker_with_kept(
            asked, self.deployment, scenes=scenes, source_timeout_s=left_s, on_scene=first.look
        ) as ranker:
            ranked = await ranker.rank(scenes)
            return ranked, ranker.rounds.notes(ranked)

    def start(self, given: Mapping[str, Any], name: str, *, links_from: str) -> tuple[dict[str, Any], int]:
        """Start a large ranking, or find the one of the same name. Return its line, or its table."""
        executions = replace(self.executions(), links_from=links_from)
        line = executions.submit(given, name=name)
        if line["state"] != "succeeded":
            return line, HTTPStatus.ACCEPTED
        result = executions.table(line["id"])["result"]
        answer = self.deployment.run(self.deployment.ranking_answer(result["name"]))
        if answer is None:  # somebody has removed the ranking
            return executions.submit(given, name=name, again=True), HTTPStatus.ACCEPTED
        return json.loads(answer), HTTPStatus.OK


def _forecast_check(asked: AdmittedRanking, n_scenes: int) -> Callable[[RoundForecast], None]:
    """Return what refuses a forecast over a limit, and stops a ranking that is too long for one function."""

    def check(forecast: RoundForecast) -> None:
        most = asked.limits.seconds
        if forecast.seconds > _LONGEST_S and (most is None or most > _LONGEST_S):
            raise _LargerError
        check_ranking(asked.limits, n_scenes, seconds=forecast.seconds, usd=forecast.usd)

    return check


def app_of(service: RankService, logger: Logger) -> Resolver:
    """Return the routes over one deployment."""
    app = Resolver(ROUTES, logger)

    @app.serve("rankScenes")
    def rank() -> tuple[dict[str, Any], int]:
        given = read_body(app)
        left_s = app.lambda_context.get_remaining_time_in_millis() / 1000 - _TO_ANSWER_S
        wished = app.current_event.headers.get("prefer", "")  # RFC 7240
        work = service.rank(given, left_s=left_s, is_async="respond-async" in wished)
        answer = service.deployment.run(work)
        if isinstance(answer, dict):
            return answer, HTTPStatus.OK
        logger.append_keys(ranking=answer)
        return service.start(given, answer, links_from=app.address)

    return app


@cache
def _executions() -> Executions:
    from handlers.api.control_plane import open_control_plane  # noqa: PLC0415 # boto3 costs 0.3 s, most rankings need none

    return replace(open_control_plane(deployment.settings).executions, kind="table")


logger = Logger()
deployment = Deployment(Settings.from_environment())
app = app_of(RankService(deployment, _executions), logger)
handler = handler_of(app, logger)
