"""Schedules: what each tick asks for, and the errors of wrong ones."""

from typing import Any

import pytest

from pixel_gather.core.errors import RequestError
from pixel_gather.core.request.request import parse_request
from pixel_gather.core.schedule import Schedule, tick_us_of
from pixel_gather.core.time_range import parse_period
from support.identities import alike, another, check_identity

REQUEST: dict[str, Any] = {
    "sources": {"stac": {"api": "https://stac.example.org/v1", "assets": ["red"], "datetime": "2024/.."}},
    "window": {"bbox": [11, 46, 11.1, 46.1]},
    "output": {"append_to": "bolzano.zarr", "codec": "zstd"},
}


HOSTS = frozenset({"stac.example.org"})


def us(text: str) -> int:
    """Return a moment in microseconds."""
    return parse_period(text).start_us


def schedule(**changes: Any) -> Schedule:
    """Return a daily schedule with other fields."""
    return Schedule(**({"name": "daily", "every": "rate(1 day)", "request": REQUEST} | changes))


def searching(**stac: Any) -> dict[str, Any]:
    """Return the request with another search."""
    return REQUEST | {"sources": {"stac": REQUEST["sources"]["stac"] | stac}}


def times_of(request: dict[str, Any] | None) -> str:
    """Return the times that a tick searches."""
    assert request is not None
    return str(request["sources"]["stac"]["datetime"])


def test_only_a_search_of_a_host_is_held_against_the_hosts() -> None:
    """A catalog, or a file of items, has none."""
    schedule().check_new(frozenset({"stac.example.org"}))
    with pytest.raises(
        RequestError, match=r"^request\.sources\.stac\.api: the host stac\.example\.org is not"
    ):
        schedule().check_new(frozenset({"none"}))

    own = {"catalog": {"file": "s3://bucket/c.parquet", "assets": ["red"]}, "stac": None}
    items = {"stac": {"items": "s3://bucket/items.json", "api": None, "assets": ["red"]}}
    for sources in (own, items):
        schedule(request=REQUEST | {"sources": sources}).check_new(frozenset())


def test_an_address_with_a_key_is_refused_before_the_first_tick() -> None:
    """A deployment refuses it at each tick, as requests are stored."""
    keyed = searching(api="https://stac.example.org/v1?key=1")

    with pytest.raises(RequestError, match=r"^request\.sources\.stac\.api: .* without a query"):
        schedule(request=keyed).check_new(frozenset({"stac.example.org"}))


def test_first_tick_makes_the_cube_of_all_scenes_until_then() -> None:
    """It is a gather of its own name, as there is nothing to append to."""
    request = schedule().first_request(us("2026-11-22T06:00:00Z"))

    assert request is not None
    searched = searching(datetime="2024-01-01T00:00:00Z/2026-11-22T06:00:00Z")
    assert request == searched | {"output": {"name": "bolzano", "codec": "zstd"}}
    assert parse_request(request).cube_name == schedule().cube == "bolzano"


@pytest.mark.parametrize(("field", "value"), [("duplicates", "fail"), ("failed_rows", "keep")])
def test_what_only_an_append_takes_is_for_later_ticks(field: str, value: str) -> None:
    """The first tick makes a cube, which has nothing to append to."""
    grows = schedule(request=REQUEST | {field: value})
    first, later = (
        grows.first_request(us("2026-11-22")),
        grows.next_request(us("2026-11-21"), us("2026-11-22")),
    )

    assert first is not None
    assert later is not None
    assert field not in parse_request(first).to_json()
    assert parse_request(later).to_json()[field] == value


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"name": "other"}, "give name for a new cube, or append_to"),
        ({"archive": "alps"}, "archive is for new"),
    ],
)
def test_what_no_append_takes_is_refused_before_the_first_tick(more: dict[str, Any], message: str) -> None:
    """The first tick makes the cube. Every later one would be refused."""
    with pytest.raises(RequestError, match=message):
        schedule(request=REQUEST | {"output": REQUEST["output"] | more})


