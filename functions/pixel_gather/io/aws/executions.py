"""Gathers on AWS as executions of one state machine: submit, status, list, stop, redrive. Tables as well.

The API's functions and the command line share this module, so both give the same answers. boto3's clients are
passed in and belong to the caller.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import msgspec
from botocore.exceptions import ClientError
from msgspec import Struct

from pixel_gather.core.errors import (
    GatherNotFoundError,
    NotRedrivableError,
    RequestError,
    TableNotFoundError,
)
from pixel_gather.core.halt_marker import HALTED_KEY, cancelled_key, why_halted
from pixel_gather.core.model.plurals import counted
from pixel_gather.core.steady_clock import SteadyClock
from pixel_gather.io.aws.aws_errors import NOT_THERE, answer_unless, aws_errors_in_words, code_of
from pixel_gather.io.aws.execution_json import json_object
from pixel_gather.io.aws.failed_children import MOST_SHOWN
from pixel_gather.io.aws.gather_document import (
    CANCELLED,
    STATES,
    SeenExecution,
    gather_line,
    status_document,
    summary_key,
    why_not_redrivable,
)
from pixel_gather.io.aws.table_document import table_document

LONGEST_LIST: Final = 1000
_LONGEST_INPUT_NBYTES: Final = 260_000
"""Step Functions takes 256 KiB as an input and as a payload. The payload of the plan wraps the request."""

_MOST_WORKERS: Final = 10_000
"""A Distributed Map runs no more children at the same time."""

_MOST_ATTEMPTS: Final = 99
_ATTEMPT: Final = re.compile(r"(.*[0-9a-f]{16})(?:-([1-9]\d?))?")
"""The name of a request's execution, with the number of the attempt from the second one on.

