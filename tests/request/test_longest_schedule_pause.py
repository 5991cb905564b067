"""How long a schedule pauses between two ticks."""

import pytest

from pixel_gather.core.longest_schedule_pause import longest_pause_s

_HOUR_S = 3600
_DAY_S = 24 * _HOUR_S


@pytest.mark.parametrize(
    ("every", "expected_s"),
    [
        ("rate(5 minutes)", 300),
        ("rate(1 hour)", _HOUR_S),
        ("rate(3 days)", 3 * _DAY_S),
        ("cron(0 6 * * ? *)", _DAY_S),
        ("cron(0/15 6-18 * * ? *)", _DAY_S),
        ("cron(30 * * * ? *)", _HOUR_S),
        ("cron(* * * * ? *)", 60),
        ("cron(0 6 ? * MON-FRI *)", 7 * _DAY_S),
        ("cron(0 6 ? * MON#1 *)", 62 * _DAY_S),
        ("cron(0 6 ? * 6L *)", 62 * _DAY_S),
        ("cron(0 6 1 * ? *)", 62 * _DAY_S),
        ("cron(0 6 1 6 ? *)", 366 * _DAY_S),
    ],
)
def test_longest_pause_is_never_shorter_than_the_schedules_own(every: str, expected_s: int) -> None:
    """A rate is exact. A cron expression is as coarse as the field that is set."""
    assert longest_pause_s(every) == expected_s