def test_first_tick_that_was_not_ended_is_gone_on_with() -> None:
    """The unfinished cube is that of the earlier search, so the same one is asked."""
    request = schedule().first_request(us("2026-11-23"), datetime="../2026-11-22T06:00:00Z")

    assert times_of(request) == "../2026-11-22T06:00:00Z"


@pytest.mark.parametrize(
    ("overlap_days", "last", "start"),
    [
        (7, "2026-11-20T10:00:00Z", "2026-11-13T10:00:00Z"),
        (0, "2026-11-20T10:00:00Z", "2026-11-20T10:00:00Z"),
        (7, "2024-01-03T00:00:00Z", "2024-01-01T00:00:00Z"),
    ],
)
def test_later_ticks_search_from_some_days_before_the_last_row(
    overlap_days: int, last: str, start: str
) -> None:
    """Late scenes are found; the search never begins before its own range."""
    request = schedule(overlap_days=overlap_days).next_request(us(last), us("2026-11-22T06:00:00Z"))

    assert times_of(request) == f"{start}/2026-11-22T06:00:00Z"
    assert request is not None
    assert request["output"] == REQUEST["output"]


def test_a_schedule_looks_seven_days_back_if_it_does_not_say() -> None:
    """So does one whose event was written without the days."""
    event = schedule().event("2026-11-22T06:00:00Z")
    del event["overlap_days"]

    request = Schedule.of_event(event).next_request(us("2026-11-20T10:00:00Z"), tick_us_of(event))

    assert times_of(request) == "2026-11-13T10:00:00Z/2026-11-22T06:00:00Z"


def test_a_search_without_a_range_is_for_all_times() -> None:
    """Its first tick asks for everything until then."""
    asked = {"api": "https://stac.example.org", "assets": ["red"]}

    request = schedule(request=REQUEST | {"sources": {"stac": asked}}).first_request(us("2026-11-22"))

    assert times_of(request) == "../2026-11-22T00:00:00Z"


def test_search_whose_own_range_is_over_asks_for_nothing() -> None:
    """No gather is started once the last row is later than the range, or before the range begins."""
    june = schedule(request=searching(datetime="2024-06"), overlap_days=0)

    assert june.next_request(us("2024-07-01"), us("2024-07-02")) is None
    assert june.first_request(us("2024-05-31")) is None
    found = june.next_request(us("2024-06-29"), us("2024-08-02"))
    assert times_of(found) == "2024-06-29T00:00:00Z/2024-06-30T23:59:59.999999Z"


def test_event_holds_the_schedule_and_the_ticks_name_is_its_own() -> None:
    """What Scheduler sends makes the same schedule. Names have letters, digits and hyphens alone."""
    made = schedule(overlap_days=3)
    event = made.event("2026-11-22T06:00:00Z")

    assert Schedule.of_event(event) == made
    assert made.execution(tick_us_of(event)) == "tick-daily-20261122T060000Z"
    assert made.event()["tick"] == "<aws.scheduler.scheduled-time>"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "every day"}, "schedule.name"),
        ({"every": "daily"}, r"rate\(1 day\)"),
        ({"every": "cron(0 6 * * *)"}, "schedule.every"),
        ({"every": "cron(a b c d e f)"}, "schedule.every: .*the minutes 'a' should be 0-59"),
        ({"every": "cron(99 99 * * ? *)"}, "the minutes '99'"),
        ({"every": "cron(0 24 * * ? *)"}, "the hours '24' should be 0-23"),
        ({"every": "cron(0 6 32 * ? *)"}, r"the day of the month '32' should be 1-31, \?, L or W"),
        ({"every": "cron(0 6 1 JUNE ? *)"}, "the month 'JUNE'"),
        ({"every": "cron(0 6 ? * MON#6 *)"}, "the day of the week 'MON#6'"),
        ({"every": "cron(0 6 * * ? 1969)"}, "the year '1969'"),
        ({"every": "cron(0 6 * * ? 02026)"}, "the year '02026'"),
        ({"every": "cron(0 6 ? * 3#1,6#3 *)"}, "the day of the week '3#1,6#3'"),
        ({"every": "cron(0 6 ? * 1-7/2 *)"}, "or these with commas and -, or "),
        ({"every": "cron(0 6 L-40 * ? *)"}, "the day of the month 'L-40'"),
        ({"every": "cron(0 6 L,15 * ? *)"}, "the day of the month 'L,15'"),
        ({"every": "cron(0 ? * * ? *)"}, r"the hours '\?'"),
        ({"every": "cron(0/0 6 * * ? *)"}, "the minutes '0/0'"),
        ({"every": "cron(0 6 * * * *)"}, r"write \? for the day of the month or"),
        ({"every": "cron(0 6 ? * ? *)"}, "not for both"),
        ({"overlap_days": -1}, "overlap_days"),
        ({"request": REQUEST | {"output": {}}}, "request.output.append_to"),
        ({"request": REQUEST | {"sources": ["s3://b/k.tif"]}}, "a schedule searches"),
        ({"request": REQUEST | {"window": {}}}, "window"),
        ({"request": searching(datetime="soon")}, "sources.stac.datetime"),
    ],
)
def test_wrong_schedule_is_refused_with_the_field(changes: dict[str, Any], message: str) -> None:
    """Nothing is left to fail at night."""
    with pytest.raises(RequestError, match=message):
        schedule(**changes).check_new(HOSTS)


