"""Times and ranges of time."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixel_gather.core.errors import RequestError
from pixel_gather.core.time_range import (
    FIRST_US,
    LAST_US,
    format_moment,
    format_range,
    parse_period,
    parse_time_range,
)


def us(*parts: int) -> int:
    """Return a moment in microseconds since 1970."""
    return int(datetime(*parts, tzinfo=UTC).timestamp()) * 1_000_000  # type: ignore[arg-type,misc] # year, month, day


@pytest.mark.parametrize(
    ("text", "start", "stop"),
    [
        ("2024", us(2024, 1, 1), us(2025, 1, 1) - 1),
        ("2024-02", us(2024, 2, 1), us(2024, 3, 1) - 1),
        ("2024-02-29", us(2024, 2, 29), us(2024, 3, 1) - 1),
        ("2024-06/2024-08", us(2024, 6, 1), us(2024, 9, 1) - 1),
        ("../2024-06-01", FIRST_US, us(2024, 6, 2) - 1),
        ("2024-06-01/..", us(2024, 6, 1), LAST_US),
        ("2024-06-01/", us(2024, 6, 1), LAST_US),
        ("2024-06-01T00:00:01Z", us(2024, 6, 1) + 1_000_000, us(2024, 6, 1) + 1_000_000),
        ("2024-06-01T02:00:00+02:00", us(2024, 6, 1), us(2024, 6, 1)),
        ("2024-06-01T02:00:00+0200", us(2024, 6, 1), us(2024, 6, 1)),
        ("2024-06-01t00:00:00.5z", us(2024, 6, 1) + 500_000, us(2024, 6, 1) + 500_000),
        ("1969-12-31T23:59:59.999999Z", -1, -1),
    ],
)
def test_parse_time_range(text: str, start: int, stop: int) -> None:
    """Years, months, days, moments and ranges of them, both ends included."""
    found = parse_time_range(text)

    assert (found.start_us, found.stop_us) == (start, stop)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/",
        "../..",
        "yesterday",
        "2024-13",
        "2024-02-30",
        "2024/2023",
        "2024/2025/2026",
        "2024-06-01T25:00:00Z",
        "0001-01-01T00:00:00+05:00",
        "9999-12-31T23:59:59-05:00",
        "٢٠٢٤",
    ],
)
def test_what_is_no_time_is_refused(text: str) -> None:
    """The field is named."""
    with pytest.raises(RequestError) as raised:
        parse_time_range(text)

    assert raised.value.field == "datetime"


@given(st.integers(us(1, 1, 2), us(9999, 12, 30)))
def test_moments_come_back(moment: int) -> None:
    """What is written is read as the same microsecond."""
    assert parse_period(format_moment(moment)).start_us == moment


@pytest.mark.parametrize(
    "text", ["2024-06-01T00:00:00Z/..", "../2024-06-01T00:00:00Z", "2024-06-01T00:00:00Z"]
)
def test_ranges_come_back(text: str) -> None:
    """A range is sent to a STAC API as it came."""
    assert format_range(parse_time_range(text)) == text
