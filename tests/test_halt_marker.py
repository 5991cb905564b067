"""The marker of a month's budget that is spent."""

from datetime import UTC, datetime

import pytest

from pixel_gather.core.halt_marker import halt_content, why_halted, workers_before

NOW = datetime(2026, 11, 24, 18, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("now", "until"),
    [
        (NOW, datetime(2026, 12, 1, tzinfo=UTC)),
        (datetime(2026, 12, 31, 23, 59, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)),
        (datetime(2027, 1, 1, tzinfo=UTC), datetime(2027, 2, 1, tzinfo=UTC)),
    ],
)
def test_marker_holds_until_the_next_month(now: datetime, until: datetime) -> None:
    """As the budget does. The sentence says until when, and what to do."""
    marker = halt_content(now, {})
    before = datetime.fromtimestamp(until.timestamp() - 1, UTC)

    said = why_halted(marker, now=before)

    assert said is not None
    assert f"nothing begins before {until.date()}" in said
    assert said.endswith("scripts/deploy budget --resume")
    assert said.replace("has spent its budget of the month (max_usd_per_month)", "was halted by hand") == (
        why_halted(halt_content(now, {}, by_hand=True), now=before)
    )
    assert why_halted(marker, now=until) is None
    assert why_halted(None, now=now) is None


@pytest.mark.parametrize("marker", [b"", b"{}", b"\xff", b"[]", b'{"until": 3, "limited": 3}'])
def test_marker_that_cannot_be_read_counts(marker: bytes) -> None:
    """Somebody has put it to save money. Nothing is known of what was limited."""
    said = why_halted(marker, now=NOW)

    assert said is not None
    assert said.startswith("this deployment is halted: ask")
    assert workers_before(marker) == {}


def test_marker_knows_how_many_workers_there_were() -> None:
    """So that they can be given back."""
    assert workers_before(halt_content(NOW, {"a": 40})) == {"a": 40}
    assert workers_before(None) == {}
