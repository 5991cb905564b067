"""Conditions on properties."""

from typing import Any

import pytest

from pixel_gather.core.errors import RequestError
from pixel_gather.core.scene_conditions import most_cloud, parse_where, to_query

SCENE = {
    "eo:cloud_cover": 39.5,
    "platform": "sentinel-2a",
    "grid:code": "MGRS-33TWL",
    "good": True,
    "n": 3,
    "created": "2024-06-01T00:00:00.500Z",
    "version": "2024-06",
    "year": "2024",
    "count": 2024,
}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("eo:cloud_cover<40", True),
        ("eo:cloud_cover < 39.5", False),
        ("eo:cloud_cover<=39.5", True),
        ("eo:cloud_cover>=40", False),
        ("eo:cloud_cover>=39.5", True),
        ("eo:cloud_cover>39.5", False),
        ("eo:cloud_cover<39.5", False),
        ("platform=sentinel-2a", True),
        ("platform != 'sentinel-2a'", False),
        ("platform in (sentinel-2b, sentinel-2a)", True),
        ("platform in ('landsat-8')", False),
        ("eo:cloud_cover<40 and platform=sentinel-2a", True),
        ("eo:cloud_cover<40 AND platform=sentinel-2b", False),
        ("good=true", True),
        ("good=1", False),
        ("n=3", True),
        ("platform<3", False),
        ("missing=1", False),
        ("missing!=1", False),
        ("good<2", False),
        ("n<true", False),
        ("platform = 'a < b and n=3'", False),
        ('platform="Mt. O\'Hara and n=3" and n=3', False),
        ("grid:code in ('MGRS-33TWL','a, (b)') and n>=3", True),
        ("platform='sentinel-2a'and n=3", True),
        ("platform>'a'", True),
        ("missing>=2024-06-01T00:00:00Z", False),
        ("n>-1e3", True),
        ("created>=2024-06-01T00:00:00Z", True),
        ("created>2024-06-01T00:00:00.5Z", False),
        ("created=2024-06-01T02:00:00.5+02:00", True),
        ("created in ('2024-05-31T23:00:00.500000-01:00')", True),
        ("created!=2024-06-01T00:00:00.500000Z", False),
        ("created<2024-06-01T01:00:00+02:00", False),
        ("created>=2024-06-01 and created<2024-06-02", True),
        ("created=2024-06-01", True),
        ("created!=2024-06-01", False),
        ("created>2024-06-01", False),
        ("created>2024-05-31", True),
        ("created<=2024-06-01", True),
        ("created<=2024-05", False),
        ("created in (2023, 2024-06)", True),
        ("created=2024", True),
        ("created!=2024", False),
        ("created>2023", True),
        ("created>2024", False),
        ("created>=2024 and created<2025", True),
        ("created<='2024'", True),
        ("created>24", False),
        ("created>20240531", True),
        ("created>20240601", False),
        ("created<=20240601", True),
        ("created=20240601 and created!=20240602", True),
        ("created in (20230601, 20240601)", True),
        ("created<20241301", False),
        ("year=2024 and year>=2024 and year<2025", True),
        ("count>2023 and count=2024", True),
        ("created<'2024-06-01 or so'", False),
        ("version=2024-06-01", False),
        ("version=2024-06", True),
        (f"n!={'9' * 400}", True),
    ],
)
def test_text_conditions(text: str, holds: bool) -> None:  # noqa: FBT001 # a table
    """A scene without the property meets no condition on it; text and numbers are never compared."""
    assert all(each.holds_for(SCENE) for each in parse_where(text)) is holds


@pytest.mark.parametrize(
    ("given", "holds"),
    [
        ({"eo:cloud_cover": {"lt": 40, "gte": 39}}, True),
        ({"platform": {"startsWith": "sentinel"}}, True),
        ({"platform": {"endsWith": "b"}}, False),
        ({"platform": {"contains": "2"}}, True),
        ({"platform": {"contains": "3"}}, False),
        ({"n": {"contains": "3"}}, False),
        ({"n": {"startsWith": "3"}}, False),
        ({"n": {"endsWith": "3"}}, False),
        ({"grid:code": {"in": ["MGRS-33TWL"]}}, True),
        ({"platform": "sentinel-2a"}, True),
    ],
)
def test_conditions_of_the_query_extension(given: dict[str, Any], holds: bool) -> None:  # noqa: FBT001 # a table
    """An object is taken as the STAC API's query extension writes it."""
    assert all(each.holds_for(SCENE) for each in parse_where(given)) is holds


