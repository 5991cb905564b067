"""Requests to add rows to a cube: their fields, their digest, and the name of their execution."""

from typing import Any

import pytest

from handlers.deployment.policy import check_append
from pixel_gather.core.errors import RequestError
from pixel_gather.core.request.naming import execution_name, with_random_name
from pixel_gather.core.request.request import GatherRequest, parse_request


def request(**output: Any) -> GatherRequest:
    """Return a request of one list."""
    return parse_request({"sources": "list.csv", "window": "centre", "output": output})


def test_the_digest_is_that_of_the_same_request_for_a_new_cube() -> None:
    """So a cube knows the request that made it."""
    assert request(append_to="bolzano").digest() == request(name="bolzano").digest() == request().digest()
    assert request(expected_rows=9).digest() != request().digest()


def test_an_append_has_another_execution_than_its_cube_and_one_each_day() -> None:
    """The same append may find other scenes tomorrow. A closing .zarr is no part of the name."""
    names = [execution_name(request(append_to="bolzano"), day=day) for day in ("2026-11-01", "2026-11-02")]

    assert len({*names, execution_name(request(name="bolzano"))}) == 3
    assert all(name.startswith("bolzano-") and len(name) <= 77 for name in names)
    assert request(append_to="bolzano.zarr").cube_name == "bolzano"


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"output": {"name": "a", "append_to": "b"}}, "output"),
        ({"duplicates": "again"}, "duplicates"),
        ({"failed_rows": "keep"}, "failed_rows"),
        ({"windows": {"table": "chips.csv", "size": [4, 4]}}, "windows"),
        ({"overview": "auto"}, "overview"),
        ({"duplicates": "twice", "output": {"append_to": "b"}}, "duplicates"),
    ],
)
def test_contradictions_are_refused(given: dict[str, Any], field: str) -> None:
    """The error names the field."""
    with pytest.raises(RequestError) as caught:
        parse_request({"sources": "list.csv", "window": "centre"} | given)

    assert caught.value.field == field


@pytest.mark.parametrize(
    "given",
    [
        {"values": "raw"},
        {"output": {"layout": "balanced"}},
        {"output": {"codec": "blosc-lz4"}},
        {"output": {"bands": "arrays"}},
        {"output": {"sharding": True}},
    ],
)
def test_a_stored_append_says_what_its_cube_has_to_have(given: dict[str, Any]) -> None:
    """It is refused if the cube has others, also where defaults are asked for. A new cube has these."""
    asked: dict[str, Any] = {"sources": "list.csv", "window": "centre"} | given
    of_append = asked | {"output": {"append_to": "b"} | given.get("output", {})}

    stored = parse_request(of_append).to_json()

    assert (
        stored.items()
        >= (of_append | {"sources": {"list": "list.csv"}, "window": {"tile": "centre"}}).items()
    )
    assert parse_request(stored).digest() == parse_request(asked).digest()
    assert not parse_request(asked).to_json().keys() & given.keys()


def test_an_append_cannot_be_forced() -> None:
    """It would make another cube."""
    with pytest.raises(RequestError, match="force is for new cubes"):
        with_random_name(request(append_to="bolzano"))


@pytest.mark.parametrize("place", ["s3://bucket/bolzano.zarr", "../other", "a/b"])
def test_a_deployment_appends_to_its_own_cubes_only(place: str) -> None:
    """The name is that of a cube in its own bucket."""
    check_append(request(append_to="bolzano"))
    with pytest.raises(RequestError, match=r"output\.append_to: write the name of a cube"):
        check_append(request(append_to=place))
