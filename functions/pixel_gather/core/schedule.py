"""A cube or table that keeps itself up to date: at each tick, a search asks for what is new. Pure.

The first tick makes it. Each later one searches from some days before its last row, because scenes arrive
late, and appends. Sources that it has already are skipped by the append.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from pixel_gather.core.errors import RequestError
from pixel_gather.core.request.href_policy import HrefPolicy, checked_href
from pixel_gather.core.request.request import GatherRequest, parse_request
from pixel_gather.core.request.web_address import check_deployed_search
from pixel_gather.core.time_range import (
    ALL_TIMES,
    PERIODS,
    TimeRange,
    before_utc_us,
    format_moment,
    format_range,
    parse_period,
    parse_time_range,
    start_of_period,
)

OVERLAP_DAYS: Final = 7
"""Scenes of this many days before the cube's last row are looked for again, if a schedule does not say."""

TICK_PREFIX: Final = "tick-"
"""Names of the executions that ticks start begin with it."""

SCHEDULED_TIME: Final = "<aws.scheduler.scheduled-time>"
"""EventBridge Scheduler writes the tick's time here, such as 2026-11-22T06:00:00Z."""

FROM_SETTINGS: Final = "from the settings of the stack"
"""Description of the schedules that a deployment makes. Others are added and removed by people."""

N_RETRIES: Final = 3
LONGEST_DELAY_S: Final = 3600
"""How often and how long EventBridge Scheduler tries again to call the function of ticks."""

TABLES: Final = ("points", "zones")
"""Kinds of tables. A request that names one of them is of a table."""

_ON_AWS: Final = HrefPolicy(schemes=frozenset({"s3", "https"}))
_INDEX: Final = "index"
_FILES: Final = (
    "sources.catalog.file",
    "sources.stac.items",
    "windows.table",
    _INDEX,
    *TABLES,
)
"""Fields of a request that may be the address of a file, which every tick reads."""

_MOST_OVERLAP_DAYS: Final = 3650
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,39}")
_OF_A_TICK: Final = re.compile(rf"{TICK_PREFIX}{_NAME.pattern}-\d{{8}}T\d{{6}}Z")
_EVERY: Final = re.compile(r"rate\([1-9]\d{0,4} (minute|hour|day)s?\)|cron\([^\s()]+( [^\s()]+){5}\)")
_CRON: Final = (
    ("the minutes", range(60), (), "", "0-59"),
    ("the hours", range(24), (), "", "0-23"),
    ("the day of the month", range(1, 32), (), r"L(-([1-9]|[12]\d|30))?|LW|VW", "1-31, ?, L or W"),
    (
        "the month",
        range(1, 13),
        ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"),
        "",
        "1-12 or JAN-DEC",
    ),
    (
        "the day of the week",
        range(1, 8),
        ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"),
        "L|V(L|#[1-5])",
        "1-7, SUN-SAT, ?, L or #",
    ),
    ("the year", range(1970, 2200), (), "", "1970-2199"),
)
"""Fields of a cron expression: name, numbers, words, forms that are a whole field with V for a value, and all
in words."""

_DAY_US: Final = 86_400_000_000
_MOST_DAYS: Final = {"day": 1, "month": 31, "year": 366}
_DEGREES: Final = "EPSG:4326"