def test_conditions_go_to_a_server_as_they_came() -> None:
    """What is parsed can be sent on."""
    given = {"eo:cloud_cover": {"lt": 40}, "platform": {"in": ["a", "b"]}}

    assert to_query(parse_where(given)) == given


@pytest.mark.parametrize(
    ("where", "sent"),
    [
        ("created>2024", {}),
        ("created>20240601", {}),
        ("created in (2023, 2024-06)", {}),
        ("created=2024-06-01 and n=3", {"n": {"eq": 3}}),
        ("created<=2024-06", {}),
        ("created>2024-06", {"created": {"gt": "2024-06"}}),
        ("created<2024-06", {"created": {"lt": "2024-06"}}),
        ("created>=2024-06", {"created": {"gte": "2024-06"}}),
        ("created<=2024-06-01T00:00:00Z", {"created": {"lte": "2024-06-01T00:00:00Z"}}),
        ("proj:epsg=4326 and platform=a", {"proj:epsg": {"eq": 4326}, "platform": {"eq": "a"}}),
    ],
)
def test_a_server_is_not_asked_for_periods_that_it_would_compare_as_texts(
    where: str, sent: dict[str, Any]
) -> None:
    """It would find too little. If it finds too much, the conditions are applied here."""
    assert to_query(parse_where(where)) == sent


def test_fifty_conditions_are_the_most() -> None:
    """One more is refused, as below."""
    assert len(parse_where({f"p{n}": 1 for n in range(50)})) == 50


@pytest.mark.parametrize(
    "given",
    [
        "eo:cloud_cover",
        "__import__('os')",
        "a in 3",
        "a in (3",
        "a in 3)",
        "a in ()",
        "a in (3,)",
        "eo:cloud_cover<40 or platform=x",
        "eo:cloud_cover<40 and not n=3",
        "eo:cloud_cover<40%",
        "eo:cloud_cover < 4O",
        "eo:cloud_cover<nan",
        "eo:cloud_cover<",
        "eo:cloud_cover<40 and",
        "eo:cloud_cover<40, n=3",
        "eo:cloud_cover<40 n=3",
        "eo:cloud_cover<(40)",
        "platform=Landsat 8",
        "platform=land n=3",
        "eo:cloud_cover<40and n=3",
        "platform='Landsat 8",
        "platform like 'L%'",
        "platform<sentinel",
        "created>2024-13",
        "created<20240601T101010Z",
        "created<2024-W23-1",
        "created>=2024-06-31",
        {"a": {"like": "x"}},
        {"a": {"in": []}},
        {"a": {"in": 3}},
        {"a": {"eq": None}},
        {"a": {"lt": float("nan")}},
        {"a": {"startsWith": 3}},
        {f"p{n}": 1 for n in range(51)},
    ],
)
def test_what_is_no_condition_is_refused(given: Any) -> None:
    """Nothing is evaluated, and nothing is ignored."""
    with pytest.raises(RequestError):
        parse_where(given)


@pytest.mark.parametrize(
    ("given", "most"),
    [({"eo:cloud_cover": {"lt": 40, "lte": 30}}, 30), ({"eo:cloud_cover": {"gt": 4}}, None), ({}, None)],
)
def test_most_cloud_is_what_blocks_are_skipped_by(given: dict[str, Any], most: float | None) -> None:
    """The lowest upper bound counts."""
    assert most_cloud(parse_where(given)) == most


@pytest.mark.parametrize("value", [[1], {"a": 1}, None])
def test_a_property_that_cannot_be_compared_does_not_fit(value: object) -> None:
    """A hostile item ends no search."""
    for operator in ("lt", "gte", "startsWith", "contains"):
        condition = parse_where({"x": {operator: "1" if operator[0] in "sc" else 1}})[0]

        assert not condition.holds_for({"x": value})


@pytest.mark.parametrize("given", [[], 3, True])
def test_conditions_that_are_no_object_are_refused(given: Any) -> None:
    """The sentence shows one."""
    with pytest.raises(RequestError, match="write an object"):
        parse_where(given, field="query")


def test_ten_thousand_values_are_the_most() -> None:
    """A longer list is refused, because each scene is compared with all of it."""
    values = [f"s{n}" for n in range(10_001)]

    (where,) = parse_where({"platform": {"in": values[:-1]}})

    assert where.holds_for({"platform": "s9999"})
    with pytest.raises(RequestError, match="1 to 10,000 values"):
        parse_where({"platform": {"in": values}})
