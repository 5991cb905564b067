"""What gathers are called."""

import re

import pytest

from pixel_gather.request.naming import execution_name
from pixel_gather.request.request import GatherRequest, parse_request


def request_named(name: str | None) -> GatherRequest:
    """Return one request under a name."""
    return parse_request({"sources": "s3://b/l.csv", "window": "centre", "output": {"name": name}})


@pytest.mark.parametrize("name", [None, "bolzano", "s2.v1", "a.b.c", "x." * 29 + "xy"])
def test_execution_name_is_one_that_step_functions_logs(name: str | None) -> None:
    """It logs names of letters, digits, hyphens and underscores; with an attempt's number, of 80 at most."""
    found = execution_name(request_named(name))

    assert re.fullmatch(r"([A-Za-z0-9_-]+-)?[0-9a-f]{16}", found)
    assert len(f"{found}-99") <= 80


def test_execution_names_of_cubes_that_differ_in_a_dot_differ() -> None:
    """Else the second gather would be taken for the first, and its cube never made."""
    names = {execution_name(request_named(name)) for name in ("a.b", "a-b", "a_b", "a..b", "a.-b", "a-.b")}

    assert len(names) == 6


def test_execution_name_is_the_same_for_the_same_request() -> None:
    """That is how a gather is found again."""
    assert execution_name(request_named("s2.v1")) == execution_name(request_named("s2.v1"))
