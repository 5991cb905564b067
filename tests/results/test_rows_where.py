"""Rows found by conditions on their coordinates."""

from typing import Any

import numpy as np
import pytest

from pixel_gather.core.errors import RequestError
from pixel_gather.core.results.row_coordinates import NO_TIME
from pixel_gather.core.results.rows_where import NumberedTexts, number_texts, select_rows
from pixel_gather.core.scene_conditions import parse_where

DAY_US = 86_400_000_000
HOURS_US = 6 * 3_600_000_000
COLUMNS: dict[str, Any] = {
    "cloud_cover": np.array([10.0, 30.0, np.nan, 19.9, 20.0]),
    "platform": np.array(["S2A", "S2A", "S2A", "S2B", ""], dtype=object),
    "orbit": np.array([1, 2, 3, 4, 5]),
    "time": np.array([0, DAY_US, NO_TIME, 2 * DAY_US + HOURS_US, 3 * DAY_US]),
    "created": np.array(
        ["2024-05-31T23:30:00Z", "2024-06-01T00:30:00+02:00", "2024-06-01", "", "2024-06-30 12:00:00.5"],
        dtype=object,
    ),
    "sensor": np.array(["c", "b", "e", "d", "a"], dtype=object),
    "empty": np.full(5, np.nan),
    "status": np.array([[0, 0], [0, 2], [3, 3], [0, 0], [1, 0]], dtype=np.uint8),
    "valid_fraction": np.array([[1.0, 1.0], [1.0, 0.2], [0.1, 0.1], [0.9, 0.8], [np.nan, 1.0]]),
}


@pytest.mark.parametrize(
    ("where", "rows"),
    [
        ("cloud_cover < 20", [0, 3]),
        ("cloud_cover <= 20", [0, 3, 4]),
        ("cloud_cover < 20 and platform == 'S2A'", [0]),
        ("cloud_cover != 10", [1, 3, 4]),
        ("platform != S2A", [3]),
        ("platform in (S2B, S2C)", [3]),
        ("orbit in (1, 5) and orbit > 1", [4]),
        ("time >= 1970-01-02", [1, 3, 4]),
        ("time < 1970-01-03T00:00:00Z", [0, 1]),
        ("time != 1970-01-01", [1, 3, 4]),
        ("time > 1970-01-02", [3, 4]),
        ("time <= 1970-01-02", [0, 1]),
        ("time == 1970-01", [0, 1, 3, 4]),
        ("time in (1970-01-01, 1970-01-03T06)", [0, 3]),
        ("time > 1970", []),
        ("time > 19700102", [3, 4]),
        ("time == 19700103", [3]),
        ("created >= 20240601", [2, 4]),
        ("created in (20240531, 2024-06-30)", [0, 1, 4]),
        ("created >= 2024-06-01", [2, 4]),
        ("created < 2024-06", [0, 1]),
        ("created > 2024-05", [2, 4]),
        ("created == 2024-05-31", [0, 1]),
        ("created != 2024-05", [2, 4]),
        ("created in (2024-05, 2024-06-30)", [0, 1, 4]),
        ("created <= 2024", [0, 1, 2, 4]),
        ("created == 2024-05-31T22:30:00Z", [1]),
        ("valid_fraction > 0.5", [0, 3]),
        ("valid_fraction < 0.5", [2]),
        ("status == 'ok'", [0, 3]),
        ("status == OK", [0, 3]),
        ("status == 0", [0, 3]),
        ("status in (denied, 2)", [2]),
        ("status != ok", [2]),
    ],
)
def test_rows_meet_all_conditions_and_missing_values_meet_none(where: str, rows: list[int]) -> None:
    """This also holds for "not equal"."""
    assert np.flatnonzero(select_rows(parse_where(where), COLUMNS)).tolist() == rows


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("cloud_cover < low", "where: 'low' is neither a number nor a time such as 2024-06-01 or"),
        (
            "cloud_cover < 'low'",
            "where: cloud_cover is a number and 'low' is not; it has values from 10 to 30$",
        ),
        ("platform == 2", "where: platform is text and 2 is not; it has 'S2A', 'S2B'$"),
        ("sensor == 2", "where: sensor is text and 2 is not; it has 'a', 'b', 'c', 'd' and 1 more$"),
        ("empty == a", "where: empty is a number and 'a' is not; it has no value in any row$"),
        (
            "status == 'good'",
            "where: there is no status 'good'; there are ok, absent, missing, denied, corrupt, ",
        ),
        ("time > 'yesterday'", "where: 'yesterday' is no time"),
        ("time > 197001", "where: 197001 is no time; write one such as 2024-05-31"),
        ("time > 20241301", "where: 20241301 is no time; write one such as 2024-05-31"),
        ("time > -5", "where: -5 is no time; write one such as 2024-05-31"),
    ],
)
def test_values_that_cannot_be_compared_are_refused(where: str, said: str) -> None:
    """The message names the coordinate, or the text that can be compared with none."""
    with pytest.raises(RequestError, match=said):
        select_rows(parse_where(where), COLUMNS)


def test_texts_that_repeat_are_numbered() -> None:
    """Conditions on them find the same rows. Texts that seldom repeat stay as they are."""
    texts = np.array(["S2A", "", "S2B", "S2A"] * 3, dtype=object)
    found = number_texts(texts)

    assert isinstance(found, NumberedTexts)
    assert found.texts.tolist() == ["S2A", "", "S2B"]
    assert found.numbers.tolist() == [0, 1, 2, 0] * 3
    for where in ("platform == S2A", "platform != S2A", "platform in (S2B, S2C)"):
        conditions = parse_where(where)
        plain, by_number = (select_rows(conditions, {"platform": each}) for each in (texts, found))
        assert by_number.tolist() == plain.tolist()
    assert isinstance(number_texts(texts[:7]), np.ndarray)
    assert isinstance(number_texts(np.arange(8)), np.ndarray)
    assert isinstance(number_texts(np.array([["a"] * 2] * 8, dtype=object)), np.ndarray)