def test_a_schedule_refuses_files_that_are_removed_after_a_month() -> None:
    """What is uploaded expires. Files of the same name in another bucket stay."""
    items = {"stac": {"items": "s3://control/lists/items.json", "api": None, "assets": ["red"]}}
    uploaded = schedule(request=REQUEST | {"sources": items})

    uploaded.check_new(HOSTS, uploads="contro")
    with pytest.raises(RequestError, match=r"request.sources.stac.items: uploaded files are removed"):
        uploaded.check_new(HOSTS, uploads="control")


@pytest.mark.parametrize(
    "every",
    [
        *("cron(0 6 * * ? *)", "cron(0/15 6-18 * * ? *)", "cron(*/10 0,12 ? JAN-MAR,12 mon-fri 2026-2030)"),
        *("cron(00 06 L * ? *)", "cron(0 6 3W * ? *)", "cron(0 6 ? * 6L *)", "cron(0 6 ? * MON#1 *)"),
    ],
)
def test_schedule_takes_what_eventbridge_scheduler_takes(every: str) -> None:
    """Lists, ranges, steps, names, the last day, the nearest weekday and the first Monday."""
    schedule(every=every).check_new(HOSTS)


def test_a_tick_does_not_ask_again_whether_its_schedule_is_right() -> None:
    """EventBridge Scheduler has taken it, and our check may be stricter."""
    event = schedule(every="cron(/5 6 * * ? *)").event("2026-11-22T06:00:00Z")

    assert Schedule.of_event(event).every == "cron(/5 6 * * ? *)"


@pytest.mark.parametrize("name", ["schedule", "every", "request", "tick"])
def test_event_without_a_field_is_refused(name: str) -> None:
    """The message names the field."""
    event = schedule().event("2026-11-22T06:00:00Z")
    del event[name]

    with pytest.raises(RequestError, match=f"{name}: is needed"):
        Schedule.of_event(event)


OF_TABLE: dict[str, Any] = {
    "points": "s3://b/plots.csv",
    "sources": {"catalog": {"datetime": "2024/.."}},
    "append_to": "plots",
}


@pytest.mark.parametrize("name", ["plots", "points-plots"])
def test_a_schedule_of_a_table_asks_for_what_is_new(name: str) -> None:
    """The name of the table begins with its kind, whether the request says so or not."""
    grows = schedule(request=OF_TABLE | {"append_to": name})

    assert (grows.table, grows.cube) == ("points", "points-plots")
    assert grows.first_request(us("2026-11-22T06:00:00Z")) == OF_TABLE | {
        "append_to": name,
        "sources": {"catalog": {"datetime": "2024-01-01T00:00:00Z/2026-11-22T06:00:00Z"}},
    }
    assert grows.next_request(us("2023-01-01"), us("2023-02-01")) is None


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"append_to": None}, "request.append_to"),
        ({"sources": "s3://b/list.csv"}, "request.sources"),
        ({"sources": {"catalog": {"datetime": "May"}}}, "sources.catalog.datetime"),
    ],
    ids=str,
)
def test_a_table_that_could_not_grow_is_refused(changes: dict[str, Any], field: str) -> None:
    """When it is added, not at the first tick."""
    with pytest.raises(RequestError) as caught:
        schedule(request=OF_TABLE | changes)

    assert caught.value.field == field


