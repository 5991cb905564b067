"""Lambda entry point: POST /tables starts a table of points or zones. /series answers a small one at once.

The other routes list, describe, stop, limit and redrive tables, large rankings among them.
"""

import asyncio
import hashlib
import json
from collections.abc import Callable, Coroutine, Mapping
from copy import replace
from functools import cache
from http import HTTPStatus
from typing import Any, Final

from aws_lambda_powertools import Logger
from msgspec import Struct

from handlers.api.problems import TooSlowError
from handlers.api.resolver import Resolver, handler_of, limit_workers, list_page, read_body
from handlers.deployment.admit_request import unread_list
from handlers.deployment.settings import Settings
from handlers.deployment.stores import Deployment
from handlers.tables.at_once import LargerError, drill_at_once, series_at_once
from handlers.tables.committed_tables import CommittedTables, removed_error
from handlers.tables.feature_steps import FeatureSteps
from handlers.tables.feature_table import open_feature_table
from handlers.tables.kinds import RANKING
from handlers.tables.routes import ROUTES
from handlers.tables.series_request import DrillQuery, body_of_query, table_of_series
from handlers.tables.table_body import admit_table
from pixel_gather.core.errors import GatherNotFoundError, RequestError, SourceError
from pixel_gather.io.aws.executions import Executions

_TO_ANSWER_S: Final = 3.0
_TO_NAME_S: Final = 5.0
"""For the list of files that take too long to read at once."""

_DIGEST_LETTERS: Final = 32


class NamedTable(Struct, frozen=True):
    """A table to start, or one that is there already."""

    name: str
    again: bool
    """Whether its table is not there. Then it is started, even if a job of this name has succeeded before."""

    job: str | None = None
    """The execution that wrote the table. None if the table is not there, or does not tell."""


class TableService(Struct, frozen=True):
    """Starts and describes the tables of one deployment."""

    deployment: Deployment
    executions: Callable[[], Executions]
    """Returns the executions of tables."""

    async def name(self, given: Any, *, left_s: float) -> NamedTable:
        """Return a table with its name, which is equal for the same request of the same list and features.

        If they take too long to read, the name is that of the request in this hour.

        Raises:
            RequestError: The request is wrong.
            BudgetError: There are too many features or files.
        """
        asked = admit_table(given, self.deployment.settings)
        try:
            async with (
                asyncio.timeout(left_s),
                open_feature_table(asked, self.deployment, left_s=left_s) as opened,
            ):
                committed = await CommittedTables(self.deployment).find(asked.append_to or opened.name)
                job = None if committed is None else committed.result.get("job")
                return NamedTable(opened.name, again=committed is None, job=job)
        except TimeoutError:
            content = json.dumps([given, unread_list()], sort_keys=True)
            digest = hashlib.sha256(content.encode()).hexdigest()[:_DIGEST_LETTERS]
            return NamedTable(f"{asked.kind.about['kind']}-{digest}", again=False)
        except SourceError as error:
            raise RequestError(str(error), field="sources") from error

    async def plan(self, given: Any, *, left_s: float) -> dict[str, Any]:
        """Return what a table would take.

        Raises:
            RequestError: The request is wrong.
            BudgetError: It would be too large.
            TooSlowError: The list is too long to be read within the API's time limit.
        """
        asked = admit_table(given, self.deployment.settings)
        try:
            async with (
                asyncio.timeout(left_s),
                open_feature_table(asked, self.deployment, left_s=left_s) as opened,
            ):
                plan, planned = await FeatureSteps(self.deployment).plan(opened, asked.limits)
        except TimeoutError as error:
            raise TooSlowError(
                f"this table cannot be planned in {left_s:.0f} s: start it with limits.usd. Its plan may "
                "then take 15 minutes, and a table that costs more is refused"
            ) from error
        except SourceError as error:
            raise RequestError(str(error), field="sources") from error
        workers = {"workers": planned.n_workers, "seconds": planned.seconds, "usd": planned.usd}
        return plan.to_json() | workers

    async def series(self, given: Any, *, left_s: float) -> dict[str, Any] | NamedTable:
        """Return the answer of a series; or the table that has to be started instead.

        The body is one of ``POST /tables`` with a single feature.

        Raises:
            RequestError: The request is wrong.
        """
        began = asyncio.get_running_loop().time()
        try:
            return await series_at_once(given, self.deployment)
        except SourceError as error:
            raise RequestError(str(error), field="sources") from error
        except LargerError:
            return await self.name(given, left_s=left_s - (asyncio.get_running_loop().time() - began))

    def start(
        self, given: Mapping[str, Any], named: NamedTable, *, links_from: str
    ) -> tuple[dict[str, Any], int]:
        """Start a table, or find the one of the same name. Return its line, or its document if it is made."""
        executions = replace(self.executions(), links_from=links_from)
        line = executions.submit(given, name=named.name, again=named.again)
        if line["state"] != "succeeded":
            return line, HTTPStatus.ACCEPTED
        try:
            return executions.table(named.job or line["id"]), HTTPStatus.OK
        except GatherNotFoundError:  # the job was none of this state machine
            return executions.table(line["id"]), HTTPStatus.OK

    def shown(self, id_: str, *, links_from: str) -> dict[str, Any]:
        """Describe a table; a large ranking with its rows once it is complete.

        The name of a table that is appended to stands for the job that wrote its last version.
        """
        executions = replace(self.executions(), links_from=links_from)
        try:
            document = executions.table(id_)
        except GatherNotFoundError:
            found = self.deployment.run(CommittedTables(self.deployment).find(id_))
            if found is None or found.result.get("job") in (None, id_):
                raise
            document = executions.table(found.result["job"])
        result = document["result"]
        if result is None or result.get("table") is None:  # nothing was found
            return document
        if result["kind"] != RANKING:
            self.deployment.run(CommittedTables(self.deployment).check_there(result, job=id_))
            return document
        answer = self.deployment.run(self.deployment.ranking_answer(result["name"]))
        if answer is None:
            raise removed_error("ranking", id_)
        document["ranking"] = json.loads(answer)
        return document

    def of_job[T](self, id_: str, do: Callable[[str], T]) -> T:
        """Do something with a job of a table.

        Raises:
            GatherNotFoundError: There is no such job. The message says so if it is the name of a table.
        """
        try:
            return do(id_)
        except GatherNotFoundError:
            found = self.deployment.run(CommittedTables(self.deployment).find(id_))
            if found is None:
                raise
            raise GatherNotFoundError(
                f"{id_} is a table, and each append to it is a job with an id of its own: list its jobs, and "
                f"name one of them. The last that has ended is {found.result.get('job')}"
            ) from None


