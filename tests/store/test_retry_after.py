"""Tests the reading of Retry-After."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from pixel_gather.io.store.json_http import retry_after_s


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("7", 7.0), ("0.5", 0.5), ("-3", 0.0), ("1e9", 86_400.0), ("nan", None), ("", None), ("soon", None)],
)
def test_a_number_of_seconds_is_bounded_and_anything_else_says_nothing(
    text: str, seconds: float | None
) -> None:
    """A wait lies between 0 and a day. NaN is no wait: ``time.sleep`` refuses it."""
    assert retry_after_s(text) == seconds


def test_a_date_is_a_wait_until_then() -> None:
    """A date that has passed is no wait."""
    now = datetime.now(UTC)

    assert 50 < (retry_after_s(format_datetime(now + timedelta(seconds=60), usegmt=True)) or 0) <= 60
    assert retry_after_s(format_datetime(now - timedelta(days=1), usegmt=True)) == 0.0