class Schedule(Struct, frozen=True, kw_only=True):
    """What is searched and appended, and how often."""

    name: str
    """1 to 40 letters, digits and hyphens."""

    every: str
    """``rate(1 day)`` or ``cron(0 6 * * ? *)``, in UTC, as EventBridge Scheduler takes it."""

    request: Mapping[str, Any]
    """A request with a search. Its ``output.append_to`` names the cube; of a table, its ``append_to``."""

    overlap_days: int = OVERLAP_DAYS

    def __post_init__(self) -> None:
        """Refuse what could not be started at a tick.

        Raises:
            RequestError: The message names the field.
        """
        if not _NAME.fullmatch(self.name):
            raise RequestError(
                f"it is {self.name[:80]!r}; write 1 to 40 letters, digits and hyphens", field="schedule.name"
            )
        if not _EVERY.fullmatch(self.every):
            raise RequestError(
                f"it is {self.every[:80]!r}; write rate(1 day), rate(6 hours) or cron(0 6 * * ? *)",
                field="schedule.every",
            )
        days = self.overlap_days
        if not isinstance(days, int) or isinstance(days, bool) or not 0 <= days <= _MOST_OVERLAP_DAYS:
            raise RequestError(
                f"it is {days!r}; write a whole number from 0 to {_MOST_OVERLAP_DAYS:,}",
                field="schedule.overlap_days",
            )
        if self.table is not None:
            self._check_table()
            return
        checked = self._check_request()
        if not checked.sources.are_searched:
            raise RequestError(
                "a schedule searches for scenes: give sources.stac or sources.catalog",
                field="request.sources",
            )
        if checked.sources.stac is not None and isinstance(checked.sources.stac.items, tuple):
            raise RequestError("name a file of items", field="request.sources.stac.items")
        self._own_times()
        _check_periods(checked)

    def _check_request(self) -> GatherRequest:
        """Return the request of the first tick. That of later ones is checked, too."""
        try:
            first = parse_request(self._for_new_cube())
        except RequestError as error:
            if error.field != "output.name":
                raise
            raise RequestError(
                f"it is {self.cube[:80]!r}; write the name of a cube of this deployment: 1 to 60 letters, "
                "digits, dots, hyphens and underscores, no folder and no address",
                field="request.output.append_to",
                also_wrong=error.also_wrong,
            ) from error
        parse_request(self.request)
        return first

    def _check_table(self) -> None:
        """Refuse a table without a name or a search. The rest is checked at the tick, with the features."""
        if not self.cube:
            raise RequestError("name the table that grows (--append-to)", field="request.append_to")
        sources = self.request.get("sources")
        searched = [each for each in ("stac", "catalog") if isinstance(sources, Mapping) and each in sources]
        if len(searched) != 1 or not isinstance(self.request["sources"][searched[0]], Mapping):
            raise RequestError(
                "a schedule searches for scenes: give sources.stac or sources.catalog",
                field="request.sources",
            )
        self._own_times()

    @property
    def table(self) -> str | None:
        """Kind of the table that grows; None if it is a cube."""
        return next((each for each in TABLES if each in self.request), None)

    @property
    def cube(self) -> str:
        """Name of the cube or the table in the deployment."""
        if self.table is not None:
            name = self.request.get("append_to")
            if not isinstance(name, str) or not name:
                return ""
            return name if name.startswith(f"{self.table}-") else f"{self.table}-{name}"
        output = self.request.get("output")
        named = output.get("append_to") if isinstance(output, Mapping) else None
        if not isinstance(named, str) or not named:
            raise RequestError("name the cube that grows (--append-to)", field="request.output.append_to")
        return named.removesuffix(".zarr")

    def check_new(
        self,
        hosts: frozenset[str],
        *,
        signing: frozenset[str] = frozenset(),
        files: HrefPolicy = _ON_AWS,
        indexes: HrefPolicy = _ON_AWS,
        uploads: str | None = None,
    ) -> None:
        """Refuse what would fail later, before a schedule is added.

        EventBridge Scheduler may not take the cron expression. The deployment may refuse a search, its
        signatures, or a file. An uploaded file expires. Schedules that exist are not checked again.

        Args:
            hosts: The deployment's setting ``catalog_hosts``.
            signing: Its setting ``signing``.
            files: Which files the deployment may read, where that is known.
            indexes: The same of header indexes, which may also lie in cubes.
            uploads: Name of the bucket of uploaded files, where that is known. These files expire.

        Raises:
            RequestError: The expression is wrong, the host is not one of these, or the address has a query,
                which may hold a key; the deployment does not sign so; or a file lies elsewhere, or was
                uploaded. The message names the field.
        """
        if (wrong := _wrong_in_cron(self.every)) is not None:
            raise RequestError(f"it is {self.every[:80]!r}; {wrong}", field="schedule.every")
        sources = self.request["sources"]
        if (sign := sources.get("sign", "none")) not in signing | {"none"}:
            raise RequestError(
                f"this deployment does not sign by {sign}; its setting signing names those it signs by",
                field="request.sources.sign",
            )
        stac = sources.get("stac") or {}
        api = stac.get("api")
        check_deployed_search(
            api=None if api is None else str(api),
            cmr=stac.get("cmr") is not None,
            hosts=hosts,
            field="request.sources.stac",
        )
        for field in _FILES:
            place: Any = self.request
            for name in field.split("."):
                place = place.get(name) if isinstance(place, Mapping) else None
            if not isinstance(place, str):
                continue
            policy = indexes if field == _INDEX else files
            if checked_href(place, f"request.{field}", policy=policy).startswith(f"s3://{uploads}/"):
                raise RequestError(
                    "uploaded files are removed after a month, and every tick reads this one: put it into a "
                    "bucket of sources, and give its address there",
                    field=f"request.{field}",
                )

    def event(self, tick: str = SCHEDULED_TIME) -> dict[str, Any]:
        """Return what the function of ticks is called with.

        Args:
            tick: The tick's time. By default a word that EventBridge Scheduler replaces by it.
        """
        return {
            "schedule": self.name,
            "every": self.every,
            "overlap_days": self.overlap_days,
            "request": dict(self.request),
            "tick": tick,
        }

    @classmethod
    def of_event(cls, event: Mapping[str, Any]) -> "Schedule":
        """Return the schedule of `event`.

        Raises:
            RequestError: A field is wrong.
        """
        names = ("schedule", "every", "request")
        for name in (*names, "tick"):
            if not isinstance(event.get(name), Mapping if name == "request" else str):
                raise RequestError("is needed", field=name, is_missing=True)
        name, every, request = (event[name] for name in names)
        return cls(
            name=name,
            every=every,
            request=request,
            overlap_days=event.get("overlap_days", OVERLAP_DAYS),
        )

    def first_request(self, tick_us: int, *, datetime: str | None = None) -> dict[str, Any] | None:
        """Return the request that makes the cube; None before the search's own time range has begun.

        Args:
            tick_us: Time of the tick, in microseconds since 1970-01-01 UTC. Later scenes are left out.
            datetime: Time range of the search that an earlier tick has begun and not ended. The search is
                repeated, so that the unfinished cube is completed.
        """
        given = self.request if self.table else self._for_new_cube()
        if datetime is None and (times := self._times_to_search(None, tick_us)) is not None:
            datetime = format_range(times)
        return None if datetime is None else _searching(given, datetime)

    def next_request(self, last_us: int, tick_us: int) -> dict[str, Any] | None:
        """Return the request that appends to the cube; None if the search's own time range has ended.

        Args:
            last_us: Time of the cube's last row.
            tick_us: Time of the tick.
        """
        times = self._times_to_search(last_us, tick_us)
        return None if times is None else _searching(self.request, format_range(times))

    def execution(self, tick_us: int) -> str:
        """Return the name of the execution that a tick starts. Each tick has one, so it starts one gather."""
        moment = format_moment(tick_us // 1_000_000 * 1_000_000)
        return f"{TICK_PREFIX}{self.name}-{re.sub('[-:]', '', moment)}"

    @property
    def executions(self) -> str:
        """What the names of all executions of this schedule begin with, before the time."""
        return f"{TICK_PREFIX}{self.name}-"

    @property
    def _period(self) -> tuple[str, int] | None:
        """What the rows are periods of, and by how much these begin before those of UTC, in microseconds.

        None if each scene is a row.
        """
        if self.table is not None or "reduce" not in self.request:
            return None
        by = self.request["reduce"]["by"]
        if by != "solar-day":
            return by, 0
        longitude, _ = parse_request(self._for_new_cube()).rule().middle or (0.0, 0.0)
        return "day", before_utc_us(longitude)

    def _times_to_search(self, last_us: int | None, tick_us: int) -> TimeRange | None:
        """Return when the scenes of a tick were taken; None if nothing is to be searched.

        Of periods, whole ones are searched: those that ended ``overlap_days`` before the tick.

        Args:
            last_us: Time of the cube's last row, or start of its period; None for a cube that is not there.
            tick_us: Time of the tick.
        """
        own, overlap_us = self._own_times(), self.overlap_days * _DAY_US
        start_us, period = own.start_us, self._period
        if period is None:
            if last_us is not None:
                start_us = max(start_us, last_us - overlap_us)
            stop_us = min(own.stop_us, tick_us)
            return None if start_us > stop_us else TimeRange(start_us=start_us, stop_us=stop_us)
        by, before_us = period
        if last_us is not None:
            start_us = max(start_us, start_of_period(last_us + _MOST_DAYS[by] * _DAY_US, by) - before_us)
        if start_us > own.stop_us or tick_us < own.start_us:
            return None
        stop_us = min(own.stop_us, start_of_period(tick_us - overlap_us + before_us, by) - before_us - 1)
        if start_us > stop_us:  # no period is over: what is searched ends where the next one begins
            start_us = stop_us = start_us - 1
        return TimeRange(start_us=start_us, stop_us=stop_us)

    def _for_new_cube(self) -> dict[str, Any]:
        """Return the request as that of a cube that is not there yet."""
        name = self.cube
        output = {key: each for key, each in self.request["output"].items() if key != "append_to"}
        of_new = {key: each for key, each in self.request.items() if key not in ("duplicates", "failed_rows")}
        return of_new | {"output": output | {"name": name}}

    def _own_times(self) -> TimeRange:
        kind = _field_of_search(self.request)
        text = self.request["sources"][kind].get("datetime")
        return ALL_TIMES if text is None else parse_time_range(text, field=f"sources.{kind}.datetime")


def _searching(given: Mapping[str, Any], datetime: str | None) -> dict[str, Any]:
    """Return a request whose search has this time range."""
    kind = _field_of_search(given)
    searched = {**given["sources"][kind], "datetime": datetime}
    return {**given, "sources": {**given["sources"], kind: searched}}


def _field_of_search(given: Mapping[str, Any]) -> str:
    """Return the field of ``sources`` that holds the search. The other one may be null."""
    return "stac" if given["sources"].get("stac") else "catalog"


def _check_periods(request: GatherRequest) -> None:
    """Refuse rows of which a tick could not tell when they are complete."""
    if request.reduce is None:
        return
    if request.reduce.by not in PERIODS:
        raise RequestError(
            f"a tick cannot tell when all scenes of a {request.reduce.by} are there: write "
            f"{', '.join(PERIODS[:-1])} or {PERIODS[-1]}",
            field="request.reduce.by",
        )
    if request.reduce.by == "solar-day" and request.rule().crs != _DEGREES:
        raise RequestError(
            "solar-day in a schedule needs a window in degrees: write window.bbox without crs, or by: day",
            field="request.reduce.by",
        )


def _wrong_in_cron(every: str) -> str | None:
    """Return what EventBridge Scheduler would not take in a cron expression; None if it is right."""
    if not every.startswith("cron"):
        return None
    given = every.removeprefix("cron(").removesuffix(")").split()
    for (name, numbers, words, more, said), text in zip(_CRON, given, strict=True):
        value = f"(?:{'|'.join((*(f'0?{n}' if len(str(n)) == 1 else str(n) for n in numbers), *words))})"
        steps, signs = (r"(/[1-9]\d*)?", "commas, - and /") if "SUN" not in words else ("", "commas and -")
        whole = re.compile(more.replace("V", value) + (r"|\?" if "?" in said else ""), re.IGNORECASE)
        part = re.compile(rf"(\*|{value}(-{value})?){steps}", re.IGNORECASE)
        if not (whole.fullmatch(text) or all(map(part.fullmatch, text.split(",")))):
            return f"{name} {text[:20]!r} should be {said}, or these with {signs}, or *"
    if [given[2], given[4]].count("?") != 1:
        return "write ? for the day of the month or for the day of the week, and not for both"
    return None


def tick_us_of(event: Mapping[str, Any]) -> int:
    """Return the time of a tick, in microseconds since 1970-01-01 UTC.

    Raises:
        RequestError: It is no moment.
    """
    return parse_period(str(event.get("tick")), field="tick").start_us


def is_of_a_tick(execution: str) -> bool:
    """Tell whether an execution has the name of one that a tick has started."""
    return _OF_A_TICK.fullmatch(execution) is not None