The name of an execution that was started in the console has no digest.
"""

TICK: Final = re.compile(r"(tick-.+-)\d{8}T\d{6}Z")
"""The name of the execution of a tick, as `pixel_gather.core.schedule.Schedule.execution` makes it."""

_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
_NO_TOKEN: Final = frozenset({"InvalidToken", "ValidationException"})
"""Step Functions answers ValidationException to a token of over 1,024 letters."""

_MAP_HAS_ENDED: Final = frozenset({"ValidationException", "ResourceNotFound"})
"""Errors of UpdateMapRun if the Map Run has ended since it was described. The reason of the first one is
``CANNOT_UPDATE_COMPLETED_MAP_RUN``."""

_NO_WORKERS: Final = (
    "the workers of {0} cannot be limited now: they have not begun, or have ended, or {0} is so small that "
    "it has no Map Run"
)

_THERE_ALREADY: Final = frozenset({"PreconditionFailed", "412", "ConditionalRequestConflict", "409"})
"""Errors of a PUT under the condition that nothing is there."""


@dataclass(slots=True)
class SharedLooks:
    """Keeps what was read of an execution for a second, so that many callers cause one set of requests.

    Step Functions answers only a few DescribeMapRun a second for a whole account.
    """

    keep_s: float = 1.0
    clock: Callable[[], float] = field(default_factory=SteadyClock)
    _looks: dict[str, tuple[float, SeenExecution]] = field(default_factory=dict)

    def get(self, id_: str, look: Callable[[], SeenExecution]) -> SeenExecution:
        """Return what was seen less than ``keep_s`` seconds ago, or look."""
        now_s = self.clock()
        kept = self._looks.get(id_)
        if kept is None or now_s - kept[0] >= self.keep_s:
            self._looks = {each: seen for each, seen in self._looks.items() if now_s - seen[0] < self.keep_s}
            kept = self._looks[id_] = (now_s, look())
        return kept[1]

    def forget(self, id_: str) -> None:
        """Look again, as the execution has just been changed."""
        self._looks.pop(id_, None)


class Executions(Struct, frozen=True):
    """The gathers of one deployment."""

    state_machine_arn: str
    stepfunctions: Any
    """boto3's client of Step Functions."""

    s3: Any
    """boto3's client of S3."""

    control_bucket: str
    links_from: str = ""
    """Start of the links to gathers, without a trailing slash: the address of the API, or empty."""

    now: Callable[[], datetime] = partial(datetime.now, UTC)
    kind: str = "gather"
    """What the executions are: ``gather`` or ``table``. Links and messages name it."""

    looks: SharedLooks = msgspec.field(default_factory=lambda: SharedLooks(keep_s=0.0))
    """Keeps answers for a second, for all callers in this process. If not given, every call asks AWS."""

    def submit(self, request: Mapping[str, Any], *, name: str, again: bool = False) -> dict[str, Any]:
        """Start a gather, or return the one that this request has already started.

        If the last attempt failed, timed out or was stopped, another is started. It gathers the missing
        shards. If ``again``, another one is started if the last has succeeded, as an append may find more
        sources by then.

        Returns:
            ``id``, ``is_new``, ``state`` and ``links``.

        Raises:
            RequestError: The request is too large, or has failed too often.
        """
        content = _input_of(request)
        for attempt in _attempts(_check_id(name)):
            found = self.find(attempt)
            if found is None:
                return self._start(attempt, content)
            state = STATES[found["status"]]
            if state == "running" or (state == "succeeded" and not again):
                return self._line(found) | {"is_new": False}
        raise RequestError(
            f"it has failed {_MOST_ATTEMPTS} times: see why by pixel-gather status {name}, or give it "
            "another name",
            field="output.name",
        )

    def start(self, request: Mapping[str, Any], *, name: str) -> dict[str, Any]:
        """Start one execution of this name, or return the one that there is, whatever became of it.

        Raises:
            RequestError: The request is too large.
        """
        content = _input_of(request)
        return self._start(_check_id(name), content)

    def find(self, name: str) -> Mapping[str, Any] | None:
        """Return the description of an execution; None if Step Functions does not know it, or not yet."""
        arn = f"{self.state_machine_arn.replace(':stateMachine:', ':execution:', 1)}:{name}"
        return answer_unless(
            {"ExecutionDoesNotExist"}, lambda: self.stepfunctions.describe_execution(executionArn=arn)
        )

    def status(self, id_: str) -> dict[str, Any]:
        """Describe one gather.

        Raises:
            GatherNotFoundError: There is no gather of this id.
        """
        return status_document(self._seen(id_), now=self.now(), links_from=self.links_from)

    def table(self, id_: str) -> dict[str, Any]:
        """Describe one table, or a large ranking.

        Raises:
            GatherNotFoundError: There is no table of this id.
        """
        return table_document(self._seen(id_), now=self.now(), links_from=self.links_from)

    def _seen(self, id_: str) -> SeenExecution:
        return self.looks.get(id_, lambda: self._look(id_))

    def _look(self, id_: str) -> SeenExecution:
        found = self._get(id_)
        run = None if _has_all_shards(found) else self._last_map_run(found["executionArn"])
        failed = self._failed_children(run["mapRunArn"]) if run and run["itemCounts"]["failed"] else ()
        counts = run["itemCounts"] if run else None
        return SeenExecution(found=found, counts=counts, failed=failed, summary=self._summary(found["name"]))

    def list_(self, *, limit: int, token: str | None = None, state: str | None = None) -> dict[str, Any]:
        """Return ``gathers`` or ``tables``, the latest first, and the token of the ``next`` page or None.

        Raises:
            RequestError: The limit, token or state is not valid.
        """
        if not 1 <= limit <= LONGEST_LIST:
            raise RequestError(f"it must be 1 to {LONGEST_LIST}", field="limit")
        options: dict[str, Any] = {"maxResults": limit}
        if token is not None:
            options["nextToken"] = token
        if state is not None:
            options["statusFilter"] = _filter_of(state)
        page = answer_unless(
            () if token is None else _NO_TOKEN,
            lambda: self.stepfunctions.list_executions(stateMachineArn=self.state_machine_arn, **options),
        )
        if page is None:
            raise RequestError(
                "it is no token of this list, or too old: start again without one", field="token"
            )
        return {f"{self.kind}s": list(map(self._line, page["executions"])), "next": page.get("nextToken")}

    def stop(self, id_: str) -> dict[str, Any]:
        """Stop a gather or table, and return its line. What is committed is kept.

        One that has ended is unchanged.

        AWS ends the executions, and not the workers that they have started. So a gather gets a marker, which
        its workers look for before each shard. The marker stays: an execution that was cancelled never works
        again. Workers of tables have only seconds to go.

        Raises:
            GatherNotFoundError: There is no gather of this id.
        """
        found = self._get(id_)
        if STATES[found["status"]] != "running":
            return self._line(found)
        self.looks.forget(id_)
        is_gather = self.kind == "gather"
        if is_gather:
            self._mark_as_cancelled(found["name"])
        with aws_errors_in_words():
            answer = self.stepfunctions.stop_execution(
                executionArn=found["executionArn"],
                error=CANCELLED if is_gather else "Stopped",
                cause="cancelled on request" if is_gather else "stopped on request",
            )
        return self._line({**found, "status": "ABORTED", "stopDate": answer["stopDate"]})

    def _mark_as_cancelled(self, name: str) -> None:
        """Put the marker that workers look for. The first one stays, with the time of its request."""
        said = json.dumps({"cancelled_at": self.now().isoformat(timespec="seconds")}).encode()
        place = {"Bucket": self.control_bucket, "Key": cancelled_key(name)}
        answer_unless(_THERE_ALREADY, lambda: self.s3.put_object(**place, Body=said, IfNoneMatch="*"))

    def limit(self, id_: str, workers: int) -> dict[str, Any]:
        """Let a running gather or table have at most so many workers from now on, and return its line.

        Workers that run go on with their tasks. There are not more while the deployment is halted. Of a
        table, the next round has as many as it was planned with.

        Raises:
            GatherNotFoundError: There is no gather of this id.
            RequestError: The number cannot be set. The message says why.
        """
        found, _ = self.change_workers(id_, workers, may_raise=self.why_halted)
        return self._line(found)

    def change_workers(
        self, id_: str, workers: int, *, may_raise: Callable[[], str | None] = lambda: None
    ) -> tuple[Mapping[str, Any], int]:
        """Do as `limit` does, and return the execution's description, and how many workers it had.

        ``may_raise`` returns why there may not be more workers than before; None if there may.
        """
        if not 1 <= workers <= _MOST_WORKERS:
            raise RequestError(f"it must be 1 to {_MOST_WORKERS:,}", field="workers")
        found = self._get(id_)
        if STATES[found["status"]] != "running":
            raise RequestError(f"the {self.kind} {id_} does not run any more", field="id")
        run = self._last_map_run(found["executionArn"])
        if run is None or run["status"] != "RUNNING":
            raise RequestError(_NO_WORKERS.format(id_), field="id")
        before: int = run["maxConcurrency"]
        if workers > before and (why := may_raise()) is not None:
            raise RequestError(
                f"it has {counted(before, 'worker')}, and gets no more now: {why}", field="workers"
            )
        self.looks.forget(id_)
        update, arn = self.stepfunctions.update_map_run, run["mapRunArn"]
        if answer_unless(_MAP_HAS_ENDED, lambda: update(mapRunArn=arn, maxConcurrency=workers)) is None:
            raise RequestError(_NO_WORKERS.format(id_), field="id")
        return found, before

    def redrive(self, id_: str) -> dict[str, Any]:
        """Run what is missing of a gather that ended without success, and return its line.

        Raises:
            GatherNotFoundError: There is no gather of this id.
            NotRedrivableError: It cannot be redriven. The message says why, and what to do instead.
        """
        found = self._get(id_)
        reason = why_not_redrivable(found, kind=self.kind)
        reason = reason or self.why_halted()  # no plan asks
        if reason is not None:
            raise NotRedrivableError(reason)
        later = _next_attempt(found["name"])
        if later is not None and self.find(later) is not None:
            raise NotRedrivableError(
                f"the {self.kind} {id_} has been submitted again as {later}: "
                "redrive or look at that one instead"
            )
        if (later := self._later_tick(found["name"])) is not None:
            raise NotRedrivableError(
                f"the schedule of {id_} has run again since, as {later}, and has looked for the same scenes: "
                "redrive or look at that one instead"
            )
        self.looks.forget(id_)
        with aws_errors_in_words():
            try:
                self.stepfunctions.redrive_execution(executionArn=found["executionArn"])
            except ClientError as error:
                if code_of(error) != "ExecutionNotRedrivable":
                    raise
                said = error.response["Error"].get("Message", "")
                refused = {**found, "redriveStatus": "NOT_REDRIVABLE", "redriveStatusReason": said}
                raise NotRedrivableError(why_not_redrivable(refused, kind=self.kind)) from error
        return self._line({**found, "status": "RUNNING", "stopDate": None})

    def why_halted(self) -> str | None:
        """Return why nothing begins now; None if there is no reason."""
        return why_halted(self.control_file(HALTED_KEY), now=self.now())

    def control_file(self, key: str) -> bytes | None:
        """Return an object of the control bucket, or None if there is none."""
        with aws_errors_in_words():
            there = answer_unless(NOT_THERE, lambda: self.s3.get_object(Bucket=self.control_bucket, Key=key))
            return None if there is None else there["Body"].read()

    def _start(self, name: str, content: str) -> dict[str, Any]:
        answer = answer_unless(
            {"ExecutionAlreadyExists"},
            lambda: self.stepfunctions.start_execution(
                stateMachineArn=self.state_machine_arn, name=name, input=content
            ),
        )
        if answer is None:
            there = self.find(name) or {"name": name, "status": "RUNNING", "startDate": self.now()}
            return self._line(there) | {"is_new": False}
        started = {"name": name, "status": "RUNNING", "startDate": answer["startDate"]}
        return self._line(started) | {"is_new": True}

    def _line(self, found: Mapping[str, Any]) -> dict[str, Any]:
        return gather_line(found, now=self.now(), links_from=self.links_from, kind=self.kind)

    def _get(self, id_: str) -> Mapping[str, Any]:
        found = self.find(_check_id(id_))
        if found is None:
            kind = TableNotFoundError if self.kind == "table" else GatherNotFoundError
            raise kind(none_with_id(self.kind, id_))
        return found

    def _later_tick(self, name: str) -> str | None:
        """Return the latest execution of the same schedule; None if it is this one, or if no tick has it."""
        found = TICK.fullmatch(name)
        if found is None:
            return None
        with aws_errors_in_words():
            page = self.stepfunctions.list_executions(
                stateMachineArn=self.state_machine_arn, maxResults=LONGEST_LIST
            )
        ticks = [TICK.fullmatch(each["name"]) for each in page["executions"]]
        latest = max((each[0] for each in ticks if each is not None and each[1] == found[1]), default=name)
        return latest if latest > name else None

    def _last_map_run(self, execution_arn: str) -> Mapping[str, Any] | None:
        """Describe the execution's last Map Run. Return None before one has begun."""
        with aws_errors_in_words():
            runs = self.stepfunctions.list_map_runs(executionArn=execution_arn)["mapRuns"]
            if not runs:
                return None
            last = max(runs, key=lambda run: run["startDate"]) if len(runs) > 1 else runs[0]
            run: Mapping[str, Any] = self.stepfunctions.describe_map_run(mapRunArn=last["mapRunArn"])
        return run

    def _failed_children(self, map_run_arn: str) -> tuple[Mapping[str, Any], ...]:
        """Describe the children of a Map Run that failed last; a few of them."""
        with aws_errors_in_words():
            page = self.stepfunctions.list_executions(
                mapRunArn=map_run_arn, statusFilter="FAILED", maxResults=MOST_SHOWN
            )
            return tuple(
                self.stepfunctions.describe_execution(executionArn=each["executionArn"])
                for each in page["executions"]
            )

    def _summary(self, name: str) -> Mapping[str, Any] | None:
        """Return the summary that the plan wrote, or None before it was written and after it has expired."""
        content = self.control_file(summary_key(name))
        return None if content is None else json.loads(content)