class _Routes:
    """The routes over one deployment."""

    def __init__(self, service: TableService, logger: Logger) -> None:
        self.app = Resolver(ROUTES, logger)
        self._service = service
        self._logger = logger
        for name, answer in (
            ("getSeries", lambda: self._read_series(body_of_query(self._query))),
            ("readSeries", lambda: self._read_series(read_body(self.app))),
            ("drill", self._drill),
            ("makeTable", self._make),
            ("planTable", self._plan),
            ("listTables", lambda: list_page(self._tables(), self.app)),
            ("getTable", lambda id_: self._service.shown(id_, links_from=self.app.address)),
            ("stopTable", lambda id_: self._service.of_job(id_, self._tables().stop)),
            ("limitTable", self._limit),
            (
                "redriveTable",
                lambda id_: (self._service.of_job(id_, self._tables().redrive), HTTPStatus.ACCEPTED),
            ),
        ):
            self.app.serve(name)(answer)

    def _read_series(self, body: Any) -> tuple[dict[str, Any], int]:
        given = table_of_series(body)
        answer = self._run(self._service.series(given, left_s=self._left_s))
        return self._start(given, answer) if isinstance(answer, NamedTable) else (answer, HTTPStatus.OK)

    def _drill(self) -> tuple[dict[str, Any], int]:
        asked = DrillQuery.of(self._query)
        try:
            work = drill_at_once(asked.list, asked.rule, asked.bands, self._service.deployment)
            return self._run(work), HTTPStatus.OK
        except LargerError:
            given = asked.table()
            return self._start(given, self._run(self._service.name(given, left_s=_TO_NAME_S)))

    def _make(self) -> tuple[dict[str, Any], int]:
        given = read_body(self.app)
        return self._start(given, self._run(self._service.name(given, left_s=self._left_s)))

    def _plan(self) -> dict[str, Any]:
        return self._run(self._service.plan(read_body(self.app), left_s=self._left_s))

    def _limit(self, id_: str) -> dict[str, Any]:
        most = self._service.deployment.settings.limits.get("workers")
        return self._service.of_job(id_, lambda job: limit_workers(self._tables(), self.app, job, most=most))

    def _start(self, given: Mapping[str, Any], named: NamedTable) -> tuple[dict[str, Any], int]:
        self._logger.append_keys(table=named.name)
        return self._service.start(given, named, links_from=self.app.address)

    def _tables(self) -> Executions:
        return replace(self._service.executions(), links_from=self.app.address)

    def _run[T](self, work: Coroutine[Any, Any, T]) -> T:
        return self._service.deployment.run(work)

    @property
    def _query(self) -> Mapping[str, str]:
        return self.app.current_event.query_string_parameters or {}

    @property
    def _left_s(self) -> float:
        """How long an answer may take."""
        return self.app.lambda_context.get_remaining_time_in_millis() / 1000 - _TO_ANSWER_S


def app_of(service: TableService, logger: Logger) -> Resolver:
    """Return the routes over one deployment."""
    return _Routes(service, logger).app


@cache
def _executions() -> Executions:
    from handlers.api.control_plane import open_control_plane  # noqa: PLC0415 # boto3 costs 0.3 s, a plan needs none

    return replace(open_control_plane(deployment.settings).executions, kind="table")


logger = Logger()
deployment = Deployment(Settings.from_environment())
app = app_of(TableService(deployment, _executions), logger)
handler = handler_of(app, logger)
