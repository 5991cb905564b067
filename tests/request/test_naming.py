"""Names of gathers."""

import re

import pytest

from pixel_gather.core.request.naming import execution_name, with_random_name
from pixel_gather.core.request.request import GatherRequest, parse_request


def request_named(name: str | None) -> GatherRequest:
    """Return a request with this output name."""
    return parse_request({"sources": "s3://b/l.csv", "window": "centre", "output": {"name": name}})


@pytest.mark.parametrize("name", [None, "bolzano", "s2.v1", "a.b.c", "x." * 29 + "xy"])
def test_execution_name_is_one_that_step_functions_logs(name: str | None) -> None:
    """The name has only letters, digits, hyphens and underscores.

    With an attempt's number it has at most 80.
    """
    found = execution_name(request_named(name))

    assert re.fullmatch(r"([A-Za-z0-9_-]+-)?[0-9a-f]{16}", found)
    assert len(f"{found}-99") <= 80


def test_execution_names_of_cubes_that_differ_in_a_dot_differ() -> None:
    """Otherwise the second gather would be mistaken for the first one."""
    names = {execution_name(request_named(name)) for name in ("a.b", "a-b", "a_b", "a..b", "a.-b", "a-.b")}

    assert len(names) == 6


def test_execution_name_is_the_same_for_the_same_request() -> None:
    """The name finds an earlier gather again."""
    assert execution_name(request_named("s2.v1")) == execution_name(request_named("s2.v1"))


@pytest.mark.parametrize("name", [None, "bolzano", "x" * 60])
def test_a_forced_gather_has_a_name_of_its_own(name: str | None) -> None:
    """It begins with the name that it had, and is no longer than any."""
    request = request_named(name)

    names = [with_random_name(request).cube_name for _ in range(2)]

    for each in names:
        assert re.fullmatch(rf"{request.cube_name[:53]}-[0-9a-f]{{6}}", each)
    assert len({*names, request.cube_name}) == 3
    assert with_random_name(request).sources == request.sources