@pytest.mark.parametrize(
    ("by", "last", "tick", "searched"),
    [
        ("month", None, "2026-11-22T06:00:00Z", "2024-01-01T00:00:00Z/2026-10-31T23:59:59.999999Z"),
        ("month", "2026-09-01", "2026-11-08", "2026-10-01T00:00:00Z/2026-10-31T23:59:59.999999Z"),
        ("month", "2026-09-01", "2026-11-07", "2026-09-30T23:59:59.999999Z"),
        ("month", "2026-09-01", "2027-01-09", "2026-10-01T00:00:00Z/2026-12-31T23:59:59.999999Z"),
        ("year", "2024-01-01", "2026-01-08", "2025-01-01T00:00:00Z/2025-12-31T23:59:59.999999Z"),
        ("day", "2026-11-10", "2026-11-20T10:00:00Z", "2026-11-11T00:00:00Z/2026-11-12T23:59:59.999999Z"),
        (
            "solar-day",
            "2026-11-10",
            "2026-11-19T01:00:00Z",
            "2026-11-10T23:15:48Z/2026-11-11T23:15:47.999999Z",
        ),
    ],
)
def test_ticks_of_reduced_cubes_search_periods_that_are_over(
    by: str, last: str | None, tick: str, searched: str
) -> None:
    """A row is made once, some days after its end, so that no scene of it comes later."""
    reduced = schedule(request=REQUEST | {"reduce": {"by": by, "statistic": "median"}})

    request = reduced.first_request(us(tick)) if last is None else reduced.next_request(us(last), us(tick))

    assert times_of(request) == searched


@pytest.mark.parametrize("tick", ["2026-02-01", "2026-06-30"])
def test_ticks_before_and_after_the_times_of_a_reduced_cube_search_nothing(tick: str) -> None:
    """Its request names the first and the last day, and a row is there of its last month."""
    monthly = {"reduce": {"by": "month", "statistic": "median"}}
    reduced = schedule(request=searching(datetime="2026-03-01/2026-05-31") | monthly)

    is_early = us(tick) < us("2026-03-01")
    assert is_early == (reduced.first_request(us(tick)) is None)
    assert reduced.next_request(us("2026-03-01" if is_early else "2026-05-01"), us(tick)) is None


def test_a_schedule_refuses_rows_that_no_tick_can_complete() -> None:
    """A value has no end; and the sun needs degrees."""
    with pytest.raises(RequestError, match=r"reduce\.by: a tick cannot tell when all scenes of a orbit"):
        schedule(request=REQUEST | {"reduce": {"by": "orbit", "statistic": "median"}})
    window = {"bbox": [300_000, 4_999_520, 300_480, 5_000_000], "crs": "EPSG:32632"}
    with pytest.raises(RequestError, match=r"reduce\.by: solar-day in a schedule needs a window in degrees"):
        schedule(request=REQUEST | {"window": window, "reduce": {"by": "solar-day", "statistic": "median"}})


def test_a_tick_starts_one_gather_also_of_a_schedule_that_was_changed() -> None:
    """EventBridge Scheduler may call twice. What a schedule asks for is searched again at the next tick."""
    daily = schedule()
    changes = {
        "name": another(daily, name="hourly"),
        "every": alike(daily, every="rate(6 hours)"),
        "request": alike(daily, request=searching(assets=["nir"])),
        "overlap_days": alike(daily, overlap_days=1),
    }

    check_identity(
        lambda it: it.execution(us("2024-06-01T06:00:00Z")), changes, fields=Schedule.__struct_fields__
    )
    assert daily.execution(us("2024-06-01T06:00:00Z")) != daily.execution(us("2024-06-02T06:00:00Z"))