def _has_all_shards(found: Mapping[str, Any]) -> bool:
    """Return whether an execution has succeeded and lost no shard."""
    return found["status"] == "SUCCEEDED" and not (json_object(found.get("output")) or {}).get(
        "n_lost_shards"
    )


def _attempts(name: str) -> Iterator[str]:
    yield name
    for number in range(2, _MOST_ATTEMPTS + 1):
        yield f"{name}-{number}"


def _next_attempt(name: str) -> str | None:
    found = _ATTEMPT.fullmatch(name)
    number = int(found[2] or 1) + 1 if found else _MOST_ATTEMPTS + 1
    return f"{found[1]}-{number}" if found and number <= _MOST_ATTEMPTS else None


def none_with_id(what: str, id_: str) -> str:
    """Return that there is no gather, or table, with an id."""
    return f"there is no {what} {id_}: list shows those that there are, for 90 days after they ended"


def _check_id(id_: str) -> str:
    if not _ID.fullmatch(id_):
        raise GatherNotFoundError(
            f"{id_[:80]!r} is no gather's id: it has 1 to 80 letters, digits, dots, hyphens and underscores"
        )
    return id_


def _input_of(request: Mapping[str, Any]) -> str:
    """Return a request as the input of an execution, unless it is too large."""
    content = json.dumps(request, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    nbytes = len(content.encode())
    if nbytes > _LONGEST_INPUT_NBYTES:
        largest = max(request, key=lambda name: len(json.dumps(request[name])))
        raise RequestError(
            f"the request has {nbytes:,} bytes; the limit is {_LONGEST_INPUT_NBYTES:,}: "
            + _made_smaller(largest, request[largest]),
            field=largest,
        )
    return content


def _made_smaller(field: str, value: Any) -> str:
    """Say how the largest field of a request becomes smaller."""
    if field in ("points", "zones"):
        return "write the features to a file that the deployment may read, and name that"
    if field == "sources" and not (isinstance(value, Mapping) and {"stac", "catalog"} & value.keys()):
        return "write the hrefs to a list file and name that as sources"
    return "write less there, such as a polygon with fewer corners"


def _filter_of(state: str) -> str:
    for theirs, ours in STATES.items():
        if state == ours:
            return theirs
    raise RequestError(f"it must be one of {', '.join(dict.fromkeys(STATES.values()))}", field="state")
