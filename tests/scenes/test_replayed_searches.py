"""Searches that are asked again when a gather is replayed."""

from typing import Any

from pixel_gather.features.replay.replayed_searches import list_searches


def test_searches_that_differ_in_time_alone_are_asked_at_once() -> None:
    """A year of daily appends is one search, unless there is a gap. Lists are not asked again."""

    def asked(kind: str, datetime: str | None) -> dict[str, Any]:
        times = {} if datetime is None else {"datetime": datetime}
        return {"sources": {kind: {"assets": ["red"], **times}}, "window": "centre", "output": {"name": "a"}}

    found = list_searches(
        [
            asked("catalog", "../2024-06-02"),
            asked("catalog", "2024-06-01/2024-06-05"),
            asked("catalog", "2024-06-03"),
            asked("catalog", "2024-06-06"),
            asked("catalog", "2024-07"),
            asked("stac", None),
            {"sources": {"list": "list.csv"}, "window": "centre"},
            {"sources": ["a.tif"], "window": "centre"},
            {"sources": {"prefix": "s3://b/p"}, "window": "centre"},
        ]
    )

    assert [each["sources"] for each in found] == [
        {"catalog": {"assets": ["red"], "datetime": "../2024-06-06T23:59:59.999999Z"}},
        {"catalog": {"assets": ["red"], "datetime": "2024-07-01T00:00:00Z/2024-07-31T23:59:59.999999Z"}},
        {"stac": {"assets": ["red"]}},
        {"prefix": "s3://b/p"},
    ]


def test_one_search_for_two_windows_is_asked_for_each() -> None:
    """The window decides whether a scene is looked for."""
    search = {"catalog": {"assets": ["red"], "datetime": "2024-06"}}
    requests = [{"sources": search, "window": window} for window in ("centre", {"point": [1, 2]}, "centre")]

    assert [each["window"] for each in list_searches(requests)] == ["centre", {"point": [1, 2]}]


def test_the_order_of_a_requests_fields_does_not_matter() -> None:
    """Equal searches are asked once, whoever wrote them."""
    here = {"catalog": {"assets": ["red"], "most": 5}}
    turned = {"catalog": {"most": 5, "assets": ["red"]}}

    assert len(list(list_searches([{"sources": each, "window": "centre"} for each in (here, turned)]))) == 1
